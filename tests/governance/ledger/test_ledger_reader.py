"""Reading a ledger: newest first, by query, from any writer."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.governance.ledger import segments
from rookery.governance.ledger.ledger_reader import Query, format_time, newest, oldest, parse_time
from rookery.governance.ledger.records import LedgerEntry
from rookery.governance.ledger.segments import (
    lines,
    lines_backwards,
    sealed_files,
)
from rookery.governance.ledger.state_files import LedgerUnreadable
from rookery.governance.ledger.traced import records_on
from rookery.governance.ledger.verify_ledger import LONGEST_LINE
from support.each_row import each_row
from support.sample_ledgers import LedgerBench, change, compress, some_tasks


@pytest.fixture
def bench(tmp_path: Path) -> LedgerBench:
    bench = LedgerBench(tmp_path / "space")
    ledger = bench.ledger(seal_records=25)
    for number in range(60):
        ledger.append(
            change(
                f"t-{number % 3}", number, intent_id=f"INT-{number % 4}", tool_use_id=f"c{number}"
            )
        )
    ledger.append(
        LedgerEntry(
            kind="blocked",
            task_id="t-1",
            intent_id="INT-1",
            tool_name="write_to_file",
            outcome="denied",
            error={"code": "REQ-001", "type": "scope_violation"},
        )
    )
    ledger.close()
    return bench


@pytest.mark.parametrize("size", [1, 10, 64 * 1024, 200_000])
def test_lines_come_backwards(tmp_path: Path, size: int):
    path = tmp_path / "a.jsonl"
    lines = [b"%d" % number + b"x" * (size + number % 5) + b"\n" for number in range(7)]
    path.write_bytes(b"".join(lines))
    assert list(lines_backwards(path)) == lines[::-1]
    path.write_bytes(b"".join(lines)[:-1])
    assert list(lines_backwards(path)) == lines[::-1]


def test_newest_first_across_sealed_files(bench: LedgerBench):
    calls = [record.tool_use_id for record in newest(bench.folder, Query(kind="mutation"))]
    assert calls == [f"c{number}" for number in reversed(range(60))]
    assert [record.id for record in oldest(bench.folder)] == [
        record.id for record in newest(bench.folder)
    ][::-1]


QUERIES = {
    "everything": Query(),
    "intent": Query(intent="INT-2"),
    "task": Query(task="t-1"),
    "call": Query(task="t-1", call="c7"),
    "kind": Query(kind="stream_start"),
    "outcome": Query(outcome="denied"),
    "file": Query(file="src/auth/café_[12].py"),
    "intent and file": Query(intent="INT-3", file="src/*"),
    "text": Query(text="REQ-001"),
    "since": Query(since="2999"),
    "until": Query(until="2999"),
    "nothing": Query(intent="INT-999"),
}


def test_a_query_also_finds_records_of_other_tools(bench: LedgerBench):
    """Lines are searched before they are parsed, so every way to name an intent counts."""
    compress(sealed_files(bench.folder)[0])
    other = {"id": "o", "files": [{"path": "b.py", "conversations": [_NAMING]}]}
    plain = json.dumps(other)
    escaped = plain.replace("INT-2", r"\u0049NT-2")
    bench.active.write_bytes(bench.active.read_bytes() + f"{escaped}\n{plain}\n".encode())
    every = list(newest(bench.folder))
    for name, query in QUERIES.items():
        expected = [record.id for record in every if query.matches(record)]
        assert [record.id for record in newest(bench.folder, query)] == expected, name
        assert bool(expected) is (name not in {"since", "nothing"}), name
    assert next(newest(bench.folder, QUERIES["intent"])).id == "o"


_NAMING = {"related": [{"type": "intent", "url": "urn:intent:INT-2"}]}


LINEAGE = {
    "id": "x",
    "timestamp": "2026-02-01T00:00:00Z",
    "intent_id": "INT-007",
    "mutation_class": "AST_REFACTOR",
    "files": [
        {
            "relative_path": "src/a.ts",
            "conversations": [
                {
                    "url": "u",
                    "contributor": {"entity_type": "AI", "model_identifier": "p/m"},
                    "ranges": [{"start_line": 1, "end_line": 3, "content_hash": "sha256:1"}],
                    "related": [{"type": "specification", "value": "REQ-001"}],
                }
            ],
        }
    ],
}


def test_a_line_of_the_lineage_is_mapped():
    [record] = records_on(json.dumps(LINEAGE).encode())
    [file] = record.files
    assert (file.path, file.ranges[0].end) == ("src/a.ts", 3)
    assert (record.intent_id, record.model_id, record.contributor) == ("INT-007", "p/m", "ai")
    assert (record.related[0].url, record.chained) == ("REQ-001", False)


def test_two_objects_on_one_line_are_two_records():
    line = json.dumps(LINEAGE) + json.dumps({**LINEAGE, "id": "y"})
    assert [record.id for record in records_on(line.encode())] == ["x", "y"]


def test_pseudo_files_are_events():
    line = {"version": "1.0", "id": "z", "files": [{"path": ".shell-history", "conversations": []}]}
    [record] = records_on(json.dumps(line).encode())
    assert (record.kind, record.files) == ("event", ())


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[1]", b"7", b"\xff", b'{"files": 7, "metadata": [], "id": {}}'], ids=repr
)
def test_any_content_can_be_read(line: bytes):
    assert all(not record.files for record in records_on(line))


def test_a_ledger_of_many_tasks_reads_as_it_was_written(tmp_path: Path):
    bench = LedgerBench(tmp_path / "space")
    some_tasks(bench)
    assert [record.raw for record in oldest(bench.folder)] == list(map(json.loads, bench.lines))


BLOCK = 64 * 1024


@given(st.lists(st.sampled_from([1, 2, 100, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]), max_size=12))
def test_a_file_is_the_same_from_its_end(sizes: list[int]):
    text = b"".join(b"%d" % (at % 10) * (size - 1) + b"\n" for at, size in enumerate(sizes))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(text)
        forwards = [line for line in lines(path) if line != b"\n"]
        assert list(lines_backwards(path)) == forwards[::-1]
        assert b"".join(lines(path)) == text


def test_an_endless_line_comes_in_pieces(bench: LedgerBench):
    with open(bench.active, "wb") as file:
        file.truncate(3 * LONGEST_LINE)
    for way in (lines, lines_backwards):
        assert max(map(len, way(bench.active))) <= LONGEST_LINE + 2 * BLOCK


def test_a_packed_file_is_unpacked_only_as_far_as_a_ledger_can_be_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(segments, "LARGEST_UNPACKED", 2 * segments.MIB)
    bomb = tmp_path / "x.jsonl.gz"
    bomb.write_bytes(gzip.compress(bytes(3 * segments.MIB)))
    for way in (lines, lines_backwards):
        with pytest.raises(LedgerUnreadable, match="larger than 2 MiB; move it away"):
            list(way(bomb))


NOW = datetime(2026, 2, 20, 13, 54, 31, 250_000, tzinfo=UTC)
MOMENTS = {
    "7d": "2026-02-13T13:54:31.250Z",
    "12h": "2026-02-20T01:54:31.250Z",
    "30 m": "2026-02-20T13:24:31.250Z",
    "2w": "2026-02-06T13:54:31.250Z",
    "2026-02-20": "2026-02-20T00:00:00.000Z",
    "2026-02-20T13:54:31Z": "2026-02-20T13:54:31.000Z",
    "2026-02-20 13:54": "2026-02-20T13:54:00.000Z",
    "2026-02-20T13:54:31+02:00": "2026-02-20T11:54:31.000Z",
}


@pytest.mark.parametrize(("text", "expected"), MOMENTS.items(), ids=MOMENTS)
def test_times_are_written_as_in_records(text: str, expected: str):
    assert parse_time(text, NOW) == expected


@each_row("text", ["", "yesterday", "7", "d7", "2026-13-01", "999999w", "-1d"])
def test_an_invalid_time_is_refused(text: str):
    with pytest.raises(ValueError, match=r".*"):
        parse_time(text, NOW)


@given(st.datetimes(timezones=st.just(UTC)), st.timedeltas(timedelta(0), timedelta(days=9)))
def test_later_moments_compare_as_later(when: datetime, more: timedelta):
    if when.year < 9999 and when.year >= 1000:
        assert format_time(when) <= format_time(when + more)
