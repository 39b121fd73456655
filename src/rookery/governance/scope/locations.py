"""Where a path leads that a tool was given, for somebody who judges by scope.

The path is walked name by name as the operating system would: the text alone is no guide, for
`in/scope/link/../x` is beside whatever the link points to.
"""

import os
import stat
import unicodedata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from rookery.core.governance_mode import GOVERNANCE_FOLDER
from rookery.governance.layout import Layout
from rookery.governance.scope.scope_verdict import (
    Location,
    Op,
    Outside,
    PathFinding,
    path_fault,
    rejected,
)

MOST_LINKS = 40


class _Walked(Struct, frozen=True):
    path: str
    over_links: bool


class _Refused(Exception):
    """Its text is the reason."""


def find_location(layout: Layout, said: str, op: Op, *, cwd: str = "") -> Location | PathFinding:
    """The named and the real location, or why the path is refused unseen. `cwd` is absolute; the
    workspace's root if it is not given."""
    if fault := path_fault(said):
        return rejected(said, op, fault)
    try:
        path = os.path.join(cwd or str(layout.workspace), _plain(said))
        real = _walked(path)
        named = _named(path, real)
    except _Refused as error:
        return rejected(said, op, str(error))
    inside = _below(named.path, layout.workspace) and _below(real.path, layout.workspace)
    governed = _below(named.path, layout.root) and _below(real.path, layout.root)
    start = layout.root if governed else layout.workspace
    return Location(
        named=_shown(named.path, start),
        real=_shown(real.path, start),
        outside=Outside.NO if inside else _how(path, said, real, layout),
        governed=governed,
        links=_links(real.path),
    )


def ignores_case(root: Path) -> bool:
    """Whether the volume takes names for the same that differ only in case. Found out by asking
    for the governance folder in another spelling."""
    there = root / GOVERNANCE_FOLDER
    try:
        return os.path.samestat(there.stat(), there.with_name(there.name.upper()).stat())
    except OSError:
        return False


def _plain(said: str) -> str:
    if not said.lower().startswith("file:"):
        return said
    parts = urlsplit(said)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise _Refused("outside")
    if fault := path_fault(path):
        raise _Refused(fault)
    return path


def _named(path: str, real: _Walked) -> _Walked:
    """Parents resolved, the last name as it was written."""
    folder, name = os.path.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        return real
    above = _walked(folder)
    return _Walked(os.path.join(above.path, name), above.over_links)


def _walked(path: str) -> _Walked:
    done: list[str] = []
    waiting = path.split("/")[::-1]
    links, missing = 0, False
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if missing:
                raise _Refused("traversal")
            done = done[:-1]
            continue
        at = "/" + "/".join([*done, part])
        target = None if missing else _target(at)
        if target is None:
            missing = missing or not os.path.lexists(at)
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            raise _Refused("symlink_escape")
        done = [] if target.startswith("/") else done
        waiting += target.split("/")[::-1]
    return _Walked("/" + "/".join(done), links > 0)


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None  # no link, or nothing there


def _below(path: str, root: Path) -> bool:
    return path == str(root) or path.startswith(f"{str(root).rstrip('/')}/")


def _shown(path: str, root: Path) -> str:
    shown = os.path.relpath(path, root) if _below(path, root) else path
    return unicodedata.normalize("NFC", shown)


def _how(path: str, said: str, real: _Walked, layout: Layout) -> Outside:
    """A link that was taken explains more than the spelling does."""
    if _below(os.path.normpath(path), layout.workspace) or (real.over_links and ".." in said):
        return Outside.LINK
    return Outside.TRAVERSAL if ".." in said.split("/") else Outside.WRITTEN


def _links(path: str) -> int:
    try:
        there = os.lstat(path)
    except OSError:
        return 1
    return there.st_nlink if stat.S_ISREG(there.st_mode) else 1
