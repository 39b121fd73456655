"""Verdicts on paths as a call names them, with all that a folder among them stands for."""

import os
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.layout import Layout
from rookery.governance.scope.locations import find_location
from rookery.governance.scope.scope_verdict import (
    Location,
    Op,
    PathFinding,
    ScopeRules,
    Verdict,
    judge,
    path_fault,
    rejected,
)

MOST_BELOW = 10_000
"""Files of a folder that are judged one by one."""


class NamedPath(Struct, frozen=True):
    """A path as it was said, and what is to become of it."""

    path: str
    op: Op


def judge_paths(
    layout: Layout, rules: ScopeRules, paths: Iterable[NamedPath], *, cwd: str = ""
) -> tuple[PathFinding, ...]:
    """`cwd` is absolute; the workspace's root if it is not given. A folder is judged by all the
    files in it, and of those only the ones that may not be touched are told; if none is, the
    folder itself is."""
    return tuple(finding for each in paths for finding in _findings(layout, rules, each, cwd=cwd))


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
    return finding.verdict not in (Verdict.IN_SCOPE, Verdict.IGNORED)


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
