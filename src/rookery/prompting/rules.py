"""Rule files of users and projects: rule folders, AGENTS.md and similar files.

They are read again only when one of them has changed, so that the prompt stays byte for byte the
same and the provider's cache stays valid.
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
    by_name,
    projects_folder,
    users_folder,
)
from rookery.workspace.boundaries import Boundaries

MOST_BYTES = 128 * KIB
"""Bytes of rules that are read: this many of the user's, and as many of the project's."""
MOST_NESTED = 200
"""Folders with their own rules that are named in the prompt."""
AGENT_FILES = ("AGENTS.md", "AGENT.md")
LOCAL_AGENT_FILE = "AGENTS.local.md"
ROO_FOLDER = ".roo"
PROJECT_FOLDERS = (PROJECT_FOLDER, ROO_FOLDER)
MOST_FOLDERS = 2000
SEARCH_INTERVAL = 30.0
"""Seconds before the workspace is searched for rule folders again, because a search is slow."""

_SKIPPED_FOLDERS = {"node_modules", "__pycache__"}
_SKIPPED_ENDINGS = (
    *(".DS_Store", "Thumbs.db", ".db", ".cache", ".eslintcache", ".lock", ".log"),
    *(".bak", ".old", ".swo", ".swp", ".temp", ".tmp", ".crdownload", ".part", ".partial"),
    *(".dmp", ".dump", ".stackdump", ".pyc", ".pyo"),
)

Layer: TypeAlias = Sequence[ConfigFolder]
"""Folders of equal rank. If a file is in several, the first folder's is used."""


class RuleFiles:
    """Reads the rules for each mode. `config` is the folder of the user's settings.

    `subfolders` includes the rules of folders inside the workspace, `agent_files` includes
    AGENTS.md and similar files. `now` returns the time in nanoseconds.
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
        self._nested = FileCache(self._find_nested, now, rest=SEARCH_INTERVAL)
        self._found: dict[str, tuple[_Found, FileCache[Rules]]] = {}

    def read(self, mode: str) -> Rules:
        """Return the rules for a mode; the same object while nothing has changed."""
        nested = self._nested.get()
        before = self._found.get(mode)
        if before is None or before[0] != nested:
            before = nested, FileCache(lambda scan: self._read(mode, nested, scan))
            self._found[mode] = before
        return before[1].get()

    def _read(self, mode: str, found: "_Found", scan: ConfigScan) -> Rules:
        """Read the rules. The project's count against a limit of their own, not the user's."""
        nested, problems = found
        kinds = (f"-{mode}", "")
        budget = _Budget()
        own = [tuple(_rules_of(self._own, f"rules{kind}", scan, budget)) for kind in kinds]
        budget = _Budget()
        of_agents = self._agent_rules(scan, budget)
        of_mode, general = (
            (*users, *self._project_rules(nested, kind, scan, budget, alone=not users))
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

    def _project_rules(
        self,
        nested: "Sequence[_Nested]",
        kind: str,
        scan: ConfigScan,
        budget: "_Budget",
        *,
        alone: bool,
    ) -> tuple[Rule, ...]:
        """Read the project's `rules<kind>` folders. If neither they nor the user have any rules,
        read the legacy single files instead."""
        layers = self._project_layers(nested)
        rules = [
            rule for layer in layers for rule in _rules_of(layer, f"rules{kind}", scan, budget)
        ]
        if rules or not alone or self._workspace is None:
            return tuple(rules)
        for name in (f".roorules{kind}", f".clinerules{kind}"):
            file = self._workspace.at(name)
            scan.note(file)
            if os.path.isdir(file):
                continue
            if rule := budget.rule(self._workspace, file, scan):
                return (rule,)
        return ()

    def _agent_rules(self, scan: ConfigScan, budget: "_Budget") -> tuple[Rule, ...]:
        workspace = self._workspace
        if workspace is None or not self._agent_files:
            return ()
        first = (budget.rule(workspace, workspace.at(name), scan) for name in AGENT_FILES)
        local = budget.rule(workspace, workspace.at(LOCAL_AGENT_FILE), scan)
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
            scan.report(f"Only {MOST_NESTED} of {len(found)} folders with rules are used.")
        nearest = sorted(found[:MOST_NESTED], key=lambda each: each.folder)
        return tuple(nearest), tuple(scan.problems)


class _Nested(Struct, frozen=True):
    """A folder inside the workspace that has its own rules."""

    folder: str
    agent_file: str
    has_rules: bool


_Found: TypeAlias = tuple[tuple[_Nested, ...], tuple[str, ...]]
"""Nested folders with rules, and problems found while searching for them."""


class _Budget:
    """How many more bytes of rules are read from one origin."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def rule(self, folder: ConfigFolder, file: str, scan: ConfigScan) -> Rule | None:
        """Read a rule file; None if it is empty."""
        if self._left <= 0:
            scan.note(file)
            if os.path.lexists(file):
                scan.report(f"{folder.label(file)} is skipped: the rules are too long together.")
            return None
        text = folder.text(file, scan).strip()
        self._left -= len(text.encode())
        return Rule(path=folder.label(file), text=text, origin=folder.origin) if text else None


def _rules_of(layer: Layer, name: str, scan: ConfigScan, budget: _Budget) -> Iterator[Rule]:
    chosen: dict[str, tuple[ConfigFolder, FoundFile]] = {}
    for folder in layer:
        for file in folder.files(name, scan):
            if not file.name.endswith(_SKIPPED_ENDINGS):
                chosen.setdefault(file.name, (folder, file))
    for folder, file in sorted(chosen.values(), key=lambda each: by_name(each[1])):
        if rule := budget.rule(folder, file.path, scan):
            yield rule


def _folders(
    top: str, scan: ConfigScan, hides: Callable[..., bool]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the workspace's folders with the names in them, breadth first. Symlinks, dot
    folders, ignored folders and dependency folders are skipped."""
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
            continue  # unreadable folders have no rules
        yield folder, [entry.name for entry in inside]
        for entry in inside:
            below = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith(".") or entry.name in _SKIPPED_FOLDERS:
                continue
            if entry.is_dir(follow_symlinks=False) and not hides(below, is_folder=True):
                waiting.append(below)
    scan.report(f"Only {MOST_FOLDERS} folders were searched for rules of their own.")
