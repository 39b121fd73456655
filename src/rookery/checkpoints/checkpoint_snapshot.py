"""Take checkpoints, skip what has not changed since the last one, and drop old ones."""

import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from rookery.checkpoints.file_versions import IGNORE_FILE, FolderNamed, PathSurvey, limit_notes
from rookery.checkpoints.shadow_repository import Metadata, ShadowRepository, Snapshot
from rookery.checkpoints.snapshot_trees import UNSEEN, Trees, reachable, uncovered_among
from rookery.core.limits import Limits
from rookery.core.protected_paths import holds_secrets
from rookery.errors import StorageError

if TYPE_CHECKING:
    from rookery.checkpoints.snapshot_selection import IgnoreCache
    from rookery.checkpoints.snapshots import FolderSurvey
    from rookery.checkpoints.stat_index import FolderSearch, Index
    from rookery.platform.git_index import GitIndexes

_ROOM_AFTER_CLEAN_UP = 0.8
_RECENT_SECONDS = 10.0


class Dropped(Struct, frozen=True):
    checkpoints: int = 0
    freed: int = 0


def drop_oldest(repository: ShadowRepository, quota: int, keep: Collection[str]) -> Dropped:
    """Drop the oldest checkpoints that are not in `keep`, until usage is below `quota` bytes."""
    used, there = repository.store.usage(), repository.checkpoints()
    if used <= quota or not there:
        return Dropped()
    kept = _worth_keeping(repository, there, {*keep, there[-1]}, quota * _ROOM_AFTER_CLEAN_UP)
    repository.drop_all_but(kept)
    return Dropped(len(set(there) - kept), used - repository.store.usage())


def drop_unneeded(
    home: Path, needed: Collection[str], gone: Collection[str], *, others_work: bool
) -> str:
    """Drop the checkpoints of all workspaces that no session needs; return a problem as a
    sentence. While `others_work`, checkpoints of the last seconds stay, because their sessions
    may not have recorded them yet, except those in `gone`, which belonged to deleted sessions."""
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
        kept |= repository.made_since(time.time() - _RECENT_SECONDS) - set(gone)
    if kept < there:
        repository.drop_all_but(kept)


def forget_damage(repository: ShadowRepository) -> int:
    """Drop damaged objects of the newest checkpoints, back to the newest intact one, so that
    they are stored again when next seen. Return the number of damaged checkpoints."""
    faulty = 0
    repository.store.discard()  # objects in memory may be missing on disk
    for known in reversed(repository.checkpoints()):
        try:
            damaged = repository.damaged(repository.snapshot(known))
        except StorageError:
            damaged = [bytes.fromhex(known)]
        if not damaged:
            break
        repository.store.drop_damaged(damaged)
        faulty += 1
    return faulty


def _worth_keeping(
    repository: ShadowRepository, there: Sequence[str], keep: Collection[str], room: float
) -> set[str]:
    """The checkpoints in `keep`, then the newest of the others while there is room."""
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


Pause = Callable[[], None]

_INDEX_THRESHOLD = 200
"""The index is written if at least this many files and folders were read; fewer are quickly read
again."""
_TOO_MANY = "too many to check for protected files"


class OutOfTime(StorageError):
    pass


class TakenSnapshot(Struct, frozen=True):
    snapshot: Snapshot
    skipped: tuple[str, ...]


class SnapshotTaker(Struct, dict=True):
    """Takes checkpoints of everything, or of protected files only. Not thread-safe, and the
    caller holds the repository's lock."""

    root: Path
    repository: ShadowRepository
    limits: Limits
    private: Collection[Path]
    protected_only: bool
    _index: "Index | None" = None
    _last: Snapshot | None = None

    def forget(self) -> None:
        """Forget the last snapshot, which may be damaged."""
        self._last = None

    def take(self, paths: Sequence[str] | None, also: Sequence[str], pause: Pause) -> TakenSnapshot:
        """Take a checkpoint, or return the last one if nothing has changed. Paths in `also` are
        stored even if they are ignored."""
        if paths and any(path.endswith(IGNORE_FILE) or holds_secrets(path) for path in paths):
            # a full snapshot also saves what a new ignore file would hide, and skips secrets
            also = (*paths, *also)
            paths = None
        store, base = self.repository.store, self._base()
        survey: PathSurvey
        gone: list[str] = []
        if paths is None:
            survey = folders = self._folder_survey(pause)
            trees, metadata = self._everything(folders, base, pause)
            before = base.metadata.hidden or () if base else ()
            lost = [path for path in before if path not in (metadata.hidden or ())]
            sought_by_name = [p for p in metadata.hidden or () if p not in folders.followed]
            trees = survey.named(trees, (*sought_by_name, *lost), ignored=True)
            gone = [*lost, *folders.gone]
        else:
            survey = PathSurvey(self.root, store, self.limits, private=self.private, pause=pause)
            trees, metadata = (base.trees, base.metadata) if base else (UNSEEN, Metadata())
        sought = {*(metadata.hidden or ()), *gone}
        others = uncovered_among(store, trees, [path for path in also if path not in sought])
        named = (*(paths or ()), *others)
        try:
            trees = survey.named(trees, named)
        except FolderNamed:
            survey = self._folder_survey(pause)
            trees = survey.named(trees, named)
        known = {**dict(base.metadata.attributes if base else ()), **survey.attributes}
        metadata = replace(metadata, attributes=limit_notes(known))
        skipped = survey.skipped.summary()
        if base and (base.trees, base.metadata) == (trees, metadata):
            store.flush()
        else:
            title = "Everything" if paths is None else f"{len(paths)} named"
            base = self.repository.add(
                trees, title, named=named, metadata=metadata, gone=gone, skipped=skipped
            )
        self._last = base
        if paths is None:
            self._keep(folders)
        return TakenSnapshot(base, skipped)

    def _folder_survey(self, pause: Pause) -> "FolderSurvey":
        from rookery.checkpoints.snapshots import FolderSurvey

        return FolderSurvey(
            self.root,
            self.repository.store,
            self.limits,
            index=self._known,
            private=self.private,
            pause=pause,
            ignore_cache=self._ignore_cache,
            indexes=self._indexes,
        )

    def _everything(
        self, survey: "FolderSurvey", base: Snapshot | None, pause: Pause
    ) -> tuple[Trees, Metadata]:
        from rookery.checkpoints.snapshot_selection import DEPENDENCIES, FollowedPaths

        followed = FollowedPaths(self.repository.store, lambda: base.trees if base else None)
        try:
            trees = UNSEEN if self.protected_only else survey.everything(followed)
            unseen = [""] if self.protected_only else survey.ignored_folders
            found = self._search.find(unseen, pause)
        except OutOfTime:
            self.repository.store.flush()  # the next attempt continues from here
            self._keep(survey)
            raise
        if found is None:
            survey.skipped.add("ignored files", _TOO_MANY)
            return trees, Metadata()
        # independent of ignore rules, so that a change of those makes none look new
        every = (*survey.repositories, *found.repositories)
        repositories = sorted(each for each in every if DEPENDENCIES.isdisjoint(each.split("/")))
        return trees, Metadata(found.files, tuple(repositories) if survey.whole else None)

    @cached_property
    def _ignore_cache(self) -> "IgnoreCache":
        from rookery.checkpoints.snapshot_selection import IgnoreCache

        return IgnoreCache()

    @cached_property
    def _indexes(self) -> "GitIndexes":
        from rookery.platform.git_index import GitIndexes

        return GitIndexes(str(self.root))

    @cached_property
    def _search(self) -> "FolderSearch":
        from rookery.checkpoints.snapshot_selection import is_protected_here
        from rookery.checkpoints.stat_index import FolderSearch

        wanted = partial(is_protected_here, new=self.protected_only)
        name = "protected_new" if self.protected_only else "protected_folders"
        return FolderSearch(self.root, wanted, self.private, self.repository.folder / name)

    def _base(self) -> Snapshot | None:
        """This task's last snapshot, as other tasks may have taken newer ones; else the newest."""
        if self._last and bytes.fromhex(self._last.id) in self.repository.store:
            return self._last
        return self.repository.newest()

    def _known(self) -> "Index":
        from rookery.checkpoints.stat_index import read_index

        if self._index is None:
            self._index = read_index(self.repository.folder / "stat_index")
        return self._index

    def _keep(self, survey: "FolderSurvey") -> None:
        from rookery.checkpoints.stat_index import write_index

        self._index = survey.seen.index
        if survey.read >= _INDEX_THRESHOLD:
            with suppress(OSError):  # the index is only a cache
                write_index(self.repository.folder / "stat_index", survey.seen.index)


_NOT_WHOLE = ("Desktop", "Documents", "Downloads")


def refusal(root: Path) -> str:
    """Why the folder gets no checkpoints, empty if it does: a home folder holds too much."""
    home = Path(os.path.expanduser("~")).resolve()
    if root == home or root in home.parents:
        return f"{root} is the home folder or contains it; use a folder inside"
    if root.parent == home and root.name in _NOT_WHOLE:
        return f"{root} contains several projects; use one of their folders"
    return ""


def reason_of(error: Exception) -> str:
    """The error message, in a form that fits into a sentence."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return text[:1].lower() + text[1:].rstrip(".")
