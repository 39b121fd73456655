"""Checkpoints of the workspace: snapshots of its files that can be restored.

All work runs in threads, under a lock that allows one operation per workspace across processes.
Errors are returned as text and not raised: a task continues without checkpoints if it must.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

import anyio
import anyio.to_thread

from rookery.checkpoints.checkpoint_snapshot import (
    OutOfTime,
    Pause,
    SnapshotTaker,
    drop_oldest,
    forget_damage,
    reason_of,
    refusal,
)
from rookery.checkpoints.shadow_repository import (
    ShadowRepository,
    Steps,
    differ,
    differences,
    displayable,
)
from rookery.core.facts import Effect
from rookery.core.limits import MIB, Limits
from rookery.core.undo_plan import is_unknown, relevant_effects
from rookery.engine.ports.workspace import Checkpoint, Restored
from rookery.errors import StorageError

if TYPE_CHECKING:
    from rookery.checkpoints.checkpoint_restore import Restorer

T = TypeVar("T")

NOT_KEPT = "Files cannot be restored: checkpoints are turned off in the settings."


class ShadowCheckpoints:
    """Checkpoints in a shadow repository. `home` is the folder of the shadow repositories of all
    workspaces. `home` and the `private` paths are never stored."""

    _protected_only: ClassVar[bool] = False

    def __init__(
        self,
        root: Path,
        home: Path,
        limits: Limits,
        *,
        private: Collection[Path] = (),
    ) -> None:
        self._root = root.resolve(strict=True)
        self._limits = limits
        self._repository = ShadowRepository(home, self._root)
        self._taker = SnapshotTaker(
            self._root,
            self._repository,
            limits,
            private=(home, *private),
            protected_only=self._protected_only,
        )
        self._aside = home / "set-aside"
        self.recovered = ""
        """Damage that was found after a crash, as a sentence; usually empty."""

    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        return (await self._saved(paths, lambda saved: ()))[0]

    async def save_after(
        self, before: str, paths: Sequence[str] | None
    ) -> tuple[Checkpoint, Sequence[Effect]]:
        return await self._saved(paths, lambda saved: self._effects(before, saved.id))

    async def _saved(
        self, paths: Sequence[str] | None, compare: Callable[[Checkpoint], Sequence[Effect]]
    ) -> tuple[Checkpoint, Sequence[Effect]]:
        def work(pause: Pause) -> tuple[Checkpoint, Sequence[Effect]]:
            saved = self._save(paths, pause)
            try:
                return saved, compare(saved)
            except (OSError, StorageError):
                return saved, ()

        if why := self._refusal:
            return Checkpoint(problem=f"There are no checkpoints here: {why}."), ()
        try:
            return await self._in_thread(work)
        except (OSError, StorageError) as error:
            why = f"No checkpoint was made, so this cannot be undone: {reason_of(error)}."
            return Checkpoint(problem=why), ()

    async def effects(self, before: str, after: str) -> Sequence[Effect]:
        """Empty if one of the checkpoints no longer exists."""
        try:
            return await self._read(lambda _: self._effects(before, after))
        except (OSError, StorageError):
            return ()

    def _effects(self, before: str, after: str) -> Sequence[Effect]:
        found = differences(self._repository, before, after)
        return displayable(relevant_effects([e for e in found if not is_unknown(e.before)]))

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
        if why := self._refusal:
            return Restored(problem=f"There are no checkpoints here: {why}.")
        from rookery.checkpoints.checkpoint_restore import RestoreRequest

        request = RestoreRequest(steps, overwrite, only)

        def work(pause: Pause) -> Restored:
            if rehearse:
                return self._restorer.rehearse(request)
            return self._restorer.restore(request, pause)

        try:
            # a started restore is completed even if the caller is cancelled
            with anyio.CancelScope(shield=True):
                restored = await self._in_thread(work, 3 * self._limits.checkpoint_seconds)
        except (OSError, StorageError) as error:
            return Restored(problem=f"Nothing was restored: {reason_of(error)}.")
        return restored

    async def usage(self) -> int:
        """Bytes used by the checkpoints of this workspace. Raises `OSError` or `StorageError`."""
        if not self._repository.folder.exists():
            return 0
        return await self._read(lambda repository: repository.store.usage())

    async def tidy(self, keep: Collection[str]) -> str:
        return await self.clean_up(self._limits.checkpoint_bytes, keep)

    async def clean_up(self, quota: int, keep: Collection[str]) -> str:
        """Drop the oldest checkpoints not in `keep` until at most `quota` bytes are used."""
        if not self._repository.folder.exists():
            return ""
        try:
            dropped = await self._in_thread(
                lambda _: drop_oldest(self._repository, quota, keep), float("inf")
            )
        except (OSError, StorageError) as error:
            return f"The checkpoints of {self._root} could not be cleaned up: {reason_of(error)}."
        if not dropped.checkpoints:
            return ""
        return (
            f"The {dropped.checkpoints} oldest checkpoints of {self._root} were "
            f"dropped to free {dropped.freed / MIB:.1f} MiB; changes before them can "
            "no longer be undone."
        )

    async def health(self) -> str:
        """Check the newest checkpoint completely; return damage as a sentence."""
        if not self._repository.folder.exists():
            return ""
        try:
            return await self._in_thread(
                lambda _: self._fall_back() or self.recovered, float("inf")
            )
        except (OSError, StorageError) as error:
            return f"The checkpoints of {self._root} could not be checked: {reason_of(error)}."

    async def diff(
        self, before: str, after: str, *, files: int = 200, size: int = MIB
    ) -> list[tuple[str, bytes | None, bytes | None]]:
        """Old and new content of up to `files` changed files, none larger than `size`. Raises
        `StorageError`."""
        from rookery.checkpoints.checkpoint_restore import contents

        return await self._read(
            partial(contents, before=before, after=after, files=files, size=size)
        )

    async def _read(self, read: Callable[[ShadowRepository], T]) -> T:
        return await self._in_thread(lambda _: read(self._repository))

    def _save(self, paths: Sequence[str] | None, pause: Pause) -> Checkpoint:
        taken = self._taker.take(paths, (), pause)
        store = self._repository.store
        try:
            store.tidy()
        except OSError:  # tidying is optional
            store.discard()
        return Checkpoint(id=taken.snapshot.id, skipped=taken.skipped)

    @cached_property
    def _refusal(self) -> str:
        return refusal(self._root)

    @cached_property
    def _restorer(self) -> "Restorer":
        from rookery.checkpoints.checkpoint_restore import Restorer

        most = self._limits.checkpoint_file_bytes
        return Restorer(self._root, self._repository, self._taker, most=most, aside=self._aside)

    def _fall_back(self) -> str:
        self._taker.forget()
        faulty = forget_damage(self._repository)
        if not faulty:
            return ""
        return (
            f"The newest {faulty} checkpoints of {self._root} are damaged and cannot "
            "be restored completely. Earlier and new ones can."
        )

    async def _in_thread(self, work: Callable[[Pause], T], seconds: float | None = None) -> T:
        """Do the work under the lock, in a thread that stops soon after it is cancelled or its
        time is up."""
        limit = self._limits.checkpoint_seconds if seconds is None else seconds
        stopped, deadline = threading.Event(), time.monotonic() + limit

        def pause() -> None:
            if stopped.is_set():
                raise StorageError("It was stopped")
            if time.monotonic() > deadline:
                raise OutOfTime(f"It took longer than {limit:g} s")

        def locked_work() -> T:
            with self._repository.locked(pause) as died:
                if died:
                    self.recovered = self._fall_back()
                return work(pause)

        try:
            return await anyio.to_thread.run_sync(locked_work, abandon_on_cancel=True)
        finally:
            stopped.set()


class ProtectedFilesOnly(ShadowCheckpoints):
    """Checkpoints of protected files, so that those changed by a command can be restored."""

    _protected_only = True

    async def _saved(
        self, paths: Sequence[str] | None, compare: Callable[[Checkpoint], Sequence[Effect]]
    ) -> tuple[Checkpoint, Sequence[Effect]]:
        """Save before commands only: file tools ask about protected files by name."""
        return await super()._saved(None, compare) if paths is None else (Checkpoint(), ())

    async def restore(
        self,
        steps: Steps,
        *,
        overwrite: bool,
        rehearse: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        """Restore single files; undoing whole calls is not possible."""
        if only is None:
            return Restored(problem=NOT_KEPT)
        return await super().restore(steps, overwrite=overwrite, rehearse=rehearse, only=only)
