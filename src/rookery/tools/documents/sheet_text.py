"""Cells of a spreadsheet as text."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

MOST_ROWS = 50_000


def sheet_lines(rows: Iterable[Iterable[Any]], links: Mapping[str, str]) -> Iterator[str]:
    """The rows that are not empty, with tabs between their cells. `links` are by the cell's
    coordinate."""
    count = 0
    for row in rows:
        line = "\t".join(_cell(cell, links) for cell in row).rstrip("\t")
        if not line:
            continue
        if count == MOST_ROWS:
            yield f"(Only the first {MOST_ROWS} rows of this sheet are shown.)"
            return
        count += 1
        yield line


def _cell(cell: Any, links: Mapping[str, str]) -> str:
    if cell.value is None:
        return ""
    text = " ".join(_value(cell).split())
    target = links.get(cell.coordinate, "") if links else ""
    return f"{text} ({target})" if target and target != text else text


def _value(cell: Any) -> str:
    match cell.value:
        case bool(flag):
            return "TRUE" if flag else "FALSE"
        case datetime() as moment:
            day = moment.date().isoformat()
            return day if moment.time() == time() else f"{day} {moment.time():%H:%M:%S}"
        case date() as day:
            return day.isoformat()
        case value if cell.data_type == "e":
            return f"[{value}]"
        case value:
            return str(value)
