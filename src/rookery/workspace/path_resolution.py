"""Which file a path means, as a model said it.

The answer is canonical: symbolic links and `..` are gone from it. Whoever opens it therefore
refuses every link on the way, and cannot be led elsewhere by one that was put there since.
"""

import os
import posixpath
import re
from pathlib import Path, PurePosixPath

from msgspec import Struct

from rookery.core.text.characters import hidden_marks
from rookery.errors import ToolError
from rookery.platform.paths import hidden, visible

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})$")
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)$", re.IGNORECASE)
_SHORT_NAME = re.compile(r"[^.~]{1,6}~\d(\.\w{1,3})?$")
_KERNEL = {"proc", "sys", "dev"}
_MOST_LINKS = 40
_LONGEST = 4096


class Located(Struct, frozen=True):
    """A canonical absolute path. `ways` are the other names by which it was reached: what each
    symbolic link on the way was called, with what was still to come behind it."""

    path: str
    ways: tuple[str, ...] = ()


def locate(root: Path, said: str, *, also: Path | None = None) -> Located:
    """Where a path leads, seen from `root`, which is canonical; `also` is another name of it."""
    located = _followed(root, _seen_from(root, also, said), said)
    if hidden(located.path):
        raise ToolError(f"{said} leads to {visible(located.path)!r}, a name with odd characters.")
    _refuse_odd(root, located.path, said)
    return located


def lexical(root: Path, said: str, *, also: Path | None = None) -> str:
    """The path as it reads, absolute, without a look at the disk. Refuses what is no path."""
    return posixpath.normpath(str(root / _seen_from(root, also, said)))


def _refuse_improper(said: str) -> None:
    if len(said.encode("utf-8", "replace")) > _LONGEST:
        raise ToolError(f"The path is longer than {_LONGEST} bytes.")
    if not said.strip():
        raise ToolError("The path is empty. Name a file, relative to the workspace.")
    if hidden(said):
        raise ToolError(f"The path {visible(said)!r} has invisible or control characters in it.")
    if marks := hidden_marks(said):
        raise ToolError(
            f"The path {said} has {marks[0]} in it, which marks an invisible character. Such a "
            "file cannot be named here."
        )
    if "\\" in said:
        raise ToolError(f"{said} has a backslash in it; write paths with '/'.")
    if _SCHEME.match(said) or said.startswith("//"):
        raise ToolError(f"{said} is an address, not the path of a file here.")
    parts = PurePosixPath(said).parts
    if said.startswith("~") or _VARIABLE.match("".join(parts[:1])):
        raise ToolError(f"{said} would need expansion; write the full path.")


def _refuse_odd(root: Path, path: str, said: str) -> None:
    below = PurePosixPath(path)
    start = root if below.is_relative_to(root) else Path("/")
    names = below.relative_to(start).parts
    for depth, part in enumerate(names):
        if (reason := _odd(part)) and not _listed(start.joinpath(*names[:depth]), part):
            raise ToolError(f"{said} is not usable as a new path: '{part}' {reason}.")


def _odd(part: str) -> str:
    """Why a new name is refused: other systems, or other readers, take it for something else."""
    if part != part.rstrip(" ."):
        return "ends with a dot or a space"
    if ":" in part:
        return "has a colon in it"
    if _DEVICE.match(part):
        return "is the name of a device"
    if _SHORT_NAME.match(part):
        return "is an abbreviated name"
    return ""


def _listed(folder: Path, name: str) -> bool:
    """Whether the folder itself calls a file so. A second name of a file can be opened, too."""
    try:
        return name in os.listdir(folder)
    except OSError:
        return False


def _seen_from(root: Path, also: Path | None, said: str) -> PurePosixPath:
    """The path relative to the root if it is meant so, or absolute."""
    _refuse_improper(said)
    path = PurePosixPath(said)
    homes = (root, also) if path.is_absolute() else ()
    inside = (path.relative_to(home) for home in homes if home and path.is_relative_to(home))
    return next(inside, path)


def _followed(root: Path, path: PurePosixPath, said: str) -> Located:
    done = [] if path.is_absolute() else list(root.parts[1:])
    waiting, ways = _turned(path), list[str]()
    while waiting:
        part = waiting.pop()
        if part == "..":
            done = done[:-1]
            continue
        at = f"/{'/'.join([*done, part])}"
        _refuse_kernel(at, root, said)
        target = _link_target(at, said)
        if target is None:
            done.append(part)
            continue
        ways.append(posixpath.normpath("/".join([at, *reversed(waiting)])))
        if len(ways) > _MOST_LINKS:
            raise ToolError(f"{said} is a loop of symbolic links; name the file.")
        done = [] if target.is_absolute() else done
        waiting += _turned(target)
    return Located(f"/{'/'.join(done)}", tuple(ways))


def _turned(path: PurePosixPath) -> list[str]:
    """The names in a path, the last one first."""
    return [part for part in reversed(path.parts) if part.strip("/")]


def _refuse_kernel(at: str, root: Path, said: str) -> None:
    first = at.split("/", 2)[1]
    if first.casefold() in _KERNEL and not at.startswith(f"{root}/"):
        raise ToolError(f"{said} belongs to the operating system and is not a file to work on.")


def _link_target(path: str, said: str) -> PurePosixPath | None:
    try:
        target = os.readlink(path)
    except OSError:
        return None  # no link, or nothing there; whatever else it is shows on opening
    if not os.path.exists(path):
        raise ToolError(
            f"{said} leads over {visible(path)}, a symbolic link to {visible(target)}, which is "
            "not there."
        )
    return PurePosixPath(target)
