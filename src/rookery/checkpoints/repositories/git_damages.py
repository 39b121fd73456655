"""What a git folder has lost since a copy of it was made.

`Damages` finds files that are still there but hold nothing that git could use, `lost_references`
finds branches, tags and stashes. No git is run. A reference that moved is not lost if a reflog
still names where it was.
"""

import filecmp
import hashlib
import os
import re
from collections.abc import Iterator

from rookery.checkpoints.repositories.git_copies import files_in
from rookery.core.limits import MIB
from rookery.platform.git.git_folders import regular_content
from rookery.platform.git.git_objects import has_object

_POINTS_SOMEWHERE = re.compile(rb"(?:ref: (\S+)|([0-9a-f]{40}|[0-9a-f]{64}))\s*")
_PACKED = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64}) (refs/\S+)")
_BESIDE = re.compile(rb"# pack-refs .*|\^[0-9a-f]+|")
_LARGEST_POINTER = 4096
_LARGEST_LIST = 64 * MIB
_SMALLEST_INDEX = 32

_PACKED_COMMITS = re.compile(rb"^([0-9a-f]{40}|[0-9a-f]{64}) (refs/\S+)$", re.M)
_COMMIT = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")


class Damages:
    """Compares a git folder with its copy. `since` is when they were equal, in nanoseconds since
    the epoch: what has not changed since is not looked at. `thorough` if what ran since had no
    reason to change references."""

    def __init__(self, git: str, copy: str, *, since: int, thorough: bool) -> None:
        self._git = git
        self._copy = copy
        self._since = since
        self._thorough = thorough

    def found_in(self, file: str) -> bool:
        here, kept = os.path.join(self._git, file), os.path.join(self._copy, file)
        if os.lstat(here).st_ctime_ns < self._since:
            return False
        if file.startswith("objects/"):
            return not file.startswith("objects/info/") and _is_overwritten(here, kept)
        if file == "HEAD" or file.startswith("refs/"):
            return not self._leads_somewhere(here)
        if file == "packed-refs":
            return self._has_lost_references(here, kept)
        if file == "index":
            return not _is_index(regular_content(here, _LARGEST_LIST) or b"")
        emptied = file.startswith("logs/") and not os.path.getsize(here)
        return self._thorough and emptied and os.path.getsize(kept) > 0

    def _leads_somewhere(self, pointer: str) -> bool:
        found = _POINTS_SOMEWHERE.fullmatch(regular_content(pointer, _LARGEST_POINTER) or b"")
        if found is None:
            return False
        name, known = found.groups()
        if known:
            return has_object(os.path.join(self._git, "objects"), known.decode("ascii"))
        # git itself can prepare a branch that has no commit yet
        return not self._thorough or self._is_there(os.fsdecode(name))

    def _is_there(self, reference: str) -> bool:
        path = os.path.join(self._git, reference)
        return os.path.lexists(path) or reference in packed_references(self._git)

    def _has_lost_references(self, here: str, kept: str) -> bool:
        lines = (regular_content(here, _LARGEST_LIST) or b"").split(b"\n")
        if lines == [b""] or not all(map(_is_list_line, lines)):
            return True
        if not self._thorough:
            return False
        before = _references(regular_content(kept, _LARGEST_LIST) or b"")
        return not all(map(self._is_there, before))


def _is_overwritten(here: str, kept: str) -> bool:
    """Git never changes an object."""
    return not os.path.samefile(here, kept) and not filecmp.cmp(here, kept, shallow=False)


def packed_references(git: str) -> frozenset[str]:
    return _references(regular_content(os.path.join(git, "packed-refs"), _LARGEST_LIST) or b"")


def _references(packed: bytes) -> frozenset[str]:
    found = map(_PACKED.fullmatch, packed.split(b"\n"))
    return frozenset(os.fsdecode(one[1]) for one in found if one)


def _is_list_line(line: bytes) -> bool:
    return bool(_PACKED.fullmatch(line) or _BESIDE.fullmatch(line))


def _is_index(data: bytes) -> bool:
    """Its end is the hash of all before, or nothing if git was told to save the time."""
    if data[:4] != b"DIRC" or len(data) < _SMALLEST_INDEX or len(data) >= _LARGEST_LIST:
        return data[:4] == b"DIRC" and len(data) >= _LARGEST_LIST
    for size, kind in ((20, hashlib.sha1), (32, hashlib.sha256)):
        if data[-size:] in (bytes(size), kind(data[:-size]).digest()):
            return True
    return False


def lost_references(git: str, copy: str) -> dict[str, str]:
    """Those that are gone, or lead elsewhere without a trace, and where they led."""
    if dict(_signs(git)) == dict(_signs(copy)):
        return {}
    before, now = _commits_by_name(copy), _commits_by_name(git)
    return {
        name: commit
        for name, commit in before.items()
        if now.get(name) != commit and not (name in now and _is_logged(git, name, commit))
    }


def _signs(git: str) -> Iterator[tuple[str, tuple[int, int]]]:
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
    """Symbolic ones are left out: they lead to others."""
    packed = regular_content(os.path.join(git, "packed-refs"), _LARGEST_LIST) or b""
    found = {os.fsdecode(name): commit.decode() for commit, name in _PACKED_COMMITS.findall(packed)}
    for name in _loose(git):
        data = regular_content(os.path.join(git, name), _LARGEST_POINTER) or b""
        if commit := _COMMIT.match(data):
            found[name] = commit[0].decode()
    return found


def _is_logged(git: str, name: str, commit: str) -> bool:
    logs = (os.path.join(git, "logs", of) for of in (name, "HEAD"))
    return any(commit.encode() in (regular_content(log, _LARGEST_LIST) or b"") for log in logs)
