"""A kill at any instant loses nothing and repeats nothing, and all of it can be taken back.

The real command takes twelve turns and is killed at a named instant; another process goes on.
`make test` kills it after every kind of lasting fact, of every kind of call, and at a part of
the instants of each other point. All of them, and a second kill while the first is being
recovered from at each of them:

    ROOKERY_TORTURE=1 python -m pytest tests/faults/test_kill.py -n auto --dist load
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from command_server import SECONDS, CommandServer
from rookery.core.facts import Ending, Event, ToolFinished, ToolStarted
from rookery.storage.verify import verify
from scenario import (
    BEFORE,
    EFFECTS,
    Playground,
    Record,
    compare,
    demand_settled,
    demand_undone,
    found_out_later,
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
    "files.temp_written": 4,
    "files.before_rename": 4,
    "files.renamed": 4,
    "files.synced": 4,
    "command.before_start": 4,
    "command.started": 4,
    "command.ended": 4,
}
"""How often a run reaches each point; a dry run keeps these numbers honest."""
KINDS_OF_FACTS = (
    *(1, 2, 3, 4, 7, 8, *range(11, 15), *range(17, 21), *range(23, 27), 28, 31, 33, 34, 35),
    *(38, 39, 40, 57, *range(60, 64), *range(65, 70), *range(71, 78)),
)
"""After each kind of fact, of each tool, wherever the changes that commands made are found out;
and between two calls that were made at once (31), and when a command has failed (57)."""
SOME = {
    "journal.before_write": range(1, LASTING_FACTS + 1, 17),
    "journal.written": range(9, LASTING_FACTS + 1, 17),
    "journal.synced": KINDS_OF_FACTS,
    "tool.started": (1, 6, 11),
    "tool.performed": (2, 5, 8, 11),
    "checkpoint.packed": (1, 4, 7, 10),
    "checkpoint.stored": (2, 5, 8, 11),
    "checkpoint.entered": (3, 6, 9, 12),
    "files.temp_written": (1, 3),
    "files.before_rename": (2, 4),
    "files.renamed": (1, 3),
    "files.synced": (2, 4),
    "command.before_start": (1, 3),
    "command.started": (2, 4),
    "command.ended": (1, 3),
}
"""Of each checkpoint one instant is among them, of each change of a file two, and of each command
one at least."""


def instants() -> list[str]:
    return [
        f"{point}:{nth}"
        for point, times in INSTANTS.items()
        for nth in (range(1, times + 1) if TORTURE else SOME[point])
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    with CommandServer() as server:
        yield server


@pytest.fixture(scope="module")
def whole(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The run that nothing interrupts."""
    ground = Playground(tmp_path_factory.mktemp("whole") / "run")
    log = ground.folder / "instants"
    ended = ground.run(server, ground.first, ROOKERY_KILLPOINT_LOG=str(log))
    assert (ended.code, ended.left) == (0, False), ended.err
    assert verify(ground.task) == []
    assert Counter(log.read_text().split()) == INSTANTS
    whole = record(ground, ended.out)
    demand_settled(ground, whole)
    demand_undone(ground, server)
    return whole


def test_the_uninterrupted_run_has_every_kind_of_effect(whole: Record):
    assert whole.out == "Twelve turns were taken.\n"
    assert len(whole.events) == LASTING_FACTS
    assert sum(turn.role == "assistant" for turn in whole.turns) == 13
    assert whole.files.keys() == {*BEFORE, *EFFECTS.values()}
    endings = [e.fact.ending for e in whole.events if isinstance(e.fact, ToolFinished)]
    assert Counter(endings) == {Ending.DONE: 12, Ending.MISTAKEN: 1}
    assert whole.files["marks.txt"] == b"ran\n"


def test_the_run_is_killed_after_every_kind_of_fact_of_every_tool(whole: Record):
    kinds = kinds_of_facts(whole.events)
    assert {kinds.get(number) for number in KINDS_OF_FACTS} >= set(kinds.values())


def kinds_of_facts(events: Sequence[Event]) -> dict[int, tuple[str, str, str]]:
    """By the number of each fact that has its place in every run."""
    tools = {e.fact.call_id: e.fact.tool for e in events if isinstance(e.fact, ToolStarted)}
    return {
        event.seq: (
            type(event.fact).__name__,
            tools.get(getattr(event.fact, "call_id", ""), ""),
            getattr(event.fact, "ending", ""),
        )
        for event in events
        if not found_out_later(event.fact)
    }


@pytest.mark.parametrize("instant", instants())
def test_kp1_a_killed_run_goes_on_as_if_it_had_not_been_killed(
    instant: str, server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    at_death = killed(ground, server, instant, ground.first)
    assert len(at_death.events) == durable_at(instant, len(at_death.events))
    assert at_death.kinds == whole.kinds[: len(at_death.kinds)]

    ended = ground.run(server, ground.again if ground.begun else ground.first)
    assert (ended.code, ended.left) == (0, False), ended.err
    demand_as_if_whole(ground, server, record(ground, ended.out), [at_death], whole)


def demand_as_if_whole(
    ground: Playground, server: CommandServer, run: Record, deaths: list[Record], whole: Record
) -> None:
    compare(run, deaths, whole)
    demand_settled(ground, run)
    assert verify(ground.task) == []
    demand_undone(ground, server)
    assert verify(ground.task) == []


def second_kills() -> list[tuple[str, str]]:
    seconds = [f"journal.synced:{nth}" for nth in (1, 2, 3, 4, 7)] + ["checkpoint.packed:1"]
    if TORTURE:
        begun = [instant for instant in instants() if instant != "journal.before_write:1"]
        return [(first, second) for first in begun for second in seconds]
    firsts = [
        "journal.synced:33",
        "files.temp_written:2",
        "command.started:2",
        "journal.synced:72",
        "checkpoint.stored:7",
        "command.ended:3",
    ]
    return list(zip(firsts, seconds, strict=True))


@pytest.mark.parametrize(("first", "second"), second_kills())
def test_kp1_a_second_kill_while_recovering_changes_nothing_more(
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


NO_COMMAND_UNDER_WAY = ["journal.synced:17", "files.renamed:2", "journal.synced:43"]


@pytest.mark.parametrize("instant", NO_COMMAND_UNDER_WAY)
def test_what_somebody_else_does_meanwhile_is_not_taken_back(
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


MEANWHILE: dict[str, Callable[[Path], object]] = {
    "edited": lambda path: path.write_text("by somebody else"),
    "removed": Path.unlink,
    "unreadable": lambda path: path.chmod(0o000),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.unlink(), path.symlink_to("lib.py")),
}


@pytest.mark.parametrize("befall", MEANWHILE.values(), ids=MEANWHILE.keys())
def test_a_file_that_became_something_else_meanwhile_leaves_its_change_unknown(
    befall: Callable[[Path], object], server: CommandServer, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    lost = killed(ground, server, "files.renamed:2", ground.first).begun
    assert lost
    befall(ground.work / "app.py")
    ended = ground.run(server, ground.again)
    assert ended.code == 0, ended.err
    told = Record(ground.events(), {}, "").result_of(lost.call_id)
    assert "app.py: the change may have been done; the file has changed meanwhile." in told.text
    assert told.is_error


@pytest.mark.parametrize("instant", ["journal.synced:20", "files.renamed:1", "tool.performed:8"])
def test_a_run_started_by_a_shell_is_killed_and_resumed_alike(
    instant: str, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    command = [sys.executable, "-m", "rookery"]
    environ = ground.environ(ROOKERY_KILLPOINT=instant)
    dead = subprocess.run(
        [*command, *ground.first], env=environ, stdin=subprocess.DEVNULL, timeout=SECONDS
    )
    assert dead.returncode == -signal.SIGKILL
    at_death = record(ground)
    resumed = subprocess.run(
        [*command, *ground.again], env=ground.environ(), capture_output=True, timeout=SECONDS
    )
    assert resumed.returncode == 0, resumed.stderr.decode()
    compare(record(ground, resumed.stdout.decode()), [at_death], whole)


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
