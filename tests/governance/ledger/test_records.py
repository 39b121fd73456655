"""Records: in the Agent Trace format, whole, and never longer than a line may be."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.governance.intents.intent import Related
from rookery.governance.ledger.records import (
    LONGEST_LINE,
    FileHash,
    LedgerEntry,
    LineRange,
    Link,
    TracedFile,
    build_record,
    content_hash,
    encode_line,
    line_change,
    plain_lines,
    split_entry,
)
from support.agent_trace_format import AGENT_TRACE, shape_problems
from support.each_row import each_row
from support.sample_ledgers import GOLDEN_LINES, WRITER, change

SCHEMA = jsonschema.Draft202012Validator(
    AGENT_TRACE, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)
LINK = Link(stream="01JMZ3V9K6T2Q8R4W0XYABCDEF", seq=0, prev=None)
ID = "00000000-0000-4000-8000-000000000000"


def made(entry: LedgerEntry) -> dict[str, Any]:
    return build_record(
        entry, id=ID, timestamp="2026-02-20T13:54:18.000Z", writer=WRITER, link=LINK
    )


ENTRIES = {
    "mutation": change("t-1", 1),
    "sub-task": change(
        "t-2", 1, parent_task_id="t-1", related=(Related(type="issue", url="urn:x"),)
    ),
    "human": change("t-1", 1, contributor="human"),
    "blocked": LedgerEntry(
        kind="blocked",
        task_id="t-1",
        outcome="blocked",
        error={"code": "REQ-001", "type": "scope_violation"},
    ),
    "command": LedgerEntry(kind="command", task_id="t-1", command={"text": "make", "exit_code": 0}),
    "observed": change("t-1", 1, enforced=False, turn=0),
    "long model": change("t-1", 1, model_id="m" * 300),
    "deletion": LedgerEntry(
        kind="mutation",
        task_id="t-1",
        files=(TracedFile(path="a", op="delete", before=FileHash(sha256="0" * 64, size=1)),),
    ),
}


@each_row("name", ENTRIES)
def test_every_record_is_one_of_the_agent_trace_format(name: str):
    record = made(ENTRIES[name])
    assert list(SCHEMA.iter_errors(record)) == []
    assert shape_problems(record) == ()


def test_the_fields_of_a_record():
    record = made(ENTRIES["sub-task"])
    [file] = record["files"]
    [talk] = file["conversations"]
    assert talk["url"] == "urn:task:t-2"
    assert talk["contributor"] == {"type": "ai", "model_id": "example/model-1"}
    assert [each["url"] for each in talk["related"]] == [
        "urn:intent:INT-001",
        "urn:x",
        "urn:task:t-1",
    ]
    assert "vcs" not in record
    assert made(ENTRIES["observed"])["metadata"]["orchestration"]["turn"] == 0
    assert made(ENTRIES["observed"])["metadata"]["orchestration"]["enforced"] is False
    assert made(ENTRIES["command"])["metadata"]["orchestration"]["intent_id"] is None


def test_paths_are_composed():
    record = made(
        LedgerEntry(kind="mutation", task_id="t", files=(TracedFile(path="cafe\u0301", op="mode"),))
    )
    assert record["files"][0]["path"] == "caf\u00e9"
    assert record["metadata"]["orchestration"]["files"][0]["path"] == "caf\u00e9"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": "one"}, "version is missing or malformed"),
        ({"id": 7}, "id is missing or malformed"),
        ({"timestamp": "yesterday"}, "timestamp is missing or malformed"),
        ({"files": {}}, "files is not a list"),
        ({"files": [{}]}, "files[0]: path is missing"),
        ({"files": [{"path": "a"}]}, "files[0]: conversations is not a list"),
        ({"files": [{"path": "a", "conversations": [{}]}]}, "files[0]: ranges is not a list"),
        (
            {"files": [{"path": "a", "conversations": [{"ranges": [{"start_line": 0}]}]}]},
            "files[0]: a range has no lines from 1",
        ),
    ],
    ids=str,
)
def test_a_deviation_from_the_format_is_reported(change: dict[str, Any], problem: str):
    assert shape_problems({**json.loads(GOLDEN_LINES[0]), **change}) == (problem,)


def test_a_call_with_very_many_files_is_recorded_in_parts():
    files = tuple(TracedFile(path=f"src/{'deep/' * 20}{at}.py", op="create") for at in range(3000))
    parts = split_entry(LedgerEntry(kind="mutation", task_id="t", files=files))
    assert len(parts) > 2
    assert tuple(file for part in parts for file in part.files) == files
    assert [part.more and part.more["part"] for part in parts] == list(range(1, len(parts) + 1))
    assert all(len(encode_line(made(part))) <= LONGEST_LINE for part in parts)


def test_a_file_with_very_many_ranges_keeps_its_hashes():
    ranges = tuple(LineRange(at, at, f"sha256:{at:064x}") for at in range(1, 3000))
    after = FileHash(sha256="0" * 64, size=1)
    file = TracedFile(path="a", op="modify", ranges=ranges, after=after)
    [part] = split_entry(LedgerEntry(kind="mutation", task_id="t", files=(file,)))
    assert len(encode_line(made(part))) <= LONGEST_LINE
    assert part.files == (TracedFile(path="a", op="modify", after=after, attribution="whole"),)


TEXT = st.lists(st.sampled_from(["a", "b", "", "return x", "}"]), max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(TEXT, TEXT)
def test_content_neither_written_nor_removed_is_unchanged(old: str, new: str):
    found = line_change(old, new)
    before, after = plain_lines(old), plain_lines(new)
    written = {n for each in found.written for n in range(each.start - 1, each.end)}
    removed = {n for each in found.removed for n in range(each.start - 1, each.end)}
    assert [line for n, line in enumerate(before) if n not in removed] == [
        line for n, line in enumerate(after) if n not in written
    ]
    assert (found.added, found.deleted) == (len(written), len(removed))
    assert len(found.marks) == 8 * found.added
    for each in found.written:
        assert each.content_hash == content_hash(after[each.start - 1 : each.end])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
def test_line_ends_do_not_count(end: str):
    text = f'def f():{end}    return "é"{end}'
    [written] = line_change("", text).written
    assert written.content_hash == (
        "sha256:e8a5f8b51c01ecf7fcbed421db30b8fe45745f789f322de23ede7e80db2063c4"
    )
    assert (written.start, written.end) == (1, 2)
    assert line_change(text, text.replace(end, "\n")).written == ()


def test_a_deleted_file_records_the_removed_lines():
    found = line_change("a\nb\n", "")
    assert found.written == ()
    [removed] = found.removed
    assert (removed.start, removed.end, removed.content_hash) == (1, 2, content_hash(["a", "b"]))
