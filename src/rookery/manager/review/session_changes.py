"""What a session itself has changed, as its checkpoints have it: whoever else changed files too."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from msgspec import Struct

from rookery.core.facts import Effect, Event, FilesChanged, FilesRestored
from rookery.core.limits import MIB
from rookery.core.undo_plan import is_leaf
from rookery.manager.dependencies import Snapshots
from rookery.manager.review.file_diffs import TextDiff, diff_of_sides
from rookery.manager.review.file_sides import LARGEST_SHOWN, NOTHING, Side, line_changes
from rookery.manager.shown_rows import ChangedFile, FileKind, Review, WorktreeStats
from rookery.manager.worktrees.checkout_files import PLAIN
from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.manager.worktrees.worktree_values import Code

MOST_FILES = 1000
"""Of one step, which are shown."""
MOST_SHOWN = 20 * MIB


class SessionFile(Struct, frozen=True, kw_only=True):
    """A file before a session first changed it and after it last did; None where there was none,
    or too much of it."""

    path: str
    old: bytes | None
    new: bytes | None
    large: bool = False

    @property
    def kind(self) -> FileKind:
        if self.old is None and not self.large:
            return "added"
        return "removed" if self.new is None and not self.large else "changed"

    @property
    def digest(self) -> str:
        parts = (self.path.encode("utf-8", "surrogateescape"), _named(self.old), _named(self.new))
        return sha256(b"session\0" + b"\0".join(parts)).hexdigest()


def steps_of(events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    """The checkpoints between which files changed, oldest first."""
    for event in events:
        match event.fact:
            case (
                FilesChanged(before=before, after=after) | FilesRestored(before=before, after=after)
            ) if before != after:
                yield before, after
            case _:
                pass


async def session_files(
    snapshots: Snapshots, steps: Iterable[tuple[str, str]]
) -> tuple[SessionFile, ...]:
    """Raises `StorageError` if a checkpoint is not there any more."""
    first: dict[str, bytes | None] = {}
    last: dict[str, bytes | None] = {}
    large: set[str] = set()
    for before, after in steps:
        shown = await snapshots.diff(before, after, files=MOST_FILES, size=LARGEST_SHOWN)
        for path, old, new in shown:
            first.setdefault(path, old)
            last[path] = new
        seen = {path for path, _, _ in shown}
        effects = await snapshots.effects(before, after)
        large |= {each.path for each in effects if _has_other_content(each)} - seen
    found = {
        path: SessionFile(path=path, old=first[path], new=last[path])
        for path in first
        if first[path] != last[path] and path not in large
    }
    named = {path: SessionFile(path=path, old=None, new=None, large=True) for path in large}
    return tuple(each for _, each in sorted((found | named).items()))


def _has_other_content(effect: Effect) -> bool:
    """Other rights alone, or a folder, are no content."""
    versions = [each for each in (effect.before, effect.after) if each]
    return all(map(is_leaf, versions)) and len({each.blob for each in versions}) == len(versions)


def review_of(program: str, files: Sequence[SessionFile]) -> Review:
    """`program` is the git that compares, if there is one."""
    room = MOST_SHOWN
    shown: list[ChangedFile] = []
    for each in files:
        room -= len(each.new or b"")
        shown.append(_shown(program if room > 0 else "", each))
    stats = WorktreeStats(
        files=len(shown),
        added=sum(each.added for each in shown),
        removed=sum(each.removed for each in shown),
    )
    return Review(scope="session", base="", stats=stats, files=tuple(shown))


def diff_of_session(
    program: str, files: Sequence[SessionFile], path: str, *, context: int
) -> TextDiff:
    found = find_file(files, path)
    shown = _shown(program, found)
    if found.large:
        return TextDiff(file=shown, note="Too large to be shown, or no plain file.")
    return diff_of_sides(program, shown, _side(found.old), _side(found.new), context=context)


def find_file(files: Sequence[SessionFile], path: str) -> SessionFile:
    for each in files:
        if each.path == path:
            return each
    raise InTheWay(Code.NOTHING_TO_DO, f"This session has not changed {path}.", [path])


def _shown(program: str, file: SessionFile) -> ChangedFile:
    old, new = _side(file.old), _side(file.new)
    binary = old.is_binary or new.is_binary
    counts = not binary and bool(program) and not file.large
    lines = line_changes(program, file.old or b"", file.new or b"", context=0) if counts else ()
    kinds = [line.kind for line in lines]
    return ChangedFile(
        path=file.path,
        kind=file.kind,
        added=kinds.count("added"),
        removed=kinds.count("removed"),
        binary=binary,
        image=bool(old.picture or new.picture),
        too_large=file.large or not program,
        digest=file.digest,
    )


def _side(data: bytes | None) -> Side:
    return NOTHING if data is None else Side(PLAIN, len(data), _named(data).hex(), data)


def _named(data: bytes | None) -> bytes:
    return b"" if data is None else sha256(data).digest()
