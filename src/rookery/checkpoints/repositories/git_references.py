"""Which branches, tags and stashes a git folder has lost since a copy of it was made.

No git is run. A reference that moved is not lost if a reflog still names where it was.
"""

import os
import re
from collections.abc import Iterator

from rookery.checkpoints.repositories.git_copies import files_in
from rookery.core.limits import MIB
from rookery.platform.git.git_folders import regular_content

_PACKED = re.compile(rb"^([0-9a-f]{40}|[0-9a-f]{64}) (refs/\S+)$", re.M)
_COMMIT = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_LARGEST_POINTER = 4096
_LARGEST_LIST = 64 * MIB


def lost_references(git: str, copy: str) -> dict[str, str]:
    """Those that are gone, or lead elsewhere without a trace, and where they led."""
    if dict(_signs(git)) == dict(_signs(copy)):
        return {}
    before, now = _references(copy), _references(git)
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


def _references(git: str) -> dict[str, str]:
    """Symbolic ones are left out: they lead to others."""
    packed = regular_content(os.path.join(git, "packed-refs"), _LARGEST_LIST) or b""
    found = {os.fsdecode(name): commit.decode() for commit, name in _PACKED.findall(packed)}
    for name in _loose(git):
        data = regular_content(os.path.join(git, name), _LARGEST_POINTER) or b""
        if commit := _COMMIT.match(data):
            found[name] = commit[0].decode()
    return found


def _is_logged(git: str, name: str, commit: str) -> bool:
    logs = (os.path.join(git, "logs", of) for of in (name, "HEAD"))
    return any(commit.encode() in (regular_content(log, _LARGEST_LIST) or b"") for log in logs)
