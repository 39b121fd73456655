"""Who may use a file, and what is noted about it, kept when another file takes its place.

A file is changed by renaming a finished one over it. That one first gets the owner, group, mode,
access control list and extended attributes of the old one, so that nobody gains access by an
edit. If one of them cannot be kept, `NotKept` is raised and nothing may be replaced.

What makes a program privileged goes with a change of content, as the kernel has it for a write:
setuid, setgid of a program, and file capabilities.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import Struct, field

ACL = "system.posix_acl_access"
USERS = "user."
"""How the names of attributes begin that are the user's own."""
_PRIVILEGES = frozenset({"security.capability", "security.ima", "security.evm"})
_MUST_BE_KEPT = ("user.", "system.", "security.")
_GONE = {errno.ENODATA, errno.ENOTSUP}


class NotKept(PermissionError):
    """An attribute could not be given to the new file. Its `strerror` says which."""


class Attributes(Struct, frozen=True):
    uid: int
    gid: int
    mode: int
    """The permission bits, setuid, setgid and the sticky bit."""
    extended: Mapping[str, bytes] = field(default_factory=dict)


def attributes_of(file: int) -> Attributes:
    """Those of an open file. Raises `NotKept` for one that cannot be read."""
    there = os.fstat(file)
    extended = dict(_extended(file))
    return Attributes(there.st_uid, there.st_gid, stat.S_IMODE(there.st_mode), extended)


def extended_of(file: int) -> Iterator[tuple[str, bytes]]:
    """The access control list of an open file, and the user's attributes, as far as readable."""
    for name in _names(file):
        if name == ACL or name.startswith(USERS):
            with suppress(OSError):
                yield name, os.getxattr(file, name)


def attributes_at(path: str | os.PathLike[str]) -> Attributes | None:
    """Those of the file at a path, links followed; None if there is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return attributes_of(file)
    finally:
        os.close(file)


def keep_attributes(file: int, kept: Attributes, *, as_recorded: bool = False) -> None:
    """Give a new file, open and private so far, the attributes of the one it replaces.

    With `as_recorded` content and mode belong together, as in a backup: then setuid and setgid
    stay if the owner does. Raises `NotKept`.
    """
    same_owner = _keep_owner(file, kept)
    _keep_extended(file, kept.extended)
    os.fchmod(file, kept.mode if as_recorded and same_owner else unprivileged(kept.mode))


def unprivileged(mode: int) -> int:
    """The mode as the kernel leaves it when somebody writes to the file."""
    of_group = stat.S_ISGID if mode & stat.S_IXGRP else 0
    return mode & ~(stat.S_ISUID | of_group)


def without_group(mode: int) -> int:
    """The mode for a file that got another group: that one may do only what everybody may."""
    return mode & (~0o070 | (mode & 0o7) << 3)


def _keep_owner(file: int, kept: Attributes) -> bool:
    """Whether owner and group are the same now. A file whose owner cannot be kept becomes ours:
    who replaces it could write it already."""
    for owner in (kept.uid, -1):
        with suppress(OSError):
            os.fchown(file, owner, kept.gid)
            break
    there = os.fstat(file)
    if there.st_gid != kept.gid and _group_matters(kept):
        raise NotKept(errno.EPERM, f"its group ({kept.gid}) cannot be kept")
    return (there.st_uid, there.st_gid) == (kept.uid, kept.gid)


def _group_matters(kept: Attributes) -> bool:
    """Whether the group may do something else than everybody."""
    return ACL in kept.extended or (kept.mode >> 3 & 0o7) != (kept.mode & 0o7)


def _extended(file: int) -> Iterator[tuple[str, bytes]]:
    for name in _names(file):
        try:
            yield name, os.getxattr(file, name)
        except OSError as error:
            if error.errno not in _GONE and name.startswith(_MUST_BE_KEPT):
                raise NotKept(error.errno, f"its attribute {name} cannot be read") from error


def _names(file: int) -> list[str]:
    if not hasattr(os, "listxattr"):
        return []
    try:
        return os.listxattr(file)
    except OSError:
        return []  # a file system without them


def _keep_extended(file: int, kept: Mapping[str, bytes]) -> None:
    there = dict(_extended(file))
    if ACL in there and ACL not in kept:  # inherited from the folder: it may let others in
        os.removexattr(file, ACL)
    for name, worth in kept.items():
        if there.get(name) != worth and name not in _PRIVILEGES:
            _set(file, name, worth)


def _set(file: int, name: str, worth: bytes) -> None:
    try:
        os.setxattr(file, name, worth)
    except OSError as error:
        if name.startswith(_MUST_BE_KEPT):
            raise NotKept(error.errno, f"its attribute {name} cannot be kept") from error
