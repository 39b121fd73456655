"""Which file of the workspace a path means, as a model said it.

The answer is canonical: symbolic links and `..` are gone from it. Whoever opens it therefore
refuses every link on the way, and cannot be led elsewhere by one that was put there since.
"""

import os
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from rookery.errors import ToolError

_HIDDEN_CHARACTERS = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})$")
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)$", re.IGNORECASE)
_SHORT_NAME = re.compile(r"[^.~]{1,6}~\d(\.\w{1,3})?$")
_KERNEL = {"proc", "sys", "dev"}
_MOST_LINKS = 40
_LONGEST = 4096


def locate(root: Path, said: str, *, also: Path | None = None) -> PurePosixPath:
    """The file, relative to `root`, which is canonical; `also` is another name of the root."""
    _refuse_improper(said)
    path = PurePosixPath(said)
    if path.is_absolute():
        below = _below(path, root, also)
        if below is None:
            raise _outside(said)
        path = below
    located = PurePosixPath(*_followed(root, path.parts, said, also))
    _refuse_odd(root, located, said)
    if str(root) == "/" and located.parts[:1] and located.parts[0] in _KERNEL:
        raise ToolError(f"{said} belongs to the operating system and is not a file to work on.")
    return located


def visible(name: str) -> str:
    """A name as it may be shown: characters that hide, move or break text are spelled out."""
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _HIDDEN_CHARACTERS
        else character
        for character in name
    )


def _refuse_improper(said: str) -> None:
    if len(said.encode("utf-8", "replace")) > _LONGEST:
        raise ToolError(f"The path is longer than {_LONGEST} bytes, which no system takes.")
    if not said.strip():
        raise ToolError("The path is empty. Name a file, relative to the workspace.")
    if any(unicodedata.category(character) in _HIDDEN_CHARACTERS for character in said):
        raise ToolError(f"The path {visible(said)!r} has invisible or control characters in it.")
    if "\\" in said:
        raise ToolError(f"{said} has a backslash in it; write paths with '/'.")
    if _SCHEME.match(said):
        raise ToolError(f"{said} is an address, not a path in the workspace.")
    parts = PurePosixPath(said).parts
    if said.startswith("~") or _VARIABLE.match("".join(parts[:1])):
        raise ToolError(f"{said} would have to be expanded; write the path out.")


def _refuse_odd(root: Path, located: PurePosixPath, said: str) -> None:
    for depth, part in enumerate(located.parts):
        if (reason := _odd(part)) and not _listed(root.joinpath(*located.parts[:depth]), part):
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


def _followed(root: Path, parts: Sequence[str], said: str, also: Path | None) -> list[str]:
    waiting, done, links = list(reversed(parts)), list[str](), 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            if not done:
                raise _outside(said)
            done.pop()
            continue
        target = _link_target(root.joinpath(*done, part))
        if target is None:
            done.append(part)
            continue
        links += 1
        if target.is_absolute():
            done, target = [], _below(target, root, also)
        if links > _MOST_LINKS or target is None:
            raise ToolError(f"{said} is a symbolic link that leads out of the workspace.")
        waiting.extend(reversed(target.parts))
    return done


def _below(path: PurePosixPath, *homes: Path | None) -> PurePosixPath | None:
    """An absolute path as seen from the first of the folders that it lies in."""
    found = (path.relative_to(home) for home in homes if home and path.is_relative_to(home))
    return next(found, None)


def _link_target(path: Path) -> PurePosixPath | None:
    try:
        target = os.readlink(path)
    except OSError:
        return None  # no link, or nothing there; whatever else it is shows on opening
    if not os.path.exists(path):
        raise ToolError(f"{path.name} is a symbolic link to {visible(target)}, which is not there.")
    return PurePosixPath(target)


def _outside(said: str) -> ToolError:
    return ToolError(f"{said} is outside the workspace; only files in it can be used.")
