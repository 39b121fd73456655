"""How two snapshots differ."""

from collections.abc import Callable, Collection, Iterator

from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_trees import Folder, Trees, holds_ignored, leaves
from rookery.core.facts import Effect
from rookery.core.undo_plan import is_unknown


def effects(
    store: ObjectStore,
    before: Trees,
    after: Trees,
    *,
    sure_before: Collection[str] = (),
    sure_after: Collection[str] = (),
    not_before: Collection[str] = (),
) -> Iterator[Effect]:
    """What differs, folders included. `sure` is what was looked at by name: if it is missing
    then it was not there, uncovered or not. The same holds of files that were looked for, and
    found `not_before`; but not of the folders they are in.
    """
    within, exactly = _within(sure_before), frozenset(not_before)

    def was_known(path: str) -> bool:
        return path in exactly or within(path)

    yield from _effects(store, before, after, "", was_known, _within(sure_after))


def _effects(
    store: ObjectStore,
    before: Trees,
    after: Trees,
    prefix: str,
    sure_before: Callable[[str], bool],
    sure_after: Callable[[str], bool],
) -> Iterator[Effect]:
    old, new = Folder(store, before), Folder(store, after)
    for name in sorted({*old.files, *new.files, *old.uncovered, *new.uncovered}):
        if old.same(name, new):
            continue
        path = f"{prefix}{name}"
        was = old.version(name) or old.unsaved(name)
        now = new.version(name) or new.unsaved(name)
        known = was or old.covers(name) or sure_before(path)
        changed = was != now or is_unknown(was)  # of what is not saved, only the marks differ
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
    """Whether a folder came for the sake of ignored files, or went with nothing but those. They
    are never removed, so it could not go, and they are not stored, so it would come back empty."""
    if new and not old:
        return holds_ignored(store, new)
    if old and not new:
        return holds_ignored(store, old) and next(leaves(store, old), None) is None
    return False


def _within(named: Collection[str]) -> Callable[[str], bool]:
    """Whether a path was named, or is above or below one that was."""
    tops = set(named)
    above = {parent for path in tops for parent in _parents(path)}
    return lambda path: (
        path in tops or path in above or any(parent in tops for parent in _parents(path))
    )


def _parents(path: str) -> list[str]:
    return [path[:at] for at, character in enumerate(path) if character == "/"]
