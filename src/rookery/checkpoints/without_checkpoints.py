"""For whoever does not want checkpoints: what a call did cannot be taken back.

Only protected files are remembered, so that those which a command changes by itself can be put
back after it.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from rookery.checkpoints.checkpoint_snapshot import PROTECTED_FILES
from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.facts import Effect
from rookery.core.limits import Limits
from rookery.engine.ports.checkpoints import Checkpoint, Restored

NOT_KEPT = "Files cannot be put back: checkpoints are switched off in the settings."


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
