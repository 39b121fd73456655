"""The newest records that somebody asks for, without reading a long ledger whole."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from rookery.governance.ledger.ledger_query import Query
from rookery.governance.ledger.ledger_reader import newest
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.traced import TracedRecord, records_in

LOOKED_THROUGH = 5_000
"""Records at the end of a ledger that are looked through before an index is asked for help."""
_AIMED = ("blocked", "decision")
"""Kinds of records that tell what a call was aimed at without having touched it."""


def recent_records(
    folder: Path,
    index: Callable[[], Path],
    query: Query,
    most: int,
    *,
    looked_through: int = LOOKED_THROUGH,
) -> Iterator[TracedRecord]:
    """Straight from the end of the ledger if they are there; else by the index, which takes a
    while to be made and then saves reading everything. `index` is where that lies."""
    if query.takes_all:
        yield from islice(newest(folder, query), most)
        return
    lines = newest_first(folder)
    last = records_in(islice(lines, looked_through))
    near = list(islice(filter(query.matches, last), most))
    if len(near) == most or next(lines, None) is None:
        yield from near
    else:
        yield from _by_index(folder, index(), query, most)


def _by_index(folder: Path, place: Path, query: Query, most: int) -> list[TracedRecord]:
    """The index knows paths that were changed. What refused calls were aimed at is looked for
    among those, which are few."""
    from rookery.governance.ledger.ledger_index import LedgerIndex

    index = LedgerIndex(folder, place)
    found = list(islice(index.find(query), most))
    known = {record.id for record in found}
    for kind in _AIMED if query.file else ():
        if query.kind in {"", kind}:
            aimed = filter(query.matches, index.find(replace(query, file="", kind=kind)))
            found += islice((each for each in aimed if each.id not in known), most)
    return sorted(found, key=lambda record: record.time, reverse=True)[:most]
