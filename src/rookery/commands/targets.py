"""Resolves the operands of a command on disk: how many files they affect, and how dangerous it
is."""

import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch, fnmatchcase
from functools import cached_property
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery.commands.lookups import (
    FOLDER_COST,
    LookupBudget,
    expand_glob,
    leads_through_proc,
    resolved,
)
from rookery.commands.programs import Operand
from rookery.commands.words import Word, has_braces, spellings
from rookery.engine.ports.actions import Deed, Target
from rookery.engine.ports.workspace import EntryFilter, Files, Place
from rookery.errors import ToolError
from rookery.first_use import lazy_pattern
from rookery.platform.paths import within, within_any

MOST_COUNTED = 5_000
MOST_LOOKED_AT = 200
MOST_OF_GIT = 50_000

_HARMLESS_DEVICE = lazy_pattern(r"/dev/(null|stdin|stdout|stderr|tty|zero|fd/[0-9]+)")
_TOO_MANY_TO_READ = "reads too many files to be checked"
_THROUGH_PROC = "leads through files of a running process"
_WHOLE_FOLDER = frozenset("*?.[]!^-")
_IGNORE_FILES = {".rookeryignore", ".rooignore"}
_ANY = Word("")
_FEW_NAMES = lazy_pattern(r"\*?[\w.-]*\w[\w.-]*\*?")
_DOES = {Deed.DELETE: "deletes", Deed.WRITE: "writes", Deed.READ: "reads"}


class TargetFinding(Struct, frozen=True, kw_only=True):
    """What is known of one operand. `unfit` is why reading it needs approval."""

    targets: tuple[Target, ...] = ()
    dangers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doubt: str = ""
    unfit: str = ""


class Targets:
    def __init__(
        self,
        files: Files,
        workspace: Path,
        *,
        home: Path,
        hiding: Callable[[str], EntryFilter],
        temporary: Sequence[str],
    ) -> None:
        self._files = files
        self._hiding = hiding
        self._root = resolved(workspace)
        self._home = resolved(home)
        self._found: dict[tuple[Operand, str], TargetFinding] = {}
        self._places: dict[str, Place] = {}
        self._budget = LookupBudget()
        self._given_temporary = temporary

    @cached_property
    def _temporary(self) -> tuple[str, ...]:
        return tuple(map(resolved, self._given_temporary))

    def find(
        self, operand: Operand, folders: Sequence[str], follows_links: bool
    ) -> Iterator[TargetFinding]:
        word = operand.word
        if (not word.known and not word.pattern) or not _can_be_file_name(word.text):
            yield _unknown(operand, word.text)
            return
        for folder in folders:
            if not folder and not os.path.isabs(word.text):
                yield _unknown(operand, f"{word.text} in a folder that is known only when it runs")
                continue
            if word.pattern:
                yield from self._matches(operand, folder, follows_links)
            elif path := _operand_path(operand, folder, self._root):
                yield self._find_one(operand, path, follows_links)

    def _matches(
        self, operand: Operand, folder: str, follows_links: bool
    ) -> Iterator[TargetFinding]:
        for pattern in spellings(operand.word.pattern):
            if has_braces(pattern):
                yield _unknown(operand, pattern[:40])
                continue
            if leads_through_proc(os.path.join(folder, pattern)):
                yield _undetermined(operand, pattern, _THROUGH_PROC)
                continue
            last = pattern.rpartition("/")[2]
            where = resolved(os.path.dirname(os.path.join(folder, pattern)))
            if operand.deed is Deed.DELETE and last and set(last) <= _WHOLE_FOLDER and "*" in last:
                yield self._everything_in(operand, where)
            found = expand_glob(os.path.join(folder, pattern), self._budget)
            if found is None:
                yield _too_many(operand)
                continue
            if any(os.path.basename(path).startswith("-") for path in found):
                yield TargetFinding(doubt=f"{pattern} matches a name that looks like an option")
            for path in found:
                yield self._find_one(operand, path, follows_links)

    def _everything_in(self, operand: Operand, where: str) -> TargetFinding:
        if not self._is_root(where):
            return TargetFinding()
        danger = f"{_DOES[operand.deed]} everything in {self._display(where)}"
        return TargetFinding(dangers=(danger,))

    def _find_one(self, operand: Operand, path: str, follows_links: bool) -> TargetFinding:
        if operand.names and os.path.isdir(path):
            inside = [self._check(operand, os.path.join(path, name)) for name in operand.names]
            return _merge(inside or [self._check(operand, path)])
        found = self._check(operand, path)
        if operand.deed is Deed.READ and operand.deep and not found.unfit:
            return _merge([found, self._below(path, follows_links, operand.only)])
        return found

    def _check(self, operand: Operand, path: str) -> TargetFinding:
        """Check each path once, and a limited number of paths per line."""
        operand = _mark_partial(operand)
        asked = (
            replace(operand, word=replace(_ANY, below=operand.word.below), maybe=False, names=()),
            path,
        )
        if asked not in self._found:
            if len(self._found) >= MOST_LOOKED_AT:
                return _too_many(operand)
            self._found[asked] = self._examine(operand, path)
        return self._found[asked]

    def _examine(self, operand: Operand, path: str) -> TargetFinding:
        if _HARMLESS_DEVICE.fullmatch(path):
            return TargetFinding(unfit=f"{path} is a device")
        if path.startswith("/dev/") and operand.deed is not Deed.READ:
            return TargetFinding(dangers=(f"{_DOES[operand.deed]} the device {path}",))
        if leads_through_proc(path):
            return _undetermined(operand, path, _THROUGH_PROC)
        try:
            place = self._place(operand.deed, path)
        except ToolError as error:
            return self._unresolved(operand, path, str(error))
        except OSError as error:
            return _undetermined(operand, path, f"cannot be checked: {error.strerror}")
        real = self._real(operand.deed, path)
        shown = self._display(real)
        reach = self._reach(operand, real)
        deep = operand.deed is Deed.READ and operand.deep and os.path.isdir(real)
        target = Target(operand.deed, place.path, outside=place.outside, reach=reach, deep=deep)
        if operand.deed is Deed.READ:
            return self._read_finding(place, target, shown)
        return TargetFinding(
            targets=(target,),
            dangers=tuple(self._dangers(operand, place, real, shown)),
            notes=(self._note(operand, real, shown, reach),),
        )

    def _place(self, deed: Deed, path: str) -> Place:
        """Where the path leads. Deleting a link deletes the link, not its target."""
        if deed is Deed.DELETE and os.path.islink(path):
            parent = self._files.place(os.path.dirname(path))
            name = os.path.basename(path)
            return Place(os.path.normpath(os.path.join(parent.path, name)), outside=parent.outside)
        if path not in self._places:
            self._places[path] = self._files.place(path)
        return self._places[path]

    def _real(self, deed: Deed, path: str) -> str:
        if deed is Deed.DELETE and os.path.islink(path):
            return os.path.join(resolved(os.path.dirname(path)), os.path.basename(path))
        return resolved(path)

    def _unresolved(self, operand: Operand, path: str, why: str) -> TargetFinding:
        """The finding for a path that the workspace cannot resolve, by its real location."""
        real = self._real(operand.deed, path)
        target = Target(operand.deed, real, outside=not within(real, self._root))
        if operand.deed is Deed.READ or self._temporary_only(real):
            return TargetFinding(targets=(target,), doubt=why, unfit=why)
        place = Place(real, outside=target.outside)
        dangers = tuple(self._dangers(operand, place, real, self._display(real)))
        return TargetFinding(targets=(target,), dangers=dangers, doubt=why)

    def _read_finding(self, place: Place, target: Target, shown: str) -> TargetFinding:
        if place.credential:
            why = f"reads {shown}, where keys and passwords are kept"
            return TargetFinding(targets=(target,), dangers=(why,), unfit=why)
        if place.outside:
            why = f"reads outside the workspace: {shown}"
            return TargetFinding(targets=(target,), notes=(why,), unfit=why)
        if place.ignored:
            why = f"reads {shown}, which is hidden from the agent"
            return TargetFinding(targets=(target,), notes=(why,), unfit=why)
        return TargetFinding(targets=(target,))

    def _below(self, folder: str, follows_links: bool, only: str) -> TargetFinding:
        """Whether searching a folder would read hidden files. If `only` is given, just the files
        whose names match it are read."""
        if not os.path.isdir(folder):
            return TargetFinding()
        hides = self._hides(resolved(folder))
        for count, entry in enumerate(self._entries(folder)):
            if count >= MOST_COUNTED or not self._budget.take():
                return TargetFinding(unfit=_TOO_MANY_TO_READ)
            if entry.name in _IGNORE_FILES or (only and not fnmatchcase(entry.name, only)):
                continue
            leaves = follows_links and not within(resolved(entry.path), self._root)
            if leaves or hides(entry):
                note = f"would read {self._display(entry.path)}, which is hidden from the agent"
                return TargetFinding(notes=(note,), unfit=note)
        return TargetFinding(unfit="" if self._budget.left >= 0 else _TOO_MANY_TO_READ)

    def _entries(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        """The files below a folder, while the budget lasts; links are not followed."""
        waiting = [folder]
        while waiting and self._budget.take(FOLDER_COST):
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        if not entry.is_dir(follow_symlinks=False):
                            yield entry
                        elif entry.name != ".git":
                            waiting.append(entry.path)
            except (OSError, ValueError):
                continue  # the command cannot list it either

    def _hides(self, top: str) -> Callable[["os.DirEntry[str]"], bool]:
        rules = self._hiding(top)

        def hides(entry: "os.DirEntry[str]") -> bool:
            below = os.path.relpath(entry.path, top)
            target = os.readlink(entry.path) if entry.is_symlink() else ""
            return rules.hides(below, is_folder=entry.is_dir(), target=target)

        return hides

    def _dangers(self, operand: Operand, place: Place, real: str, shown: str) -> Iterator[str]:
        does = _DOES[operand.deed]
        deletes_all = operand.deed is Deed.DELETE and not self._spares_git(operand, real)
        if deletes_all and self._is_root(real):
            yield f"{does} {'some' if operand.some else 'all'} of {shown}"
        elif self._rewrites_all(operand, real):
            yield f"{does} everything in {shown}, including its git repository"
        elif operand.rights and self._is_root(real):
            yield f"changes who may use {shown}"
        elif place.outside and not self._temporary_only(real):
            yield f"{does} outside the workspace: {shown}"
        elif place.added and operand.deed is Deed.DELETE:
            yield f"{does} {shown} outside the workspace, where it cannot be undone"
        elif place.protected:
            yield f"{does} {shown}: {place.protected}"
        elif place.credential:
            yield f"{does} {shown}, where keys and passwords are kept"
        elif place.ignored:
            yield f"{does} {shown}, which is hidden from the agent"
        elif any(
            part.lower() == ".git" for part in Path(real).parts[len(Path(self._root).parts) :]
        ):
            yield f"{does} {shown}, where git keeps its history"
        elif deletes_all and os.path.lexists(os.path.join(real, ".git")):
            yield f"{does} {shown}, which holds a git repository"

    def _rewrites_all(self, operand: Operand, real: str) -> bool:
        """Whether the command may write any file below a folder that contains a repository."""
        if operand.deed is not Deed.WRITE or not operand.word.below:
            return False
        holds = self._is_root(real) or os.path.lexists(os.path.join(real, ".git"))
        return holds and not self._spares_git(operand, real)

    def _is_root(self, real: str) -> bool:
        """Whether this is the workspace, the home folder, a temporary folder, or a parent of
        one."""
        return any(within(one, real) for one in (self._root, self._home, *self._temporary))

    def _temporary_only(self, real: str) -> bool:
        inside = any(within(real, one) and real != one for one in self._temporary)
        return inside and not within_any(real, (self._root, self._home))

    def _note(self, operand: Operand, real: str, shown: str, reach: str) -> str:
        if operand.deed is Deed.DELETE:
            some = "some of the " if operand.some and reach else ""
            return f"deletes {some}{reach or shown}"
        exists = os.path.isfile(real)
        return f"{'overwrites' if exists else 'writes'} {shown}"

    def _reach(self, operand: Operand, real: str) -> str:
        if operand.deed is not Deed.DELETE or not operand.deep or not os.path.isdir(real):
            return ""
        if os.path.islink(real):
            return ""
        most = max(0, min(MOST_COUNTED, self._budget.left))
        count = sum(1 for _ in islice(self._entries(real), most + 1))
        self._budget.take(count)
        least = min(count, most)
        number = f"more than {least:,}" if count > most or self._budget.left < 0 else f"{count:,}"
        where = real if len(real) == 1 else f"{self._display(real)}/"
        below = "in the workspace" if real == self._root else f"below {where}"
        return f"{number} file{'' if count == 1 else 's'} {below}"

    def _spares_git(self, operand: Operand, real: str) -> bool:
        """Whether the name pattern matches none of git's own files."""
        if not operand.some or not _FEW_NAMES.fullmatch(operand.only):
            return False
        most = min(MOST_OF_GIT, self._budget.left)
        if most <= 0:
            return False
        below = self._entries(os.path.join(real, ".git"))
        own = [".git", *(entry.name for entry in islice(below, most))]
        self._budget.take(len(own))
        counted = len(own) <= most and self._budget.left >= 0
        return counted and not any(fnmatch(name, operand.only) for name in own)

    def _display(self, real: str) -> str:
        if real == self._root:
            return "the workspace"
        return os.path.relpath(real, self._root) if within(real, self._root) else real


def _mark_partial(operand: Operand) -> Operand:
    """Mark an operand that refers to files below a folder as affecting some of them."""
    if not operand.word.below or operand.some:
        return operand
    return replace(operand, some=True, only=operand.only or operand.word.below)


def _unknown(operand: Operand, target: str) -> TargetFinding:
    if operand.deed is Deed.DELETE and (operand.deep or operand.word.below):
        return TargetFinding(
            dangers=(f"deletes folders that are known only when it runs: {target}",),
            doubt=f"its targets are known only when it runs: {target}",
        )
    return TargetFinding(doubt=f"its targets are known only when it runs: {target}")


def _undetermined(operand: Operand, path: str, why: str) -> TargetFinding:
    """The finding for a path whose target cannot be determined."""
    problem = f"{path[:40]} {why}"
    target = Target(operand.deed, path, outside=True)
    dangers = () if operand.deed is Deed.READ else (f"{_DOES[operand.deed]} what {problem}",)
    return TargetFinding(targets=(target,), dangers=dangers, doubt=problem, unfit=problem)


def _can_be_file_name(text: str) -> bool:
    """Whether the text can be a file name at all."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _too_many(operand: Operand) -> TargetFinding:
    problem = "names too many files to be checked"
    return TargetFinding(
        dangers=() if operand.deed is Deed.READ else (problem,), doubt=problem, unfit=problem
    )


def _operand_path(operand: Operand, folder: str, root: str) -> str:
    """The operand as a path; empty if it only might have been one and is not."""
    text = operand.word.text
    path = os.path.join(folder, text)
    if not operand.maybe or text.startswith(("/", ".", "~")) or os.path.lexists(path):
        return path
    _, colon, inside = text.partition(":")
    return os.path.join(root, inside) if colon and inside else ""


def _merge(findings: Sequence[TargetFinding]) -> TargetFinding:
    def all_of(part: Callable[[TargetFinding], tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for finding in findings for one in part(finding)))

    return TargetFinding(
        targets=tuple(target for finding in findings for target in finding.targets),
        dangers=all_of(lambda finding: finding.dangers),
        notes=all_of(lambda finding: finding.notes),
        doubt=next((finding.doubt for finding in findings if finding.doubt), ""),
        unfit=next((finding.unfit for finding in findings if finding.unfit), ""),
    )
