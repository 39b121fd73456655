"""Agents side by side survive kills: none is started twice, no work and no worktree is lost.

The real command starts an explorer and two workers and is killed at an instant, in whichever of
them it then is. `make test` kills it at a few instants and draws two; after every lasting fact of
the session and its agents, at every other point, and again while it recovers, by

    ROOKERY_TORTURE=1 python -m pytest tests/faults/test_agents_kill.py --workers auto --each-test
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from msgspec import Struct

from rookery.core.facts import Ending, Event, TaskClosed, TaskOpened, ToolFinished, ToolStarted
from rookery.core.limits import MIB
from rookery.storage.journal import read_events
from rookery.storage.journal_lines import JOURNAL, never_started
from rookery.storage.verify import verify
from support.command_server import CommandServer, Ended
from support.repositories import git
from support.twelve_turns import SESSION, Playground

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
SOME = ("agent.worktree:1", "agent.started:2", "agent.ended:1", "command.started:1")
DRAWN = 60 if TORTURE else 2
NAMES = ("scout", "fixer", "idle")
COMMAND = "echo ran >> counter.txt"
FILES = ("one.txt", "two.txt", "three.txt")
DONE = "All agents are done.\n"


def _tool(name: str, **arguments: object) -> dict[str, object]:
    return {"calls": [{"tool": name, "arguments": arguments}]}


def _write(path: str) -> dict[str, object]:
    return _tool("write_to_file", path=path, content=f"{path}\n")


AGENTS = [
    {"name": "scout", "task": "You are scout."},
    {"name": "fixer", "task": "You are fixer.", "works": True},
    {"name": "idle", "task": "You are idle.", "works": True},
]
SCRIPT = {
    "You are root.": [_tool("run_agents", agents=AGENTS), {"say": DONE.strip()}],
    "You are scout.": [_tool("read_file", path="app.py"), {"say": "scout is done"}],
    "You are fixer.": [
        _write(FILES[0]),
        _tool("execute_command", command=COMMAND),
        *map(_write, FILES[1:]),
        {"say": "fixer is done"},
    ],
    "You are idle.": [_tool("read_file", path="lib.py"), {"say": "idle is done"}],
}


class Ground(Playground):
    """A repository in which agents work."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, script=folder / "script.yaml")
        (folder / "script.yaml").write_text(yaml.safe_dump(SCRIPT, sort_keys=False))
        git(self.work, "init", "-q")
        git(self.work, "add", ".")
        git(self.work, "commit", "-q", "-m", "first")

    @property
    def first(self) -> list[str]:
        return [*self._always, "-y", "--create-with-session-id", SESSION, "You are root."]

    @property
    def again(self) -> list[str]:
        return [*self._always, "-y", "--session-id", SESSION]

    def journals(self) -> dict[str, list[Event]]:
        """The sessions that have started, by name."""
        found: dict[str, list[Event]] = {}
        tasks = self.home / "data" / "tasks"
        for folder in tasks.iterdir() if tasks.is_dir() else ():
            if never_started(folder / JOURNAL):
                continue
            assert verify(folder) == []
            events = list(read_events(folder))
            opened = events[0].fact
            assert isinstance(opened, TaskOpened)
            name = opened.text.split()[-1].rstrip(".")
            assert name not in found, f"{name} was started twice"
            found[name] = events
        return found

    @property
    def worktrees(self) -> dict[str, Path]:
        place = self.work / ".roo" / "worktrees"
        return {each.name.split("-")[1]: each for each in place.glob("*")}


class Whole(Struct, frozen=True):
    instants: Counter[str]


@pytest.fixture(scope="module")
def whole(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The run that nothing interrupts, and how often it reaches each point."""
    ground = Ground(tmp_path_factory.mktemp("whole") / "run")
    log = ground.folder / "instants"
    demand_complete(ground, ground.run(server, ground.first, ROOKERY_KILLPOINT_LOG=str(log)), {})
    return Whole(Counter(log.read_text().split()))


def instants(whole: Whole) -> list[str]:
    points = whole.instants.items()
    return [f"{point}:{nth}" for point, times in points for nth in range(1, times + 1)]


@pytest.mark.parametrize("instant", SOME)
def test_agents_killed_at_chosen_instants_resume(
    instant: str, server: CommandServer, tmp_path: Path
):
    ground = Ground(tmp_path / "run")
    before = killed(ground, server, instant)
    demand_complete(ground, ground.run(server, again(ground)), before)


@pytest.mark.parametrize("seed", range(DRAWN))
def test_killed_agents_resume_as_if_uninterrupted(
    seed: int, server: CommandServer, whole: Whole, tmp_path: Path
):
    """Every other run is killed again while it recovers."""
    dice = random.Random(seed)
    ground = Ground(tmp_path / "run")
    before = killed(ground, server, dice.choice(instants(whole)))
    if seed % 2:
        instant = dice.choice(instants(whole))
        ended = ground.run(server, again(ground), ROOKERY_KILLPOINT=instant)
        before = ground.journals() if ended.code == -signal.SIGKILL else before
    demand_complete(ground, ground.run(server, again(ground)), before)


def test_agents_killed_after_lasting_facts_resume(
    server: CommandServer, whole: Whole, tmp_path: Path
):
    """After every fact in torture mode, else after every fifteenth."""
    for nth in range(1, whole.instants["journal.synced"] + 1, 1 if TORTURE else 15):
        ground = Ground(tmp_path / f"run-{nth}")
        before = killed(ground, server, f"journal.synced:{nth}")
        demand_complete(ground, ground.run(server, again(ground)), before)


def test_a_worktree_that_cannot_be_made_fails_its_worker_only(
    server: CommandServer, tmp_path: Path
):
    ground = Ground(tmp_path / "run")
    (ground.work / "big.bin").write_bytes(bytes(3 * MIB))
    git(ground.work, "add", ".")
    git(ground.work, "commit", "-q", "-m", "big")
    ended = ground.run(server, ground.first, largest_file=2 * MIB)
    assert (ended.code, ended.left, ended.out) == (0, False, DONE), ended.err
    (report,) = [e.fact for e in ground.events() if isinstance(e.fact, ToolFinished)]
    assert [end.fate for end in report.agents] == ["done", "failed", "failed"]
    assert "The worktree for fixer could not be created: " in report.text
    assert not ground.worktrees
    assert git(ground.work, "branch", "--format=%(refname:short)").split() == ["main"]


def killed(ground: Ground, server: CommandServer, instant: str) -> dict[str, list[Event]]:
    """Run until the instant comes. Returns the journals at that time."""
    ended = ground.run(server, ground.first, ROOKERY_KILLPOINT=instant)
    if ended.code != -signal.SIGKILL:  # what is concurrent reaches some points less often
        assert (ended.code, ended.out) == (0, DONE), ended.err
    return ground.journals()


def again(ground: Ground) -> list[str]:
    return ground.again if ground.begun else ground.first


def demand_complete(ground: Ground, ended: Ended, before: Mapping[str, list[Event]]) -> None:
    assert (ended.code, ended.left, ended.out) == (0, False, DONE), ended.err
    journals = ground.journals()
    assert journals.keys() == {"root", *NAMES}
    for name, events in before.items():
        assert journals[name][: len(events)] == events
    for name in NAMES:
        assert sum(isinstance(each.fact, TaskClosed) for each in journals[name]) == 1
    demand_one_result(journals["root"])
    demand_work_kept(ground, journals["fixer"])
    assert git(ground.work, "status", "--porcelain") == ""


def demand_one_result(root: list[Event]) -> None:
    started = [e.fact for e in root if isinstance(e.fact, ToolStarted) and e.fact.agents]
    (call,) = started
    ends = [e.fact for e in root if isinstance(e.fact, ToolFinished)]
    (end,) = [fact for fact in ends if fact.call_id == call.call_id]
    assert end.ending is Ending.DONE
    heads = [line.split()[1] for line in end.text.splitlines() if line.startswith("# ")]
    assert heads == list(NAMES)
    for name in NAMES:
        assert f"{name} is done" in end.text


def demand_work_kept(ground: Ground, fixer: list[Event]) -> None:
    """The worker's files are in its worktree, its command ran at most once, and nothing else is
    left: no other worktree, no other branch."""
    assert ground.worktrees.keys() == {"fixer"}
    place = ground.worktrees["fixer"]
    ends = {e.fact.call_id: e.fact for e in fixer if isinstance(e.fact, ToolFinished)}
    starts = Counter(e.fact.call_id for e in fixer if isinstance(e.fact, ToolStarted))
    assert set(starts.values()) == {1}
    for path, number in zip(FILES, (1, 3, 4), strict=True):
        assert (place / path).exists() is (ends[f"call_{number}_1"].ending is Ending.DONE)
    ran = (place / "counter.txt").read_text() if (place / "counter.txt").exists() else ""
    assert ran == "ran\n" or (ran == "" and ends["call_2_1"].ending is Ending.UNKNOWN)
    branches = git(ground.work, "branch", "--format=%(refname:short)").split()
    assert len(branches) == 2
    assert git(ground.work, "worktree", "list").count("\n") == 1
    assert not list((ground.work / ".git" / "worktrees").glob("*/locked"))
