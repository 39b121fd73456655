"""Restoring: what is planned, what is put back, how to undo that, and what the user is told."""

import os
import secrets
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from rookery import faults
from rookery.checkpoints.checkpoint_reader import blob, differences, made_repositories
from rookery.checkpoints.checkpoint_snapshot import Pause, Taking
from rookery.checkpoints.file_versions import version_at
from rookery.checkpoints.shadow_repository import ShadowRepository, Snapshot, Steps
from rookery.core.facts import Effect, FileVersion
from rookery.core.protected_paths import holds_secrets
from rookery.core.undo_plan import UndoPlan, is_leaf, only_takes_back, plan, worth_telling
from rookery.engine.ports.workspace import Restored
from rookery.errors import StorageError
from rookery.platform.paths import visible

if TYPE_CHECKING:
    from rookery.checkpoints.file_restore import PutBack

_NOT_WHOLE = ("Desktop", "Documents", "Downloads")
_NAMED_FAILURES = 3
_NAMED = 20


class RestoreRequest(Struct, frozen=True):
    """Which steps shall be taken back; of all files, or of some `only`."""

    steps: Steps
    overwrite: bool
    only: Collection[str] | None


class Restoring:
    """For one thread at a time, and only under the repository's lock. Files larger than `most`
    are not looked into; they and repositories are moved `aside`."""

    def __init__(
        self,
        root: Path,
        repository: ShadowRepository,
        taking: Taking,
        *,
        most: int,
        aside: Path,
    ) -> None:
        self._root = root
        self._repository = repository
        self._taking = taking
        self._most = most
        self._aside = aside
        self._finished: Steps = ()
        """What was taken back last, to its end."""

    def rehearse(self, wish: RestoreRequest) -> Restored:
        planned = plan(self._to_take_back(wish), self._now, overwrite=wish.overwrite)
        planned = self._without_secrets(planned)[0]
        repositories = self._repositories_of(wish)
        return Restored(
            effects=presentable((*worth_telling(planned.changes), *repositories)),
            kept=tuple(map(visible, planned.kept)),
        )

    def restore(self, wish: RestoreRequest, pause: Pause) -> Restored:
        from rookery.checkpoints.file_restore import put_back

        taken_back = self._to_take_back(wish)
        touched = sorted({effect.path for step in taken_back for effect in step})
        before = self._begin(wish, self._taking.take(None, touched, pause).snapshot, taken_back)
        faults.kp("restore.saved")
        repositories, where = self._set_aside(self._repositories_of(wish))
        planned = plan(taken_back, self._recoverable_now, overwrite=wish.overwrite)
        planned, secrets_lost = self._without_secrets(planned)
        keep = self._aside / f"command-{secrets.token_hex(4)}" if wish.only is not None else None
        put = put_back(
            self._root,
            planned.changes,
            partial(blob, self._repository),
            most=self._most,
            aside=self._aside,
            keep=keep,
            attributes=self._attributes(wish),
        )
        faults.kp("restore.done")
        told = (
            where,
            kept_aside(put),
            never_saved(planned.unsaved),
            not_kept(secrets_lost),
            failures(put),
        )
        after, problem = "", " ".join(filter(None, told))
        try:
            after = self._taking.take(None, touched, pause).snapshot.id
        except (OSError, StorageError) as error:
            problem = f"{problem} Undoing this restore will not be possible: {said(error)}."
        self._finished = wish.steps
        return Restored(
            before=before.id,
            after=after,
            effects=presentable((*worth_telling(put.done), *repositories)),
            kept=tuple(map(visible, sorted({*planned.kept, *put.kept}))),
            problem=problem.strip(),
            aside=str(keep) if keep and keep.exists() else "",
        )

    def _to_take_back(self, wish: RestoreRequest) -> list[list[Effect]]:
        return [differences(self._repository, *step, wish.only) for step in wish.steps]

    def _attributes(self, wish: RestoreRequest) -> dict[str, str]:
        """What is noted of files before the first step that is taken back."""
        found: dict[str, str] = {}
        for before, _ in reversed(wish.steps):
            found |= dict(self._repository.snapshot(before).beside.attributes)
        return found

    def _without_secrets(self, planned: UndoPlan) -> tuple[UndoPlan, list[str]]:
        """The plan without files that hold secrets, if their content went with the process that
        saw it."""
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
        self, wish: RestoreRequest, now: Snapshot, taken_back: Sequence[Sequence[Effect]]
    ) -> Snapshot:
        """Where the restore begins: if it was begun before and killed, and nothing else has
        happened since, it is where that one began."""
        if wish.only is not None:
            return now
        begun = self._repository.begun_restore(wish.steps)
        if begun and wish.steps != self._finished:
            done = differences(self._repository, begun.id, now.id)
            if only_takes_back(done, taken_back):
                return begun
        self._repository.begin_restore(wish.steps, now.id)
        return now

    def _repositories_of(self, wish: RestoreRequest) -> list[Effect]:
        """What it takes that repositories which steps made are there no more."""
        made = made_repositories(self._repository, wish.steps) if wish.only is None else ()
        found = ((path, self._now(path)) for path in sorted(set(made)))
        return [Effect(path, there, None) for path, there in found if there]

    def _set_aside(self, repositories: Sequence[Effect]) -> tuple[list[Effect], str]:
        """Never destroyed: there may be commits in them that somebody else has made since."""
        from rookery.checkpoints.file_restore import set_aside

        done, told = list[Effect](), list[str]()
        for effect in repositories:
            try:
                where = set_aside(self._root, effect.path, self._aside)
            except OSError as error:
                told.append(f"{visible(effect.path)} was skipped: {said(error)}.")
            else:
                done.append(effect)
                told.append(f"The repository {visible(effect.path)} was moved to {where}.")
        return done, " ".join(told)

    def _now(self, path: str) -> FileVersion | None:
        try:
            return version_at(self._root, path, self._most)
        except PermissionError:  # it is in a folder that is closed
            return FileVersion("", 0)

    def _recoverable_now(self, path: str) -> FileVersion | None:
        """The same; but what was written after the last checkpoint, no plan may touch."""
        now = self._now(path)
        if (
            is_leaf(now)
            and now
            and now.blob
            and bytes.fromhex(now.blob) not in self._repository.store
        ):
            return FileVersion("", now.mode)
        return now


def refusal(root: Path) -> str:
    """Why a folder is too much to be kept: people have their whole lives in it."""
    home = Path(os.path.expanduser("~")).resolve()
    if root == home or root in home.parents:
        return f"{root} is the home folder or contains it; use a folder inside"
    if root.parent == home and root.name in _NOT_WHOLE:
        return f"{root} contains several projects; use one of their folders"
    return ""


def presentable(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """With names that can be shown and written down, whatever is in them."""
    return tuple(Effect(visible(e.path), e.before, e.after) for e in effects)


def failures(put: "PutBack") -> str:
    if not put.failed:
        return ""
    named = _listed([f"{visible(path)}: {why}" for path, why in put.failed], _NAMED_FAILURES)
    return f"These were not restored ({named}). Fix the cause, then restore again."


def kept_aside(put: "PutBack") -> str:
    if not put.aside:
        return ""
    named = _listed([f"{visible(path)} to {visible(where)}" for path, where in put.aside], _NAMED)
    return f"No checkpoint has these, so they were moved: {named}."


def never_saved(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    named = _listed([visible(path) for path in paths], _NAMED)
    return f"These could not be saved (too large, or not files) and stay as they are: {named}."


def not_kept(secrets: Sequence[str]) -> str:
    if not secrets:
        return ""
    named = _listed([visible(path) for path in secrets], _NAMED)
    return f"Checkpoints do not store ignored files that may hold secrets: {named}."


def _listed(what: Sequence[str], most: int) -> str:
    more = len(what) - most
    return "; ".join([*what[:most], *([f"and {more} more"] if more > 0 else [])])


def said(error: Exception) -> str:
    """What an error says, in the middle of a sentence."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return text[:1].lower() + text[1:].rstrip(".")
