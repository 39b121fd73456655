"""For whoever does not want checkpoints: nothing is saved, and nothing can be put back."""

from collections.abc import Collection, Sequence

from rookery.core.facts import Effect
from rookery.engine.ports import Checkpoint, Restored

NOT_KEPT = "Files cannot be put back: checkpoints are switched off in the settings."


class WithoutCheckpoints:
    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        return Checkpoint()

    async def effects(self, before: str, after: str) -> Sequence[Effect]:
        return ()

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
