"""What stays in checkpoints though it be ignored: what the last one held, and what git tracks.

Whoever could take a file out of all later checkpoints by writing an ignore file could then
remove it, and nothing would bring it back.
"""

from collections.abc import Callable
from functools import cached_property, partial

from rookery.checkpoints.file_versions import proper
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_trees import Folder, Trees
from rookery.errors import StorageError
from rookery.platform.git.git_index import NOTHING_TRACKED, TrackedFiles


class Followed:
    """Of one folder. `trees` is what the last checkpoint held of it, `way` its path in the
    repository that it belongs to. Nothing is read before it is asked for."""

    def __init__(
        self,
        store: ObjectStore,
        trees: Callable[[], Trees | None],
        tracked: TrackedFiles = NOTHING_TRACKED,
        way: str = "",
    ) -> None:
        self._store = store
        self._trees = trees
        self._tracked = tracked
        self._way = way

    def of_repository(self, tracked: TrackedFiles) -> "Followed":
        """The same folder, as the one in which a repository is."""
        return Followed(self._store, self._trees, tracked)

    def as_tracked(self) -> "Followed":
        """The same folder, of which only what is tracked is followed."""
        return Followed(self._store, lambda: None, self._tracked, self._way)

    def inside(self, name: str) -> "Followed":
        last = partial(self._folder, name)
        return Followed(self._store, last, self._tracked, self._in(name))

    def was_known(self, name: str) -> bool:
        """Whether it was saved, or known to be what cannot be saved."""
        return name in self._last.files or self._last.is_unsaved(name)

    def has_file(self, name: str) -> bool:
        return self.was_known(name) or self.tracks(name)

    def tracks(self, name: str) -> bool:
        return self._in(name) in self._tracked

    def was_whole(self, name: str) -> bool:
        """Whether all that was there was known."""
        inner = self._folder(name)
        return self.was_known(name) and not (inner and Folder(self._store, inner).blind)

    def was_no_folder(self, name: str) -> bool:
        return self.was_known(name) and self._folder(name) is None

    def names(self) -> list[str]:
        """All names at which there is something to follow."""
        tracked = self._tracked.names_in(self._way) if self._way else set[str]()
        return sorted(name for name in {*self._last.known(), *tracked} if proper(name))

    @cached_property
    def _last(self) -> Folder:
        try:
            return Folder(self._store, self._trees())
        except StorageError:  # it is damaged: then what is there now is all there is
            return Folder(self._store)

    def _folder(self, name: str) -> Trees | None:
        return self._last.folder(name)

    def _in(self, name: str) -> str:
        return f"{self._way}/{name}" if self._way else name
