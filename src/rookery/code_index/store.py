"""Tables of the index: files, their chunks, a full-text index of words, and optional vectors.

Only the words of a file are stored; texts of hits are read from the file, if it is unchanged.
Vectors are stored as half-precision numbers for comparing, plus one bit per number to preselect the
few worth comparing, so no vector library is needed.
"""

import math
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import nsmallest
from itertools import groupby
from operator import itemgetter, mul
from typing import Any

from msgspec import Struct

from rookery.code_index.chunks import Chunk
from rookery.core.indexed_code import Mark

VERSION = 1

_SCHEMA = (
    """CREATE TABLE files (
        id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, mark TEXT NOT NULL,
        digest BLOB NOT NULL, model TEXT NOT NULL)""",
    """CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, file INTEGER NOT NULL,
        first INTEGER, last INTEGER, begin INTEGER, finish INTEGER)""",
    "CREATE INDEX chunks_by_file ON chunks (file)",
    "CREATE TABLE signatures (chunk INTEGER PRIMARY KEY, bits BLOB NOT NULL)",
    "CREATE TABLE vectors (chunk INTEGER PRIMARY KEY, numbers BLOB NOT NULL)",
    """CREATE VIRTUAL TABLE words USING fts5 (
        path, names, body, tokenize = 'porter unicode61 remove_diacritics 2')""",
)
_WEIGHTS = "3.0, 4.0, 1.0"
"""Weights of a word in a path, in a definition's name, and elsewhere."""
_PLACES = """
    SELECT chunks.id, files.path, files.digest, first, last, begin, finish
    FROM chunks JOIN files ON files.id = chunks.file"""
_PROMISING = 10
"""Candidates compared in full for each chunk a file may contribute, since signatures are coarse."""
_BELOW = "(?2 = '' OR files.path = ?2 OR substr(files.path, 1, length(?2) + 1) = ?2 || '/')"
WORTHWHILE = 400


class UnfitStore(Exception):
    """The database has another version, or holds values that were never written."""


class IndexedFile(Struct, frozen=True, kw_only=True):
    """A file as it was indexed. `model` is the embedding model of its vectors."""

    mark: Mark
    digest: bytes
    model: str


class NewChunk(Struct, frozen=True, kw_only=True):
    """A chunk to index, with the names of the definitions that overlap it."""

    chunk: Chunk
    names: str
    words: str


class IndexedChunk(Struct, frozen=True):
    """A chunk in the index, with the digest of its file when it was indexed."""

    id: int
    path: str
    digest: bytes
    chunk: Chunk


class Store:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        if self._number("PRAGMA user_version") == 0:
            self._create_tables()
        if self._number("PRAGMA user_version") != VERSION:
            raise UnfitStore

    def files(self) -> dict[str, IndexedFile]:
        rows = self._db.execute("SELECT path, mark, digest, model FROM files")
        return {
            path: IndexedFile(mark=_parse_mark(mark), digest=digest, model=model)
            for path, mark, digest, model in rows
        }

    def put(
        self, path: str, known: IndexedFile, pieces: Iterable[NewChunk], path_words: str
    ) -> None:
        """Replace all entries of a file. Call this, like all changes, within `writing`."""
        self.forget(path)
        file = self._db.execute(
            "INSERT INTO files VALUES (NULL, ?, ?, ?, ?)",
            (path, _mark_text(known.mark), known.digest, known.model),
        ).lastrowid
        for piece in pieces:
            chunk = piece.chunk
            place = (file, chunk.start, chunk.end, chunk.begin, chunk.finish)
            row = self._db.execute("INSERT INTO chunks VALUES (NULL, ?, ?, ?, ?, ?)", place)
            self._db.execute(
                "INSERT INTO words (rowid, path, names, body) VALUES (?, ?, ?, ?)",
                (row.lastrowid, path_words, piece.names, piece.words),
            )

    def touch(self, path: str, mark: Mark) -> None:
        self._db.execute("UPDATE files SET mark = ? WHERE path = ?", (_mark_text(mark), path))

    def forget(self, path: str) -> None:
        of_file = "(SELECT chunks.id FROM chunks JOIN files ON files.id = file WHERE path = ?)"
        for table, key in {"words": "rowid", "vectors": "chunk", "signatures": "chunk"}.items():
            self._db.execute(f"DELETE FROM {table} WHERE {key} IN {of_file}", (path,))
        self._db.execute(f"DELETE FROM chunks WHERE id IN {of_file}", (path,))
        self._db.execute("DELETE FROM files WHERE path = ?", (path,))

    def spots_of(self, path: str) -> list[IndexedChunk]:
        return self._spots(f"{_PLACES} WHERE files.path = ? ORDER BY chunks.id", (path,))

    def put_vectors(self, ids: Sequence[int], vectors: Sequence[Sequence[float]]) -> None:
        for id, vector in zip(ids, vectors, strict=True):
            self._db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (id, packed(vector)))
            bits = signature(vector)
            self._db.execute("INSERT OR REPLACE INTO signatures VALUES (?, ?)", (id, bits))

    def put_model(self, path: str, model: str) -> None:
        self._db.execute("UPDATE files SET model = ? WHERE path = ?", (model, path))

    def by_words(self, expression: str, below: str, most: int, per_file: int) -> list[IndexedChunk]:
        """Chunks matching the words, best first, in the folder or file `below` if not empty. At
        most `per_file` of each file, so that no file crowds out the others."""
        found = self._db.execute(
            f"""
            WITH found AS MATERIALIZED (
                SELECT words.rowid AS id, chunks.file AS file, bm25(words, {_WEIGHTS}) AS score
                FROM words JOIN chunks ON chunks.id = words.rowid
                JOIN files ON files.id = chunks.file WHERE words MATCH ?1 AND {_BELOW}),
            placed AS (
                SELECT id, score,
                    row_number() OVER (PARTITION BY file ORDER BY score, id) AS place FROM found)
            SELECT id FROM placed WHERE place <= ?4 ORDER BY score, id LIMIT ?3""",
            (expression, below, most, per_file),
        )
        return self._chunks_by_id([int(id) for (id,) in found])

    def by_vector(
        self, vector: Sequence[float], model: str, below: str, most: int, per_file: int
    ) -> list[IndexedChunk]:
        """Like `by_words`, ordered by cosine similarity to a vector."""
        rows = self._db.execute(
            f"SELECT chunks.file, chunk, bits FROM signatures JOIN chunks ON chunks.id = chunk "
            f"JOIN files ON files.id = chunks.file WHERE files.model = ?1 AND {_BELOW} "
            f"ORDER BY chunks.file",
            (model, below),
        )
        wanted = unpacked(packed(vector))
        bits = signature(vector)
        file_of: dict[int, int] = {}
        promising: list[tuple[int, bytes]] = []
        for file, group in groupby(rows, key=itemgetter(0)):
            known = {id: signed for _, id, signed in group}
            for id in nearest_signatures(bits, known.items())[: per_file * _PROMISING]:
                file_of[id] = file
                promising.append((id, known[id]))
        near = nearest_signatures(bits, promising)
        likeness = {id: cosine(wanted, numbers) for id, numbers in self._vectors(near)}
        best = sorted(likeness, key=lambda id: (-likeness[id], id))
        return self._chunks_by_id(_few_of_each(best, file_of, per_file)[:most])

    def _vectors(self, ids: Sequence[int]) -> Iterator[tuple[int, tuple[float, ...]]]:
        for id in ids:
            row = self._db.execute("SELECT numbers FROM vectors WHERE chunk = ?", (id,)).fetchone()
            if row is not None:
                yield id, unpacked(row[0])

    def _chunks_by_id(self, ids: Sequence[int]) -> list[IndexedChunk]:
        found = (self._spots(f"{_PLACES} WHERE chunks.id = ?", (id,)) for id in ids)
        return [spot for spots in found for spot in spots]

    def _spots(self, query: str, given: tuple[Any, ...]) -> list[IndexedChunk]:
        return [
            IndexedChunk(id, path, digest, Chunk(start=first, end=last, begin=begin, finish=finish))
            for id, path, digest, first, last, begin, finish in self._db.execute(query, given)
        ]

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _create_tables(self) -> None:
        with self.writing():
            if self._number("PRAGMA user_version"):
                return  # another process was faster
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _number(self, query: str) -> Any:
        return self._db.execute(query).fetchone()[0]


def packed(vector: Sequence[float]) -> bytes:
    """Pack a vector, scaled to length 1 so that a dot product is the cosine."""
    length = math.sqrt(math.fsum(map(mul, vector, vector))) or 1.0
    return struct.pack(f"<{len(vector)}e", *(number / length for number in vector))


def unpacked(data: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(data) // 2}e", data)


def signature(vector: Sequence[float]) -> bytes:
    """One bit per number: whether it is positive."""
    bits = sum(1 << place for place, number in enumerate(vector) if number > 0)
    return bits.to_bytes(-(-len(vector) // 8), "little")


def nearest_signatures(wanted: bytes, known: Iterable[tuple[int, bytes]]) -> list[int]:
    """The ids whose signatures differ least from `wanted`."""
    bits = int.from_bytes(wanted, "little")
    nearest = nsmallest(
        WORTHWHILE,
        (((int.from_bytes(each, "little") ^ bits).bit_count(), id) for id, each in known),
    )
    return [id for _, id in nearest]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(mul, one, other))


def _few_of_each(ids: Iterable[int], file_of: Mapping[int, int], per_file: int) -> list[int]:
    taken: Counter[int] = Counter()
    few: list[int] = []
    for id in ids:
        taken[file_of[id]] += 1
        if taken[file_of[id]] <= per_file:
            few.append(id)
    return few


def _mark_text(mark: Mark) -> str:
    return " ".join(map(str, mark))


def _parse_mark(written: str) -> Mark:
    try:
        size, content, file, inode = map(int, written.split())
    except (ValueError, AttributeError) as error:
        raise UnfitStore from error
    return size, content, file, inode
