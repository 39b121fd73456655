"""The map of intents: the same text for the same ledger."""

from pathlib import Path

from msgspec.structs import replace

from rookery.governance.intents.intent import Intent, IntentStatus
from rookery.governance.intents.intent_map import (
    FileActivity,
    MapEntry,
    activity,
    intent_map,
    map_text,
    symbols,
)
from rookery.governance.layout import Layout
from rookery.governance.ledger.records import FileHash, LineRange, TracedFile
from rookery.governance.ledger.recovery import hash_of_file
from rookery.governance.ledger.traced import TracedRecord
from support.each_row import each_row
from support.intent_files import laid_out

AUTH = Intent(
    id="INT-001", name="JWT", status=IntentStatus.IN_PROGRESS, revision=3, depends_on=("B-1",)
)
POOL = Intent(id="INT-002", name="Pooling", status=IntentStatus.COMPLETED)
FILE = FileActivity(
    path="src/auth.py",
    symbols=("check", "Token.expired"),
    last_change="2026-02-20T13:54:31.250Z",
    after="ab" * 32,
    changes=2,
)


def test_the_map_shows_the_files_of_each_intent() -> None:
    text = map_text([MapEntry(intent=AUTH, files=(FILE,)), MapEntry(intent=POOL)])
    assert (
        text
        == """\
# Intent map

## INT-001 JWT

IN_PROGRESS, revision 3

- `src/auth.py`: `check`, `Token.expired` (2026-02-20, abababababab, 2 changes)

depends on: B-1

## INT-002 Pooling

COMPLETED, revision 1

No recorded change.
"""
    )


@each_row("name", ["two\nlines", "`code`", "\x1b[31m"])
def test_a_name_stays_on_its_line(name: str) -> None:
    text = map_text([MapEntry(intent=replace(AUTH, name=name))])
    assert len(text.splitlines()) == 9
    assert "\x1b" not in text
    assert "`" not in text


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


@each_row(
    ("lines", "expected"),
    [
        ((1, 1), ()),
        ((5, 5), ("first",)),
        ((9, 9), ("Token",)),
        ((12, 12), ("Token.expired",)),
        ((4, 17), ("first", "Token.expired", "last")),
    ],
)
def test_the_innermost_names_of_the_lines(
    lines: tuple[int, int], expected: tuple[str, ...]
) -> None:
    assert symbols("a.py", SOURCE, [LineRange(*lines, "")]) == expected
    assert symbols("a.md", SOURCE, [LineRange(*lines, "")]) == ()
    assert symbols("a.py", "def (", [LineRange(*lines, "")]) == ()


def _record(kind: str, *files: TracedFile, **more: str) -> TracedRecord:
    reported = {
        "outcome": "success",
        "intent_id": "INT-001",
        "time": "2026-01-01T00:00:00Z",
        **more,
    }
    return TracedRecord(id="r", kind=kind, files=files, raw={}, **reported)  # type: ignore[arg-type]


def _file(path: str, op: str = "modify", **more: str) -> TracedFile:
    after = None if op == "delete" else FileHash(sha256=path, size=1)
    return TracedFile(path=path, op=op, after=after, lines_added=2, **more)  # type: ignore[arg-type]


def test_activity_follows_renames_and_deletions_and_counts_calls() -> None:
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


def changed(layout: Layout, name: str) -> TracedRecord:
    path = layout.root / name
    path.write_text("def first():\n    return 1\n", encoding="utf-8")
    file = TracedFile(
        path=name, op="modify", after=hash_of_file(path), ranges=(LineRange(1, 2, ""),)
    )
    return _record("mutation", file)


def test_functions_are_named_while_the_file_is_as_it_was_left(tmp_path: Path) -> None:
    layout = laid_out(tmp_path)
    record = changed(layout, "a.py")
    entries = intent_map(layout, [POOL, AUTH], [record])
    assert [each.intent.id for each in entries] == ["INT-001", "INT-002"]
    assert "- `a.py`: `first` (2026-01-01" in map_text(intent_map(layout, [AUTH], [record]))
    (tmp_path / "a.py").write_text("# moved on\n", encoding="utf-8")
    assert "- `a.py` (2026-01-01" in map_text(intent_map(layout, [AUTH], [record]))
