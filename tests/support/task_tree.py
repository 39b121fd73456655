"""A tree of tasks with work for each, run by the real command in its own folder."""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from rookery.core.blocks import ToolResult
from rookery.core.facts import (
    Answered,
    Ending,
    Event,
    FilesChanged,
    TaskClosed,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.history import history
from rookery.storage.journal import read_events
from rookery.storage.journal_lines import JOURNAL, never_started
from rookery.storage.verify import verify
from support.twelve_turns import BEFORE, SESSION, Playground

ROOT = "root"
FIVE: dict[str, tuple[str, ...]] = {
    ROOT: ("a", "b"),
    "a": ("a1", "a2"),
    "b": (),
    "a1": (),
    "a2": (),
}
NINE = {
    **FIVE,
    ROOT: ("a", "b", "c"),
    "b": ("b1", "b2"),
    "c": ("c1",),
    "b1": (),
    "b2": (),
    "c1": (),
}
CHILDREN = NINE if os.environ.get("ROOKERY_TORTURE") else FIVE
"""Both have three levels, siblings, and tasks with and without children."""
NAMES = tuple(CHILDREN)
PARENTS = {child: parent for parent, children in CHILDREN.items() for child in children}
COST = {name: 0.01 * (number + 1) for number, name in enumerate(NAMES)}
"""The cost of each answer, by task."""
COUNTER = "counter.txt"
"""The command of each task appends a line to it."""
UNDONE, DONE = b"DONE = False\n", b"DONE = True\n"
AT_FIRST = {**BEFORE, **{f"src/{name}.py": UNDONE for name in NAMES}}
WHOLE = {
    **BEFORE,
    **{f"src/{name}.py": DONE for name in NAMES},
    **{f"made/{name}.txt": f"made by {name}\n".encode() for name in NAMES},
}
"""The files after an uninterrupted run, without the counter."""


def opening(name: str) -> str:
    return f"You are node {name}."


def result(name: str) -> str:
    return f"{name} is done."


def calls_of(name: str) -> list[tuple[str, dict[str, str]]]:
    """The calls of a task, one per answer, with its children in between."""
    edit = {"file_path": f"src/{name}.py", "old_string": "False", "new_string": "True"}
    own = [
        ("write_to_file", {"path": f"made/{name}.txt", "content": f"made by {name}\n"}),
        ("execute_command", {"command": f"echo {name} in $PWD >> {COUNTER}"}),
        ("edit", edit),
    ]
    handed = [("new_task", {"mode": "code", "message": opening(c)}) for c in CHILDREN[name]]
    pairs = zip_longest(own, handed)
    work = [call for pair in pairs for call in pair if call]
    return [*work, ("attempt_completion", {"result": result(name)})]


def script() -> str:
    def answer(name: str, tool: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        usage = {"tokens_in": 100, "tokens_out": 10, "cost": COST[name]}
        return {"calls": [{"tool": tool, "arguments": dict(arguments)}], "usage": usage}

    parts = {opening(n): [answer(n, *call) for call in calls_of(n)] for n in NAMES}
    return yaml.safe_dump(parts, sort_keys=False)


class Tree(Playground):
    """The workspace, the home and the sessions of one tree."""

    def __init__(self, folder: Path) -> None:
        path = folder / "script.yaml"
        super().__init__(folder, script=path)
        path.write_text(script())
        (self.work / "src").mkdir(exist_ok=True)
        for name in NAMES:
            (self.work / "src" / f"{name}.py").write_bytes(UNDONE)

    @property
    def first(self) -> list[str]:
        return [*self._always, "-y", "--create-with-session-id", SESSION, opening(ROOT)]

    @property
    def again(self) -> list[str]:
        return [*self._always, "-y", "--session-id", SESSION]

    @property
    def first_asking(self) -> list[str]:
        """Arguments that start the session interactively."""
        return [*self._always[1:], "--create-with-session-id", SESSION, opening(ROOT)]

    @property
    def again_asking(self) -> list[str]:
        return [*self._always[1:], "--session-id", SESSION]

    @property
    def latest(self) -> list[str]:
        return [*self._always, "-y", "--continue"]

    @property
    def listing(self) -> list[str]:
        return ["list", "--workspace", str(self.work), "--format", "json"]

    def nodes(self) -> dict[str, "Node"]:
        """The tasks that have started, by name."""
        tasks = self.home / "data" / "tasks"
        found: dict[str, Node] = {}
        for folder in tasks.iterdir() if tasks.is_dir() else ():
            if never_started(folder / JOURNAL):
                continue
            assert verify(folder) == []
            node = Node(folder.name, list(read_events(folder)))
            assert node.name not in found, f"{node.name} was begun twice"
            found[node.name] = node
        return found


class Node(Struct, frozen=True, dict=True):
    """One task of the tree, read from its journal."""

    id: str
    events: list[Event]

    @cached_property
    def opened(self) -> TaskOpened:
        fact = self.events[0].fact
        assert isinstance(fact, TaskOpened)
        return fact

    @cached_property
    def name(self) -> str:
        return next(name for name in NAMES if opening(name) == self.opened.text)

    def started(self, call_id: str) -> list[ToolStarted]:
        return [
            event.fact
            for event in self.events
            if isinstance(event.fact, ToolStarted) and event.fact.call_id == call_id
        ]

    def finished(self, call_id: str) -> list[ToolFinished]:
        return [
            event.fact
            for event in self.events
            if isinstance(event.fact, ToolFinished) and event.fact.call_id == call_id
        ]

    def answered(self, ask_id: str) -> bool:
        facts = (event.fact for event in self.events)
        return any(isinstance(fact, Answered) and fact.ask_id == ask_id for fact in facts)

    @property
    def lost(self) -> list[str]:
        """Calls with side effects that started and have not finished."""
        begun = [e.fact for e in self.events if isinstance(e.fact, ToolStarted)]
        return [
            call.call_id
            for call in begun
            if (call.changes or call.command) and not self.finished(call.call_id)
        ]

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The checkpoints before and after each change of files."""
        facts = (event.fact for event in self.events)
        return [(fact.before, fact.after) for fact in facts if isinstance(fact, FilesChanged)]


class Death(Struct, frozen=True):
    """The state after a killed run."""

    nodes: Mapping[str, Node]
    files: Mapping[str, bytes]


def death(tree: Tree) -> Death:
    return Death(tree.nodes(), tree.files())


def check_complete(tree: Tree, deaths: Sequence[Death] = ()) -> None:
    """Check that every task did its work once, and every result was delivered once. An
    interrupted call must not be repeated; its task must get a note, and continue."""
    nodes, files = tree.nodes(), tree.files()
    assert nodes.keys() == CHILDREN.keys()
    for dead in deaths:
        for name, node in dead.nodes.items():
            assert nodes[name].events[: len(node.events)] == node.events
    lost = {
        (name, call): dead
        for dead in reversed(deaths)
        for name, node in dead.nodes.items()
        for call in node.lost
    }
    marks = files.get(COUNTER, b"").decode().splitlines()
    assert set(marks) <= {f"{name} in {tree.work}" for name in NAMES}
    for name, node in nodes.items():
        _demand_own_place(tree, node, nodes)
        for number, (tool, arguments) in enumerate(calls_of(name), 1):
            call = f"call_{number}_1"
            (end,) = node.finished(call)
            reported = [block.text for block in _results(node, call)]
            assert reported == [end.text], f"{name} got the result of {call} {len(reported)} times"
            dead = lost.pop((name, call), None)
            match tool:
                case "new_task":
                    _demand_delivered(node, call, nodes)
                case "execute_command":
                    _demand_run(name, end, marks, dead)
                case "write_to_file" | "edit":
                    path = arguments.get("path") or arguments["file_path"]
                    _demand_changed(path, end, files, dead)
                case _:
                    assert end.ending is Ending.DONE
            assert tool == "attempt_completion" or len(node.started(call)) == 1
    assert not lost
    assert files.keys() - {COUNTER} <= WHOLE.keys()


def _demand_own_place(tree: Tree, node: Node, nodes: Mapping[str, Node]) -> None:
    parent = PARENTS.get(node.name)
    assert node.opened.workspace == str(tree.work)
    assert node.opened.parent == (nodes[parent].id if parent else None)
    assert isinstance(node.events[-1].fact, TaskClosed)
    reopened = [e.fact for e in node.events if isinstance(e.fact, TaskReopened)]
    assert all(fact.resumed is (parent is not None) for fact in reopened)
    assert len(node.steps) == len(set(node.steps))
    if parent:
        assert set(node.steps) <= set(nodes[parent].steps)


def _results(node: Node, call: str) -> list[ToolResult]:
    blocks = (block for turn in history(node.events) for block in turn.blocks)
    return [b for b in blocks if isinstance(b, ToolResult) and b.call_id == call]


def _demand_delivered(node: Node, call: str, nodes: Mapping[str, Node]) -> None:
    (begun,), (end,) = node.started(call), node.finished(call)
    child = next(each for each in nodes.values() if each.id == begun.child)
    assert child.name == json.loads(begun.text)["content"].split()[-1].rstrip(".")
    assert end.ending is Ending.DONE
    assert end.text == f"The sub-task is done. Its result:\n{result(child.name)}"


def _demand_run(name: str, end: ToolFinished, marks: Sequence[str], dead: Death | None) -> None:
    times = sum(mark.startswith(f"{name} ") for mark in marks)
    if dead is None:
        assert (end.ending, times) == (Ending.DONE, 1)
        return
    before = dead.files.get(COUNTER, b"").decode().splitlines()
    assert times == sum(mark.startswith(f"{name} ") for mark in before) <= 1
    assert end.ending is Ending.UNKNOWN
    assert "It may have run wholly, in part, or not at all." in end.text


def _demand_changed(
    path: str, end: ToolFinished, files: Mapping[str, bytes], dead: Death | None
) -> None:
    if dead is None:
        assert (end.ending, files[path]) == (Ending.DONE, WHOLE[path])
        return
    assert files.get(path) == dead.files.get(path)
    done = files.get(path) == WHOLE[path]
    assert done or files.get(path) == AT_FIRST.get(path)
    assert end.ending is (Ending.DONE if done else Ending.FAILED)
    assert f"{path}: the change {'was done' if done else 'was not done'}." in end.text
