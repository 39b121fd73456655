"""Rule files of users and projects: rule folders, AGENTS.md, and those of other agents.

They are read again only when one of them has changed, so that the prompt stays byte for byte the
same and the provider's cache stays valid. For the same reason rules of a folder, or for files that
match a pattern, are not in the prompt: they are sent when the agent has seen such a file.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.instructions import Rule, Rules, quoted
from rookery.core.limits import KIB
from rookery.prompting.config_files import (
    ConfigFolder,
    ConfigPlaces,
    ConfigScan,
    FileCache,
    FoundFile,
    by_name,
)

if TYPE_CHECKING:
    from rookery.prompting.other_agents import ScopedRule

MOST_BYTES = 128 * KIB
"""Bytes of rules that are read: this many of the user's, and as many of the project's."""
MOST_NESTED = 200
"""Folders with their own rule folders that are read."""
MOST_FOLDERS_SEEN = 1000
"""Folders of files that the agent has seen in which rules are looked for."""
AGENT_FILES = ("AGENTS.md", "AGENT.md")
LOCAL_AGENT_FILE = "AGENTS.local.md"
USER_FILES = (
    ".claude/CLAUDE.md",
    ".codex/AGENTS.md",
    ".gemini/GEMINI.md",
    ".config/opencode/AGENTS.md",
)
"""Of other agents, relative to the home folder."""
PROJECT_FILES = (
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".cursorrules",
    ".windsurfrules",
)
SUBFOLDER_FILES = ("CLAUDE.md", "GEMINI.md")
SCOPED_FOLDERS = {
    ".cursor/rules": ".mdc",
    ".github/instructions": ".instructions.md",
    ".claude/rules": ".md",
}
"""Folders of rules with front matter, and how the names of these rules end."""
_IMPORTERS = ("CLAUDE.md", "CLAUDE.local.md", "GEMINI.md")
"""Files that may import others."""
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
    """Reads the rules for each mode.

    `subfolders` includes the rule folders of folders inside the workspace, `agent_files` includes
    AGENTS.md and similar files. `now` returns the time in nanoseconds.
    """

    def __init__(
        self,
        places: ConfigPlaces,
        *,
        subfolders: bool = True,
        agent_files: bool = True,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._own = (places.config, places.users(ROO_FOLDER))
        self._home = places.home
        self._workspace = places.project
        self._subfolders = subfolders
        self._agent_files = agent_files
        self._other_agents = places.other_agents and agent_files
        self._scoped = FileCache(self._find_scoped)
        self._nested = FileCache(self._find_nested, now, rest=SEARCH_INTERVAL)
        self._found: dict[str, tuple[_Inputs, FileCache[Rules]]] = {}
        self._late = ConfigScan()

    def read(self, mode: str) -> Rules:
        """Return the rules for a mode; the same object while nothing has changed."""
        inputs = self._nested.get(), self._scoped.get()
        before = self._found.get(mode)
        if before is None or before[0] != inputs:
            before = inputs, FileCache(lambda scan: self._read(mode, inputs, scan))
            self._found[mode] = before
        return before[1].get()

    def problems_of_files(self) -> Sequence[str]:
        """Problems with the rules that `for_files` read."""
        return self._late.problems

    def may_have_rules_for(self, seen: Collection[str]) -> bool:
        """Whether `for_files` has to look: there are files in folders, or rules with patterns."""
        if not seen or self._workspace is None or not self._agent_files:
            return False
        scoped = map(self._workspace.at, SCOPED_FOLDERS if self._other_agents else ())
        return any(map(os.path.dirname, seen)) or any(map(os.path.isdir, scoped))

    def for_files(self, seen: Iterable[str]) -> dict[str, str]:
        """Return the rules for files that the agent has seen, by title: those of their folders
        and those whose patterns they match. Paths are relative to the workspace."""
        workspace = self._workspace
        if workspace is None or not self._agent_files:
            return {}
        paths = [path for path in seen if not os.path.isabs(path)]
        budget = _Budget()
        found = list(self._folder_rules(workspace, paths, budget))
        if scoped := self._scoped.get()[0]:
            from rookery.prompting.other_agents import matching_rules

            matching = matching_rules(scoped, paths, self._late)
            found += (each for each in matching if budget.takes(each, self._late))
        return {f"Rules in {each.path}": quoted("rules", each.text) for each in found}

    def _folder_rules(
        self, workspace: ConfigFolder, paths: Iterable[str], budget: "_Budget"
    ) -> Iterator[Rule]:
        inner = {PurePosixPath(folder) for folder in map(os.path.dirname, paths) if folder}
        parents = {str(each) for folder in inner for each in (folder, *folder.parents)}
        others = SUBFOLDER_FILES if self._other_agents else ()
        for folder in sorted(parents - {"."})[:MOST_FOLDERS_SEEN]:
            collected = _Collected(self._home, self._late, budget)
            for names in (AGENT_FILES, *((name,) for name in others)):
                files = (workspace.at(f"{folder}/{name}") for name in names)
                if file := next(filter(os.path.lexists, files), None):
                    collected.add(workspace, file, imports=bool(others))
            yield from collected.rules

    def _find_scoped(self, scan: ConfigScan) -> "_Scoped":
        if self._workspace is None or not self._other_agents:
            return (), ()
        folders = [self._workspace.at(name) for name in SCOPED_FOLDERS]
        for folder in folders:
            scan.note(folder)
        if not any(map(os.path.isdir, folders)):
            return (), ()
        from rookery.prompting.other_agents import scoped_rules

        found = tuple(scoped_rules(self._workspace, SCOPED_FOLDERS, scan))
        return found, tuple(scan.problems)

    def _read(self, mode: str, inputs: "_Inputs", scan: ConfigScan) -> Rules:
        """Read the rules. The project's count against a limit of their own, not the user's."""
        (nested, problems), (scoped, more_problems) = inputs
        kinds = (f"-{mode}", "")
        budget = _Budget()
        own = [tuple(_rules_of(self._own, f"rules{kind}", scan, budget)) for kind in kinds]
        collected = _Collected(self._home, scan, budget)
        if self._other_agents:
            for name in USER_FILES:
                collected.add(self._home, self._home.at(name), imports=True)
        collected.budget = budget = _Budget()
        self._collect_agent_rules(collected, scoped)
        of_mode, general = (
            (*users, *self._project_rules(nested, kind, scan, budget, alone=not users))
            for users, kind in zip(own, kinds, strict=True)
        )
        return Rules(
            for_mode=of_mode,
            of_agents=tuple(collected.rules),
            general=general,
            offered=tuple(each.offered for each in scoped if each.offered),
            for_files=tuple(each.rule for each in scoped if each.globs and not each.always),
            skipped=(*collected.skipped, *(each.skipped for each in scoped if each.skipped)),
            problems=(*problems, *more_problems, *scan.problems),
        )

    def _collect_agent_rules(self, collected: "_Collected", scoped: "Sequence[ScopedRule]") -> None:
        """Add AGENTS.md and its like, first ours, then those of other agents."""
        workspace = self._workspace
        if workspace is None or not self._agent_files:
            return
        for name in AGENT_FILES:
            if collected.add(workspace, workspace.at(name)):
                break
        collected.add(workspace, workspace.at(LOCAL_AGENT_FILE))
        if self._other_agents:
            for name in PROJECT_FILES:
                collected.add(workspace, workspace.at(name), imports=True)
            for each in scoped:
                if each.always:
                    collected.add_text(each.rule, charged=False)

    def _project_layers(self, nested: Sequence[str]) -> Iterator[Layer]:
        if self._workspace is None:
            return
        for folder in ("", *nested):
            inner = self._workspace.below(folder) if folder else self._workspace
            yield [inner.below(name) for name in PROJECT_FOLDERS]

    def _project_rules(
        self,
        nested: Sequence[str],
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

    def _find_nested(self, scan: ConfigScan) -> "_Found":
        boundaries = self._workspace.boundaries if self._workspace else None
        if boundaries is None or not self._subfolders:
            return (), ()
        top = str(boundaries.root)
        found = [
            folder
            for folder, names in _folders(top, scan, boundaries.hiding(top).hides)
            if folder and any(name in names for name in PROJECT_FOLDERS)
        ]
        if len(found) > MOST_NESTED:
            scan.report(f"Only {MOST_NESTED} of {len(found)} folders with rules are used.")
        return tuple(sorted(found[:MOST_NESTED])), tuple(scan.problems)


_Found: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Folders inside the workspace with rule folders, and problems found while searching for them."""
_Scoped: TypeAlias = "tuple[tuple[ScopedRule, ...], tuple[str, ...]]"
_Inputs: TypeAlias = tuple[_Found, _Scoped]


class _Budget:
    """How many more bytes of rules are read from one origin."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def rule(self, folder: ConfigFolder, file: str, scan: ConfigScan) -> Rule | None:
        """Read a rule file; None if it is empty or there is no room for it."""
        if self._left <= 0:
            scan.note(file)
            if os.path.lexists(file):
                scan.report(f"{folder.label(file)} is skipped: the rules are too long in total.")
            return None
        text = folder.text(file, scan).strip()
        self._left -= len(text.encode())
        return Rule(path=folder.label(file), text=text, origin=folder.origin) if text else None

    def takes(self, rule: Rule, scan: ConfigScan) -> bool:
        """Whether there is room for a rule that was read elsewhere."""
        if self._left <= 0:
            scan.report(f"{rule.path} is skipped: the rules are too long in total.")
            return False
        self._left -= len(rule.text.encode())
        return True


class _Collected(Struct):
    """Rules files in their order, each text once, with the files they import behind them."""

    home: ConfigFolder
    scan: ConfigScan
    budget: _Budget
    rules: list[Rule] = []
    skipped: list[tuple[str, str]] = []
    """Paths, each with the reason."""
    _texts: dict[str, str] = {}
    _files: set[str] = set()

    def add(
        self, folder: ConfigFolder, file: str, *, imports: bool = False, depth: int = 0
    ) -> bool:
        """Add a file, and those it imports. Returns whether it has text."""
        real = os.path.realpath(file)
        if real in self._files:
            self._skip(folder.label(file), folder.label(real))
            return True
        rule = self.budget.rule(folder, file, self.scan)
        if rule is None:
            return False
        self._files.add(real)
        self.add_text(rule)
        if imports and (depth or os.path.basename(file) in _IMPORTERS):
            self._add_imports(rule, folder, file, depth)
        return True

    def add_text(self, rule: Rule, *, charged: bool = True) -> None:
        if same := self._texts.get(rule.text):
            self._skip(rule.path, same)
            return
        if not (charged or self.budget.takes(rule, self.scan)):
            return
        self._texts[rule.text] = rule.path
        self.rules.append(rule)

    def _add_imports(self, rule: Rule, folder: ConfigFolder, file: str, depth: int) -> None:
        from rookery.prompting.other_agents import DEEPEST_IMPORT, imports_of

        if depth == DEEPEST_IMPORT:
            return
        for place, path in imports_of(rule.text, folder, file, self.home, self.scan):
            if os.path.realpath(path) not in self._files:
                self.add(place, path, imports=True, depth=depth + 1)

    def _skip(self, path: str, same: str) -> None:
        self.skipped.append((path, f"it has the same text as {same}"))


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
    scan.report(f"Only {MOST_FOLDERS} folders were searched for rules.")
