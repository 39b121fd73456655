"""Checkpoints of the workspace: how its files were, and how they become so again.

All work is done in threads, one at a time for each workspace, whichever process it is in. What
goes wrong is told and never raised: a task goes on without checkpoints if it must.

`WithoutCheckpoints` is for users who want none: what a call did cannot be undone.
`ProtectedFilesOnly` remembers those files alone, so that those which a command changes by itself
can be put back after it.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from rookery.checkpoints.checkpoint_reader import (
    content,
    contents,
    differ,
    differences,
    files_at,
)
from rookery.checkpoints.checkpoint_restore import (
    RestoreRequest,
    Restoring,
    presentable,
    refusal,
    said,
)
from rookery.checkpoints.checkpoint_snapshot import (
    PROTECTED_FILES,
    WHOLE_WORKSPACE,
    OutOfTime,
    Pause,
    SnapshotScope,
    Taking,
    drop_oldest,
    forget_damage,
)
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.shadow_repository import ShadowRepository, Steps
from rookery.core.facts import Effect, FileVersion
from rookery.core.limits import MIB, Limits
from rookery.core.undo_plan import is_unknown, worth_telling
from rookery.engine.ports.workspace import Checkpoint, Restored
from rookery.errors import StorageError

T = TypeVar("T")

NOT_KEPT = "Files cannot be restored: checkpoints are turned off in the settings."


class ShadowCheckpoints:
    """`home` is the folder of the shadow repositories of all workspaces. It is never stored
    itself, and neither is what is `private`. `scope` is what belongs to a checkpoint.
    """

    def __init__(
        self,
        root: Path,
        home: Path,
        limits: Limits,
        *,
        private: Collection[Path] = (),
        scope: SnapshotScope = WHOLE_WORKSPACE,
    ) -> None:
        self._root = root.resolve(strict=True)
        self._limits = limits
        self._repository = ShadowRepository(home, self._root)
        self._taking = Taking(
            self._root, self._repository, limits, private=(home, *private), scope=scope
        )
        self._restoring = Restoring(
            self._root,
            self._repository,
            self._taking,
            most=limits.checkpoint_file_bytes,
            aside=home / "set-aside",
        )
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

    async def changed_files(self, before: str, after: str) -> bool:
        if before == after:
            return False
        try:
            return await self._read(partial(differ, before=before, after=after))
        except (OSError, StorageError):
            return True

    async def restore(
        self,
        steps: Steps,
        *,
        overwrite: bool,
        rehearse: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        if why := refusal(self._root):
            return Restored(problem=f"There are no checkpoints here: {why}.")
        wish = RestoreRequest(steps, overwrite, only)
        work = partial(self._rehearse if rehearse else self._restore, wish)
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

    async def files_at(self, checkpoint: str) -> dict[str, FileVersion]:
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
            taken = self._taking.take(paths, (), pause)
            try:
                self._store.tidy()
            except OSError:  # it only saves time later
                self._store.discard()
        return Checkpoint(id=taken.snapshot.id, skipped=taken.skipped)

    def _effects(self, before: str, after: str, pause: Pause) -> Sequence[Effect]:
        with self._alone(pause):
            found = differences(self._repository, before, after)
            return presentable(worth_telling([e for e in found if not is_unknown(e.before)]))

    def _rehearse(self, wish: RestoreRequest, pause: Pause) -> Restored:
        with self._alone(pause):
            return self._restoring.rehearse(wish)

    def _restore(self, wish: RestoreRequest, pause: Pause) -> Restored:
        with self._alone(pause):
            return self._restoring.restore(wish, pause)

    @property
    def _store(self) -> ObjectStore:
        return self._repository.store

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
            f"The {dropped.checkpoints} oldest checkpoints of {self._root} were "
            f"dropped to free {dropped.freed / MIB:.1f} MiB; changes before them can "
            "no longer be undone."
        )

    def _check(self, pause: Pause) -> str:
        if not self._repository.folder.exists():
            return ""
        with self._alone(pause):
            return self._fall_back() or self.recovered

    def _fall_back(self) -> str:
        self._taking.forget()
        faulty = forget_damage(self._repository)
        if not faulty:
            return ""
        return (
            f"The newest {faulty} checkpoints of {self._root} are damaged and cannot "
            "be restored completely. Earlier and new ones can."
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


class WithoutCheckpoints:
    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        return Checkpoint()

    async def effects(self, before: str, after: str) -> Sequence[Effect]:
        return ()

    async def changed_files(self, before: str, after: str) -> bool:
        return False

    async def tidy(self, keep: Collection[str]) -> str:
        return ""

    async def restore(
        self,
        steps: Sequence[tuple[str, str]],
        *,
        overwrite: bool,
        rehearse: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        return Restored(problem=NOT_KEPT)


class ProtectedFilesOnly:
    """`home` is the folder of the shadow repositories, as it is for checkpoints of everything."""

    def __init__(
        self, root: Path, home: Path, limits: Limits, *, private: Collection[Path] = ()
    ) -> None:
        self._kept = ShadowCheckpoints(root, home, limits, private=private, scope=PROTECTED_FILES)

    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        """Nothing for what file tools do: they have asked about protected files by name."""
        return await self._kept.save(None) if paths is None else Checkpoint()

    async def effects(self, before: str, after: str) -> Sequence[Effect]:
        return await self._kept.effects(before, after)

    async def changed_files(self, before: str, after: str) -> bool:
        return await self._kept.changed_files(before, after)

    async def tidy(self, keep: Collection[str]) -> str:
        return await self._kept.tidy(keep)

    async def restore(
        self,
        steps: Sequence[tuple[str, str]],
        *,
        overwrite: bool,
        rehearse: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        """Only single files, never all that a call did."""
        if only is None:
            return Restored(problem=NOT_KEPT)
        return await self._kept.restore(steps, overwrite=overwrite, rehearse=rehearse, only=only)
