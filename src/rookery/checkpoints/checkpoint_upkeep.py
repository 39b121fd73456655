"""Keeping a shadow repository small and sound."""

import time
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct

from rookery.checkpoints.shadow_repository import ShadowRepository
from rookery.checkpoints.snapshot_trees import reachable
from rookery.errors import StorageError

_ROOM_AFTER_CLEAN_UP = 0.8
_JUST_NOW = 10.0


class Dropped(Struct, frozen=True):
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


def drop_unneeded(
    home: Path, needed: Collection[str], gone: Collection[str], *, others_work: bool
) -> str:
    """Drop the checkpoints of all workspaces that no session needs, with what they hold; a
    sentence if that was not possible. While `others_work`, one that was made just now may not
    be on their record yet; but those of `gone` were of deleted sessions."""
    problems: list[str] = []
    for repository in ShadowRepository.all_in(home):
        try:
            with repository.locked(lambda: None):
                _drop_unneeded(repository, needed, gone, others_work=others_work)
        except (OSError, StorageError) as error:
            problems.append(f"{repository.folder}: {error}")
    if not problems:
        return ""
    return f"Files of deleted sessions are still in checkpoints ({'; '.join(problems)})."


def _drop_unneeded(
    repository: ShadowRepository,
    needed: Collection[str],
    gone: Collection[str],
    *,
    others_work: bool,
) -> None:
    there = set(repository.checkpoints())
    kept = there & set(needed)
    if others_work and there:
        kept |= repository.made_since(time.time() - _JUST_NOW) - set(gone)
    if kept < there:
        repository.drop_all_but(kept)


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
