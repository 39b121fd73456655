"""A tree of tasks survives kills: no work is lost or done twice, and each result comes once.

Tasks on three levels are played by the real command, which is killed at instants drawn at random,
in whichever of them it then is. `make test` has five tasks and draws two instants; there are nine
tasks, and fifty instants are drawn, by

    ROOKERY_TORTURE=1 python -m pytest tests/faults/test_task_tree.py --workers auto --each-test
"""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import Asked
from rookery.permissions.trust import TrustStore
from rookery.storage.verify import verify
from support.command_server import CommandServer, Ended
from support.task_tree import (
    AT_FIRST,
    CHILDREN,
    COST,
    PARENTS,
    ROOT,
    Death,
    Node,
    Tree,
    calls_of,
    check_complete,
    death,
    result,
)
from support.terminal_session import COMMAND, TerminalSession

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
DRAWN = 50 if TORTURE else 2
TWICE = 3
"""One run in this many is killed again while it recovers."""


class Whole(Struct, frozen=True):
    """The run that nothing interrupts; `instants` are how often it reaches each point."""

    tree: Tree
    instants: Counter[str]
    progress: str


@pytest.fixture(scope="module")
def whole(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    tree = Tree(tmp_path_factory.mktemp("whole") / "run")
    log = tree.folder / "instants"
    ended = tree.run(server, tree.first, ROOKERY_KILLPOINT_LOG=str(log))
    demand_ended(ended)
    check_complete(tree)
    return Whole(tree, Counter(log.read_text().split()), ended.err)


def drawn(dice: random.Random, instants: Counter[str]) -> str:
    """As often after a fact as at any other point."""
    facts = dice.random() < 0.5
    others = sorted(point for point in instants if not point.startswith("journal."))
    point = "journal.synced" if facts else dice.choice(others)
    return f"{point}:{dice.randint(1, instants[point])}"


@pytest.mark.parametrize("seed", range(DRAWN))
def test_a_killed_tree_resumes_as_if_uninterrupted(
    seed: int, server: CommandServer, whole: Whole, tmp_path: Path
):
    dice = random.Random(seed)
    tree = Tree(tmp_path / "run")
    deaths = [killed(tree, server, drawn(dice, whole.instants))]
    if seed % TWICE == 0:
        ended = tree.run(server, again(tree), ROOKERY_KILLPOINT=drawn(dice, whole.instants))
        if ended.code == -signal.SIGKILL:
            deaths.append(death(tree))
    demand_ended(tree.run(server, again(tree)))
    check_complete(tree, deaths)
    demand_listed(tree, server)
    check_undone(tree, server)


def subjects(name: str) -> Iterator[str]:
    """What a person sees of each question, in the order of the work; the last call of a task is
    none."""
    for tool, arguments in calls_of(name)[:-1]:
        match tool:
            case "new_task":
                yield arguments["message"]
                yield from subjects(arguments["message"].split()[-1].rstrip("."))
            case "execute_command":
                yield arguments["command"]
            case _:
                yield arguments.get("path") or arguments["file_path"]


SUBJECTS = list(subjects(ROOT))
ALLOW, GO_ON = "Approve? ", "Continue? "


@pytest.mark.parametrize("seed", range(8 if TORTURE else 1))
def test_an_open_question_is_asked_again_by_the_same_task(seed: int, tmp_path: Path):
    tree = Tree(tmp_path / "run")
    TrustStore(tree.home / "config" / "trust.json").trust(tree.work)
    first, second = sorted(random.Random(seed).sample(range(len(SUBJECTS)), 2))
    asked: list[tuple[str, Asked]] = []
    with at_a_terminal(tree, tree.first_asking) as terminal:
        approve(terminal, SUBJECTS[:first])
        asked.append(killed_while_asking(tree, terminal, SUBJECTS[first]))
    with at_a_terminal(tree, tree.again_asking) as terminal:
        go_on(terminal)
        approve(terminal, SUBJECTS[first:second])
        asked.append(killed_while_asking(tree, terminal, SUBJECTS[second]))
    with at_a_terminal(tree, tree.again_asking) as terminal:
        go_on(terminal)
        approve(terminal, SUBJECTS[second:])
        terminal.wait_for("Done. [Enter accepts")
        terminal.type("")
        assert terminal.exit_code() == 0
    check_complete(tree)
    nodes = tree.nodes()
    for name, question in asked:
        again = [fact for fact in questions(nodes[name]) if fact.call_id == question.call_id]
        assert [as_shown(fact) for fact in again] == [as_shown(question)] * 2
    assert sum(len(questions(node)) for node in nodes.values()) == len(SUBJECTS) + 2


def at_a_terminal(tree: Tree, arguments: list[str]) -> TerminalSession:
    environ = tree.environ(TERM="xterm-256color", NO_COLOR="1")
    return TerminalSession([COMMAND, "--no-tui", *arguments], cwd=tree.folder, environ=environ)


def go_on(terminal: TerminalSession) -> None:
    terminal.wait_for(GO_ON)
    terminal.type("y")


def approve(terminal: TerminalSession, about: Sequence[str]) -> None:
    for subject in about:
        wait_for_question(terminal, subject)
        terminal.type("y")


def wait_for_question(terminal: TerminalSession, subject: str) -> None:
    """A prompt alone would not do: it is written again when something else was."""
    terminal.wait_for(subject)
    terminal.wait_for(ALLOW)


def killed_while_asking(tree: Tree, terminal: TerminalSession, subject: str) -> tuple[str, Asked]:
    """Kill it at a question: the task that asks, and what it asks."""
    wait_for_question(terminal, subject)
    terminal.signal(signal.SIGKILL)
    assert terminal.exit_code() == -signal.SIGKILL
    nodes = tree.nodes()
    latest = {name: asked[-1] for name, node in nodes.items() if (asked := questions(node))}
    (open_one,) = [name for name, fact in latest.items() if not nodes[name].answered(fact.ask_id)]
    return open_one, latest[open_one]


def questions(node: Node) -> list[Asked]:
    facts = (event.fact for event in node.events)
    return [fact for fact in facts if isinstance(fact, Asked) and fact.call_id]


def as_shown(asked: Asked) -> Asked:
    return replace(asked, ask_id="", digest="")


def rows_of(tree: Tree, server: CommandServer) -> dict[str, dict[str, Any]]:
    """The state of each task in `list`."""
    ended = tree.run(server, tree.listing)
    assert ended.code == 0, ended.err
    rows = json.loads(ended.out)["sessions"]
    assert len(rows) == len(CHILDREN)
    return {row["task"].removeprefix("You are node ").rstrip("."): row for row in rows}


def demand_listed(tree: Tree, server: CommandServer) -> None:
    """Each task with the cost of its own requests, without its children."""
    for name, row in rows_of(tree, server).items():
        assert row["status"] == "completed"
        assert row["cost"] == pytest.approx(len(calls_of(name)) * COST[name])


def check_undone(tree: Tree, server: CommandServer) -> None:
    """All file changes of the tasks can be undone from the root."""
    ended = tree.run(server, tree.to_the_beginning)
    assert (ended.code, ended.left, ended.err) == (0, False, "")
    assert tree.files() == AT_FIRST, ended.out


TOTAL = sum(len(calls_of(name)) * COST[name] for name in CHILDREN)


def test_a_resumed_run_reports_the_cost_of_the_whole_tree(server: CommandServer, tmp_path: Path):
    tree = Tree(tmp_path / "run")
    killed(tree, server, "command.started:5")
    ended = tree.run(server, ["--output-format", "json", *tree.again])
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["cost"]["totalCost"] == pytest.approx(TOTAL)
    assert not any(f"made/{name}.txt" in ended.out for name in CHILDREN if name != ROOT)


def test_the_progress_line_includes_the_cost_of_subtasks(whole: Whole):
    assert whole.progress.splitlines()[-1].endswith(f"${TOTAL:.4f}")


IN_COMMANDS_OF_CHILDREN = ["command.started:1", "command.ended:2", "command.before_start:5"]


@pytest.mark.parametrize(
    "instant", IN_COMMANDS_OF_CHILDREN if TORTURE else IN_COMMANDS_OF_CHILDREN[1:2]
)
def test_a_root_can_be_undone_after_a_kill_in_a_subtasks_command(
    instant: str, server: CommandServer, tmp_path: Path
):
    tree = Tree(tmp_path / "run")
    killed(tree, server, instant)
    check_undone(tree, server)


AFTERWARDS = [IN_COMMANDS_OF_CHILDREN[0], "files.renamed:5"]


@pytest.mark.parametrize("instant", AFTERWARDS if TORTURE else AFTERWARDS[:1])
def test_continuing_the_last_session_resumes_the_root_and_keeps_user_changes(
    instant: str, server: CommandServer, tmp_path: Path
):
    tree = Tree(tmp_path / "run")
    dead = killed(tree, server, instant)
    demand_ended(tree.run(server, tree.latest))
    check_complete(tree, [dead])
    demand_by_others_kept(tree, server, "made/a1.txt", "src/b.py")


MEANWHILE = ["tool.performed:11", "journal.synced:100"]


@pytest.mark.parametrize("instant", MEANWHILE if TORTURE else MEANWHILE[:1])
def test_changes_by_others_after_a_kill_stay(instant: str, server: CommandServer, tmp_path: Path):
    tree = Tree(tmp_path / "run")
    killed(tree, server, instant)
    demand_by_others_kept(tree, server, "made/root.txt", "src/b.py")


def demand_by_others_kept(tree: Tree, server: CommandServer, *paths: str) -> None:
    by_others = dict.fromkeys([*paths, "mine.txt"], b"by somebody else\n")
    for path, data in by_others.items():
        (tree.work / path).write_bytes(data)
    ended = tree.run(server, tree.to_the_beginning)
    assert (ended.code, ended.left, ended.err) == (0, False, "")
    assert tree.files() == {**AT_FIRST, **by_others}, ended.out


def test_the_list_names_the_parent_of_each_task(server: CommandServer, whole: Whole):
    rows = rows_of(whole.tree, server)
    reported = {name: row["parent"] for name, row in rows.items() if name != ROOT}
    assert reported == {child: rows[parent]["id"] for child, parent in PARENTS.items()}
    assert verify(whole.tree.task) == [], "nothing is wrong with the journal of a parent"


def killed(tree: Tree, server: CommandServer, instant: str) -> Death:
    ended = tree.run(server, tree.first, ROOKERY_KILLPOINT=instant)
    assert ended.code == -signal.SIGKILL, f"{instant} was never reached: {ended.err}"
    return death(tree)


def demand_ended(ended: Ended) -> None:
    """As a run that is done, with nothing left of it."""
    assert (ended.code, ended.left, ended.out) == (0, False, f"{result(ROOT)}\n"), ended.err


def again(tree: Tree) -> list[str]:
    return tree.again if tree.begun else tree.first
