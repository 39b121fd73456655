"""A kill while files are restored loses none of them, and the next rewind finishes it."""

import os
import re
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from rookery.core.facts import FilesRestored
from rookery.storage.verify import verify
from support.command_server import CommandServer
from support.twelve_turns import BEFORE, EFFECTS, RIGHTS, SESSION, Playground

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
INSTANTS = {
    "restore.saved": 1,
    "restore.before_file": 9,
    "restore.file_done": 9,
    "restore.temp_written": 2,
    "restore.done": 1,
    "checkpoint.packed": 1,
    "checkpoint.stored": 1,
    "checkpoint.entered": 1,
    "journal.before_write": 1,
    "journal.written": 1,
    "journal.synced": 1,
}
"""How often a rewind to the beginning reaches each point: eight files and a folder are put
back. A dry run keeps these numbers honest."""


class Done:
    """A session that has taken its twelve turns, over and over."""

    def __init__(self, folder: Path, server: CommandServer) -> None:
        self.ground = Playground(folder / "run")
        ended = self.ground.run(server, self.ground.first)
        assert ended.code == 0, ended.err
        self.files, self.rights = self.ground.files(), self.ground.rights()
        self.last = len(self.ground.events())
        self._kept = shutil.copytree(self.ground.folder, folder / "kept")

    def again(self) -> Playground:
        shutil.rmtree(self.ground.folder)
        shutil.copytree(self._kept, self.ground.folder)
        return self.ground


@pytest.fixture(scope="module")
def done(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Done:
    return Done(tmp_path_factory.mktemp("done"), server)


def test_an_uninterrupted_rewind_reaches_all_kill_points_and_can_be_undone(
    server: CommandServer, done: Done, tmp_path: Path
):
    ground = done.again()
    log = tmp_path / "instants"
    ended = ground.run(server, ground.to_the_beginning, ROOKERY_KILLPOINT_LOG=str(log))
    assert ended.code == 0, ended.err
    assert Counter(log.read_text().split()) == INSTANTS
    assert (ground.files(), ground.rights()) == (BEFORE, RIGHTS)
    demand_forward(ground, server, done)


OFTEN = {"restore.before_file": (6,), "restore.file_done": (4,), "restore.temp_written": (2,)}
"""Of several files in a row, which are enough for `make test`."""
RECORDED = {"journal.written:1", "journal.synced:1"}
"""The rewind is complete then, so the next one is a separate step."""
THEN_FORWARD = {"restore.file_done:4", "restore.temp_written:2", "journal.written:1"}


def instants() -> list[str]:
    return [
        f"{point}:{nth}"
        for point, times in INSTANTS.items()
        for nth in range(1, times + 1)
        if TORTURE or nth in OFTEN.get(point, (1,))
    ]


@pytest.mark.parametrize("instant", instants(), ids=lambda instant: f"{instant}")
def test_a_killed_rewind_is_completed_by_the_next_one_as_one_step(
    instant: str, server: CommandServer, done: Done
):
    ground = done.again()
    ended = ground.run(server, ground.to_the_beginning, ROOKERY_KILLPOINT=instant)
    assert ended.code == -signal.SIGKILL, ended.err
    assert verify(ground.task) == []
    at_death = without_unfinished(ground.files())
    for path in {*BEFORE, *EFFECTS.values()}:
        assert at_death.get(path) in (BEFORE.get(path), done.files.get(path))
    left = {path for path in {*BEFORE, *at_death} if at_death.get(path) != BEFORE.get(path)}
    if "fresh/new.txt" not in left and "fresh" in ground.rights():
        left.add("fresh")

    ended = ground.run(server, ground.to_the_beginning)
    assert (ended.code, ended.err) == (0, "")
    assert listed(ended.out) == left
    assert (ground.files(), ground.rights()) == (BEFORE, RIGHTS)
    written = [type(event.fact) for event in ground.events()[done.last :]]
    assert written == [FilesRestored] * (1 + (instant in RECORDED))
    assert verify(ground.task) == []
    if TORTURE or instant in THEN_FORWARD:
        demand_forward(ground, server, done)


def demand_forward(ground: Playground, server: CommandServer, done: Done) -> None:
    """Restore the files from before the rewind."""
    ended = ground.run(server, ["rewind", SESSION, "--to", str(done.last), "--files", "--yes"])
    assert ended.code == 0, ended.err
    assert (ground.files(), ground.rights()) == (done.files, done.rights)
    assert verify(ground.task) == []


def without_unfinished(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files without what was being written when the process died."""
    return {path: data for path, data in files.items() if ".~undo-" not in path}


def listed(out: str) -> set[str]:
    """The files that a rewind announces to restore."""
    return set(re.findall(r"^  (?:change|create|remove) +(\S+)$", out, re.MULTILINE))
