"""All review operations on a project's worktrees, including reverting a file.

A file is reverted only if it is as the user saw it, and its content is saved first.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from rookery import faults
from rookery.checkpoints.file_restore import FileRestorer, version_at
from rookery.checkpoints.file_versions import path_parts
from rookery.core.facts import Effect, Event, FilesChanged, FilesRestored, FileVersion
from rookery.core.limits import MIB
from rookery.core.undo_plan import folder_with, is_folder, is_leaf, is_unknown
from rookery.manager.dependencies import Snapshots
from rookery.manager.review.checkout_changes import (
    Checkout,
    GitScope,
    RawChange,
    raw_changes,
)
from rookery.manager.review.file_diffs import (
    TextDiff,
    diff_of_sides,
    digest_of,
)
from rookery.manager.review.file_sides import (
    LARGEST_SHOWN,
    NOTHING,
    HeldFile,
    Side,
    held_file,
    line_changes,
    new_side,
)
from rookery.manager.shown_rows import ChangedFile, FileKind, Review, WorktreeStats
from rookery.manager.worktrees.checkout_files import LINK, PROGRAM
from rookery.manager.worktrees.keep import keep_files
from rookery.manager.worktrees.merge import demand_no_filter
from rookery.platform.descriptors import opened_folder
from rookery.platform.git_objects import ObjectKind, object_id
from rookery.platform.paths import visible
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_values import Code, KeptWork, digest

MOST_FILES = 1000
"""Files shown of one step."""
MOST_SHOWN = 20 * MIB


class SessionFile(Struct, frozen=True, kw_only=True):
    """A file before and after a session's changes; None if it did not exist or is too large."""

    path: str
    old: HeldFile | None
    new: HeldFile | None
    large: bool = False

    @property
    def kind(self) -> FileKind:
        if self.old is None and not self.large:
            return "added"
        return "removed" if self.new is None and not self.large else "changed"

    @property
    def digest(self) -> str:
        return digest("session", self.path, _side(self.old).known_by, _side(self.new).known_by)


def steps_of(events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    """Checkpoints before and after each change of files, oldest first."""
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
    """Files the steps changed. Raises `StorageError` if a checkpoint is gone."""
    first: dict[str, HeldFile | None] = {}
    last: dict[str, HeldFile | None] = {}
    large: set[str] = set()
    for before, after in steps:
        shown = await snapshots.diff(before, after, files=MOST_FILES, size=LARGEST_SHOWN)
        effects = {each.path: each for each in await snapshots.effects(before, after)}
        for path, old, new in shown:
            effect = effects.get(path, Effect(path, None, None))
            first.setdefault(path, held_file(old, effect.before))
            last[path] = held_file(new, effect.after)
        seen = {path for path, _, _ in shown}
        large |= {each.path for each in effects.values() if _has_other_content(each)} - seen
    found = {
        path: SessionFile(path=path, old=first[path], new=last[path])
        for path in first
        if first[path] != last[path] and path not in large
    }
    named = {path: SessionFile(path=path, old=None, new=None, large=True) for path in large}
    return tuple(each for _, each in sorted((found | named).items()))


def _has_other_content(effect: Effect) -> bool:
    """Whether file content changed, not only permissions or a folder."""
    versions = [each for each in (effect.before, effect.after) if each]
    return all(map(is_leaf, versions)) and len({each.blob for each in versions}) == len(versions)


def review_of(program: str, files: Sequence[SessionFile]) -> Review:
    """Review of a session's files. Without a git `program`, lines are not counted."""
    room = MOST_SHOWN
    shown: list[ChangedFile] = []
    for each in files:
        room -= len(each.new.data) if each.new else 0
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
        return TextDiff(file=shown, note="Too large to show, or not a plain file.")
    return diff_of_sides(program, shown, _side(found.old), _side(found.new), context=context)


def find_file(files: Sequence[SessionFile], path: str) -> SessionFile:
    for each in files:
        if each.path == path:
            return each
    raise InTheWay(Code.NOTHING_TO_DO, f"This session did not change {path}.", [path])


def _shown(program: str, file: SessionFile) -> ChangedFile:
    old, new = _side(file.old), _side(file.new)
    binary = old.is_binary or new.is_binary
    counts = not binary and bool(program) and not file.large
    lines = line_changes(program, old.data or b"", new.data or b"", context=0) if counts else ()
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


def _side(held: HeldFile | None) -> Side:
    return held.side if held else NOTHING


LARGEST = 20 * MIB
_UNDOABLE: tuple[GitScope, ...] = ("branch", "unstaged")
_FOLDER_RIGHTS = 0o755
_NOT_AS_SHOWN = "changed since you saw it, so it was not reverted; look again."


def revert(checkout: Checkout, path: str, digest: str) -> KeptWork | None:
    """Revert a file to what it was compared with, which its `digest` identifies; return its saved
    content. Raises `InTheWay`, and does nothing, if it has changed since."""
    project = checkout.project
    with project.alone():
        scope, raw = _as_shown(checkout, path, digest)
        _demand_proper(raw)
        demand_no_filter(checkout.git, _places(raw))
        changes = list(_changes(checkout, raw))
        # the file may have been saved while git ran
        if digest not in _digests(checkout, scope, raw):
            raise _changed_since(path)
        about = f"{path} before it was reverted"
        kept = keep_files(project, _places(raw), about, git=checkout.git, name=checkout.name)
        faults.kp("review.kept")
        _write(checkout, raw, changes, kept)
        faults.kp("review.reverted")
        return kept


def revert_to(
    checkout: Checkout, path: str, *, now: HeldFile | None, then: HeldFile | None
) -> KeptWork | None:
    """Replace a file's content `now` by `then`; None is no file. Raises `InTheWay`, and does
    nothing, if it holds something else."""
    root = checkout.git.folder
    if "\\" in path:
        raise InTheWay(
            Code.OUTSIDE, f"{path} may be written differently on disk; revert it yourself.", [path]
        )
    with checkout.project.alone():
        names = path_parts(path)
        there = version_at(root, path, LARGEST) if names else None
        if names is None or not _holds(there, now):
            raise _changed_since(path)
        after = FileVersion(_blob(then.data), _rights(then, now, there)) if then else None
        changes = [*(_folders(root, path) if after else ()), Effect(path, there, after)]
        about = f"{path} before it was reverted"
        kept = keep_files(checkout.project, [path], about, git=checkout.git, name=checkout.name)
        faults.kp("review.kept")
        _put(checkout, path, changes, lambda _: then.data if then else b"", kept)
        faults.kp("review.reverted")
        return kept


def _holds(there: FileVersion | None, held: HeldFile | None) -> bool:
    if there is None or held is None:
        return there is None and held is None
    same_kind = stat.S_IFMT(there.mode) == stat.S_IFMT(held.mode)
    return same_kind and there.blob == _blob(held.data)


def _rights(then: HeldFile, now: HeldFile | None, there: FileVersion | None) -> int:
    """The file's current permissions, unless they are part of the change."""
    return there.mode if there and now and now.mode == then.mode else then.mode


def _blob(data: bytes) -> str:
    return object_id(ObjectKind.BLOB, data).hex()


def _as_shown(checkout: Checkout, path: str, digest: str) -> tuple[GitScope, RawChange]:
    """Find the change by its digest, of its bytes or, for a large file, of its times."""
    for scope in _UNDOABLE:
        for raw in raw_changes(checkout, scope).files:
            if visible(raw.path) == path and digest in _digests(checkout, scope, raw):
                return scope, raw
    raise _changed_since(path)


def _changed_since(path: str) -> InTheWay:
    return InTheWay(Code.CHANGED, f"{path} {_NOT_AS_SHOWN}", [path])


def _digests(checkout: Checkout, scope: GitScope, raw: RawChange) -> Iterator[str]:
    for read in (True, False):
        yield digest_of(scope, raw, new_side(checkout, raw, read=read))


def _demand_proper(raw: RawChange) -> None:
    if raw.is_module:
        raise InTheWay(Code.NOT_KEPT, f"{raw.path} is a submodule; revert it with git.", [raw.path])
    for path in _places(raw):
        if path_parts(path) is None:
            raise InTheWay(Code.OUTSIDE, f"{path!r} is not a path inside the worktree.", [path])


def _places(raw: RawChange) -> tuple[str, ...]:
    return (raw.path, raw.old_path) if raw.old_path else (raw.path,)


def _changes(checkout: Checkout, raw: RawChange) -> Iterator[Effect]:
    """Steps from the current state to the old one, including folders."""
    root = checkout.git.folder
    back = raw.old_path or raw.path
    for path in _places(raw):
        now = version_at(root, path, LARGEST)
        if is_unknown(now) or is_folder(now):
            raise InTheWay(
                Code.NOT_KEPT, f"{path} is a folder or too large; revert it with git.", [path]
            )
        if now and not (path == raw.path and raw.new_mode):
            why = f"{path} is there, but git ignores it; move it away first."
            raise InTheWay(Code.CHANGED, why, [path])
        then = _old_version(raw, now) if path == back and raw.old_mode else None
        if then:
            yield from _folders(root, path)
        if now != then:
            yield Effect(path, now, then)


def _old_version(raw: RawChange, now: FileVersion | None) -> FileVersion:
    """The old version with the current permissions, unless the mode has changed."""
    if raw.old_mode == LINK:
        return FileVersion(raw.old_id, stat.S_IFLNK)
    if now and stat.S_ISREG(now.mode) and raw.old_mode == raw.new_mode:
        return FileVersion(raw.old_id, now.mode)
    return FileVersion(raw.old_id, stat.S_IFREG | (0o755 if raw.old_mode == PROGRAM else 0o644))


def _folders(root: Path, path: str) -> Iterator[Effect]:
    names = path.split("/")[:-1]
    for depth in range(1, len(names) + 1):
        folder = "/".join(names[:depth])
        if version_at(root, folder, 0) is None:
            yield Effect(folder, None, folder_with(_FOLDER_RIGHTS))


def _write(
    checkout: Checkout, raw: RawChange, changes: list[Effect], kept: KeptWork | None
) -> None:
    git, path = checkout.git, raw.old_path or raw.path

    def content(known: str) -> bytes:
        if raw.old_mode == LINK:
            return git.run("cat-file", "blob", known).out
        return git.run("cat-file", "--filters", f"--path={path}", known).out

    _put(checkout, raw.path, changes, content, kept)


def _put(
    checkout: Checkout,
    path: str,
    changes: Sequence[Effect],
    content: Callable[[str], bytes],
    kept: KeptWork | None,
) -> None:
    git = checkout.git
    restorer = FileRestorer(git.folder, content, most=LARGEST, aside=git.git_folder)
    done = restorer.put_back(changes)
    for change in changes:
        if change.after is None:
            _drop_empty(git.folder, change.path)
    if len(done.done) < len(changes):
        why = "; ".join(f"{where}: {said}" for where, said in done.failed) or "it has changed"
        raise InTheWay(
            Code.CHANGED,
            f"{path} could not be reverted ({why})"
            f"{f'; its content is saved as {kept.ref}' if kept else ''}. Look again.",
            [path],
        )


def _drop_empty(root: Path, path: str) -> None:
    """Remove parent folders that are empty, innermost first."""
    names = path.split("/")[:-1]
    with suppress(OSError):  # not empty, or already gone
        while names:
            with opened_folder(root, names[:-1]) as folder:
                os.rmdir(names[-1], dir_fd=folder)
            names = names[:-1]
