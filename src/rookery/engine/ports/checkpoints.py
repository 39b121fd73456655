"""Snapshots of the workspace, and what restoring one does."""

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct

from rookery.core.facts import Effect


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The files of the workspace at one moment, as the shadow repository calls it. Without an
    `id` there is none, and `problem` says why.
    """

    id: str = ""
    skipped: tuple[str, ...] = ()
    problem: str = ""


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore did, or would do: checkpoints before and after, what was put back, and
    what was left alone because somebody else had changed it. `aside` is the folder in which
    the replaced files are, if they were kept."""

    before: str = ""
    after: str = ""
    effects: tuple[Effect, ...] = ()
    kept: tuple[str, ...] = ()
    problem: str = ""
    aside: str = ""


class Checkpoints(Protocol):
    """Snapshots of the workspace. None of these ever fails a task: what cannot be done is said
    in `problem`."""

    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        """How the files are now: all of them, or only the ones named, the others being taken
        to be as they were last."""
        ...

    async def effects(self, before: str, after: str) -> Sequence[Effect]:
        """What differs between two checkpoints."""
        ...

    async def changed_files(self, before: str, after: str) -> bool:
        """Whether more than ignored files differs between two checkpoints; also if that cannot
        be found out."""
        ...

    async def tidy(self, keep: Collection[str]) -> str:
        """Remove the oldest checkpoints but those in `keep`, if together they take too much
        room; what was done in a sentence, or nothing."""
        ...

    async def restore(
        self,
        steps: Sequence[tuple[str, str]],
        *,
        overwrite: bool,
        rehearse: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        """Take back steps, each from one checkpoint to another, oldest first; of all files or
        of some `only`. `rehearse` only tells what would be done."""
        ...
