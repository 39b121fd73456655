"""Rules that users and projects write down: rule folders, AGENTS.md and its like.

They are read again only when something about them has changed, so that a prompt keeps its bytes.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.instructions import NestedRules, Rule, Rules
from rookery.core.limits import KIB
from rookery.prompting.config_files import (
    ConfigFolder,
    ConfigScan,
    FileCache,
    FoundFile,
    projects_folder,
    users_folder,
)
from rookery.workspace.boundaries import Boundaries

TOGETHER = 128 * KIB
"""Bytes of rules that are read at most: so many of the user's own, and as many of a project's."""
MOST_NESTED = 200
"""Folders inside a workspace that are named because they have rules."""
AGENT_FILES = ("AGENTS.md", "AGENT.md")
LOCAL_AGENT_FILE = "AGENTS.local.md"
ROO_FOLDER = ".roo"
PROJECT_FOLDERS = (PROJECT_FOLDER, ROO_FOLDER)
MOST_FOLDERS = 2000
BETWEEN_WALKS = 30.0
"""Seconds for which folders that were found are taken to be all: walking costs time."""

_PASSED_OVER = {"node_modules", "__pycache__"}
_NOT_RULES = (
    *(".DS_Store", "Thumbs.db", ".db", ".cache", ".eslintcache", ".lock", ".log"),
    *(".bak", ".old", ".swo", ".swp", ".temp", ".tmp", ".crdownload", ".part", ".partial"),
    *(".dmp", ".dump", ".stackdump", ".pyc", ".pyo"),
)

Layer: TypeAlias = Sequence[ConfigFolder]
"""Folders of one rank: of files that have the same name, the first folder's is taken."""


class RuleFiles:
    """`config` is the product's folder for the user's settings, `home` the user's home folder.

    With `subfolders`, rules of folders inside the workspace count too; `agent_files` if
    AGENTS.md and its like are read. `now` tells the time in nanoseconds.
    """

    def __init__(
        self,
        config: Path,
        home: Path,
        boundaries: Boundaries,
        *,
        trusted: bool,
        subfolders: bool = True,
        agent_files: bool = True,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._own = (
            users_folder(config, home),
            users_folder(home / ROO_FOLDER, home),
        )
        self._workspace = projects_folder(boundaries) if trusted else None
        self._boundaries = boundaries
        self._subfolders = subfolders
        self._agent_files = agent_files
        self._nested = FileCache(self._find_nested, now, rest=BETWEEN_WALKS)
        self._found: dict[str, tuple[_Found, FileCache[Rules]]] = {}

    def read(self, mode: str) -> Rules:
        """The rules that hold in a mode; the same value for as long as nothing has changed."""
        nested = self._nested.get()
        before = self._found.get(mode)
        if before is None or before[0] != nested:
            before = nested, FileCache(lambda scan: self._read(mode, nested, scan))
            self._found[mode] = before
        return before[1].get()

    def _read(self, mode: str, found: "_Found", scan: ConfigScan) -> Rules:
        """The user's own are read first, and a project's cannot take their room."""
        nested, problems = found
        kinds = (f"-{mode}", "")
        room = _Room()
        own = [tuple(_rules_of(self._own, f"rules{kind}", scan, room)) for kind in kinds]
        room = _Room()
        of_agents = self._of_agents(scan, room)
        of_mode, general = (
            (*users, *self._of_project(nested, kind, scan, room, alone=not users))
            for users, kind in zip(own, kinds, strict=True)
        )
        return Rules(
            for_mode=of_mode,
            of_agents=of_agents,
            general=general,
            nested=self._nested_agent_files(nested),
            problems=(*problems, *scan.problems),
        )

    def _project_layers(self, nested: "Sequence[_Nested]") -> Iterator[Layer]:
        if self._workspace is None:
            return
        for folder in ("", *(each.folder for each in nested if each.has_rules)):
            inner = self._workspace.below(folder) if folder else self._workspace
            yield [inner.below(name) for name in PROJECT_FOLDERS]

    def _of_project(
        self,
        nested: "Sequence[_Nested]",
        kind: str,
        scan: ConfigScan,
        room: "_Room",
        *,
        alone: bool,
    ) -> tuple[Rule, ...]:
        """The rules of all folders `rules` with this ending, or else, if there are no others at
        all, of the old single files."""
        layers = self._project_layers(nested)
        rules = [rule for layer in layers for rule in _rules_of(layer, f"rules{kind}", scan, room)]
        if rules or not alone or self._workspace is None:
            return tuple(rules)
        for name in (f".roorules{kind}", f".clinerules{kind}"):
            file = self._workspace.at(name)
            scan.note(file)
            if os.path.isdir(file):
                continue
            if rule := room.rule(self._workspace, file, scan):
                return (rule,)
        return ()

    def _of_agents(self, scan: ConfigScan, room: "_Room") -> tuple[Rule, ...]:
        workspace = self._workspace
        if workspace is None or not self._agent_files:
            return ()
        first = (room.rule(workspace, workspace.at(name), scan) for name in AGENT_FILES)
        local = room.rule(workspace, workspace.at(LOCAL_AGENT_FILE), scan)
        return tuple(rule for rule in (next(filter(None, first), None), local) if rule)

    def _nested_agent_files(self, nested: "Sequence[_Nested]") -> tuple[NestedRules, ...]:
        if not self._agent_files:
            return ()
        return tuple(
            NestedRules(folder=each.folder, path=f"{each.folder}/{each.agent_file}")
            for each in nested
            if each.agent_file
        )

    def _find_nested(self, scan: ConfigScan) -> "_Found":
        if self._workspace is None or not self._subfolders:
            return (), ()
        top = str(self._boundaries.root)
        hiding = self._boundaries.hiding(top)
        inner = [
            _Nested(
                folder,
                next((name for name in AGENT_FILES if name in names), ""),
                any(name in names for name in PROJECT_FOLDERS),
            )
            for folder, names in _folders(top, scan, hiding.hides)
            if folder
        ]
        found = [each for each in inner if each.agent_file or each.has_rules]
        if len(found) > MOST_NESTED:
            scan.complain(f"Only {MOST_NESTED} of {len(found)} folders with rules are used.")
        nearest = sorted(found[:MOST_NESTED], key=lambda each: each.folder)
        return tuple(nearest), tuple(scan.problems)


class _Nested(Struct, frozen=True):
    """A folder inside the workspace that has rules of its own."""

    folder: str
    agent_file: str
    has_rules: bool


_Found: TypeAlias = tuple[tuple[_Nested, ...], tuple[str, ...]]
"""Such folders, and what was wrong when they were looked for."""


class _Room:
    """How much of the rules of one origin is still to be read."""

    def __init__(self) -> None:
        self._left = TOGETHER

    def rule(self, folder: ConfigFolder, file: str, scan: ConfigScan) -> Rule | None:
        """None if there is nothing in the file."""
        if self._left <= 0:
            scan.note(file)
            if os.path.lexists(file):
                scan.complain(f"{folder.called(file)} is skipped: the rules are too long together.")
            return None
        text = folder.text(file, scan).strip()
        self._left -= len(text.encode())
        return Rule(path=folder.called(file), text=text, origin=folder.origin) if text else None


def _rules_of(layer: Layer, name: str, scan: ConfigScan, room: _Room) -> Iterator[Rule]:
    taken: dict[str, tuple[ConfigFolder, FoundFile]] = {}
    for folder in layer:
        for file in folder.files(name, scan):
            if not file.name.endswith(_NOT_RULES):
                taken.setdefault(file.name, (folder, file))
    for folder, file in sorted(taken.values(), key=lambda each: _in_order(each[1])):
        if rule := room.rule(folder, file.path, scan):
            yield rule


def _in_order(file: FoundFile) -> tuple[str, str]:
    return os.path.basename(file.name).casefold(), file.name


def _folders(
    top: str, scan: ConfigScan, hides: Callable[..., bool]
) -> Iterator[tuple[str, list[str]]]:
    """The folders of a workspace and the names in them, breadth first. No link is followed, and
    nothing is looked into that is hidden, kept from the agent, or not the project's own work."""
    waiting = [""]
    for seen in range(MOST_FOLDERS):
        if seen >= len(waiting):
            return
        folder = waiting[seen]
        path = f"{top}/{folder}" if folder else top
        scan.note(path)
        try:
            with os.scandir(path) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue  # what cannot be looked into has no rules for us
        yield folder, [entry.name for entry in inside]
        for entry in inside:
            below = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith(".") or entry.name in _PASSED_OVER:
                continue
            if entry.is_dir(follow_symlinks=False) and not hides(below, is_folder=True):
                waiting.append(below)
    scan.complain(f"Only {MOST_FOLDERS} folders were searched for rules of their own.")
