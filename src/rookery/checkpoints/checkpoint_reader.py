"""Read checkpoints and compare them. All functions that read one raise `StorageError`."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.shadow_repository import ShadowRepository, Steps
from rookery.checkpoints.snapshot_trees import Folder, Trees, holds_ignored, leaves, version_of
from rookery.core.facts import Effect, FileVersion
from rookery.core.undo_plan import is_folder, is_leaf, is_unknown
from rookery.platform.git_objects import ObjectKind
from rookery.platform.paths import visible

_NOT_WHOLE = ("Desktop", "Documents", "Downloads")


def differences(
    repository: ShadowRepository, before: str, after: str, only: Collection[str] | None = None
) -> list[Effect]:
    """Effects between two checkpoints, folders included; `only` limits them to displayed paths."""
    old, new = repository.snapshot(before), repository.snapshot(after)
    # what was looked at by name and is missing did not exist, even in an uncovered folder
    looked_at = _within({*old.named, *old.gone, *new.named})
    searched = frozenset(() if old.metadata.hidden is None else new.metadata.hidden or ())
    found = _effects(
        repository.store,
        old.trees,
        new.trees,
        "",
        lambda path: path in searched or looked_at(path),
        _within({*new.named, *new.gone}),
    )
    return [effect for effect in found if only is None or _is_chosen(effect, only)]


def differ(repository: ShadowRepository, before: str, after: str) -> bool:
    """Whether the checkpoints differ in a way that undo can revert, or at least report."""
    made = made_repositories(repository, [(before, after)])
    return bool(differences(repository, before, after)) or any(made)


def made_repositories(repository: ShadowRepository, steps: Steps) -> Iterator[str]:
    """Paths of the repositories that the steps created, except the workspace's own."""
    for before, after in steps:
        was = repository.snapshot(before).metadata.repositories
        now = repository.snapshot(after).metadata.repositories
        if was is not None and now is not None:
            yield from (path for path in now if path not in was and path != ".git")


def files_at(repository: ShadowRepository, checkpoint: str) -> dict[str, FileVersion]:
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


def _is_stored(repository: ShadowRepository, version: FileVersion | None) -> bool:
    """False for the content of secret files, which is never written to disk or shown."""
    return not (version and is_leaf(version)) or repository.store.is_written(
        bytes.fromhex(version.blob)
    )


def blob(repository: ShadowRepository, known: str) -> bytes:
    return repository.store.read(bytes.fromhex(known), ObjectKind.BLOB)


def _is_chosen(effect: Effect, only: Collection[str]) -> bool:
    """Whether the effect is one of these, or restores a folder that one of these needs."""
    path = visible(effect.path)
    needed = is_folder(effect.before) and any(each.startswith(f"{path}/") for each in only)
    return path in only or needed


def _effects(
    store: ObjectStore,
    before: Trees,
    after: Trees,
    prefix: str,
    sure_before: Callable[[str], bool],
    sure_after: Callable[[str], bool],
) -> Iterator[Effect]:
    """Effects between two trees. The tests say of a missing path that it did not exist."""
    old, new = Folder(store, before), Folder(store, after)
    for name in sorted({*old.files, *new.files, *old.uncovered, *new.uncovered}):
        if old.same(name, new):
            continue
        path = f"{prefix}{name}"
        was = old.version(name) or old.unsaved(name)
        now = new.version(name) or new.unsaved(name)
        known = was or old.covers(name) or sure_before(path)
        changed = was != now or is_unknown(was)  # unsaved files differ in their marks only
        inner = old.folder(name), new.folder(name)
        if (
            changed
            and known
            and (now or new.covers(name) or sure_after(path))
            and not _is_only_about_ignored(store, *inner)
        ):
            yield Effect(path, was, now)
        if inner[0] or inner[1]:
            yield from _effects(
                store,
                inner[0] or old.uncovered_below(name),
                inner[1] or new.uncovered_below(name),
                f"{path}/",
                sure_before,
                sure_after,
            )


def _is_only_about_ignored(store: ObjectStore, old: Trees | None, new: Trees | None) -> bool:
    """Whether a folder was created only for ignored files, or removed with nothing else in it.
    Ignored files are neither removed nor stored, so restoring such a folder would fail or leave
    it empty."""
    if new and not old:
        return holds_ignored(store, new)
    if old and not new:
        return holds_ignored(store, old) and next(leaves(store, old), None) is None
    return False


def _within(named: Collection[str]) -> Callable[[str], bool]:
    """Return a test for paths that were named, or are above or below a named one."""
    tops = set(named)
    above = {parent for path in tops for parent in _parents(path)}
    return lambda path: (
        path in tops or path in above or any(parent in tops for parent in _parents(path))
    )


def _parents(path: str) -> list[str]:
    return [path[:at] for at, character in enumerate(path) if character == "/"]


def refusal(root: Path) -> str:
    """Why the folder gets no checkpoints, empty if it does: a home folder holds too much."""
    home = Path(os.path.expanduser("~")).resolve()
    if root == home or root in home.parents:
        return f"{root} is the home folder or contains it; use a folder inside"
    if root.parent == home and root.name in _NOT_WHOLE:
        return f"{root} contains several projects; use one of their folders"
    return ""


def displayable(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """The effects with unprintable characters in their paths escaped."""
    return tuple(Effect(visible(e.path), e.before, e.after) for e in effects)


def reason_of(error: Exception) -> str:
    """The error message, in a form that fits into a sentence."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return text[:1].lower() + text[1:].rstrip(".")
