"""The intent's permission rules about reading, for every tool and command that reads.

Git can print files that no longer exist in the working tree, so files of old commits count too.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action, Deed, GitShown, Judgement, Target, program_name
from rookery.governance.intents.intent import IntentPermissions
from rookery.governance.layout import Layout
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.permission_rules import READ, permission_rule, reading_rule, withheld
from rookery.governance.scope.touched_paths import server_paths
from rookery.platform.descriptors import HardLinks, TooManyEntries
from rookery.platform.git_folders import repository_of
from rookery.platform.git_index import GitIndexes

MOST_LOOKED_AT = 20_000
TOO_MANY = "it reads too many files to check against the rules about reading"
UNKNOWN_LINKS = "the file has hard links, and the folder is too large to look for its other names"
SECONDS = 3.0
_OTHER_REPOSITORY = re.compile(r"--(git-dir|work-tree|namespace)\b")


class UnknownFiles(Exception):
    """Raised if the files that git may print cannot be listed."""


def reading_verdict(
    permissions: IntentPermissions, call: ToolCall, action: Action, layout: Layout
) -> tuple[Decision, str]:
    """Return the decision on everything the call reads, and the rule behind it."""
    links = HardLinks(layout.root)
    try:
        tool = READ if action.command or action.external else call.name
        paths = [_relative_to_root(layout, path) for path in _read_paths(call, action)]
        if withheld(permissions, tool):
            paths = [name for path in paths for name in _all_names(layout, links, path)]
        found = reading_rule(permissions, tool, paths) if paths else (Decision.NONE, "")
        if found[0] is Decision.DENY:
            return found
        return max(found, _unnamed_reads(permissions, action, layout, links))
    except PatternError as error:  # unexpected: an intent with an invalid rule cannot be selected
        return Decision.DENY, str(error)
    except TooManyEntries:
        return Decision.ASK, UNKNOWN_LINKS


def strictest_reading(
    permissions: Sequence[IntentPermissions], call: ToolCall, action: Action, layout: Layout
) -> tuple[Decision, str]:
    return max(reading_verdict(each, call, action, layout) for each in permissions)


def withheld_files(
    permissions: Sequence[IntentPermissions], tool: str, layout: Layout
) -> Callable[[str], bool] | None:
    """A predicate for files that a listing or search must skip; None if there are none."""
    patterns = [pattern for each in permissions for pattern in withheld(each, tool)]
    if not patterns:
        return None
    links = HardLinks(layout.root)

    def is_withheld(path: str) -> bool:
        try:
            names = _all_names(layout, links, path)
        except TooManyEntries:
            return True
        return any(pattern.covers(name) for pattern in patterns for name in names)

    return is_withheld


def shown_files(judged: Judgement, workspace: Path, cwd: str) -> Iterator[str]:
    """Absolute paths of files git may print, tracked ones first. Raises `UnknownFiles`."""
    shown = max(judged.shown, default=GitShown.NOTHING)
    if shown is GitShown.NOTHING:
        return
    if judged.redefines or any(map(names_repository, judged.commands)):
        raise UnknownFiles("git may use another repository, so what it prints is not known")
    named = [os.path.normpath(workspace / each.path) for each in judged.targets]
    folders = {os.path.normpath(workspace / cwd), str(workspace)}
    yield from _possible_files(judged, folders)
    for files in (_tracked_files, _committed_files):
        for top in _repositories({*folders, *named}):
            for path in files(top):
                if shown is GitShown.ANYTHING or _is_below(path, named):
                    yield path


def _read_paths(call: ToolCall, action: Action) -> Iterator[str]:
    """The paths a call reads, resolved and as written, because a rule may name a symlink."""
    yield from action.reads
    if action.reads:
        yield from _named_paths(call.arguments)
    if action.judgement:
        yield from (each.path for each in _read_targets(action.judgement))
    if action.external:
        yield from (each.path for each in server_paths(action))


def _read_targets(judged: Judgement) -> Iterator[Target]:
    """Targets that are read. Moved files count, because no rule covers their new name."""
    moves = any(words and program_name(words[0]) == "mv" for words in judged.commands)
    for target in judged.targets:
        if target.deed is Deed.READ or (moves and target.deed is Deed.DELETE):
            yield target


def _named_paths(arguments: object) -> Iterator[str]:
    match arguments:
        case {"path": str() as path}:
            yield path
        case {"file_path": str() as path}:
            yield path
        case {"files": list() as files}:
            for each in files:
                yield from _named_paths(each)


def _unnamed_reads(
    permissions: IntentPermissions, action: Action, layout: Layout, links: HardLinks
) -> tuple[Decision, str]:
    """The decision on files that a command reads without naming them."""
    if not action.judgement:
        return Decision.NONE, ""
    patterns = withheld(permissions, READ)
    below = (Decision.NONE, "")
    if patterns:
        below = _recursive_reads(permissions, action.judgement, layout, links)
    if below[0] is Decision.DENY:
        return below
    try:
        return max(below, _git_reads(permissions, action, layout, links))
    except UnknownFiles as error:
        return max(below, (_strictest_decision(permissions), str(error)))


def _recursive_reads(
    permissions: IntentPermissions, judged: Judgement, layout: Layout, links: HardLinks
) -> tuple[Decision, str]:
    """The decision on the files below the folders that a command reads recursively."""
    strictest = (Decision.NONE, "")
    moved = (each for each in _read_targets(judged) if each.deed is Deed.DELETE)
    through = chain((each for each in judged.targets if each.deep), moved)
    folders = (layout.workspace / each.path for each in through)
    files = chain.from_iterable(map(_files_below, folders))
    for looked_at, path in enumerate(files):
        if looked_at >= MOST_LOOKED_AT:
            return max(strictest, (Decision.ASK, TOO_MANY))
        found = reading_rule(permissions, READ, _all_names(layout, links, path))
        strictest = max(strictest, found)
        if strictest[0] is Decision.DENY:
            return strictest
    return strictest


def _git_reads(
    permissions: IntentPermissions, action: Action, layout: Layout, links: HardLinks
) -> tuple[Decision, str]:
    """The decision on the files that git may print. Raises `UnknownFiles`."""
    if _strictest_decision(permissions) is Decision.NONE or action.judgement is None:
        return Decision.NONE, ""
    strictest = (Decision.NONE, "")
    for path in shown_files(action.judgement, layout.workspace, action.cwd):
        names = _all_names(layout, links, path)
        strictest = max(strictest, reading_rule(permissions, READ, names))
        if strictest[0] is Decision.DENY:
            return strictest
    return strictest


def _strictest_decision(permissions: IntentPermissions) -> Decision:
    """The strictest decision among the rules about reading."""
    rules = ((Decision.DENY, permissions.deny), (Decision.ASK, permissions.ask))
    for decision, texts in rules:
        if any(READ in permission_rule(text).tools for text in texts):
            return decision
    return Decision.NONE


def _files_below(folder: "os.PathLike[str]") -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        yield from (os.path.join(where, name) for name in names)


def _all_names(layout: Layout, links: HardLinks, path: str) -> list[str]:
    """The path, and the file's other names if it has hard links."""
    named = _relative_to_root(layout, path)
    linked = links.names_of(layout.root / named)
    return [named, *(_relative_to_root(layout, name) for name in linked)]


def _relative_to_root(layout: Layout, path: str) -> str:
    """The path relative to the governance root, as patterns expect it; absolute if outside."""
    absolute = os.path.normpath(layout.workspace / path)
    below = os.path.relpath(absolute, layout.root)
    return absolute if below.startswith("..") else below


def _possible_files(judged: Judgement, folders: set[str]) -> Iterator[str]:
    """Words of an unknown git command that may be files it reads, tracked or not."""
    for command, shown in zip(judged.commands, judged.shown, strict=True):
        if shown is GitShown.ANYTHING:
            for word in command[2:]:
                for text in (word, word[2:], word.partition("=")[2]):
                    yield from (os.path.normpath(os.path.join(each, text)) for each in folders)


def names_repository(command: Sequence[str]) -> bool:
    """Whether git is pointed at a repository other than that of its folder."""
    return any(map(_OTHER_REPOSITORY.match, command))


def _repositories(places: set[str]) -> list[Path]:
    """The roots of the repositories that contain the paths."""
    found = (repository_of(Path(place)) for place in sorted(places))
    return list(dict.fromkeys(top for top in found if top))


def _tracked_files(top: Path) -> Iterator[str]:
    for path in GitIndexes(str(top)).blobs_in(""):
        yield os.path.join(top, os.fsdecode(path))


def _committed_files(top: Path) -> Iterator[str]:
    from rookery.governance.git_history import HistoryUnreadable, history_of

    history = history_of(top)
    if history is None:
        return  # git is not installed
    try:
        paths = history.paths(SECONDS)
    except HistoryUnreadable as error:
        raise UnknownFiles(
            f"git could print any file of old commits, and these cannot be listed: {error}"
        ) from error
    yield from (os.path.join(top, path) for path in paths)


def _is_below(path: str, tops: list[str]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in tops)
