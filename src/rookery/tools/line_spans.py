"""The lines that a model names, in the ways models name them."""

from typing import Any

from rookery.core.text.text_lines import Span
from rookery.errors import BadArguments, ToolError

_TO_THE_END = 10**9
_LONGEST_NUMBER = 9


def span_of(said: Any) -> Span:
    """From `"10-20"`, `[10, 20]` or `{"start": 10, "end": 20}`; without an end, to the last."""
    start: Any
    end: Any
    match said:
        case str():
            start, _, end = said.partition("-")
        case [start, end]:
            pass
        case {"start": start, "end": end}:
            pass
        case {"start": start}:
            end = None
        case _:
            raise _wrong(said)
    first, last = _number(start, said), _number(end, said, missing=_TO_THE_END)
    if first < 1:
        raise ToolError(f"Lines {first}-{last} are no lines: lines count from 1.")
    if last < first:
        raise ToolError(f"Lines {first}-{last} are no lines: the last comes before the first.")
    return Span(first - 1, last - 1)


def _number(part: Any, said: Any, missing: int | None = None) -> int:
    if missing is not None and part in (None, ""):
        return missing
    if isinstance(part, str) and len(part) <= _LONGEST_NUMBER and part.strip().isdecimal():
        return int(part)
    if isinstance(part, int) and not isinstance(part, bool):
        return min(part, _TO_THE_END)
    raise _wrong(said)


def _wrong(said: Any) -> BadArguments:
    return BadArguments(f'line_ranges holds {repr(said)[:80]}; a range is like "10-20".')
