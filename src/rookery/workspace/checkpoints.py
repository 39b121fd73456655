"""Checkpoints of the workspace: how its files were, and how they become so again.

All work is done in threads, one at a time for each workspace, whichever process it is in. What
goes wrong is told and never raised: a task goes on without checkpoints if it must.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from rookery import faults
from rookery.core.facts import Effect, Version
from rookery.core.limits import MIB, Limits
from rookery.core.undo import is_leaf, plan, worth_telling
from rookery.core.values import record
from rookery.engine.ports import Checkpoint, Restored
from rookery.errors import StorageError
from rookery.workspace.checkpoint_reading import blob, content, contents, differences, files_at
from rookery.workspace.checkpoint_upkeep import drop_oldest, forget_damage
from rookery.workspace.checkpoint_words import failures, presentable, refusal, said
from rookery.workspace.file_versions import version_at
from rookery.workspace.object_store import ObjectStore
from rookery.workspace.paths import visible
from rookery.workspace.putting_back import put_back
from rookery.workspace.shadow_repository import ShadowRepository, Snapshot
from rookery.workspace.snapshot_trees import UNSEEN, uncovered_among
from rookery.workspace.snapshots import Survey, is_protected
from rookery.workspace.stat_index import Rows, read_index, write_index

T = TypeVar("T")
Pause = Callable[[], None]

_WORTH_WRITING = 200
"""Files read anew from which on the index is written; fewer are quickly read again."""


class OutOfTime(StorageError):
    pass


@record
class _Taken:
    snapshot: Snapshot
    skipped: tuple[str, ...]


class ShadowCheckpoints:
    """`home` is the folder of the shadow repositories of all workspaces. It is never stored
    itself, and neither is what is `private`. What is `always` meant is stored though it be ignored.
    """

    def __init__(
        self,
        root: Path,
        home: Path,
        limits: Limits,
        *,
        private: Collection[Path] = (),
        always: Callable[[str], bool] = is_protected,
    ) -> None:
        self._root = root.resolve(strict=True)
        self._private = (home, *private)
        self._limits = limits
        self._always = always
        self._repository = ShadowRepository(home, self._root)
        self._last: Snapshot | None = None
        self._index: Rows | None = None
        self.recovered = ""
        """What was found damaged after a crash, in a sentence; usually nothing."""

    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        if why := refusal(self._root):
            return Checkpoint(problem=f"There are no checkpoints here: {why}.")
        try:
            return await _beside(partial(self._save, paths), self._limits.checkpoint_seconds)
        except (OSError, StorageError) as error:
            return Checkpoint(
                problem=f"No checkpoint was made, so this cannot be undone: {said(error)}."
            )

    async def effects(self, before: str, after: str) -> Sequence[Effect]:
        """Nothing if one of the two is no longer there."""
        try:
            return await _beside(
                partial(self._effects, before, after), self._limits.checkpoint_seconds
            )
        except (OSError, StorageError):
            return ()

    async def restore(
        self,
        steps: Sequence[tuple[str, str]],
        *,
        overwrite: bool,
        rehearse: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        if why := refusal(self._root):
            return Restored(problem=f"There are no checkpoints here: {why}.")
        work = partial(self._rehearse if rehearse else self._restore, steps, overwrite, only)
        try:
            # once begun it is brought to its end, whoever has lost interest
            with anyio.CancelScope(shield=True):
                restored = await _beside(work, 3 * self._limits.checkpoint_seconds)
        except (OSError, StorageError) as error:
            return Restored(problem=f"Nothing was restored: {said(error)}.")
        return restored

    async def usage(self) -> int:
        """The bytes that the checkpoints of this workspace take. Raises `OSError`, or
        `StorageError`.
        """
        return await _beside(self._usage, self._limits.checkpoint_seconds)

    async def tidy(self, keep: Collection[str]) -> str:
        return await self.clean_up(self._limits.checkpoint_bytes, keep)

    async def clean_up(self, quota: int, keep: Collection[str]) -> str:
        """Drop the oldest checkpoints that nobody keeps until `quota` bytes will do."""
        try:
            return await _beside(partial(self._clean_up, quota, keep), float("inf"))
        except (OSError, StorageError) as error:
            return f"The checkpoints of {self._root} could not be cleaned up: {said(error)}."

    async def health(self) -> str:
        """Check all that the newest checkpoint holds; a sentence if it is not all there."""
        try:
            return await _beside(self._check, float("inf"))
        except (OSError, StorageError) as error:
            return f"The checkpoints of {self._root} could not be checked: {said(error)}."

    async def files_at(self, checkpoint: str) -> dict[str, Version]:
        """Every file and link of a checkpoint. Raises `StorageError`, as the next two do."""
        return await self._read(partial(files_at, checkpoint=checkpoint))

    async def content(self, checkpoint: str, path: str) -> bytes | None:
        """What was in a file; None if it was not there."""
        return await self._read(partial(content, checkpoint=checkpoint, path=path))

    async def diff(
        self, before: str, after: str, *, files: int = 200, size: int = MIB
    ) -> list[tuple[str, bytes | None, bytes | None]]:
        """What was and is in the files that differ: at most so many, none larger than `size`."""
        return await self._read(
            partial(contents, before=before, after=after, files=files, size=size)
        )

    async def _read(self, read: Callable[[ShadowRepository], T]) -> T:
        return await _beside(partial(self._reading, read), self._limits.checkpoint_seconds)

    def _save(self, paths: Sequence[str] | None, pause: Pause) -> Checkpoint:
        with self._alone(pause):
            taken = self._take(paths, (), pause)
            try:
                self._store.tidy()
            except OSError:  # it only saves time later
                self._store.discard()
        return Checkpoint(id=taken.snapshot.id, skipped=taken.skipped)

    def _effects(self, before: str, after: str, pause: Pause) -> Sequence[Effect]:
        with self._alone(pause):
            return presentable(worth_telling(differences(self._repository, before, after)))

    def _rehearse(
        self,
        steps: Sequence[tuple[str, str]],
        overwrite: bool,
        only: Collection[str] | None,
        pause: Pause,
    ) -> Restored:
        with self._alone(pause):
            taken_back = [differences(self._repository, *step, only) for step in steps]
            planned = plan(taken_back, self._now, overwrite=overwrite)
        return Restored(
            effects=presentable(worth_telling(planned.changes)),
            kept=tuple(map(visible, planned.kept)),
        )

    def _restore(
        self,
        steps: Sequence[tuple[str, str]],
        overwrite: bool,
        only: Collection[str] | None,
        pause: Pause,
    ) -> Restored:
        with self._alone(pause):
            taken_back = [differences(self._repository, *step, only) for step in steps]
            touched = sorted({effect.path for step in taken_back for effect in step})
            before = self._take(None, touched, pause).snapshot
            faults.kp("restore.saved")
            planned = plan(taken_back, self._recoverable_now, overwrite=overwrite)
            put = put_back(self._root, planned.changes, partial(blob, self._repository), self._most)
            faults.kp("restore.done")
            after, problem = "", failures(put)
            try:
                after = self._take(None, touched, pause).snapshot.id
            except (OSError, StorageError) as error:
                problem = f"{problem} Undoing this restore will not be possible: {said(error)}."
        return Restored(
            before=before.id,
            after=after,
            effects=presentable(worth_telling(put.done)),
            kept=tuple(map(visible, sorted({*planned.kept, *put.kept}))),
            problem=problem.strip(),
        )

    def _take(self, paths: Sequence[str] | None, also: Sequence[str], pause: Pause) -> _Taken:
        """A checkpoint of now, in which nothing of `also` is left out for being ignored. It is
        the one before, if nothing has changed since.
        """
        store, base = self._store, self._base()
        survey = Survey(
            self._root,
            store,
            self._limits,
            index=self._known(),
            private=self._private,
            pause=pause,
            always=self._always,
        )
        try:
            trees = survey.everything() if paths is None else base.trees if base else UNSEEN
        except OutOfTime:
            store.flush()  # so that the next try begins where this one ended
            self._keep(survey)
            raise
        named = (*(paths or ()), *uncovered_among(store, trees, also))
        trees = survey.named(trees, named)
        skipped = survey.skipped.told()
        if base and base.trees == trees:
            store.flush()
        else:
            title = "Everything" if paths is None else f"{len(paths)} named"
            base = self._repository.add(trees, title, named=named, skipped=skipped)
        self._last = base
        if paths is None:
            self._keep(survey)
        return _Taken(base, skipped)

    def _base(self) -> Snapshot | None:
        """What this task saw last, as others go their own ways; the newest if it saw none."""
        if self._last and bytes.fromhex(self._last.id) in self._store:
            return self._last
        return self._repository.newest()

    def _known(self) -> Rows:
        if self._index is None:
            self._index = read_index(self._repository.folder / "stat_index")
        return self._index

    def _keep(self, survey: Survey) -> None:
        self._index = survey.index
        if survey.read >= _WORTH_WRITING:
            with suppress(OSError):  # it only saves time
                write_index(self._repository.folder / "stat_index", survey.index)

    def _now(self, path: str) -> Version | None:
        return version_at(self._root, path, self._most)

    def _recoverable_now(self, path: str) -> Version | None:
        """The same; but what was written after the last checkpoint, no plan may touch."""
        now = self._now(path)
        if is_leaf(now) and now and now.blob and bytes.fromhex(now.blob) not in self._store:
            return Version("", now.mode)
        return now

    @property
    def _store(self) -> ObjectStore:
        return self._repository.store

    @property
    def _most(self) -> int:
        return self._limits.checkpoint_file_bytes

    def _usage(self, pause: Pause) -> int:
        if not self._repository.folder.exists():
            return 0
        with self._alone(pause):
            return self._store.usage()

    def _clean_up(self, quota: int, keep: Collection[str], pause: Pause) -> str:
        if not self._repository.folder.exists():
            return ""
        with self._alone(pause):
            dropped = drop_oldest(self._repository, quota, keep)
        if not dropped.checkpoints:
            return ""
        return (
            f"The {dropped.checkpoints} oldest checkpoints of {self._root} were dropped to free "
            f"{dropped.freed / MIB:.1f} MiB; what was done before them can no longer be undone."
        )

    def _check(self, pause: Pause) -> str:
        if not self._repository.folder.exists():
            return ""
        with self._alone(pause):
            return self._fall_back() or self.recovered

    def _fall_back(self) -> str:
        self._last = None
        faulty = forget_damage(self._repository)
        if not faulty:
            return ""
        return (
            f"The newest checkpoints of {self._root} are damaged ({faulty} of them) and cannot be "
            "restored completely; the ones before them, and all made from now on, can."
        )

    def _reading(self, read: Callable[[ShadowRepository], T], pause: Pause) -> T:
        with self._alone(pause):
            return read(self._repository)

    @contextmanager
    def _alone(self, pause: Pause) -> Iterator[None]:
        with self._repository.locked(pause) as died:
            if died:
                self.recovered = self._fall_back()
            yield


async def _beside(work: Callable[[Pause], T], seconds: float) -> T:
    """The work, in a thread that soon gives up if nobody waits for it any more."""
    stopped, deadline = threading.Event(), time.monotonic() + seconds

    def pause() -> None:
        if stopped.is_set():
            raise StorageError("It was stopped")
        if time.monotonic() > deadline:
            raise OutOfTime(f"It took longer than {seconds:g} s")

    try:
        return await anyio.to_thread.run_sync(work, pause, abandon_on_cancel=True)
    finally:
        stopped.set()
