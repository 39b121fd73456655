"""Repair git folders after commands, where no sandbox could protect them.

A command that does not run git must not change git's folders: everything it removed is restored.
One that does run git may remove much, so only what breaks the repository is restored. If a person
approved the command, nothing is restored, but a copy is kept and the user gets its path.

`DamageCheck` finds files that git can no longer use, `lost_references` lost branches, tags and
stashes. No git is run. A reference that moved is not lost if a reflog still has its old commit.
"""

import filecmp
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rookery.checkpoints.git_copies import GitCopy, files_in
from rookery.checkpoints.snapshot_selection import DEPENDENCIES
from rookery.core.limits import MIB
from rookery.first_use import lazy_pattern
from rookery.platform.git_folders import common_folder, is_folder, regular_content, separate_folder
from rookery.platform.git_objects import has_all, has_object, listed_objects

_POINTER = lazy_pattern(rb"(?:ref: (\S+)|([0-9a-f]{40}|[0-9a-f]{64}))\s*")
_PACKED = lazy_pattern(rb"([0-9a-f]{40}|[0-9a-f]{64}) (refs/\S+)")
_OTHER_LINE = lazy_pattern(rb"# pack-refs .*|\^[0-9a-f]+|")
_LARGEST_POINTER = 4096
_LARGEST_LIST = 64 * MIB
_SMALLEST_INDEX = 32
_MOST_NAMED = 3
_COMMIT = lazy_pattern(rb"[0-9a-f]{40}|[0-9a-f]{64}")


class DamageCheck(Struct):
    """Compares a git folder with its copy. `since` is when they were equal, in nanoseconds since
    the epoch: files that have not changed since are skipped. `thorough` if the command had no
    reason to change references."""

    git: str
    copy: str
    since: int
    thorough: bool

    def is_damaged(self, file: str) -> bool:
        here, kept = os.path.join(self.git, file), os.path.join(self.copy, file)
        if os.lstat(here).st_ctime_ns < self.since:
            return False
        if file.startswith("objects/"):
            return not file.startswith("objects/info/") and _is_overwritten(here, kept)
        if file == "HEAD" or file.startswith("refs/"):
            return not self._is_resolvable(here)
        if file == "packed-refs":
            return self._has_lost_references(here, kept)
        if file == "index":
            return not _is_index(regular_content(here, _LARGEST_LIST) or b"")
        emptied = file.startswith("logs/") and not os.path.getsize(here)
        return self.thorough and emptied and os.path.getsize(kept) > 0

    def _is_resolvable(self, pointer: str) -> bool:
        found = _POINTER.fullmatch(regular_content(pointer, _LARGEST_POINTER) or b"")
        if found is None:
            return False
        name, known = found.groups()
        if known:
            return has_object(os.path.join(self.git, "objects"), known.decode("ascii"))
        # git may be about to create a branch that has no commit yet
        return not self.thorough or self._is_there(os.fsdecode(name))

    def _is_there(self, reference: str) -> bool:
        path = os.path.join(self.git, reference)
        return os.path.lexists(path) or reference in packed_references(self.git)

    def _has_lost_references(self, here: str, kept: str) -> bool:
        lines = (regular_content(here, _LARGEST_LIST) or b"").split(b"\n")
        if lines == [b""] or not all(map(_is_list_line, lines)):
            return True
        if not self.thorough:
            return False
        return not all(map(self._is_there, _packed(kept)))


def _is_overwritten(here: str, kept: str) -> bool:
    """Whether the object differs from its copy; git never changes an object."""
    return not os.path.samefile(here, kept) and not filecmp.cmp(here, kept, shallow=False)


def packed_references(git: str) -> dict[str, str]:
    return _packed(os.path.join(git, "packed-refs"))


def _packed(file: str) -> dict[str, str]:
    """The commit of each reference in a list of packed ones."""
    lines = (regular_content(file, _LARGEST_LIST) or b"").split(b"\n")
    return {os.fsdecode(one[2]): one[1].decode() for one in map(_PACKED.fullmatch, lines) if one}


def _is_list_line(line: bytes) -> bool:
    return bool(_PACKED.fullmatch(line) or _OTHER_LINE.fullmatch(line))


def _is_index(data: bytes) -> bool:
    """Whether it ends with its own hash, or with the zeros that `index.skipHash` makes git
    write."""
    if data[:4] != b"DIRC" or len(data) < _SMALLEST_INDEX or len(data) >= _LARGEST_LIST:
        return data[:4] == b"DIRC" and len(data) >= _LARGEST_LIST
    for size, kind in ((20, hashlib.sha1), (32, hashlib.sha256)):
        if data[-size:] in (bytes(size), kind(data[:-size]).digest()):
            return True
    return False


def lost_references(git: str, copy: str) -> dict[str, str]:
    """References that are gone, or that moved without a reflog entry, with their old commits."""
    if dict(_stamps(git)) == dict(_stamps(copy)):
        return {}
    before, now = _commits_by_name(copy), _commits_by_name(git)
    return {
        name: commit
        for name, commit in before.items()
        if now.get(name) != commit and not (name in now and _is_logged(git, name, commit))
    }


def _stamps(git: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for file in ("packed-refs", *_loose(git)):
        try:
            status = os.lstat(os.path.join(git, file))
        except OSError:
            continue
        yield file, (status.st_size, status.st_mtime_ns)


def _loose(git: str) -> list[str]:
    files = files_in(os.path.join(git, "refs"))
    return [f"refs/{file}" for file in files if not file.endswith(".lock")]


def _commits_by_name(git: str) -> dict[str, str]:
    """Commits by reference name, without symbolic references."""
    found = packed_references(git)
    for name in _loose(git):
        data = regular_content(os.path.join(git, name), _LARGEST_POINTER) or b""
        if commit := _COMMIT.match(data):
            found[name] = commit[0].decode()
    return found


def _is_logged(git: str, name: str, commit: str) -> bool:
    logs = (os.path.join(git, "logs", of) for of in (name, "HEAD"))
    return any(commit.encode() in (regular_content(log, _LARGEST_LIST) or b"") for log in logs)


_NEEDED = ("HEAD", "packed-refs", "index", "logs/HEAD")
_TRANSIENT = lazy_pattern(
    r"(?:.*/)?(?:\w+_HEAD|\w+_MSG|MERGE_\w+|\w+_EDITMSG|BISECT_\w+|gc\.\w+|AUTO_MERGE)"
    r"|(?:.*/)?(?:sequencer|rebase-merge|rebase-apply)/.*"
)
"""Files that git creates and removes while it works."""


class Loss(Struct, frozen=True):
    """Missing or damaged `files` of a git folder; `gone` if the whole folder is."""

    copy: GitCopy
    files: tuple[str, ...]
    gone: bool


class GitRepair:
    """Repairs a workspace's repositories. `store` has the copies, `aside` those for the user."""

    def __init__(self, root: Path, store: Path, aside: Path) -> None:
        self._root = root
        self._store = store
        self._aside = aside
        self._id = secrets.token_hex(4)
        self._copies: list[GitCopy] = []

    def save(self, repositories: Iterable[str], *, alone: bool = False) -> str:
        """Copy the repositories; return a problem as a sentence. `alone` if git is the only
        program that will run: it never overwrites an object."""
        self._copies = list(self._copies_of(repositories))
        problems = [self._save_copy(copy, alone=alone) for copy in self._copies]
        return next(filter(None, problems), "")

    def _save_copy(self, copy: GitCopy, *, alone: bool) -> str:
        shown = self._display_path(copy.git)
        try:
            copy.save(alone=alone)
        except OSError as error:
            return f"Cannot protect {shown} from this command: {error.strerror}."
        return ""

    def repair(self, *, thorough: bool, approved: bool, alone: bool = False) -> list[str]:
        """Restore what was lost, and return sentences that describe it. `alone` if only git ran."""
        notes = (" ".join(self._repair(copy, thorough, approved, alone)) for copy in self._copies)
        return list(filter(None, notes))

    def _repair(self, copy: GitCopy, thorough: bool, approved: bool, alone: bool) -> Iterator[str]:
        self._follow(copy)
        try:
            loss = _find_loss(copy, thorough=thorough and not approved and not copy.shared)
        except OSError as error:
            yield f"{self._display_path(copy.git)} could not be checked: {error.strerror}."
            return
        if loss:
            yield self._set_aside(copy) if approved else self._restore_files(loss)
        if alone or (approved and loss) or not is_folder(copy.git):
            return
        if lost := lost_references(copy.git, str(copy.folder)):
            yield f"{_describe(lost)} {self._set_aside(copy)}"

    def close(self) -> None:
        for copy in self._copies:
            copy.close()
        self._copies = []

    def _copies_of(self, repositories: Iterable[str]) -> Iterator[GitCopy]:
        """Copies of all git folders of these repositories, also of those outside the workspace."""
        for path in sorted(repositories):
            git = str(self._root / path)
            separate = separate_folder(git)
            if is_folder(git):
                yield GitCopy(git, self._store, self._id)
            elif common := common_folder(os.path.dirname(git)):
                yield GitCopy(common, self._store, self._id, shared=True)
            elif separate.startswith(f"{self._root}/") and "/.git/" not in separate:
                yield GitCopy(separate, self._store, self._id)

    def _restore_files(self, loss: Loss) -> str:
        git, shown = loss.copy.git, self._display_path(loss.copy.git)
        if not os.path.isdir(os.path.dirname(git)):
            return self._set_aside(loss.copy)
        try:
            if loss.gone and (moved := self._find_moved(loss.copy)):
                _make_room(git)
                os.rename(moved, git)
                return f"A command moved {shown} to {self._display_path(moved)}; it was moved back."
            for file in loss.files:
                loss.copy.put(file, self._aside)
            os.makedirs(os.path.join(git, "refs"), exist_ok=True)
        except OSError as error:
            return f"{self._set_aside(loss.copy)} It could not be restored: {error.strerror}."
        return f"A command destroyed parts of {shown}; restored: {_join(loss.files)}."

    def _set_aside(self, copy: GitCopy) -> str:
        shown = self._display_path(copy.git)
        there = self._aside / f"git-history-{secrets.token_hex(4)}"
        try:
            copy.duplicate(there)
        except OSError as error:
            return f"A command removed parts of {shown}; no copy could be made: {error.strerror}."
        return f"A command removed parts of {shown}; a copy from before it is in {there}."

    def _follow(self, copy: GitCopy) -> None:
        """If the folder around the git folder was moved, find the new place of both."""
        if not os.path.lexists(os.path.dirname(copy.git)):
            copy.git = self._find_moved(copy) or copy.git

    def _find_moved(self, copy: GitCopy) -> str:
        """The new path of the folder, if it is still in the workspace; found by its inode
        number. A folder that has only reused the number has no HEAD."""
        waiting = [str(self._root)]
        while waiting:
            for entry in _folders(waiting.pop()):
                head = os.path.join(entry.path, "HEAD")
                if entry.inode() == copy.inode and os.path.lexists(head):
                    return entry.path
                if entry.name not in DEPENDENCIES:
                    waiting.append(entry.path)
        return ""

    def _display_path(self, path: str) -> str:
        return os.path.relpath(path, self._root) if path.startswith(f"{self._root}/") else path


def _find_loss(copy: GitCopy, *, thorough: bool) -> Loss | None:
    saved = copy.files()
    if saved and not is_folder(copy.git):
        return Loss(copy, tuple(saved), gone=True)
    there = frozenset(files_in(copy.git))
    missing = [file for file in saved if file not in there]
    lost = [file for file in missing if _is_lost(copy, file, thorough=thorough)]
    check = DamageCheck(copy.git, str(copy.folder), since=copy.saved_at, thorough=thorough)
    damaged = [file for file in saved if file in there and check.is_damaged(file)]
    return Loss(copy, (*lost, *damaged), gone=False) if lost or damaged else None


def _is_lost(copy: GitCopy, file: str, *, thorough: bool) -> bool:
    if "objects" in file.split("/"):
        return not _is_elsewhere(copy, file)
    if file in packed_references(copy.git):
        return False
    return file in _NEEDED or (thorough and not _TRANSIENT.fullmatch(file))


def _is_elsewhere(copy: GitCopy, file: str) -> bool:
    """Whether the objects are in another file now: git packs them from time to time."""
    outer, _, inner = f"/{file}".rpartition("/objects/")
    store = os.path.join(copy.git, outer.lstrip("/"), "objects")
    folder, _, name = inner.partition("/")
    if len(folder) == 2 and name:
        return has_object(store, folder + name)
    if folder == "pack" and name.endswith((".pack", ".idx")):
        index = os.path.splitext(copy.folder / file)[0] + ".idx"
        known = listed_objects(index)
        return bool(known) and has_all(store, known)
    return folder in ("pack", "info")  # git can recreate these


def _folders(place: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(place) as scan:
            return [entry for entry in scan if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _make_room(path: str) -> None:
    if os.path.lexists(path):
        os.rename(path, f"{path}.set-aside-{secrets.token_hex(4)}")


def _describe(lost: Mapping[str, str]) -> str:
    names = [f"{name} ({commit[:12]})" for name, commit in sorted(lost.items())]
    return f"A reference was removed or moved while a command ran: {_join(names)}."


def _join(files: Sequence[str]) -> str:
    more = len(files) - _MOST_NAMED
    return ", ".join([*files[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
