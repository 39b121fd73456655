"""Which part of the workspace a command may write to, where that is not all of it.

A folder is written with all that is below it. A file that may be written, or something that may be
made and is not there yet, needs its folder: editors put a new file in the place of the old one.
So that folder is opened for what is new, and all that it has besides stays as it is. Nothing is
made here and no link is followed: behind one lies what has another name.
"""

import os
from collections.abc import Collection, Iterable, Sequence

from rookery import PROJECT_FOLDER
from rookery.core.governance_mode import GOVERNANCE_FOLDER
from rookery.core.text.characters import folded, folded_names
from rookery.errors import Denied
from rookery.sandbox.confinement import Narrowed, Spot, outermost, spots, within, within_any

NEVER_WRITABLE = (GOVERNANCE_FOLDER, PROJECT_FOLDER, ".git", ".hg", ".jj", ".svn")
"""Nothing in a folder of one of these names is opened to a command that is kept to a part."""
MOST_BESIDE = 200
"""Each entry beside an opened one is a mount. A folder that has more of them is not opened: its
files can be changed in place then, and not be replaced."""

NOT_AUTHORIZED = "CMD-001"

_NEVER = frozenset(map(folded, NEVER_WRITABLE))


def narrow(
    root: str, named: Iterable[str], *, never: Sequence[Spot], closed: Sequence[str]
) -> Narrowed:
    """`named` is relative to the workspace, and empty for all of it. What is `closed` is mounted in
    another way, whatever is said here."""
    wanted = [
        path for each in named if (path := _path(root, each)) and not within_any(path, closed)
    ]
    found = spots(wanted)
    folders = outermost(at for at in found if at.folder)
    taken = [*closed, *(at.path for at in folders)]
    files = tuple(at for at in found if not at.folder and not within_any(at.path, taken))
    missing = spots(_nearest(path) for path in wanted if not os.path.lexists(path))
    growing = tuple(at for at in missing if at.folder and not within_any(at.path, taken))
    opened, beside = _opened(
        (*(os.path.dirname(at.path) for at in files), *(at.path for at in growing)),
        {*closed, *(at.path for at in files)},
    )
    return Narrowed(
        folders=folders,
        files=files,
        growing=growing,
        opened=opened,
        beside=beside,
        never=tuple(never),
    )


def check_not_narrowed(writable: Collection[str] | None) -> None:
    """For a command that nothing confines. Raises `Denied`."""
    if writable is not None:
        raise not_kept("it is to run outside the sandbox, where nothing keeps it to that")


def not_kept(why: str) -> Denied:
    return Denied(
        f"This command may write to a part of the workspace only, and {why}. It was not run.",
        code=NOT_AUTHORIZED,
    )


def never_writable(root: str) -> list[str]:
    return [os.path.join(root, name) for name in NEVER_WRITABLE]


def _path(root: str, named: str) -> str:
    """Where it is, if that is in the workspace and may be written at all."""
    path = os.path.normpath(os.path.join(root, named))
    if not within(path, root) or "\0" in path:
        return ""
    names = folded_names(os.path.relpath(path, root))
    return "" if _NEVER.intersection(names) else path


def _nearest(path: str) -> str:
    """The innermost folder on the way there that is there."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _opened(
    folders: Iterable[str], excepted: Collection[str]
) -> tuple[tuple[Spot, ...], tuple[Spot, ...]]:
    """The folders that can be opened, and what must stay as it is in them."""
    opened: list[Spot] = []
    beside: list[Spot] = []
    for folder in spots(folders):
        others = _others(folder.path, excepted)
        if others is not None and len(beside) + len(others) <= MOST_BESIDE:
            opened.append(folder)
            beside += others
    return tuple(opened), tuple(beside)


def _others(folder: str, excepted: Collection[str]) -> list[Spot] | None:
    """The files and folders in a folder but for some; None if they are too many or cannot be known.
    A link cannot be mounted over: that it was replaced can only be seen afterwards."""
    found: list[Spot] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.is_file(follow_symlinks=False):
                    continue
                if entry.path not in excepted:
                    at = entry.stat(follow_symlinks=False)
                    found.append(Spot(entry.path, at.st_dev, at.st_ino, is_folder))
                if len(found) > MOST_BESIDE:
                    return None
    except OSError:
        return None
    return found
