"""Twelve turns with every kind of side effect, run by the real command in its own folder."""

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from resource import RLIM_INFINITY

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.blocks import Block, ToolResult
from rookery.core.facts import (
    CheckpointSaved,
    Event,
    Fact,
    FilesChanged,
    RequestStarted,
    TaskClosed,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.history import Turn, history
from rookery.core.limits import Limits
from rookery.storage.journal import read_events
from rookery.storage.journal_lines import JOURNAL, never_started
from support.command_server import CommandServer, Ended
from support.text_process import Started, start_text

SCRIPT = Path(__file__).parents[1] / "faults" / "twelve_turns.yaml"
SESSION = "6d0a5a4c-7c07-4bb4-9a53-0d0a0a6e4f01"
BEFORE = {
    "notes.txt": b"Read me.\n",
    "app.py": b"def one():\n    return 1\n",
    "lib.py": b"LIMIT = 3\n",
}
RIGHTS = {"notes.txt": 0o644, "app.py": 0o755, "lib.py": 0o640}
EFFECTS = {
    "call_3_1": "fresh/new.txt",
    "call_4_1": "app.py",
    "call_5_1": "lib.py",
    "call_6_1": "twin.txt",
    "call_6_2": "twin-marks.txt",
    "call_8_1": "marks.txt",
    "call_9_1": "token.txt",
    "call_10_1": "failed.txt",
}
"""The file that each call with a side effect changes; no other call changes it."""
BY_COMMANDS = {"call_6_2", "call_8_1", "call_9_1", "call_10_1"}
"""Calls whose changes are detected while the model is called, at no fixed place in the log."""
UNIQUE = "token.txt"
"""A file that differs in every run, so that its content identifies the run."""


class Playground:
    """The workspace, the home and one session."""

    def __init__(self, folder: Path, *, script: Path = SCRIPT) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.home = folder / "home"
        self.task = self.home / "data" / "tasks" / SESSION
        self._script = script
        self.work.mkdir(parents=True, exist_ok=True)
        for name, data in BEFORE.items():
            (self.work / name).write_bytes(data)
            (self.work / name).chmod(RIGHTS[name])

    @property
    def first(self) -> list[str]:
        """Arguments that start the session."""
        return [*self._always, "--create-with-session-id", SESSION, "Take twelve turns."]

    @property
    def again(self) -> list[str]:
        """Arguments that resume it."""
        return [*self._always, "--session-id", SESSION]

    @property
    def latest(self) -> list[str]:
        """Arguments that resume the latest session."""
        return [*self._always, "--continue"]

    @property
    def to_the_beginning(self) -> list[str]:
        """Arguments that restore all files."""
        return ["rewind", SESSION, "--to", "1", "--files", "--yes"]

    @property
    def _always(self) -> list[str]:
        model = ["--provider", "scripted", "-m", str(self._script)]
        return ["--print", "--trust", "--workspace", str(self.work), *model]

    def environ(self, **more: str) -> dict[str, str]:
        home = {"HOME": str(self.folder), "ROOKERY_HOME": str(self.home)}
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **home, **more}

    def run(
        self,
        server: CommandServer,
        arguments: list[str],
        *,
        largest_file: int = RLIM_INFINITY,
        **environ: str,
    ) -> Ended:
        return server.run(
            arguments, self.environ(**environ), self.folder, largest_file=largest_file
        )

    def start(self, arguments: list[str]) -> Started:
        """Start the command with pipes, without a time limit."""
        return start_text(arguments, self.environ(), self.folder)

    @property
    def begun(self) -> bool:
        return not never_started(self.task / JOURNAL)

    def events(self) -> list[Event]:
        return list(read_events(self.task)) if self.begun else []

    def files(self) -> dict[str, bytes]:
        paths = (path for path in self.work.rglob("*") if path.is_file())
        return {path.relative_to(self.work).as_posix(): path.read_bytes() for path in paths}

    def rights(self) -> dict[str, int]:
        """Modes of all files and folders."""
        return {
            path.relative_to(self.work).as_posix(): stat.S_IMODE(path.lstat().st_mode)
            for path in self.work.rglob("*")
        }

    @property
    def checkpoints(self) -> Path:
        return self.home / "data" / "checkpoints"


class Record(Struct, frozen=True, dict=True):
    """The state after a run, without what differs in every run."""

    events: list[Event]
    files: Mapping[str, bytes]
    out: str

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of the facts in order, without those at no fixed place."""
        return [_kind(event.fact) for event in self.events if not found_out_later(event.fact)]

    @cached_property
    def turns(self) -> list[Turn]:
        """Without the environment details, which have the time."""
        return history(list(map(_without_details, self.events)))

    @cached_property
    def begun(self) -> ToolStarted | None:
        """The unfinished call, unless it is harmless to repeat."""
        open_calls: dict[str, ToolStarted] = {}
        for event in self.events:
            match event.fact:
                case ToolStarted(call_id=call_id) as started:
                    open_calls[call_id] = started
                case ToolFinished(call_id=call_id):
                    open_calls.pop(call_id, None)
                case _:
                    pass
        return next((call for call in open_calls.values() if not call.harmless), None)

    def result_of(self, call_id: str) -> ToolResult:
        blocks = (block for turn in self.turns for block in turn.blocks)
        return next(b for b in blocks if isinstance(b, ToolResult) and b.call_id == call_id)


def record(ground: Playground, out: str = "") -> Record:
    return Record(ground.events(), ground.files(), out)


def compare(run: Record, deaths: Sequence[Record], whole: Record) -> None:
    """Check that recorded events are still there, that everything was done once, and that all
    else is as in the uninterrupted run."""
    assert run.out == whole.out
    for death in deaths:
        assert run.events[: len(death.events)] == death.events
        if UNIQUE in death.files:
            assert run.files[UNIQUE] == death.files[UNIQUE], "a finished command was run again"
    lost = {death.begun.call_id: death for death in reversed(deaths) if death.begun}
    for call_id, death in lost.items():
        _compare_lost(call_id, run, death, whole)
    assert _without_results(lost, run.turns) == _without_results(lost, whole.turns)
    assert _without_effects(lost, run.files) == _without_effects(lost, whole.files)


def check_settled(ground: Playground, run: Record) -> None:
    """Check that the changes of each call are recorded once, exactly, and before anything else
    changes files."""
    anyio.run(_demand_settled, ground, run)


async def _demand_settled(ground: Playground, run: Record) -> None:
    checkpoints = ShadowCheckpoints(ground.work, ground.checkpoints, Limits())
    settled: list[str] = []
    owed = ""
    for event in run.events:
        match event.fact:
            case CheckpointSaved() | TaskClosed():
                assert not owed, f"the effect of {owed} was not checked before event {event.seq}"
            case ToolStarted(call_id=call_id) if call_id in EFFECTS:
                owed = call_id
            case FilesChanged(call_id=call_id, before=before, after=after):
                assert owed == call_id
                owed = ""
                settled.append(call_id)
                changed = {each.path for each in await checkpoints.effects(before, after)}
                assert changed == _left_by(call_id, ground, run)
            case _:
                pass
    assert settled == list(EFFECTS)


def _left_by(call_id: str, ground: Playground, run: Record) -> set[str]:
    """The file that the call changed, or only the folder that it made for it."""
    path = EFFECTS[call_id]
    if run.files.get(path) != BEFORE.get(path):
        return {path}
    folder = os.path.dirname(path)
    return {folder} if folder and (ground.work / folder).is_dir() else set()


def check_undone(ground: Playground, server: CommandServer) -> None:
    """Check that all changes of files can be undone."""
    ended = ground.run(server, ground.to_the_beginning)
    assert (ended.code, ended.left, ended.err) == (0, False, "")
    assert (ground.files(), ground.rights()) == (BEFORE, RIGHTS), ended.out


def _compare_lost(call_id: str, run: Record, death: Record, whole: Record) -> None:
    """Check that the interrupted call was not repeated, and that the model got its state."""
    path, reported, call = EFFECTS[call_id], run.result_of(call_id), death.begun
    assert call
    assert run.files.get(path) == death.files.get(path)
    if call.command:
        assert (
            f"interrupted while this command ran: {call.command}\nIt may have run" in reported.text
        )
        assert reported.is_error
        assert run.files.get(path, b"").count(b"\n") <= 1
    else:
        done = death.files.get(path) == whole.files[path]
        assert done or death.files.get(path) == BEFORE.get(path)
        assert f"{path}: the change {'was done' if done else 'was not done'}." in reported.text
        assert reported.is_error is not done


def _without_effects(lost: Collection[str], files: Mapping[str, bytes]) -> dict[str, object]:
    """The files that no lost call changes; of the one that differs in every run, only the number
    of lines."""
    uncertain = {EFFECTS[call_id] for call_id in lost}
    return {
        path: data.count(b"\n") if path == UNIQUE else data
        for path, data in files.items()
        if path not in uncertain
    }


def _without_results(calls: Collection[str], turns: Iterable[Turn]) -> list[Turn]:
    """The turns without the results of these calls."""

    def blanked(block: Block) -> Block:
        if isinstance(block, ToolResult) and block.call_id in calls:
            return replace(block, text="", is_error=False)
        return block

    return [replace(turn, blocks=tuple(map(blanked, turn.blocks))) for turn in turns]


def _without_details(event: Event) -> Event:
    match event.fact:
        case RequestStarted() as started:
            return replace(event, fact=replace(started, details={}))
        case _:
            return event


def found_out_later(fact: Fact) -> bool:
    return isinstance(fact, FilesChanged) and fact.call_id in BY_COMMANDS


def _kind(fact: Fact) -> str:
    call_id = getattr(fact, "call_id", "")
    return f"{type(fact).__name__} {call_id}".strip()
