"""A sequence of rows that is never changed in place.

Adding or replacing a row gives another sequence that shares nearly all of the old one, so
a client may keep the rows it has drawn and compare them with the rows that are now.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar, overload

PAGE = 32


class Placed(Protocol):
    @property
    def ts(self) -> int: ...


R = TypeVar("R", bound=Placed)


class Rows(Sequence[R], Generic[R]):
    """Rows by growing `ts`.

    Old rows lie on full pages; the newest `PAGE` to twice as many, where nearly all changes
    happen, are the tail. The list of pages is shared between versions and only ever grows:
    a version counts how many of them are its own.
    """

    __slots__ = ("_count", "_pages", "_tail")

    def __init__(
        self,
        pages: list[tuple[R, ...]] | None = None,
        count: int = 0,
        tail: tuple[R, ...] = (),
    ) -> None:
        self._pages: list[tuple[R, ...]] = [] if pages is None else pages
        self._count = count
        self._tail = tail

    def __len__(self) -> int:
        return self._count * PAGE + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        page, place = divmod(position, PAGE)
        if page < self._count:
            return self._pages[page][place]
        return self._tail[position - self._count * PAGE]

    def __iter__(self) -> Iterator[R]:
        return self.since(0)

    def since(self, position: int) -> Iterator[R]:
        for page in range(position // PAGE, self._count):
            yield from self._pages[page][max(0, position - page * PAGE) :]
        yield from self._tail[max(0, position - self._count * PAGE) :]

    def find(self, ts: int) -> int | None:
        """The position of the row with this `ts`."""
        if self._tail and self._tail[-1].ts == ts:
            return len(self) - 1
        position = bisect_left(self, ts, key=_ts)
        return position if position < len(self) and self[position].ts == ts else None

    def append(self, row: R) -> "Rows[R]":
        tail = (*self._tail, row)
        if len(tail) < 2 * PAGE:
            return Rows(self._pages, self._count, tail)
        pages = self._pages
        if len(pages) > self._count:  # another version has gone on from here: leave it its pages
            pages = pages[: self._count]
        pages.append(tail[:PAGE])
        return Rows(pages, self._count + 1, tail[PAGE:])

    def replace(self, position: int, row: R) -> "Rows[R]":
        page, place = divmod(position, PAGE)
        if page < self._count:
            pages = self._pages[: self._count]
            pages[page] = _with(pages[page], place, row)
            return Rows(pages, self._count, self._tail)
        return Rows(self._pages, self._count, _with(self._tail, position - self._count * PAGE, row))

    def remove(self, position: int) -> "Rows[R]":
        place = position - self._count * PAGE
        if place >= 0:
            return Rows(self._pages, self._count, self._tail[:place] + self._tail[place + 1 :])
        page = position // PAGE
        rows: Rows[R] = Rows(self._pages, page)
        for row in self.since(page * PAGE):
            if row is not self[position]:
                rows = rows.append(row)
        return rows

    def shared_with(self, other: "Rows[R]") -> int:
        """How many rows at the beginning are the same, without looking at each."""
        pages = min(self._count, other._count)
        if self._pages is other._pages:
            return pages * PAGE
        same = 0
        while same < pages and self._pages[same] is other._pages[same]:
            same += 1
        return same * PAGE


def _ts(row: Placed) -> int:
    return row.ts


def _with(rows: tuple[R, ...], place: int, row: R) -> tuple[R, ...]:
    return (*rows[:place], row, *rows[place + 1 :])
