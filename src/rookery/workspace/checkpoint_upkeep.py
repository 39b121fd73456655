"""Keeping a shadow repository small and sound."""

from collections.abc import Collection, Sequence

from rookery.core.values import record
from rookery.errors import StorageError
from rookery.workspace.shadow_repository import ShadowRepository
from rookery.workspace.snapshot_trees import reachable

_ROOM_AFTER_CLEAN_UP = 0.8


@record
class Dropped:
    checkpoints: int = 0
    freed: int = 0


def drop_oldest(repository: ShadowRepository, quota: int, keep: Collection[str]) -> Dropped:
    """Drop checkpoints that nobody keeps, the oldest first, until `quota` bytes will do."""
    used, there = repository.store.usage(), repository.checkpoints()
    if used <= quota or not there:
        return Dropped()
    kept = _worth_keeping(repository, there, {*keep, there[-1]}, quota * _ROOM_AFTER_CLEAN_UP)
    repository.drop_all_but(kept)
    return Dropped(len(set(there) - kept), used - repository.store.usage())


def forget_damage(repository: ShadowRepository) -> int:
    """Find the newest checkpoint that is whole, and forget what is damaged of those after it,
    so that it is stored anew when it is next met. Tells how many were damaged.
    """
    faulty = 0
    for known in reversed(repository.checkpoints()):
        try:
            damaged = repository.damaged(repository.snapshot(known))
        except StorageError:
            damaged = [bytes.fromhex(known)]
        if not damaged:
            break
        repository.store.without(damaged)
        faulty += 1
    return faulty


def _worth_keeping(
    repository: ShadowRepository, there: Sequence[str], keep: Collection[str], room: float
) -> set[str]:
    """What must be kept, then the newest of the others as long as there is room."""
    sizes, seen, kept = repository.store.stored_sizes(), set[bytes](), set[str]()
    wanted = [known for known in reversed(there) if known in keep]
    others = [known for known in reversed(there) if known not in keep]
    for known in [*wanted, *others]:
        try:
            root = repository.snapshot(known).root
            new = [each for each, _ in reachable(repository.store, root, seen)]
        except StorageError:
            continue
        room -= sum(sizes.get(each, 0) for each in new)
        if room < 0 and known not in keep:
            break
        kept.add(known)
    return kept
