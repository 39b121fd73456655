"""Updates the index, reading only files that have changed.

Generated files and files likely to hold secrets are left out: the index would store their words,
and an embedding provider could receive them. A search for exact text may still read the latter.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate

from msgspec import Struct
from msgspec.structs import replace

from rookery.code_index.chunks import chunks, names_of, searchable
from rookery.code_index.store import IndexedChunk, IndexedFile, NewChunk, Store
from rookery.code_index.syntax import Embedder, Sources, SyntaxReader
from rookery.core.indexed_code import Found, Mark, Source, SourceListing
from rookery.core.limits import MIB
from rookery.core.protected_paths import holds_secrets
from rookery.core.text.characters import is_utf8

LARGEST = MIB
MOST_FILES = 500_000
EMBEDDING_BATCH = 60
"""Texts per embedding request."""
_DELETE_BATCH = 200
_SECONDS_AT_ONCE = 0.5
_UNSETTLED = 2_000_000_000
"""Nanoseconds after which a file's time stamp is trusted: a second change within the same clock
tick would not alter it."""
_NO_MARK: Mark = (-1, 0, 0, 0)
_NOISE = "*.lock *-lock.json *-lock.yaml *.sum *.map *.min.js *.min.css *.svg"
_EXCLUDED = re.compile("|".join(map(translate, _NOISE.split())))


class Progress(Struct, frozen=True, kw_only=True):
    """Progress of an update: whether the files are listed, how many are left to read, and notes."""

    listed: bool = False
    waiting: int = 0
    notes: tuple[str, ...] = ()


class IndexUpdate:
    """One pass over all files, until `stopped` returns true. Calls `report` with its progress."""

    def __init__(
        self,
        sources: Sources,
        syntax: SyntaxReader,
        *,
        stopped: Callable[[], bool],
        report: Callable[[Progress], None],
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._sources = sources
        self._syntax = syntax
        self._stopped = stopped
        self._report = report
        self._now = now

    def words(self, store: Store) -> None:
        """Update the full-text index of all files."""
        listing = self._sources.list(MOST_FILES, LARGEST)
        named = [found for found in listing.files if is_utf8(found.path)]
        if nameless := len(listing.files) - len(named):
            left_out = f"(Left out, because their names are not UTF-8: {nameless} files.)"
            listing = replace(listing, notes=(*listing.notes, left_out))
        files = [found for found in named if not is_excluded(found.path)]
        known = store.files()
        if listing.complete:
            self._forget(store, known.keys() - {found.path for found in files})
        changed = [found for found in files if not _is_known(found, known)]
        changed.sort(key=lambda found: -found.mark[1])  # newest first
        self._read(store, changed, known, listing)

    def vectors(
        self, store: Store, embedder: Embedder, should_yield: Callable[[], bool] = lambda: False
    ) -> None:
        """Compute missing vectors until `should_yield` returns true. Raises `ProviderError`."""
        missing = [path for path, file in store.files().items() if file.model != embedder.name]
        for path in missing:
            if self._stopped() or should_yield():
                return
            source = self._sources.read(path, LARGEST)
            spots = store.spots_of(path)
            if source is None or any(spot.digest != source.digest for spot in spots):
                continue  # the next pass reads it
            found = [vector for texts in _texts(spots, source) for vector in embedder.embed(texts)]
            with store.writing():
                if [spot.id for spot in store.spots_of(path)] == [spot.id for spot in spots]:
                    store.put_vectors([spot.id for spot in spots], found)
                    store.put_model(path, embedder.name)

    def _read(
        self,
        store: Store,
        changed: Sequence[Found],
        known: dict[str, IndexedFile],
        listing: SourceListing,
    ) -> None:
        waiting = deque(changed)
        self._report(Progress(listed=True, waiting=len(waiting), notes=listing.notes))
        while waiting and not self._stopped():
            changes = self._next_changes(waiting, known)
            with store.writing():
                for change in changes:
                    change(store)
            self._report(Progress(listed=True, waiting=len(waiting), notes=listing.notes))

    def _next_changes(
        self, waiting: deque[Found], known: dict[str, IndexedFile]
    ) -> list[Callable[[Store], None]]:
        """Read the next files for `_SECONDS_AT_ONCE` and return their database changes."""
        until = time.monotonic() + _SECONDS_AT_ONCE
        changes: list[Callable[[Store], None]] = []
        while waiting and not self._stopped():
            found = waiting.popleft()
            changes.append(self._change(found.path, known.get(found.path)))
            if time.monotonic() > until:
                break
        return changes

    def _change(self, path: str, known: IndexedFile | None) -> Callable[[Store], None]:
        source = self._sources.read(path, LARGEST)
        if source is None:
            return lambda store: store.forget(path)
        mark = self._settled(source.mark)
        if known is not None and known.digest == source.digest:
            return lambda store: store.touch(path, mark)
        pieces = self._new_chunks(path, source.text)
        words = searchable(path)
        entry = IndexedFile(mark=mark, digest=source.digest, model="")
        return lambda store: store.put(path, entry, pieces, words)

    def _settled(self, mark: Mark) -> Mark:
        return mark if self._now() - max(mark[1], mark[2]) > _UNSETTLED else _NO_MARK

    def _new_chunks(self, path: str, text: str) -> list[NewChunk]:
        syntax = self._syntax.read(path, text)
        found = chunks(text, syntax.definitions, syntax.statements)
        names = names_of(found, syntax.definitions)
        pieces: list[NewChunk] = []
        for chunk, own in zip(found, names, strict=True):
            words = text[chunk.begin : chunk.finish]
            if any(map(str.isalnum, words)):
                name_words = searchable(" ".join(dict.fromkeys(own)))
                pieces.append(NewChunk(chunk=chunk, names=name_words, words=searchable(words)))
        return pieces

    def _forget(self, store: Store, paths: Iterable[str]) -> None:
        gone = list(paths)
        for at in range(0, len(gone), _DELETE_BATCH):
            with store.writing():
                for path in gone[at : at + _DELETE_BATCH]:
                    store.forget(path)


def is_excluded(path: str) -> bool:
    return holds_secrets(path) or _EXCLUDED.match(path.rpartition("/")[2].lower()) is not None


def _is_known(found: Found, known: dict[str, IndexedFile]) -> bool:
    before = known.get(found.path)
    return before is not None and before.mark == found.mark


def _texts(spots: Sequence[IndexedChunk], source: Source) -> Iterable[list[str]]:
    """Texts to embed, one list per request."""
    for at in range(0, len(spots), EMBEDDING_BATCH):
        yield [
            f"{spot.path}\n{source.text[spot.chunk.begin : spot.chunk.finish]}"
            for spot in spots[at : at + EMBEDDING_BATCH]
        ]
