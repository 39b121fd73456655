"""What checkpoints hold and how they differ. All of these raise `StorageError`."""

from collections.abc import Collection, Iterator

from rookery.checkpoints.checkpoint_commits import Steps
from rookery.checkpoints.shadow_repository import ShadowRepository
from rookery.checkpoints.snapshot_effects import effects
from rookery.checkpoints.snapshot_trees import leaves, version_of
from rookery.core.facts import Effect, Version
from rookery.core.undo_plan import is_folder, is_leaf, is_unknown
from rookery.platform.git.git_packs import Kind
from rookery.platform.paths import visible


def differences(
    repository: ShadowRepository, before: str, after: str, only: Collection[str] | None = None
) -> list[Effect]:
    """What differs, folders included; of all files, or of some as they are presented."""
    old, new = repository.snapshot(before), repository.snapshot(after)
    found = effects(
        repository.store,
        old.trees,
        new.trees,
        sure_before={*old.named, *old.gone, *new.named},
        sure_after={*new.named, *new.gone},
        not_before=() if old.beside.hidden is None else new.beside.hidden or (),
    )
    return [effect for effect in found if only is None or _is_chosen(effect, only)]


def differ(repository: ShadowRepository, before: str, after: str) -> bool:
    """Whether there is a difference that undo could take back, or at least name."""
    made = made_repositories(repository, [(before, after)])
    return bool(differences(repository, before, after)) or any(made)


def made_repositories(repository: ShadowRepository, steps: Steps) -> Iterator[str]:
    """Where steps made a repository, the workspace's own excepted."""
    for before, after in steps:
        was = repository.snapshot(before).beside.repositories
        now = repository.snapshot(after).beside.repositories
        if was is not None and now is not None:
            yield from (path for path in now if path not in was and path != ".git")


def files_at(repository: ShadowRepository, checkpoint: str) -> dict[str, Version]:
    return dict(leaves(repository.store, repository.snapshot(checkpoint).trees))


def content(repository: ShadowRepository, checkpoint: str, path: str) -> bytes | None:
    version = version_of(repository.store, repository.snapshot(checkpoint).trees, path)
    return blob(repository, version.blob) if version and not is_folder(version) else None


def contents(
    repository: ShadowRepository, before: str, after: str, *, files: int, size: int
) -> list[tuple[str, bytes | None, bytes | None]]:
    found: list[tuple[str, bytes | None, bytes | None]] = []
    for effect in differences(repository, before, after):
        versions = effect.before, effect.after
        if any(map(is_unknown, versions)) or not all(_is_stored(repository, v) for v in versions):
            continue
        was, now = (blob(repository, v.blob) if v and is_leaf(v) else None for v in versions)
        if was == now or max(len(was or b""), len(now or b"")) > size:
            continue
        found.append((visible(effect.path), was, now))
        if len(found) == files:
            break
    return found


def _is_stored(repository: ShadowRepository, version: Version | None) -> bool:
    """Not so for files that hold secrets, which are shown nowhere."""
    return not (version and is_leaf(version)) or repository.store.is_written(
        bytes.fromhex(version.blob)
    )


def blob(repository: ShadowRepository, known: str) -> bytes:
    return repository.store.read(bytes.fromhex(known), Kind.BLOB)


def _is_chosen(effect: Effect, only: Collection[str]) -> bool:
    """Whether it is one of these, or a folder without which one of these cannot come back."""
    path = visible(effect.path)
    needed = is_folder(effect.before) and any(each.startswith(f"{path}/") for each in only)
    return path in only or needed
