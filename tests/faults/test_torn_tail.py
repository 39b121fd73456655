"""A journal torn at any byte of its last line continues after its last whole line.

`make test` tears off the last byte of some, and the last one also at its first and between;
ROOKERY_TORTURE=1 tears all of them at every byte.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest

from rookery.cli.main import run
from rookery.core.facts import (
    Answered,
    AssistantSpoke,
    CheckpointSaved,
    CompletionOffered,
    Fact,
    FilesChanged,
    Noted,
    TaskClosed,
    TaskReopened,
    ToolFinished,
    ToolStarted,
)
from rookery.storage.journal_lines import JOURNAL
from rookery.storage.verify import verify
from support.command_server import CommandServer
from support.twelve_turns import Playground, Record, check_settled, compare, record

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
LINES = {
    "a checkpoint": (11, CheckpointSaved, 1),
    "the result of a write": (13, ToolFinished, 1),
    "what a write did to files": (14, FilesChanged, 1),
    "an answer with two calls": (28, AssistantSpoke, 1),
    "the start of a command": (34, ToolStarted, 1),
    "the result of a command": (45, ToolFinished, 1),
    "what a command did to files": (48, FilesChanged, 1),
    "an answer to a question": (76, Answered, 1),
    "the offer of a result": (76, CompletionOffered, 1),
    "the end of the task": (77, TaskClosed, 3),
}
"""Each fact to truncate, a kill point at which it is in the journal, and the number of cuts. The
last such fact is cut, and all later ones are removed."""
SOME = ("the result of a write", "the start of a command", "the end of the task")
TORN = [pytest.param(*LINES[name], id=name) for name in (LINES if TORTURE else SOME)]


@pytest.mark.parametrize(("instant", "kind", "places"), TORN)
def test_a_line_torn_at_any_byte_counts_as_never_written(
    instant: int,
    kind: type[Fact],
    places: int,
    server: CommandServer,
    whole: Record,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    ground = Playground(tmp_path / "run")
    ended = ground.run(server, ground.first, ROOKERY_KILLPOINT=f"journal.synced:{instant}")
    assert ended.code == -signal.SIGKILL
    shutil.copytree(ground.folder, tmp_path / "killed")
    seq = max(event.seq for event in ground.events() if isinstance(event.fact, kind))
    lines = (ground.task / JOURNAL).read_bytes().splitlines(keepends=True)
    before, last = lines[: seq - 1], lines[seq - 1]
    for name, value in ground.environ().items():
        monkeypatch.setenv(name, value)
    for length in cuts(len(last), places):
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
        check_settled(ground, after)
        assert verify(ground.task) == []
        note, reopened = after.events[seq - 1 : seq + 1]
        assert isinstance(note.fact, Noted)
        assert f"those {length} bytes" in note.fact.text
        assert reopened.fact == TaskReopened()
        [aside] = ground.task.glob("journal.torn-*")
        assert aside.read_bytes() == last[:length]


def cuts(size: int, places: int) -> list[int]:
    """Lengths at which to cut a line of `size` bytes; each leaves it incomplete."""
    if TORTURE:
        return list(range(1, size))
    if places == 1:
        return [size - 1]
    return [1 + (size - 2) * nth // (places - 1) for nth in range(places)]
