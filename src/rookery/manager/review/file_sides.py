"""The two sides of a file that differs: what it was and what it is, as far as they are shown."""

import errno
import os
import stat
from hashlib import sha256

from msgspec import Struct

from rookery.checkpoints.file_versions import NOT_A_FOLDER, Content, content_of, status_of
from rookery.core.limits import KIB, MIB
from rookery.core.pictures import image_facts
from rookery.manager.review.checkouts import Checkout
from rookery.manager.review.raw_changes import RawChange
from rookery.manager.worktrees.checkout_files import LINK, PLAIN, PROGRAM
from rookery.manager.worktrees.worktree_git import Git
from rookery.platform.descriptors import opened_folder

LARGEST_SHOWN = 1 * MIB
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Those that a page draws without running anything."""
_LOOKED_THROUGH = 8 * KIB


class Side(Struct, frozen=True):
    """`data` is None if it is too large to be shown, or was not there. `known_by` names exactly
    this content."""

    mode: str
    size: int
    known_by: str
    data: bytes | None = None

    @property
    def is_there(self) -> bool:
        return bool(self.mode)

    @property
    def is_binary(self) -> bool:
        return self.mode != LINK and b"\0" in (self.data or b"")[:_LOOKED_THROUGH]

    @property
    def picture(self) -> str:
        """What kind of picture it is, if it is one to be shown."""
        facts = image_facts(self.data) if self.data and self.mode != LINK else None
        return facts.media_type if facts and facts.media_type in PICTURES else ""


NOTHING = Side("", 0, "")


def old_side(git: Git, change: RawChange, *, read: bool = True) -> Side:
    if not change.old_mode:
        return NOTHING
    return _stored(git, change.old_mode, change.old_id, read=read and not change.is_module)


def new_side(checkout: Checkout, change: RawChange, *, read: bool = True) -> Side:
    """`read` if its bytes are wanted, rather than the moment of its last change."""
    if not change.new_mode:
        return NOTHING
    if change.new_id:
        return _stored(
            checkout.git, change.new_mode, change.new_id, read=read and not change.is_module
        )
    side = side_at(checkout, change.path, read=read)
    return side if side.is_there else Side(change.new_mode, 0, "gone")


def side_at(checkout: Checkout, path: str, *, read: bool) -> Side:
    """A file as it lies there. No link is followed, neither it nor one on the way."""
    *folders, name = path.split("/")
    try:
        with opened_folder(checkout.git.folder, folders) as folder:
            status = None if folder is None else status_of(folder, name)
            if folder is None or status is None:
                return NOTHING
            found = _content(folder, name, status) if read else None
    except OSError as error:
        if error.errno in (*NOT_A_FOLDER, errno.ENOENT):
            return NOTHING
        raise
    mode = _mode(status.st_mode)
    if found is None:
        return Side(mode, status.st_size, _moment(status))
    return Side(mode, len(found.data), sha256(found.data).hexdigest(), found.data)


def _content(folder: int, name: str, status: os.stat_result) -> Content | None:
    try:
        return content_of(folder, name, status, LARGEST_SHOWN)
    except PermissionError:  # it differs, but nobody can say how
        return None


def _stored(git: Git, mode: str, known: str, *, read: bool) -> Side:
    if not read or not known:
        return Side(mode, 0, known)
    size = int(git.said("cat-file", "-s", known))
    data = git.run("cat-file", "blob", known).out if size <= LARGEST_SHOWN else None
    return Side(mode, size, known, data)


def _mode(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return LINK
    return PROGRAM if mode & stat.S_IXUSR else PLAIN


def _moment(status: os.stat_result) -> str:
    signs = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return "-".join(map(str, signs))
