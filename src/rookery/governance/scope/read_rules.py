"""What the rules of an intent say about reading, whichever tool or command reads.

Git can print files that are in no folder any more, so the files of old commits count too.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Deed, GitShown, Judgement, Target, program_name
from rookery.engine.ports.actions import Action
from rookery.governance.intents.intent import IntentPermissions
from rookery.governance.layout import Layout
from rookery.governance.ledger.git_history import HistoryUnreadable, history_of
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.permission_rules import READ, about_reading, permission_rule, withheld
from rookery.governance.scope.touched_paths import server_paths
from rookery.platform.descriptors import HardLinks, TooManyEntries
from rookery.platform.git_index import GitIndexes

MOST_LOOKED_AT = 20_000
TOO_MANY = "it reads too many files to check against the rules about reading"
UNKNOWN_LINKS = "the file has hard links, and the folder is too large to look for its other names"
SECONDS = 3.0
_OTHER_REPOSITORY = re.compile(r"--(git-dir|work-tree|namespace)\b")


class CannotTell(Exception):
    """Git may show files that nobody can list beforehand."""


def reading_verdict(
    permissions: IntentPermissions, call: ToolCall, action: Action, layout: Layout
) -> tuple[Decision, str]:
    """What is said about all that the call reads, and the rule that says so."""
    links = HardLinks(layout.root)
    try:
        tool = READ if action.command or action.external else call.name
        paths = [_from_root(layout, path) for path in _read_paths(call, action)]
        if withheld(permissions, tool):
            paths = [name for path in paths for name in _all_names(layout, links, path)]
        found = about_reading(permissions, tool, paths) if paths else (Decision.NONE, "")
        if found[0] is Decision.DENY:
            return found
        return max(found, _below(permissions, action, layout, links))
    except PatternError as error:  # an intent with a faulty rule is broken, and not selected
        return Decision.DENY, str(error)
    except TooManyEntries:
        return Decision.ASK, UNKNOWN_LINKS


def strictest_reading(
    permissions: Sequence[IntentPermissions], call: ToolCall, action: Action, layout: Layout
) -> tuple[Decision, str]:
    return max(reading_verdict(each, call, action, layout) for each in permissions)


def withholding(
    permissions: Sequence[IntentPermissions], tool: str, layout: Layout
) -> Callable[[str], bool] | None:
    """Which files of the workspace a walk leaves out; None if none."""
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
    """Absolute paths, those that are tracked now before those of old commits. Raises
    `CannotTell`."""
    shown = max(judged.shown, default=GitShown.NOTHING)
    if shown is GitShown.NOTHING:
        return
    if judged.redefines or any(map(names_repository, judged.commands)):
        raise CannotTell("git may use another repository, so what it prints is not known")
    named = [os.path.normpath(workspace / each.path) for each in judged.targets]
    folders = {os.path.normpath(workspace / cwd), str(workspace)}
    yield from _words(judged, folders)
    for files in (_tracked, _committed):
        for top in _tops({*folders, *named}):
            for path in files(top):
                if shown is GitShown.ANYTHING or _is_below(path, named):
                    yield path


def _read_paths(call: ToolCall, action: Action) -> Iterator[str]:
    """By their real places, and as the call names them: a rule may be about a link."""
    yield from action.reads
    if action.reads:
        yield from _named(call.arguments)
    if action.judgement:
        yield from (each.path for each in _read_targets(action.judgement))
    if action.external:
        yield from (each.path for each in server_paths(call, action))


def _read_targets(judged: Judgement) -> Iterator[Target]:
    """What is moved counts as read: no rule knows its new name."""
    moves = any(words and program_name(words[0]) == "mv" for words in judged.commands)
    for target in judged.targets:
        if target.deed is Deed.READ or (moves and target.deed is Deed.DELETE):
            yield target


def _named(arguments: object) -> Iterator[str]:
    match arguments:
        case {"path": str() as path}:
            yield path
        case {"file_path": str() as path}:
            yield path
        case {"files": list() as files}:
            for each in files:
                yield from _named(each)


def _below(
    permissions: IntentPermissions, action: Action, layout: Layout, links: HardLinks
) -> tuple[Decision, str]:
    """What is said about files that a command reads without naming them."""
    if not action.judgement:
        return Decision.NONE, ""
    patterns = withheld(permissions, READ)
    below = (Decision.NONE, "")
    if patterns:
        below = _in_folders(permissions, action.judgement, layout, links)
    if below[0] is Decision.DENY:
        return below
    try:
        return max(below, _by_git(permissions, action, layout))
    except CannotTell as error:
        return max(below, (_strictest_of(permissions), str(error)))


def _in_folders(
    permissions: IntentPermissions, judged: Judgement, layout: Layout, links: HardLinks
) -> tuple[Decision, str]:
    """What is said about the files below the folders that a command reads through."""
    strictest = (Decision.NONE, "")
    moved = (each for each in _read_targets(judged) if each.deed is Deed.DELETE)
    through = chain((each for each in judged.targets if each.deep), moved)
    folders = (layout.workspace / each.path for each in through)
    files = chain.from_iterable(map(_files_below, folders))
    for looked_at, path in enumerate(files):
        if looked_at >= MOST_LOOKED_AT:
            return max(strictest, (Decision.ASK, TOO_MANY))
        found = about_reading(permissions, READ, _all_names(layout, links, path))
        strictest = max(strictest, found)
        if strictest[0] is Decision.DENY:
            return strictest
    return strictest


def _by_git(permissions: IntentPermissions, action: Action, layout: Layout) -> tuple[Decision, str]:
    """What is said about the files that git may print. Raises `CannotTell`."""
    if _strictest_of(permissions) is Decision.NONE or action.judgement is None:
        return Decision.NONE, ""
    strictest = (Decision.NONE, "")
    for path in shown_files(action.judgement, layout.workspace, action.cwd):
        strictest = max(strictest, about_reading(permissions, READ, [_from_root(layout, path)]))
        if strictest[0] is Decision.DENY:
            return strictest
    return strictest


def _strictest_of(permissions: IntentPermissions) -> Decision:
    """The strictest of the rules that are about reading."""
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
    """The path, and the other names of the file if it has hard links."""
    named = _from_root(layout, path)
    linked = links.names_of(layout.root / named)
    return [named, *(_from_root(layout, name) for name in linked)]


def _from_root(layout: Layout, path: str) -> str:
    """As the patterns of the intent mean it: from the folder that governance lies in."""
    absolute = os.path.normpath(layout.workspace / path)
    below = os.path.relpath(absolute, layout.root)
    return absolute if below.startswith("..") else below


def _words(judged: Judgement, folders: set[str]) -> Iterator[str]:
    """Words of a command that is not understood may be files it reads, tracked or not."""
    for said, shown in zip(judged.commands, judged.shown, strict=True):
        if shown is GitShown.ANYTHING:
            for word in said[2:]:
                for text in (word, word[2:], word.partition("=")[2]):
                    yield from (os.path.normpath(os.path.join(each, text)) for each in folders)


def names_repository(command: Sequence[str]) -> bool:
    """Whether git is told to use another repository than the one of its folder."""
    return any(map(_OTHER_REPOSITORY.match, command))


def _tops(places: set[str]) -> list[Path]:
    """The folders of the repositories in which these places lie."""
    found = (_top(Path(place)) for place in sorted(places))
    return list(dict.fromkeys(top for top in found if top))


def _top(place: Path) -> Path | None:
    return next((each for each in (place, *place.parents) if (each / ".git").exists()), None)


def _tracked(top: Path) -> Iterator[str]:
    for path in GitIndexes(str(top)).blobs_in(""):
        yield os.path.join(top, os.fsdecode(path))


def _committed(top: Path) -> Iterator[str]:
    history = history_of(top)
    if history is None:
        return  # without git, git prints nothing
    try:
        paths = history.paths(SECONDS)
    except HistoryUnreadable as error:
        raise CannotTell(
            f"git could print any file of old commits, and these cannot be listed: {error}"
        ) from error
    yield from (os.path.join(top, path) for path in paths)


def _is_below(path: str, tops: list[str]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in tops)
