"""The map of intents: marked regions, kept text, the same bytes for the same ledger."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.intents.activity import Activity, FileActivity, activity
from rookery.core.intents.intent import Intent, Status
from rookery.core.intents.intent_map import (
    MapEntry,
    MapFile,
    map_entries,
    symbols,
    updated_map,
    with_entry,
)
from rookery.core.ledger.line_ranges import LineRange
from rookery.core.ledger.records import FileHash, TracedFile
from rookery.core.ledger.traced import TracedRecord

AUTH = Intent(id="INT-001", name="JWT", status=Status.IN_PROGRESS, revision=3, depends_on=("B-1",))
POOL = Intent(id="INT-002", name="Pooling", status=Status.COMPLETED)
FILE = MapFile(
    path="src/auth.py",
    symbols=("check", "Token.expired"),
    last_change="2026-02-20T13:54:31.250Z",
    after="ab" * 32,
    changes=2,
)


def test_18_a_region_tells_where_an_intent_lives() -> None:
    text = updated_map("", [MapEntry(intent=AUTH, files=(FILE,)), MapEntry(intent=POOL)])
    assert text.endswith(
        """
<!-- intent-map:begin INT-001 -->
## INT-001 JWT

IN_PROGRESS, revision 3

- `src/auth.py`: `check`, `Token.expired` (2026-02-20, abababababab, 2 changes)

depends on: B-1
<!-- intent-map:end INT-001 -->

<!-- intent-map:begin INT-002 -->
## INT-002 Pooling

COMPLETED, revision 1

No recorded change.
<!-- intent-map:end INT-002 -->
"""
    )


def test_18_text_outside_the_marks_is_kept() -> None:
    first = updated_map("", [MapEntry(intent=AUTH), MapEntry(intent=POOL)])
    mine = first.replace("# Intent map\n", "# My map\n").replace(
        "<!-- intent-map:begin INT-002 -->", "Between.\n\n<!-- intent-map:begin INT-002 -->"
    )
    again = updated_map(f"{mine}\nAt the end.\n", [MapEntry(intent=AUTH, files=(FILE,))])
    for word in ("# My map", "Between.", "At the end.", "`src/auth.py`"):
        assert word in again
    assert "INT-002" not in again, "an intent that is gone leaves no region"


def test_18_one_region_can_be_renewed_alone() -> None:
    both = updated_map("", [MapEntry(intent=AUTH), MapEntry(intent=POOL)])
    renewed = with_entry(both, MapEntry(intent=AUTH, files=(FILE,)))
    assert renewed == updated_map(
        both, [MapEntry(intent=AUTH, files=(FILE,)), MapEntry(intent=POOL)]
    )
    alone = with_entry("", MapEntry(intent=AUTH))
    assert alone == updated_map("", [MapEntry(intent=AUTH)])
    assert with_entry(alone, MapEntry(intent=POOL)) == both


@given(
    outside=st.text(alphabet="ab \n#-<>!", max_size=80),
    names=st.lists(st.sampled_from(["A-1", "B-2", "C-3"]), unique=True),
)
def test_18_the_same_again_gives_identical_bytes(outside: str, names: list[str]) -> None:
    entries = [MapEntry(intent=Intent(id=each, name=each), files=(FILE,)) for each in names]
    once = updated_map(outside, entries)
    assert updated_map(once, entries) == once
    assert updated_map(once, entries[::-1]) == once


@pytest.mark.parametrize(
    "name", ["x <!-- intent-map:end INT-001 --> y", "two\nlines", "`code`", "\x1b[31m"]
)
def test_18_a_name_cannot_leave_its_region(name: str) -> None:
    text = updated_map("", [MapEntry(intent=replace(AUTH, name=name))])
    assert text.count("intent-map:end") - text.count("<! -- intent-map:end") == 1
    assert updated_map(text, [MapEntry(intent=replace(AUTH, name=name))]) == text
    assert "\x1b" not in text


SOURCE = """\
import os


def first():
    return 1


class Token:
    size = 1

    def expired(self):
        return os.name


def last():
    return 2
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((1, 1), ()),
        ((5, 5), ("first",)),
        ((9, 9), ("Token",)),
        ((12, 12), ("Token.expired",)),
        ((4, 17), ("first", "Token.expired", "last")),
    ],
)
def test_18_the_innermost_names_of_the_lines(
    lines: tuple[int, int], expected: tuple[str, ...]
) -> None:
    assert symbols("a.py", SOURCE, [LineRange(*lines, "")]) == expected
    assert symbols("a.md", SOURCE, [LineRange(*lines, "")]) == ()
    assert symbols("a.py", "def (", [LineRange(*lines, "")]) == ()


def _record(kind: str, *files: TracedFile, **more: str) -> TracedRecord:
    told = {"outcome": "success", "intent_id": "INT-001", "time": "2026-01-01T00:00:00Z", **more}
    return TracedRecord(id="r", kind=kind, files=files, raw={}, **told)  # type: ignore[arg-type]


def _file(path: str, op: str = "modify", **more: str) -> TracedFile:
    after = None if op == "delete" else FileHash(sha256=path, size=1)
    return TracedFile(path=path, op=op, after=after, lines_added=2, **more)  # type: ignore[arg-type]


def test_18_activity_follows_renames_and_deletions_and_counts_calls() -> None:
    found = activity(
        [
            _record("mutation", _file("a.py", "create"), _file("b.py", "create")),
            _record("mutation", _file("a.py"), time="2026-01-02T00:00:00Z"),
            _record("blocked", outcome="blocked"),
            _record("blocked", _file("zzz.py"), outcome="denied"),
            _record("mutation", _file("c.py", "rename", origin="b.py"), scope="approved_once"),
            _record("mutation", _file("d.py"), intent_id="INT-002"),
            _record("command", tool_name="intent_check"),
            _record("intent_change"),
        ]
    )
    own = found["INT-001"]
    assert sorted(own.files) == ["a.py", "c.py"]
    assert own.files["a.py"].changes == 2
    assert own.last_change == "2026-01-02T00:00:00Z"
    assert (own.calls, own.refused, own.approved_outside, own.lines) == (5, 2, 1, 8)
    assert sorted(found["INT-002"].files) == ["d.py"]


def test_18_entries_are_sorted_and_named_from_the_present_text() -> None:
    file = FileActivity("a.py", 1, "2026-01-01", "h", (LineRange(5, 5, ""),))
    found = {"INT-002": Activity(files={"a.py": file})}
    entries = map_entries([POOL, AUTH], found, {"a.py": SOURCE})
    assert [each.intent.id for each in entries] == ["INT-001", "INT-002"]
    assert entries[1].files[0].symbols == ("first",)
