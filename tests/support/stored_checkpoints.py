"""What a checkpoint holds, read from its repository."""

from rookery.checkpoints.checkpoint_restore import blob
from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.checkpoints.snapshot_trees import leaves
from rookery.core.facts import FileVersion


async def files_at(checkpoints: ShadowCheckpoints, checkpoint: str) -> dict[str, FileVersion]:
    """Every file and link of a checkpoint."""
    return await checkpoints._read(
        lambda repository: dict(leaves(repository.store, repository.snapshot(checkpoint).trees))
    )


async def content_at(checkpoints: ShadowCheckpoints, checkpoint: str, path: str) -> bytes:
    known = (await files_at(checkpoints, checkpoint))[path].blob
    return await checkpoints._read(lambda repository: blob(repository, known))
