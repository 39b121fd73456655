"""Taking a checkpoint: what is looked at, what is known already, and which old ones are dropped."""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery.checkpoints.file_versions import bounded
from rookery.checkpoints.shadow_repository import Beside, ShadowRepository, Snapshot
from rookery.checkpoints.snapshot_selection import (
    DEPENDENCIES,
    IGNORE_FILE,
    FolderSearch,
    FollowedPaths,
    IgnoreMemory,
    is_anothers,
)
from rookery.checkpoints.snapshot_trees import UNSEEN, Trees, reachable, uncovered_among
from rookery.checkpoints.snapshots import FolderSurvey
from rookery.core.limits import Limits
from rookery.core.protected_paths import OF_BUILDS, holds_secrets, protected
from rookery.errors import StorageError
from rookery.platform.git_index import GitIndexes, Rows, read_index, write_index

_ROOM_AFTER_CLEAN_UP = 0.8
_JUST_NOW = 10.0


class Dropped(Struct, frozen=True):
    checkpoints: int = 0
    freed: int = 0


def drop_oldest(repository: ShadowRepository, quota: int, keep: Collection[str]) -> Dropped:
    """Drop the oldest checkpoints that are not in `keep`, until `quota` bytes are enough."""
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


Pause = Callable[[], None]

_WORTH_WRITING = 200
"""Files read anew from which on the index is written; fewer are quickly read again."""
_TOO_MUCH = "too many to check for protected files"


class OutOfTime(StorageError):
    pass


class Taken(Struct, frozen=True):
    snapshot: Snapshot
    skipped: tuple[str, ...]


class SnapshotScope(Struct, frozen=True):
    """What belongs to a checkpoint of everything: what the survey sees, and the `hidden` files
    where it does not look."""

    survey: Callable[[FolderSurvey, FollowedPaths], tuple[Trees, Sequence[str]]]
    """What it saw, and the folders into which it did not look."""
    hidden: Callable[[str], bool]


def _all_that_is_not_ignored(
    survey: FolderSurvey, followed: FollowedPaths
) -> tuple[Trees, Sequence[str]]:
    return survey.everything(followed), survey.ignored_folders


def _nothing(survey: FolderSurvey, followed: FollowedPaths) -> tuple[Trees, Sequence[str]]:
    return UNSEEN, [""]


def _is_no_dependency(path: str) -> bool:
    return DEPENDENCIES.isdisjoint(path.split("/"))


def _never_by_command(path: str) -> bool:
    return protected(path, new=False) not in ("", *OF_BUILDS) and not _is_in_anothers(path)


def _not_made_by_command(path: str) -> bool:
    return protected(path, new=True) not in ("", *OF_BUILDS) and not _is_in_anothers(path)


def _is_in_anothers(path: str) -> bool:
    """Whether it is, or is in, what other tasks write while this one works."""
    names = path.split("/")
    return any(is_anothers(name, "/".join([*names[:at], ""])) for at, name in enumerate(names))


WHOLE_WORKSPACE = SnapshotScope(_all_that_is_not_ignored, _never_by_command)
PROTECTED_FILES = SnapshotScope(_nothing, _not_made_by_command)


class Taking:
    """For one thread at a time, and only under the repository's lock."""

    def __init__(
        self,
        root: Path,
        repository: ShadowRepository,
        limits: Limits,
        *,
        private: Collection[Path],
        scope: SnapshotScope,
    ) -> None:
        self._root = root
        self._repository = repository
        self._limits = limits
        self._private = private
        self._scope = scope
        self._search = FolderSearch(root, scope.hidden, private)
        self._ignoring = IgnoreMemory()
        self._indexes = GitIndexes(str(root))
        self._index: Rows | None = None
        self._last: Snapshot | None = None

    def forget(self) -> None:
        """What was taken last may be damaged."""
        self._last = None

    def take(self, paths: Sequence[str] | None, also: Sequence[str], pause: Pause) -> Taken:
        """A checkpoint of now, in which nothing of `also` is left out for being ignored. It is
        the one before, if nothing has changed since.
        """
        if paths and any(path.endswith(IGNORE_FILE) or holds_secrets(path) for path in paths):
            # what is ignored from now on must have been saved before, and secrets must not be
            also = (*paths, *also)
            paths = None
        store, base = self._repository.store, self._base()
        survey = FolderSurvey(
            self._root,
            store,
            self._limits,
            index=self._known(),
            private=self._private,
            pause=pause,
            ignoring=self._ignoring,
            indexes=self._indexes,
        )
        gone: list[str] = []
        if paths is None:
            followed = FollowedPaths(store, lambda: base.trees if base else None)
            trees, beside = self._everything(survey, followed, pause)
            before = base.beside.hidden or () if base else ()
            lost = [path for path in before if path not in (beside.hidden or ())]
            sought_by_name = [p for p in beside.hidden or () if p not in survey.followed]
            trees = survey.named(trees, (*sought_by_name, *lost), ignored=True)
            gone = [*lost, *survey.gone]
        else:
            trees, beside = (base.trees, base.beside) if base else (UNSEEN, Beside())
        sought = {*(beside.hidden or ()), *gone}
        others = uncovered_among(store, trees, [path for path in also if path not in sought])
        named = (*(paths or ()), *others)
        trees = survey.named(trees, named)
        known = {**dict(base.beside.attributes if base else ()), **survey.attributes}
        beside = replace(beside, attributes=bounded(known))
        skipped = survey.skipped.told()
        if base and (base.trees, base.beside) == (trees, beside):
            store.flush()
        else:
            title = "Everything" if paths is None else f"{len(paths)} named"
            base = self._repository.add(
                trees, title, named=named, beside=beside, gone=gone, skipped=skipped
            )
        self._last = base
        if paths is None:
            self._keep(survey)
        return Taken(base, skipped)

    def _everything(
        self, survey: FolderSurvey, followed: FollowedPaths, pause: Pause
    ) -> tuple[Trees, Beside]:
        try:
            trees, unseen = self._scope.survey(survey, followed)
            found = self._search.find(unseen, pause)
        except OutOfTime:
            self._repository.store.flush()  # so that the next try begins where this one ended
            self._keep(survey)
            raise
        if found is None:
            survey.skipped.add("ignored files", _TOO_MUCH)
            return trees, Beside()
        # the same ones whatever is ignored, so that none is new when that changes
        repositories = filter(_is_no_dependency, (*survey.repositories, *found.repositories))
        return trees, Beside(found.files, tuple(sorted(repositories)) if survey.whole else None)

    def _base(self) -> Snapshot | None:
        """What this task saw last, as others go their own ways; the newest if it saw none."""
        if self._last and bytes.fromhex(self._last.id) in self._repository.store:
            return self._last
        return self._repository.newest()

    def _known(self) -> Rows:
        if self._index is None:
            self._index = read_index(self._repository.folder / "stat_index")
        return self._index

    def _keep(self, survey: FolderSurvey) -> None:
        self._index = survey.index
        if survey.read >= _WORTH_WRITING:
            with suppress(OSError):  # it only saves time
                write_index(self._repository.folder / "stat_index", survey.index)
