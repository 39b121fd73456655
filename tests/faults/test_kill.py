"""A kill at any instant loses nothing and repeats nothing, and everything can be undone.

The real command takes twelve turns and is killed at a named instant; another process continues.
`make test` kills one run after every kind of lasting fact of every kind of call, others at every
point there is, each life of them at another, and some only once. Once at every single instant, and
a second time while each of these kills is being recovered from:

    ROOKERY_TORTURE=1 python -m pytest tests/faults/test_kill.py --workers auto --each-test
"""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rookery.core.facts import Ending, Event, ToolFinished, ToolStarted
from rookery.storage.verify import verify
from support.command_server import SECONDS, CommandServer
from support.twelve_turns import (
    BEFORE,
    EFFECTS,
    Playground,
    Record,
    check_settled,
    check_undone,
    compare,
    record,
)

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
LASTING_FACTS = 77
INSTANTS = {
    "journal.before_write": LASTING_FACTS,
    "journal.written": LASTING_FACTS,
    "journal.synced": LASTING_FACTS,
    "tool.started": 13,
    "tool.performed": 12,
    "checkpoint.packed": 12,
    "checkpoint.stored": 12,
    "checkpoint.entered": 12,
    "disk.before_rename": 1,
    "files.temp_written": 4,
    "files.before_rename": 4,
    "files.renamed": 4,
    "files.synced": 4,
    "command.before_start": 4,
    "command.started": 4,
    "command.ended": 4,
}
"""How often a run reaches each point; a dry run keeps these numbers honest."""
SOME = {"journal.written": (20,)}
"""While files are changed. The other instants are those of the lives below, which end at one after
the other."""


def instants() -> list[str]:
    return [
        f"{point}:{nth}"
        for point, times in INSTANTS.items()
        for nth in (range(1, times + 1) if TORTURE else SOME.get(point, ()))
    ]


def test_an_uninterrupted_run_reaches_every_kill_point(
    whole: Record, whole_ground: Playground, server: CommandServer
):
    instants = (whole_ground.folder / "instants").read_text()
    assert Counter(instants.split()) == INSTANTS
    assert verify(whole_ground.task) == []
    assert whole.out == "Twelve turns were taken.\n"
    assert len(whole.events) == LASTING_FACTS
    assert sum(turn.role == "assistant" for turn in whole.turns) == 13
    assert whole.files.keys() == {*BEFORE, *EFFECTS.values()}
    endings = [e.fact.ending for e in whole.events if isinstance(e.fact, ToolFinished)]
    assert Counter(endings) == {Ending.DONE: 12, Ending.MISTAKEN: 1}
    assert whole.files["marks.txt"] == b"ran\n"
    check_settled(whole_ground, whole)
    check_undone(whole_ground, server)


@pytest.mark.parametrize("instant", instants())
def test_a_killed_run_resumes_as_if_uninterrupted(
    instant: str, server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    at_death = killed(ground, server, instant, ground.first)
    assert len(at_death.events) == durable_at(instant, len(at_death.events))
    assert at_death.kinds == whole.kinds[: len(at_death.kinds)]

    ended = ground.run(server, first_or_again(ground))
    assert (ended.code, ended.left) == (0, False), ended.err
    demand_as_if_whole(ground, server, record(ground, ended.out), [at_death], whole)


def demand_as_if_whole(
    ground: Playground, server: CommandServer, run: Record, deaths: list[Record], whole: Record
) -> None:
    compare(run, deaths, whole)
    check_settled(ground, run)
    assert verify(ground.task) == []
    check_undone(ground, server)
    assert verify(ground.task) == []


FACT_BY_FACT = [
    *[(1, "TaskOpened"), (4, "RequestStarted"), (5, "AssistantSpoke"), (4, "Reminded")],
    *[(6, "ToolStarted"), (5, "ToolFinished")],  # of a call that does nothing
    *[(6, "CheckpointSaved"), (5, "ToolStarted"), (5, "ToolFinished")],  # of a lost change
    *[(8, "ToolFinished"), (2, "FilesChanged"), (9, "FilesChanged")],  # of changes that were made
    *[(5, "AssistantSpoke"), (6, "ToolFinished")],  # between two calls that were made at once
    *[(5, "CheckpointSaved"), (5, "ToolStarted"), (9, "ToolFinished")],  # a mistake in the end
    *[(8, "ToolFinished"), (2, "FilesChanged"), (7, "ToolStarted")],  # of commands
    *[(10, "ToolFinished"), (8, "TodosChanged"), (6, "ToolFinished")],  # one of them has failed
    *[(7, "Asked"), (6, "Answered"), (11, "CompletionOffered"), (7, "Asked"), (6, "TaskClosed")],
]
"""After which of its facts each life ends. What a lost command did is found out first of all, so
that all of these have their place."""


def test_a_run_killed_after_each_kind_of_fact_resumes(
    server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    deaths: list[Record] = []
    for nth, fact in FACT_BY_FACT:
        deaths.append(killed(ground, server, f"journal.synced:{nth}", first_or_again(ground)))
        assert type(deaths[-1].events[-1].fact).__name__ == fact, len(deaths)
    ended = ground.run(server, ground.again)
    assert (ended.code, ended.left) == (0, False), ended.err
    run = record(ground, ended.out)
    kinds = kinds_of_facts(run.events)
    assert {kinds[len(death.events)] for death in deaths} >= set(
        kinds_of_facts(whole.events).values()
    )
    demand_as_if_whole(ground, server, run, deaths, whole)


def kinds_of_facts(events: Sequence[Event]) -> dict[int, tuple[str, str, str]]:
    """By the number of each fact."""
    calls = {e.fact.call_id: _doing(e.fact) for e in events if isinstance(e.fact, ToolStarted)}
    return {
        event.seq: (
            type(event.fact).__name__,
            calls.get(getattr(event.fact, "call_id", ""), ""),
            getattr(event.fact, "ending", ""),
        )
        for event in events
    }


def _doing(call: ToolStarted) -> str:
    """Effects that may have happened if the end was not recorded."""
    if call.command:
        return "a command"
    return "a change" if call.changes else "nothing"


POINT_BY_POINT = {
    "every call is lost": [
        "journal.before_write:1",
        *("files.temp_written:1", "files.before_rename:1", "files.renamed:1", "files.synced:1"),
        *("command.before_start:1", "command.started:1", "command.ended:1", "tool.performed:1"),
    ],
    "around what is kept": [
        *("journal.written:3", "tool.started:1", "journal.before_write:5"),
        "disk.before_rename:1",
        *("checkpoint.packed:1", "checkpoint.stored:2", "checkpoint.entered:2"),
        *("checkpoint.packed:2", "checkpoint.stored:3", "checkpoint.entered:3"),
    ],
}


def test_every_kill_point_is_covered():
    assert {name.partition(":")[0] for lives in POINT_BY_POINT.values() for name in lives} == {
        point for point in INSTANTS if point != "journal.synced"
    }


@pytest.mark.parametrize("lives", POINT_BY_POINT.values(), ids=POINT_BY_POINT)
def test_a_run_killed_at_several_points_resumes(
    lives: list[str], server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    deaths = [killed(ground, server, instant, first_or_again(ground)) for instant in lives]
    ended = ground.run(server, ground.again)
    assert (ended.code, ended.left) == (0, False), ended.err
    demand_as_if_whole(ground, server, record(ground, ended.out), deaths, whole)


def second_kills() -> list[tuple[str, str]]:
    seconds = [f"journal.synced:{nth}" for nth in (1, 2, 3, 4, 7)] + ["checkpoint.packed:1"]
    if TORTURE:
        begun = [instant for instant in instants() if instant != "journal.before_write:1"]
        return [(first, second) for first in begun for second in seconds]
    return [("command.started:2", "journal.synced:3")]  # while a command is taken up


@pytest.mark.parametrize(("first", "second"), second_kills())
def test_a_second_kill_during_recovery_changes_nothing(
    first: str, second: str, server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    deaths = [killed(ground, server, first, ground.first)]
    ended = ground.run(server, ground.again, ROOKERY_KILLPOINT=second)
    if ended.code == -signal.SIGKILL:
        assert verify(ground.task) == []
        deaths.append(record(ground))
        ended = ground.run(server, ground.again)
    assert (ended.code, ended.left) == (0, False), ended.err
    demand_as_if_whole(ground, server, record(ground, ended.out), deaths, whole)


NO_COMMAND_UNDER_WAY = ["files.renamed:2", "journal.synced:43", "journal.synced:17"]


@pytest.mark.parametrize("instant", NO_COMMAND_UNDER_WAY if TORTURE else NO_COMMAND_UNDER_WAY[:1])
def test_changes_by_others_after_a_kill_are_not_undone(
    instant: str, server: CommandServer, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    killed(ground, server, instant, ground.first)
    (ground.work / "mine.txt").write_text("by somebody else")
    (ground.work / "notes.txt").write_text("by somebody else")
    for arguments in (ground.again, ground.to_the_beginning):
        ended = ground.run(server, arguments)
        assert ended.code == 0, ended.err
    by_others = dict.fromkeys(["mine.txt", "notes.txt"], b"by somebody else")
    assert ground.files() == {**BEFORE, **by_others}


ONE_EDIT = """\
- calls:
    - tool: edit
      arguments: {file_path: app.py, old_string: "return 1", new_string: "return 2"}
- calls:
    - tool: attempt_completion
      arguments: {result: Done.}
"""
MEANWHILE: dict[str, Callable[[Path], object]] = {
    "edited": lambda path: path.write_text("by somebody else"),
    "removed": Path.unlink,
    "unreadable": lambda path: path.chmod(0o000),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.unlink(), path.symlink_to("lib.py")),
}


def test_a_lost_edit_of_a_replaced_file_is_reported_as_unknown(
    server: CommandServer, tmp_path: Path
):
    script = tmp_path / "one_edit.yaml"
    script.write_text(ONE_EDIT)
    ground = Playground(tmp_path / "run", script=script)
    lost = killed(ground, server, "files.renamed:1", ground.first).begun
    assert lost
    kept = shutil.copytree(ground.folder, tmp_path / "killed")
    for name, befall in MEANWHILE.items():
        shutil.rmtree(ground.folder)
        shutil.copytree(kept, ground.folder)
        befall(ground.work / "app.py")
        ended = ground.run(server, ground.again)
        assert ended.code == 0, (name, ended.err)
        reported = Record(ground.events(), {}, "").result_of(lost.call_id)
        unknown = "app.py: the change may have been done; the file has changed meanwhile."
        assert unknown in reported.text, name
        assert reported.is_error


STARTED_BY_A_SHELL = ["files.renamed:1", "journal.synced:20", "tool.performed:8"]


@pytest.mark.parametrize("instant", STARTED_BY_A_SHELL if TORTURE else STARTED_BY_A_SHELL[:1])
def test_a_run_started_as_a_module_resumes_after_a_kill(
    instant: str, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    command = [sys.executable, "-m", "rookery"]
    environ = ground.environ(PYTHONPATH=os.pathsep.join(sys.path))
    deadly = {**environ, "ROOKERY_KILLPOINT": instant}
    dead = subprocess.run(
        [*command, *ground.first], env=deadly, stdin=subprocess.DEVNULL, timeout=SECONDS
    )
    assert dead.returncode == -signal.SIGKILL
    at_death = record(ground)
    resumed = subprocess.run(
        [*command, *ground.again], env=environ, capture_output=True, timeout=SECONDS
    )
    assert resumed.returncode == 0, resumed.stderr.decode()
    compare(record(ground, resumed.stdout.decode()), [at_death], whole)


def first_or_again(ground: Playground) -> list[str]:
    return ground.again if ground.begun else ground.first


def killed(ground: Playground, server: CommandServer, instant: str, arguments: list[str]) -> Record:
    """Run until the instant comes. Returns once nothing of the run is left alive."""
    ended = ground.run(server, arguments, ROOKERY_KILLPOINT=instant)
    assert ended.code == -signal.SIGKILL, f"{instant} was never reached: {ended.err}"
    if ground.begun:
        assert verify(ground.task) == []
    return record(ground)


def durable_at(instant: str, found: int) -> int:
    """How many facts are on disk at an instant, where its name says so."""
    point, _, nth = instant.partition(":")
    match point:
        case "journal.before_write":
            return int(nth) - 1
        case "journal.written" | "journal.synced":
            return int(nth)
        case _:
            return found
