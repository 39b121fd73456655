"""A journal whose last line was torn at any byte goes on where its last whole line ended.

`make test` tears the last lines at every byte and samples the others; ROOKERY_TORTURE=1
tears each of them at every byte.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_server import CommandServer
from rookery.cli.main import run
from rookery.core.facts import Noted, TaskReopened
from rookery.storage.recovery import JOURNAL
from rookery.storage.verify import verify
from scenario import Playground, Record, compare, record

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
LINES = {
    "the result of a write": (12, 40),
    "an answer with two calls": (22, 60),
    "the start of a command": (33, 40),
    "the result of a command": (42, 5),
    "an answer to a question": (52, 10),
    "the offer of a result": (57, 1),
    "the end of the task": (61, 1),
}
"""What was being written, its place in the log, and how far the cuts are apart."""


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    with CommandServer() as server:
        yield server


@pytest.fixture(scope="module")
def whole(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Record:
    ground = Playground(tmp_path_factory.mktemp("whole") / "run")
    ended = ground.run(server, ground.first)
    assert ended.code == 0, ended.err
    return record(ground, ended.out)


@pytest.mark.parametrize(("seq", "stride"), LINES.values(), ids=LINES.keys())
def test_a_line_torn_at_any_byte_counts_as_never_written(
    seq: int,
    stride: int,
    server: CommandServer,
    whole: Record,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    ground = Playground(tmp_path / "run")
    ended = ground.run(server, ground.first, ROOKERY_KILLPOINT=f"journal.synced:{seq}")
    assert ended.code == -signal.SIGKILL
    shutil.copytree(ground.folder, tmp_path / "killed")
    *before, last = (ground.task / JOURNAL).read_bytes().splitlines(keepends=True)
    for name, value in ground.environ().items():
        monkeypatch.setenv(name, value)
    for length in range(1, len(last), 1 if TORTURE else stride):
        shutil.rmtree(ground.folder)
        shutil.copytree(tmp_path / "killed", ground.folder)
        (ground.task / JOURNAL).write_bytes(b"".join(before) + last[:length])
        at_death = record(ground)
        assert [event.seq for event in at_death.events] == list(range(1, seq))

        code = run(ground.again)
        out, err = capfd.readouterr()
        assert code == 0, err
        after = record(ground, out)
        compare(after, [at_death], whole)
        assert verify(ground.task) == []
        note, reopened = after.events[seq - 1 : seq + 1]
        assert isinstance(note.fact, Noted)
        assert f"those {length} bytes" in note.fact.text
        assert reopened.fact == TaskReopened()
        [aside] = ground.task.glob("journal.torn-*")
        assert aside.read_bytes() == last[:length]
