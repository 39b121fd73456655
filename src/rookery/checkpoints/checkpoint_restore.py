"""Read, compare and restore checkpoints.

Functions that read one raise `StorageError`. A restore plans the changes, applies them, and reports
what was not restored.

A snapshot is taken before and after, so that a restore can itself be undone.
"""

import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import faults
from rookery.checkpoints.checkpoint_snapshot import Pause, SnapshotTaker
from rookery.checkpoints.file_versions import version_at
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.shadow_repository import ShadowRepository, Snapshot, Steps
from rookery.checkpoints.snapshot_trees import Folder, Trees, holds_ignored, leaves, version_of
from rookery.core.facts import Effect, FileVersion
from rookery.core.protected_paths import holds_secrets
from rookery.core.undo_plan import (
    UndoPlan,
    is_folder,
    is_leaf,
    is_unknown,
    only_undoes,
    plan,
    relevant_effects,
)
from rookery.engine.ports.workspace import Restored
from rookery.errors import StorageError
from rookery.platform.git_objects import ObjectKind
from rookery.platform.paths import visible

_NAMED_FAILURES = 3
_NAMED = 20
MOVED = "No checkpoint has these, so they were moved: {}."
NEVER_SAVED = "These could not be saved (too large, or not files) and stay as they are: {}."
NOT_KEPT = "Checkpoints do not store ignored files that may hold secrets: {}."
FAILED = "These were not restored ({}). Fix the cause, then restore again."


class RestoreRequest(Struct, frozen=True):
    """The steps to undo, oldest first; `only` limits the restore to these displayed paths."""

    steps: Steps
    overwrite: bool
    only: Collection[str] | None


class Restorer:
    """Restores files. Not thread-safe, and the caller holds the repository's lock. Files larger
    than `most` are not read; these and whole repositories are moved to `aside`."""

    def __init__(
        self,
        root: Path,
        repository: ShadowRepository,
        taker: SnapshotTaker,
        *,
        most: int,
        aside: Path,
    ) -> None:
        self._root = root
        self._repository = repository
        self._taker = taker
        self._most = most
        self._aside = aside
        self._finished: Steps = ()
        """The steps of the last restore that completed."""

    def rehearse(self, request: RestoreRequest) -> Restored:
        planned = plan(self._effects_to_undo(request), self._now, overwrite=request.overwrite)
        planned = self._without_secrets(planned)[0]
        repositories = self._repositories_of(request)
        return Restored(
            effects=displayable((*relevant_effects(planned.changes), *repositories)),
            kept=tuple(map(visible, planned.kept)),
        )

    def restore(self, request: RestoreRequest, pause: Pause) -> Restored:
        from rookery.checkpoints.file_restore import put_back

        undone = self._effects_to_undo(request)
        touched = sorted({effect.path for step in undone for effect in step})
        before = self._begin(request, self._taker.take(None, touched, pause).snapshot, undone)
        faults.kp("restore.saved")
        repositories, where = self._set_aside(self._repositories_of(request))
        planned = plan(undone, self._recoverable_now, overwrite=request.overwrite)
        planned, secrets_lost = self._without_secrets(planned)
        keep = self._aside / f"command-{secrets.token_hex(4)}" if request.only is not None else None
        put = put_back(
            self._root,
            planned.changes,
            partial(blob, self._repository),
            most=self._most,
            aside=self._aside,
            keep=keep,
            attributes=self._attributes(request),
        )
        faults.kp("restore.done")
        moved = [f"{visible(path)} to {visible(place)}" for path, place in put.aside]
        failed = [f"{visible(path)}: {why}" for path, why in put.failed]
        notes = (
            where,
            _note(MOVED, moved),
            _note(NEVER_SAVED, [*map(visible, planned.unsaved)]),
            _note(NOT_KEPT, [*map(visible, secrets_lost)]),
            _note(FAILED, failed, _NAMED_FAILURES),
        )
        after, problem = "", " ".join(filter(None, notes))
        try:
            after = self._taker.take(None, touched, pause).snapshot.id
        except (OSError, StorageError) as error:
            problem = f"{problem} Undoing this restore will not be possible: {reason_of(error)}."
        self._finished = request.steps
        return Restored(
            before=before.id,
            after=after,
            effects=displayable((*relevant_effects(put.done), *repositories)),
            kept=tuple(map(visible, sorted({*planned.kept, *put.kept}))),
            problem=problem.strip(),
            aside=str(keep) if keep and keep.exists() else "",
        )

    def _effects_to_undo(self, request: RestoreRequest) -> list[list[Effect]]:
        return [differences(self._repository, *step, request.only) for step in request.steps]

    def _attributes(self, request: RestoreRequest) -> dict[str, str]:
        """Attribute notes of the files, from before the first step to undo."""
        found: dict[str, str] = {}
        for before, _ in reversed(request.steps):
            found |= dict(self._repository.snapshot(before).metadata.attributes)
        return found

    def _without_secrets(self, planned: UndoPlan) -> tuple[UndoPlan, list[str]]:
        """Remove secret files from the plan if their content is gone: it is kept in memory only,
        by the process that read it. Also return the removed paths."""
        lost = {
            change.path
            for change in planned.changes
            if change.after
            and is_leaf(change.after)
            and holds_secrets(change.path)
            and bytes.fromhex(change.after.blob) not in self._repository.store
        }
        left = tuple(change for change in planned.changes if change.path not in lost)
        return replace(planned, changes=left), sorted(lost)

    def _begin(
        self, request: RestoreRequest, now: Snapshot, undone: Sequence[Sequence[Effect]]
    ) -> Snapshot:
        """The snapshot this restore starts from. If the same restore was killed half-way and
        nothing else has happened since, that is the snapshot the killed one started from."""
        if request.only is not None:
            return now
        unfinished = self._repository.unfinished_restore(request.steps)
        if unfinished and request.steps != self._finished:
            done = differences(self._repository, unfinished.id, now.id)
            if only_undoes(done, undone):
                return unfinished
        self._repository.begin_restore(request.steps, now.id)
        return now

    def _repositories_of(self, request: RestoreRequest) -> list[Effect]:
        """Effects that remove the repositories created by the steps."""
        made = made_repositories(self._repository, request.steps) if request.only is None else ()
        found = ((path, self._now(path)) for path in sorted(set(made)))
        return [Effect(path, there, None) for path, there in found if there]

    def _set_aside(self, repositories: Sequence[Effect]) -> tuple[list[Effect], str]:
        """Move repositories aside, not delete them: others may have committed to them."""
        from rookery.checkpoints.file_restore import set_aside

        done, notes = list[Effect](), list[str]()
        for effect in repositories:
            try:
                where = set_aside(self._root, effect.path, self._aside)
            except OSError as error:
                notes.append(f"{visible(effect.path)} was skipped: {reason_of(error)}.")
            else:
                done.append(effect)
                notes.append(f"The repository {visible(effect.path)} was moved to {where}.")
        return done, " ".join(notes)

    def _now(self, path: str) -> FileVersion | None:
        try:
            return version_at(self._root, path, self._most)
        except PermissionError:  # in a folder without read permission
            return FileVersion("", 0)

    def _recoverable_now(self, path: str) -> FileVersion | None:
        """The current version, marked unknown if no checkpoint has it, to keep plans away from
        it."""
        now = self._now(path)
        if (
            is_leaf(now)
            and now
            and now.blob
            and bytes.fromhex(now.blob) not in self._repository.store
        ):
            return FileVersion("", now.mode)
        return now


def _note(sentence: str, named: Sequence[str], most: int = _NAMED) -> str:
    """The sentence with the names in it; empty if there are none."""
    more = [f"and {len(named) - most} more"] if len(named) > most else []
    return sentence.format("; ".join([*named[:most], *more])) if named else ""


_NOT_WHOLE = ("Desktop", "Documents", "Downloads")


def differences(
    repository: ShadowRepository, before: str, after: str, only: Collection[str] | None = None
) -> list[Effect]:
    """Effects between two checkpoints, folders included; `only` limits them to displayed paths."""
    old, new = repository.snapshot(before), repository.snapshot(after)
    # what was looked at by name and is missing did not exist, even in an uncovered folder
    looked_at = _within({*old.named, *old.gone, *new.named})
    searched = frozenset(() if old.metadata.hidden is None else new.metadata.hidden or ())
    found = _effects(
        repository.store,
        old.trees,
        new.trees,
        "",
        lambda path: path in searched or looked_at(path),
        _within({*new.named, *new.gone}),
    )
    return [effect for effect in found if only is None or _is_chosen(effect, only)]


def differ(repository: ShadowRepository, before: str, after: str) -> bool:
    """Whether the checkpoints differ in a way that undo can revert, or at least report."""
    made = made_repositories(repository, [(before, after)])
    return bool(differences(repository, before, after)) or any(made)


def made_repositories(repository: ShadowRepository, steps: Steps) -> Iterator[str]:
    """Paths of the repositories that the steps created, except the workspace's own."""
    for before, after in steps:
        was = repository.snapshot(before).metadata.repositories
        now = repository.snapshot(after).metadata.repositories
        if was is not None and now is not None:
            yield from (path for path in now if path not in was and path != ".git")


def files_at(repository: ShadowRepository, checkpoint: str) -> dict[str, FileVersion]:
    return dict(leaves(repository.store, repository.snapshot(checkpoint).trees))


def content(repository: ShadowRepository, checkpoint: str, path: str) -> bytes | None:
    version = version_of(repository.store, repository.snapshot(checkpoint).trees, path)
    return blob(repository, version.blob) if version and not is_folder(version) else None


def contents(
    repository: ShadowRepository, before: str, after: str, *, files: int, size: int
) -> list[tuple[str, bytes | None, bytes | None]]:
    found: list[tuple[str, bytes | None, bytes | None]] = []
    for effect in differences(repository, before, after):
        versions = effect.before, effect.after
        if any(map(is_unknown, versions)) or not all(_is_stored(repository, v) for v in versions):
            continue
        was, now = (blob(repository, v.blob) if v and is_leaf(v) else None for v in versions)
        if was == now or max(len(was or b""), len(now or b"")) > size:
            continue
        found.append((visible(effect.path), was, now))
        if len(found) == files:
            break
    return found


def _is_stored(repository: ShadowRepository, version: FileVersion | None) -> bool:
    """False for the content of secret files, which is never written to disk or shown."""
    return not (version and is_leaf(version)) or repository.store.is_written(
        bytes.fromhex(version.blob)
    )


def blob(repository: ShadowRepository, known: str) -> bytes:
    return repository.store.read(bytes.fromhex(known), ObjectKind.BLOB)


def _is_chosen(effect: Effect, only: Collection[str]) -> bool:
    """Whether the effect is one of these, or restores a folder that one of these needs."""
    path = visible(effect.path)
    needed = is_folder(effect.before) and any(each.startswith(f"{path}/") for each in only)
    return path in only or needed


def _effects(
    store: ObjectStore,
    before: Trees,
    after: Trees,
    prefix: str,
    sure_before: Callable[[str], bool],
    sure_after: Callable[[str], bool],
) -> Iterator[Effect]:
    """Effects between two trees. The tests say of a missing path that it did not exist."""
    old, new = Folder(store, before), Folder(store, after)
    for name in sorted({*old.files, *new.files, *old.uncovered, *new.uncovered}):
        if old.same(name, new):
            continue
        path = f"{prefix}{name}"
        was = old.version(name) or old.unsaved(name)
        now = new.version(name) or new.unsaved(name)
        known = was or old.covers(name) or sure_before(path)
        changed = was != now or is_unknown(was)  # unsaved files differ in their marks only
        inner = old.folder(name), new.folder(name)
        if (
            changed
            and known
            and (now or new.covers(name) or sure_after(path))
            and not _is_only_about_ignored(store, *inner)
        ):
            yield Effect(path, was, now)
        if inner[0] or inner[1]:
            yield from _effects(
                store,
                inner[0] or old.uncovered_below(name),
                inner[1] or new.uncovered_below(name),
                f"{path}/",
                sure_before,
                sure_after,
            )


def _is_only_about_ignored(store: ObjectStore, old: Trees | None, new: Trees | None) -> bool:
    """Whether a folder was created only for ignored files, or removed with nothing else in it.
    Ignored files are neither removed nor stored, so restoring such a folder would fail or leave
    it empty."""
    if new and not old:
        return holds_ignored(store, new)
    if old and not new:
        return holds_ignored(store, old) and next(leaves(store, old), None) is None
    return False


def _within(named: Collection[str]) -> Callable[[str], bool]:
    """Return a test for paths that were named, or are above or below a named one."""
    tops = set(named)
    above = {parent for path in tops for parent in _parents(path)}
    return lambda path: (
        path in tops or path in above or any(parent in tops for parent in _parents(path))
    )


def _parents(path: str) -> list[str]:
    return [path[:at] for at, character in enumerate(path) if character == "/"]


def refusal(root: Path) -> str:
    """Why the folder gets no checkpoints, empty if it does: a home folder holds too much."""
    home = Path(os.path.expanduser("~")).resolve()
    if root == home or root in home.parents:
        return f"{root} is the home folder or contains it; use a folder inside"
    if root.parent == home and root.name in _NOT_WHOLE:
        return f"{root} contains several projects; use one of their folders"
    return ""


def displayable(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """The effects with unprintable characters in their paths escaped."""
    return tuple(Effect(visible(e.path), e.before, e.after) for e in effects)


def reason_of(error: Exception) -> str:
    """The error message, in a form that fits into a sentence."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return text[:1].lower() + text[1:].rstrip(".")
