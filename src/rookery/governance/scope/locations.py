"""Where the paths of a call lead on disk, and the verdict on each.

A path is walked name by name as the operating system does: the text alone is no guide, because
`in/scope/link/../x` is beside whatever the link points to. A folder stands for all files in it.
"""

import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.governance.layout import Layout
from rookery.governance.scope.scope_patterns import scope_pattern
from rookery.governance.scope.scope_verdict import (
    Location,
    Op,
    Outside,
    PathFinding,
    PathVerdict,
    ScopeRules,
    judge,
    path_fault,
    rejected,
)

MOST_LINKS = 40
MOST_BELOW = 10_000
"""Files of a folder that are judged one by one."""
MOST_FILES = 200_000
_NOT_LOOKED_INTO = {".git", ".hg", ".jj", ".svn"}


class _Walked(Struct, frozen=True):
    path: str
    over_links: bool


class _Refused(Exception):
    """Its text is the reason."""


class NamedPath(Struct, frozen=True):
    """A path as it was said, and what is to become of it."""

    path: str
    op: Op


class FilesInScope:
    """The files below a governance root, looked for once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def count(self, pattern: str) -> int:
        """Raises `PatternError`."""
        covers = scope_pattern(pattern).covers
        return sum(1 for path in self._paths if covers(path))

    def any(self, pattern: str) -> bool:
        covers = scope_pattern(pattern).covers
        return any(covers(path) for path in self._paths)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        return tuple(islice(self._walked(), MOST_FILES))

    def _walked(self) -> Iterator[str]:
        for here, folders, names in os.walk(self._root):
            folders[:] = sorted(set(folders) - _NOT_LOOKED_INTO)
            below = os.path.relpath(here, self._root)
            start = "" if below == "." else f"{below}/"
            yield from (unicodedata.normalize("NFC", f"{start}{name}") for name in sorted(names))


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


def judge_paths(
    layout: Layout, rules: ScopeRules, paths: Iterable[NamedPath], *, cwd: str = ""
) -> tuple[PathFinding, ...]:
    """`cwd` is absolute; the workspace's root if it is not given. A folder is judged by all the
    files in it, and of those only the ones that may not be touched are told; if none is, the
    folder itself is."""
    return tuple(finding for each in paths for finding in _findings(layout, rules, each, cwd=cwd))


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


def _findings(
    layout: Layout, rules: ScopeRules, named: NamedPath, *, cwd: str
) -> Iterable[PathFinding]:
    location = find_location(layout, named.path, named.op, cwd=cwd)
    if isinstance(location, PathFinding):
        return [location]
    folder = os.path.join(cwd or str(layout.workspace), named.path)
    own = judge(location, _op(named.op, folder), rules)
    if location.outside or not os.path.isdir(folder) or os.path.islink(folder):
        return [own]
    below = list(islice(_files_below(folder), MOST_BELOW + 1))
    if len(below) > MOST_BELOW:
        return [rejected(location.named, named.op, "too_many_files")]
    found = [
        _link(layout, rules, os.path.join(folder, path), named.op)
        if os.path.islink(os.path.join(folder, path))
        else _file(location, folder, path, named.op, rules)
        for path in below
    ]
    astray = [each for each in found if _is_refusable(each)]
    return astray or [replace(found[0], path=own.path) if found else own]


def _link(layout: Layout, rules: ScopeRules, path: str, op: Op) -> PathFinding:
    location = find_location(layout, path, op)
    return location if isinstance(location, PathFinding) else judge(location, op, rules)


def _file(above: Location, folder: str, path: str, op: Op, rules: ScopeRules) -> PathFinding:
    """No link leads from the folder to a file that was found in it, so where the one is tells
    where the other is, without a walk along its whole path."""
    shown = unicodedata.normalize("NFC", os.path.normpath(os.path.join(above.real, path)))
    if fault := path_fault(path):
        return rejected(shown, op, fault)
    links = os.lstat(os.path.join(folder, path)).st_nlink
    return judge(replace(above, named=shown, real=shown, links=links), op, rules)


def _is_refusable(finding: PathFinding) -> bool:
    return finding.verdict not in (PathVerdict.IN_SCOPE, PathVerdict.IGNORED)


def _op(op: Op, path: str) -> Op:
    """Who writes where nothing is makes something."""
    return Op.CREATE if op is Op.MODIFY and not os.path.lexists(path) else op


def _files_below(folder: str) -> Iterator[str]:
    """Everything that is not a folder, by its path in this one; links are not followed."""
    for here, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        start = os.path.relpath(here, folder)
        for name in sorted([*names, *links]):
            yield os.path.normpath(os.path.join(start, name))
