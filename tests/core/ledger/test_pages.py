"""Records as rows and pages, and lines as people and programs read them."""

from typing import Any

import pytest

from ledger_bench import WRITER, change
from rookery.core.ledger.blame_page import CommitOfLine, OwnedLine, blame_rows, porcelain, why_rows
from rookery.core.ledger.log_lines import log_lines
from rookery.core.ledger.record_page import chain_of, record_page
from rookery.core.ledger.records import Entry, Link, record_of
from rookery.core.ledger.traced import TracedRecord, traced

STREAM = "01JMZ3V9K6T2Q8R4W0XYABCDEF"
TIME = "2026-02-20T13:54:31.250Z"


def recorded(entry: Entry, *, seq: int = 0, prev: str | None = None) -> TracedRecord:
    link = Link(stream=STREAM, seq=seq, prev=prev)
    id = f"4cb4523f-5220-4447-a98a-83000000000{seq}"
    return traced(record_of(entry, id=id, timestamp=TIME, writer=WRITER, link=link))


def row(**told: Any) -> str:
    entry = Entry(**{"task_id": "t", "intent_id": "INT-001", **told})
    (line,) = log_lines([recorded(entry)], today=TIME[:10])
    return " ".join(line.text.split())


def command(text: str, **more: Any) -> dict[str, Any]:
    return {"kind": "command", "tool_name": "execute_command", "command": {"text": text, **more}}


ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing is selected": (
        {"kind": "blocked", "intent_id": "", "tool_name": "x", "outcome": "blocked"},
        "13:54:31 blocked - x - blocked",
    ),
    "a refusal": (
        {"kind": "blocked", "error": {"code": "REQ-007", "type": "stale_file"}},
        "13:54:31 blocked INT-001 - - REQ-007 stale file",
    ),
    "an approval": (
        {"kind": "decision", "approval": {"answer": "once", "by": "human"}},
        "13:54:31 decision INT-001 - - once by human",
    ),
    "a command": (
        command("make", exit_code=0),
        "13:54:31 command INT-001 execute_command make exit 0, 0 files changed",
    ),
    "a command of many lines": (
        command("make all\nmake test"),
        "13:54:31 command INT-001 execute_command make all… 0 files changed",
    ),
    "a long command": (
        command("x" * 90),
        f"13:54:31 command INT-001 execute_command {'x' * 59}… 0 files changed",
    ),
    "what the ledger says of itself": (
        {"kind": "stream_start", "intent_id": ""},
        "13:54:31 stream_start - - - stream 01JMZ3V9… #0",
    ),
    "observed": (
        {"kind": "external", "tool_name": "use_mcp_tool", "enforced": False, "outcome": "failure"},
        "13:54:31 external INT-001 use_mcp_tool - failure not enforced",
    ),
}


@pytest.mark.parametrize(("told", "expected"), ROWS.values(), ids=ROWS)
def test_20_2_a_record_is_one_row(told: dict[str, Any], expected: str):
    assert row(**told) == expected


FIRST = recorded(change("t-1", 1))
SECOND = recorded(change("t-1", 2), seq=1, prev=FIRST.hash)
ASTRAY = recorded(change("t-1", 2), seq=1, prev="sha256:" + "0" * 64)
EDITED = traced({**SECOND.raw, "timestamp": "2026-02-21T13:54:31.250Z"})
FLOAT = traced({**SECOND.raw, "extra": 0.5})
CHAINS = {
    "the first": (FIRST, None, "ok"),
    "the next": (SECOND, FIRST, "ok"),
    "the one before is lost": (SECOND, None, "prev not found"),
    "the one before is another": (ASTRAY, FIRST, "prev differs"),
    "edited": (EDITED, FIRST, "hash differs"),
    "no record of ours": (FLOAT, FIRST, "hash differs"),
    "of others": (traced({"id": "x", "files": []}), None, "unchained"),
}


@pytest.mark.parametrize(("record", "before", "chain"), CHAINS.values(), ids=CHAINS)
def test_20_2_a_page_says_whether_the_chain_holds(
    record: TracedRecord, before: TracedRecord | None, chain: str
):
    assert chain_of(record, before) == chain
    page = record_page(record, chain_of(record, before))
    broken = chain not in {"ok", "unchained"}
    assert ("chain broken" in page) == broken


def test_20_2_lines_are_aligned_whatever_stands_in_them():
    commit = CommitOfLine(revision="9" * 40, author="A" * 40, day="2026-01-10", path="a", line=1)
    lines = [
        OwnedLine(number=9, text="x\ty", origin="version control", commit=commit),
        OwnedLine(number=10, text="", record=FIRST, origin="recorded"),
        OwnedLine(number=11, text="z"),
    ]
    rows = list(blame_rows(lines))
    days = ("2026-01-10", "2026-02-20", "-           z")
    assert len({text.index(day) for text, day in zip(rows, days, strict=True)}) == 1
    assert [porcelain(line).split("\t", 1)[0] for line in lines] == ["9", "10", "11"]
    assert porcelain(lines[0]).endswith("\tx\ty")
    assert list(why_rows(lines[2], None)) == []
