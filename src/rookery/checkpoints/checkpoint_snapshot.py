"""Taking a checkpoint: what is looked at, and what is known from the time before."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery.checkpoints.file_versions import bounded
from rookery.checkpoints.folder_search import DEPENDENCIES, FolderSearch
from rookery.checkpoints.shadow_repository import Beside, ShadowRepository, Snapshot
from rookery.checkpoints.snapshot_selection import (
    IGNORE_FILE,
    FollowedPaths,
    IgnoreMemory,
    is_anothers,
)
from rookery.checkpoints.snapshot_trees import UNSEEN, Trees, uncovered_among
from rookery.checkpoints.snapshots import FolderSurvey
from rookery.core.limits import Limits
from rookery.core.protected_paths import OF_BUILDS, holds_secrets, protected
from rookery.errors import StorageError
from rookery.platform.git.git_index import GitIndexes
from rookery.platform.stat_index import Rows, read_index, write_index

Pause = Callable[[], None]

_WORTH_WRITING = 200
"""Files read anew from which on the index is written; fewer are quickly read again."""
_TOO_MUCH = "too much to look for protected files in"


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
            survey.skipped.add("what is ignored", _TOO_MUCH)
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
