"""Owner and extended attributes of a file, as a checkpoint notes them beside its content.

Most files have nothing to note: they belong to whoever would create them, and have no access
control list and no attributes of the user's.
"""

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from rookery.core.limits import KIB, MIB
from rookery.platform.attributes import ACL, USERS, extended_of

MOST_OF_A_FILE = 16 * KIB
"""Larger attributes of the user's are not noted."""
MOST_OF_ALL = MIB
"""With more in all files together, only owners and access control lists are noted. Every
checkpoint holds all the notes."""


class NotedAttributes(Struct, frozen=True):
    """`owner` is user and group, if a new file in the folder would get others."""

    owner: tuple[int, int] | None
    extended: Mapping[str, bytes]

    @property
    def access_list(self) -> bytes:
        return self.extended.get(ACL, b"")

    @property
    def text(self) -> str:
        if not self.owner and not self.extended:
            return ""
        return json.dumps(
            {
                "owner": self.owner,
                "extended": {name: worth.hex() for name, worth in self.extended.items()},
            }
        )


def note_of(folder: int, file: int) -> str:
    """The note about an open file in an open folder; empty if there is nothing to note."""
    extended = dict(extended_of(file))
    users = {name: worth for name, worth in extended.items() if name.startswith(USERS)}
    if sum(map(len, users.values())) > MOST_OF_A_FILE:
        users = {}
    listed = {ACL: extended[ACL]} if ACL in extended else {}
    return NotedAttributes(_owner(folder, file), {**listed, **users}).text


def note_of_access_list(text: str) -> str:
    """The note about a file of which an older checkpoint holds only the access control list."""
    return NotedAttributes(None, {ACL: bytes.fromhex(text)}).text


def noted_attributes(note: str) -> NotedAttributes:
    said = json.loads(note)
    owner = said["owner"]
    extended = {name: bytes.fromhex(text) for name, text in said["extended"].items()}
    return NotedAttributes(owner and (owner[0], owner[1]), extended)


def bounded(notes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The notes by path, in order, without empty ones."""
    kept = sorted((path, note) for path, note in notes.items() if note)
    if sum(len(note) for _, note in kept) <= MOST_OF_ALL:
        return tuple(kept)
    short = ((path, _without_users(note)) for path, note in kept)
    return tuple((path, note) for path, note in short if note)


def put_users_attributes(file: int, noted: NotedAttributes, there: Mapping[str, bytes]) -> None:
    """Give a new file the user's attributes that are noted and not `there`, if it can have any."""
    for name, worth in noted.extended.items():
        if name != ACL and name not in there:
            with suppress(OSError):
                os.setxattr(file, name, worth)


def _without_users(note: str) -> str:
    noted = noted_attributes(note)
    listed = {ACL: noted.access_list} if noted.access_list else {}
    return NotedAttributes(noted.owner, listed).text


def _owner(folder: int, file: int) -> tuple[int, int] | None:
    there, above = os.fstat(file), os.fstat(folder)
    group = above.st_gid if above.st_mode & stat.S_ISGID else os.getegid()
    own = (there.st_uid, there.st_gid)
    return None if own == (os.geteuid(), group) else own
