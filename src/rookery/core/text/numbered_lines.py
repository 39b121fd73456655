"""Lines of a text as a model is shown them: numbered, and cut where they are too long."""

from collections.abc import Iterable, Sequence

from msgspec import Struct


class Span(Struct, frozen=True):
    """Lines by their places in a text, counted from 0; the last one is included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first + 1}-{self.last + 1}"


class Passage(Struct, frozen=True, kw_only=True):
    """Lines that are shown. `uncut` if every one of them is there to its end."""

    span: Span
    rows: tuple[str, ...]
    size: int
    uncut: bool


def joined_spans(spans: Iterable[Span]) -> list[Span]:
    """The same lines in order, each in one span only."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.first):
        if joined and span.first <= joined[-1].last + 1:
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return joined


def passage(rows: Sequence[str], span: Span, *, width: int, longest: int, room: int) -> Passage:
    """As many of the lines as there is room for in bytes, but at least one."""
    shown: list[str] = []
    size, uncut = 0, True
    for number in range(span.first, span.last + 1):
        row = rows[number].removesuffix("\r")
        text = f"{number + 1:>{width}} | {_cut(row, longest)}"
        needed = len(text.encode()) + 1
        if shown and size + needed > room:
            break
        shown.append(text)
        size += needed
        uncut = uncut and len(row) <= longest
    last = span.first + len(shown) - 1
    return Passage(span=Span(span.first, last), rows=tuple(shown), size=size, uncut=uncut)


def _cut(row: str, longest: int) -> str:
    return row if len(row) <= longest else row[: longest - 3] + "..."
