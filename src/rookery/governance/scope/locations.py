"""Where the paths of a call lead on disk, and the verdict on each.

A path is resolved name by name, as the operating system does it. Normalizing the text is not
enough: `in/scope/link/../x` lies beside the target of the link. A folder stands for all files in
it.
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
    ScopeRules,
    judge,
    path_fault,
    reject_path,
)

MOST_LINKS = 40
MOST_BELOW = 10_000
"""Most files of a folder that are judged one by one."""
MOST_FILES = 200_000
_SKIPPED_FOLDERS = {".git", ".hg", ".jj", ".svn"}


class _ResolvedPath(Struct, frozen=True):
    path: str
    via_links: bool


class _PathRejected(Exception):
    """The message is the reason code of the finding."""


class NamedPath(Struct, frozen=True):
    """A path as written in the call, and the operation on it."""

    path: str
    op: Op


class FilesInScope:
    """The files below a governance root, listed once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def count(self, pattern: str) -> int:
        """Count the files that a pattern covers. Raises `PatternError`."""
        covers = scope_pattern(pattern).covers
        return sum(1 for path in self._paths if covers(path))

    def any(self, pattern: str) -> bool:
        covers = scope_pattern(pattern).covers
        return any(covers(path) for path in self._paths)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        return tuple(islice(self._walk(), MOST_FILES))

    def _walk(self) -> Iterator[str]:
        for here, folders, names in os.walk(self._root):
            folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
            below = os.path.relpath(here, self._root)
            start = "" if below == "." else f"{below}/"
            yield from (unicodedata.normalize("NFC", f"{start}{name}") for name in sorted(names))


def find_location(layout: Layout, text: str, op: Op, *, cwd: str = "") -> Location | PathFinding:
    """Resolve a path, or return why it is rejected. `cwd` is absolute; default the workspace."""
    if fault := path_fault(text):
        return reject_path(text, op, fault)
    try:
        path = os.path.join(cwd or str(layout.workspace), _strip_file_url(text))
        real = _resolve(path)
        named = _resolve_parents(path, real)
    except _PathRejected as error:
        return reject_path(text, op, str(error))
    inside = _is_below(named.path, layout.workspace) and _is_below(real.path, layout.workspace)
    governed = _is_below(named.path, layout.root) and _is_below(real.path, layout.root)
    start = layout.root if governed else layout.workspace
    return Location(
        named=_relative_to(named.path, start),
        real=_relative_to(real.path, start),
        outside=Outside.NO if inside else _outside_kind(path, text, real, layout),
        governed=governed,
        links=_link_count(real.path),
    )


def ignores_case(root: Path) -> bool:
    """Whether the file system ignores case, tested with the governance folder in capitals."""
    folder = root / GOVERNANCE_FOLDER
    try:
        return os.path.samestat(folder.stat(), folder.with_name(folder.name.upper()).stat())
    except OSError:
        return False


def judge_paths(
    layout: Layout, rules: ScopeRules, paths: Iterable[NamedPath], *, cwd: str = ""
) -> tuple[PathFinding, ...]:
    """Judge paths. `cwd` is absolute; default the workspace. For a folder, returns the findings
    that are not in scope, or one for the folder if there are none."""
    return tuple(finding for each in paths for finding in _findings(layout, rules, each, cwd=cwd))


def _strip_file_url(text: str) -> str:
    if not text.lower().startswith("file:"):
        return text
    parts = urlsplit(text)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise _PathRejected("outside")
    if fault := path_fault(path):
        raise _PathRejected(fault)
    return path


def _resolve_parents(path: str, real: _ResolvedPath) -> _ResolvedPath:
    """The path with its parents resolved and the last name as written."""
    folder, name = os.path.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        return real
    above = _resolve(folder)
    return _ResolvedPath(os.path.join(above.path, name), above.via_links)


def _resolve(path: str) -> _ResolvedPath:
    done: list[str] = []
    pending = path.split("/")[::-1]
    links, missing = 0, False
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if missing:
                raise _PathRejected("traversal")
            done = done[:-1]
            continue
        at = "/" + "/".join([*done, part])
        target = None if missing else _link_target(at)
        if target is None:
            missing = missing or not os.path.lexists(at)
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            raise _PathRejected("symlink_escape")
        done = [] if target.startswith("/") else done
        pending += target.split("/")[::-1]
    return _ResolvedPath("/" + "/".join(done), links > 0)


def _link_target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None  # not a symlink, or missing


def _is_below(path: str, root: Path) -> bool:
    return path == str(root) or path.startswith(f"{str(root).rstrip('/')}/")


def _relative_to(path: str, root: Path) -> str:
    relative = os.path.relpath(path, root) if _is_below(path, root) else path
    return unicodedata.normalize("NFC", relative)


def _outside_kind(path: str, text: str, real: _ResolvedPath, layout: Layout) -> Outside:
    """How the path leaves the workspace. A symlink on the way counts before the spelling."""
    if _is_below(os.path.normpath(path), layout.workspace) or (real.via_links and ".." in text):
        return Outside.LINK
    return Outside.TRAVERSAL if ".." in text.split("/") else Outside.WRITTEN


def _link_count(path: str) -> int:
    try:
        info = os.lstat(path)
    except OSError:
        return 1
    return info.st_nlink if stat.S_ISREG(info.st_mode) else 1


def _findings(
    layout: Layout, rules: ScopeRules, named: NamedPath, *, cwd: str
) -> Iterable[PathFinding]:
    location = find_location(layout, named.path, named.op, cwd=cwd)
    if isinstance(location, PathFinding):
        return [location]
    folder = os.path.join(cwd or str(layout.workspace), named.path)
    creates = named.op is Op.MODIFY and not os.path.lexists(folder)
    own = judge(location, Op.CREATE if creates else named.op, rules)
    if location.outside or not os.path.isdir(folder) or os.path.islink(folder):
        return [own]
    below = list(islice(_files_below(folder), MOST_BELOW + 1))
    if len(below) > MOST_BELOW:
        return [reject_path(location.named, named.op, "too_many_files")]
    found = [
        _judge_link(layout, rules, os.path.join(folder, path), named.op)
        if os.path.islink(os.path.join(folder, path))
        else _judge_file(location, folder, path, named.op, rules)
        for path in below
    ]
    objections = [each for each in found if each.is_outside]
    return objections or [replace(found[0], path=own.path) if found else own]


def _judge_link(layout: Layout, rules: ScopeRules, path: str, op: Op) -> PathFinding:
    location = find_location(layout, path, op)
    return location if isinstance(location, PathFinding) else judge(location, op, rules)


def _judge_file(above: Location, folder: str, path: str, op: Op, rules: ScopeRules) -> PathFinding:
    """Judge a file found below a folder. No symlink lies between the two, so the file's location
    follows from the folder's without resolving the whole path."""
    relative = unicodedata.normalize("NFC", os.path.normpath(os.path.join(above.real, path)))
    if fault := path_fault(path):
        return reject_path(relative, op, fault)
    links = os.lstat(os.path.join(folder, path)).st_nlink
    return judge(replace(above, named=relative, real=relative, links=links), op, rules)


def _files_below(folder: str) -> Iterator[str]:
    """Relative paths of everything below that is not a folder; symlinks are not followed."""
    for here, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        start = os.path.relpath(here, folder)
        for name in sorted([*names, *links]):
            yield os.path.normpath(os.path.join(start, name))
