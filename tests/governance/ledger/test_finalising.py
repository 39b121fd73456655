"""The recorded lines that a commit contains, without duplicates or inventions."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rookery.governance.ledger.commit_notes import (
    Finalised,
    NotedFile,
    finalised_record,
    match_commit,
)
from rookery.governance.ledger.records import (
    LedgerEntry,
    Link,
    TracedFile,
    build_record,
    content_hash,
    line_change,
    plain_lines,
)
from rookery.governance.ledger.traced import TracedRecord, parse_record
from support.agent_trace_format import shape_problems
from support.sample_ledgers import WRITER

LINE = st.sampled_from([f"statement_number_{number} = {number}" for number in range(8)] + ["", "}"])
TEXT = st.lists(LINE, max_size=12).map(lambda lines: "".join(f"{line}\n" for line in lines))


def wrote(number: int, old: str, new: str, **more: Any) -> TracedRecord:
    found = line_change(old, new)
    file = TracedFile(
        path="a.py", op="modify", ranges=found.written, line_marks=found.marks, lines_added=1
    )
    entry = LedgerEntry(
        kind="mutation", task_id="t", intent_id=f"INT-{number}", files=(file,), **more
    )
    link = Link(stream="01JMZ3V9K6T2Q8R4W0XYABCDEF", seq=number, prev=None)
    id = f"00000000-0000-4000-8000-{number:012}"
    time = f"2026-02-20T13:54:{number:02}.000Z"
    return parse_record(build_record(entry, id=id, timestamp=time, writer=WRITER, link=link))


def committed(before: str, after: str) -> NotedFile:
    spans = line_change(before, after).written
    fresh = frozenset(at for each in spans for at in range(each.start - 1, each.end))
    return NotedFile(path="a.py", lines=tuple(plain_lines(after)), fresh=fresh)


def found_in(texts: list[str], last: str) -> tuple[NotedFile, Finalised]:
    records = [wrote(number, old, new) for number, (old, new) in enumerate(pairwise(texts))]
    file = committed(texts[0], last)
    return file, match_commit([file], records[::-1])


@given(st.lists(TEXT, min_size=2, max_size=5), TEXT)
def test_every_fresh_line_is_counted_once_and_every_range_is_true(texts: list[str], last: str):
    """And the records are of the format and of no chain."""
    file, found = found_in(texts, last)
    assert found.lines + found.edited + found.unknown == len(file.fresh)
    reported: list[int] = []
    for placed in found.placed:
        for _, spans in placed.files:
            for each in spans:
                assert content_hash(file.lines[each.start - 1 : each.end]) == each.content_hash
                reported += range(each.start - 1, each.end)
        record = finalised_record(placed, "f" * 40)
        assert shape_problems(record) == ()
        assert not parse_record(record).chained
        assert parse_record(record).intent_id == placed.record.intent_id
    assert len(reported) == len(set(reported)) == found.lines
    assert set(reported) <= file.fresh


def test_lines_of_people_are_found_too():
    human = wrote(1, "", "statement_number_1 = 1\n", contributor="human")
    found = match_commit([committed("", "statement_number_1 = 1\n")], [human])
    assert found.lines == 1
