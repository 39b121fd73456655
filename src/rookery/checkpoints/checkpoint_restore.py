"""Read and restore checkpoints.

Functions that read one raise `StorageError`. A restore plans the changes, applies them, and reports
what was not restored.

A snapshot is taken before and after, so that a restore can itself be undone.
"""

import secrets
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import faults
from rookery.checkpoints.checkpoint_snapshot import Pause, SnapshotTaker, reason_of
from rookery.checkpoints.file_restore import version_at
from rookery.checkpoints.shadow_repository import (
    ShadowRepository,
    Snapshot,
    Steps,
    differences,
    displayable,
    made_repositories,
)
from rookery.core.facts import Effect, FileVersion
from rookery.core.protected_paths import holds_secrets
from rookery.core.undo_plan import (
    UndoPlan,
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


class Restorer(Struct):
    """Restores files. Not thread-safe, and the caller holds the repository's lock. Files larger
    than `most` are not read; these and whole repositories are moved to `aside`."""

    root: Path
    repository: ShadowRepository
    taker: SnapshotTaker
    most: int
    aside: Path
    _finished: Steps = ()
    """The steps of the last restore that completed."""

    def rehearse(self, request: RestoreRequest) -> Restored:
        planned = plan(self._effects_to_undo(request), self._now, overwrite=request.overwrite)
        planned, secrets_lost = self._without_secrets(planned)
        repositories = self._repositories_of(request)
        return Restored(
            effects=displayable((*relevant_effects(planned.changes), *repositories)),
            kept=tuple(map(visible, planned.kept)),
            unsaved=tuple(map(visible, sorted({*planned.unsaved, *secrets_lost}))),
        )

    def restore(self, request: RestoreRequest, pause: Pause) -> Restored:
        from rookery.checkpoints.file_restore import FileRestorer

        undone = self._effects_to_undo(request)
        touched = sorted({effect.path for step in undone for effect in step})
        before = self._begin(request, self.taker.take(None, touched, pause).snapshot, undone)
        faults.kp("restore.saved")
        repositories, where = self._set_aside(self._repositories_of(request))
        planned = plan(undone, self._recoverable_now, overwrite=request.overwrite)
        planned, secrets_lost = self._without_secrets(planned)
        keep = self.aside / f"command-{secrets.token_hex(4)}" if request.only is not None else None
        restorer = FileRestorer(
            self.root,
            partial(blob, self.repository),
            most=self.most,
            aside=self.aside,
            keep=keep,
            attributes=self._attributes(request),
        )
        put = restorer.put_back(planned.changes)
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
            after = self.taker.take(None, touched, pause).snapshot.id
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
        return [differences(self.repository, *step, request.only) for step in request.steps]

    def _attributes(self, request: RestoreRequest) -> dict[str, str]:
        """Attribute notes of the files, from before the first step to undo."""
        found: dict[str, str] = {}
        for before, _ in reversed(request.steps):
            found |= dict(self.repository.snapshot(before).metadata.attributes)
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
            and bytes.fromhex(change.after.blob) not in self.repository.store
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
        unfinished = self.repository.unfinished_restore(request.steps)
        if unfinished and request.steps != self._finished:
            done = differences(self.repository, unfinished.id, now.id)
            if only_undoes(done, undone):
                return unfinished
        self.repository.begin_restore(request.steps, now.id)
        return now

    def _repositories_of(self, request: RestoreRequest) -> list[Effect]:
        """Effects that remove the repositories created by the steps."""
        made = made_repositories(self.repository, request.steps) if request.only is None else ()
        found = ((path, self._now(path)) for path in sorted(set(made)))
        return [Effect(path, there, None) for path, there in found if there]

    def _set_aside(self, repositories: Sequence[Effect]) -> tuple[list[Effect], str]:
        """Move repositories aside, not delete them: others may have committed to them."""
        from rookery.checkpoints.file_restore import set_aside

        done, notes = list[Effect](), list[str]()
        for effect in repositories:
            try:
                where = set_aside(self.root, effect.path, self.aside)
            except OSError as error:
                notes.append(f"{visible(effect.path)} was skipped: {reason_of(error)}.")
            else:
                done.append(effect)
                notes.append(f"The repository {visible(effect.path)} was moved to {where}.")
        return done, " ".join(notes)

    def _now(self, path: str) -> FileVersion | None:
        try:
            return version_at(self.root, path, self.most)
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
            and bytes.fromhex(now.blob) not in self.repository.store
        ):
            return FileVersion("", now.mode)
        return now


def _note(sentence: str, named: Sequence[str], most: int = _NAMED) -> str:
    """The sentence with the names in it; empty if there are none."""
    more = [f"and {len(named) - most} more"] if len(named) > most else []
    return sentence.format("; ".join([*named[:most], *more])) if named else ""


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
