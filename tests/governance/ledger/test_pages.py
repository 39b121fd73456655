"""Records as rows and pages, and lines as people and programs read them."""

from typing import Any

import pytest

from rookery.governance.ledger.line_history import (
    MAX_WIDTH,
    CommitOfLine,
    OwnedLine,
    blame_rows,
    check_text,
    porcelain,
    reason_rows,
)
from rookery.governance.ledger.record_text import Columns, chain_of, log_lines, record_page
from rookery.governance.ledger.records import LedgerEntry, Link, TracedFile, build_record
from rookery.governance.ledger.traced import TracedRecord, parse_record
from support.each_row import each_row
from support.sample_ledgers import WRITER, change

STREAM = "01JMZ3V9K6T2Q8R4W0XYABCDEF"
TIME = "2026-02-20T13:54:31.250Z"


def recorded(entry: LedgerEntry, *, seq: int = 0, prev: str | None = None) -> TracedRecord:
    link = Link(stream=STREAM, seq=seq, prev=prev)
    id = f"4cb4523f-5220-4447-a98a-83000000000{seq}"
    return parse_record(build_record(entry, id=id, timestamp=TIME, writer=WRITER, link=link))


def row(**reported: Any) -> str:
    entry = LedgerEntry(**{"task_id": "t", "intent_id": "INT-001", **reported})
    (line,) = log_lines([recorded(entry)], today=TIME[:10])
    (text,) = Columns().rows([line])
    id, rest = text.split(maxsplit=1)
    assert id == "4cb4523f"
    return " ".join(rest.split())


def of(kind: str, **reported: Any) -> dict[str, Any]:
    return {"kind": kind, **reported}


def command(text: str, **more: Any) -> dict[str, Any]:
    return of("command", tool_name="execute_command", command={"text": text, **more})


def changed(command: str, change: dict[str, Any], **approval: str) -> dict[str, Any]:
    """What `rookery intents` records of its commands."""
    by = {"by": "Ada", "answer": command, **approval}
    return of("intent_change", approval=by, more={"change": {"command": command, **change}})


FILE = TracedFile(path="a", op="create")
ONCE, TASK = {"answer": "once", "by": "human"}, {"answer": "task", "by": "human"}
STALE = {"code": "REQ-007", "type": "stale_file"}
EXPANDED = {"change": "expand", "pattern": "src/**"}
ROWS = {
    "blocked - x - blocked": of("blocked", intent_id="", tool_name="x", outcome="blocked"),
    "blocked INT-001 - - REQ-007 stale file": of("blocked", error=STALE),
    "decision INT-001 - - once by human": of("decision", approval=ONCE),
    "decision INT-001 - - task by human about REQ-001": of(
        "decision", approval={**TASK, "reasons": ["REQ-001"]}
    ),
    "command INT-001 execute_command make exit 0, 0 files changed": command("make", exit_code=0),
    "command INT-001 execute_command make all… 0 files changed": command("make all\nmake test"),
    f"command INT-001 execute_command {'x' * 59}… 0 files changed": command("x" * 90),
    "stream_start - - - stream 01JMZ3V9… #0": of("stream_start", intent_id=""),
    "intent_change INT-001 - Tokens new by Ada": changed(
        "new", {"from": None, "to": "PENDING", "name": "Tokens"}
    ),
    'intent_change INT-001 - - start (PENDING -> IN_PROGRESS) by Ada: "now"': changed(
        "start", {"from": "PENDING", "to": "IN_PROGRESS"}, reason="now"
    ),
    "intent_change INT-001 - src/**, a expand by Ada": changed(
        "expand", {"from": "X", "to": "X", "scope_added": ["src/**", "a"]}
    ),
    "intent_change INT-001 - src/** expand": of("intent_change", more=EXPANDED),
    "intent_selected INT-001 - - by model": of("intent_selected", more={"by": "model"}),
    "intent_invalidated INT-001 - - it was edited": of(
        "intent_invalidated", more={"reason": "it was edited"}
    ),
    "rewind INT-001 - a and 2 more 1 file restored, 2 removed": of(
        "rewind", files=(FILE,), more={"removed": ["b", "c"]}
    ),
    "rewind INT-001 - a and 1 more 2 files restored": of(
        "rewind", files=(FILE, TracedFile(path="b", op="create"))
    ),
    "lesson INT-001 record_lesson AGENT.md 2 times": of(
        "lesson", tool_name="record_lesson", more={"file": "AGENT.md", "count": 2}
    ),
    "external INT-001 use_mcp_tool - failure not enforced": of(
        "external", tool_name="use_mcp_tool", enforced=False, outcome="failure"
    ),
}


@each_row("expected", ROWS)
def test_a_record_is_one_row(expected: str):
    assert row(**ROWS[expected]) == f"13:54:31 {expected}"


def test_rows_are_aligned_whatever_their_kinds():
    kinds = ("mutation", "intent_invalidated", "decision")
    records = [recorded(LedgerEntry(kind=kind, task_id="t", intent_id="INT-001")) for kind in kinds]
    lines, columns = list(log_lines(records, today="")), Columns()
    assert len({row.index("INT-001") for row in columns.rows(lines)}) == 1
    (later,) = columns.rows(lines[:1])
    assert later.index("INT-001") == next(columns.rows(lines)).index("INT-001")


def test_a_decision_is_reported_with_what_its_call_was_about():
    asked = {"task_id": "t", "tool_name": "apply_diff", "tool_use_id": "toolu_1"}
    decision = LedgerEntry(kind="decision", approval={"answer": "once", "by": "human"}, **asked)
    done = LedgerEntry(kind="mutation", files=(FILE,), **asked)
    other = LedgerEntry(kind="decision", **{**asked, "tool_use_id": ""})
    lines = log_lines([*map(recorded, (done, decision, other))], today="")
    assert [line.subject for line in lines] == ["a", "a", "-"]


def test_files_removed_by_a_rewind_are_recorded_as_deleted():
    """Coverage compares the last record of a file with the file."""
    rewind = recorded(
        LedgerEntry(kind="rewind", task_id="t", files=(FILE,), more={"removed": ["b", 7, ""]})
    )
    assert [(file.path, file.op, file.after) for file in rewind.files] == [
        ("a", "create", None),
        ("b", "delete", None),
    ]
    other = recorded(LedgerEntry(kind="mutation", task_id="t", more={"removed": ["b"]}))
    assert other.files == ()


FIRST = recorded(change("t-1", 1))
SECOND = recorded(change("t-1", 2), seq=1, prev=FIRST.hash)
ASTRAY = recorded(change("t-1", 2), seq=1, prev="sha256:" + "0" * 64)
EDITED = parse_record({**SECOND.raw, "timestamp": "2026-02-21T13:54:31.250Z"})
FLOAT = parse_record({**SECOND.raw, "extra": 0.5})
CHAINS = {
    "the first": (FIRST, None, "ok"),
    "the next": (SECOND, FIRST, "ok"),
    "the one before is lost": (SECOND, None, "prev not found"),
    "the one before is another": (ASTRAY, FIRST, "prev differs"),
    "edited": (EDITED, FIRST, "hash differs"),
    "no record of ours": (FLOAT, FIRST, "hash differs"),
    "of others": (parse_record({"id": "x", "files": []}), None, "unchained"),
}


@pytest.mark.parametrize(("record", "before", "chain"), CHAINS.values(), ids=CHAINS)
def test_a_page_says_whether_the_chain_holds(
    record: TracedRecord, before: TracedRecord | None, chain: str
):
    assert chain_of(record, before) == chain
    page = record_page(record, chain_of(record, before))
    broken = chain not in {"ok", "unchained"}
    assert ("chain broken" in page) == broken


def test_lines_are_aligned_whatever_their_text():
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
    assert list(reason_rows(lines[2], None)) == []


def test_rows_of_lines_are_no_wider_than_a_screen():
    model = recorded(change("01234567-89ab-7def-8000-000000000000", 1, model_id="a/b/" + "m" * 40))
    commit = CommitOfLine(revision="9" * 40, author="A" * 90, day="2026-01-10", path="a", line=1)
    lines = [
        OwnedLine(number=1, text="x" * 200, origin="recorded", record=model),
        OwnedLine(number=2, text="y" * 200, origin="version control", commit=commit),
    ]
    rows = list(blame_rows(lines))
    assert [len(row) for row in rows] == [MAX_WIDTH, MAX_WIDTH]
    assert rows[0].startswith("  1  INT-001  mmmm")
    assert "  01234567  " in rows[0]
    assert porcelain(lines[0]).endswith("x" * 200)


CHECKS = {
    "held": ({"outcome": "success", "command": {"text": "x", "exit_code": 0}}, "passed on"),
    "did not": (
        {"outcome": "failure", "command": {"text": "x", "exit_code": 3}},
        "failed on",
    ),
    "was cut off": ({"outcome": "interrupted", "command": {"text": "x"}}, "failed on"),
}


@pytest.mark.parametrize(("reported", "said"), CHECKS.values(), ids=CHECKS)
def test_the_result_of_a_criterion_is_shown_as_recorded(reported: dict[str, Any], said: str):
    check = recorded(LedgerEntry(kind="command", task_id="t", tool_name="intent_check", **reported))
    code = ", exit 3" if reported["outcome"] == "failure" else ""
    assert check_text(check) == f"{said} 2026-02-20{code}"
    assert check_text(None) == "never checked"
