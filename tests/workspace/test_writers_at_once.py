"""Two who write one file at the same moment: one of them wins, and the other is told."""

from hashlib import sha256
from pathlib import Path
from threading import Barrier, Thread

from rookery.core.facts import Change
from rookery.errors import ToolError
from rookery.workspace.file_edits import FileEdit, make

ROUNDS = 60


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def test_of_two_writers_at_once_exactly_one_writes(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"first")
    start = Barrier(2)
    before = [digest(b"first")]
    won: list[list[bytes]] = [[] for _ in range(ROUNDS)]

    def write(name: bytes) -> None:
        for number in range(ROUNDS):
            data = name + str(number).encode()
            start.wait(20)
            change = Change(path="a.txt", before=before[0], after=digest(data))
            start.wait(20)
            try:
                make([FileEdit(change, data, tmp_path, ("a.txt",))])
                won[number].append(data)
            except ToolError:
                pass
            start.wait(20)
            before[0] = digest(file.read_bytes())

    writers = [Thread(target=write, args=(name,)) for name in (b"one", b"two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [len(each) for each in won] == [1] * ROUNDS
    assert file.read_bytes() == won[-1][0]
