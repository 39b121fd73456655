"""The map on disk: names of functions from files that are as they were left, and one region."""

from pathlib import Path

from intent_files import laid_out
from rookery.core.intents.intent import Intent, Status
from rookery.core.ledger.line_ranges import LineRange
from rookery.core.ledger.records import TracedFile
from rookery.core.ledger.traced import TracedRecord
from rookery.workspace.ledger.recovery import hash_of_file
from rookery.workspace.orchestration.intent_map_file import renew_in_map, write_intent_map
from rookery.workspace.orchestration.layout import Layout

INTENT = Intent(id="INT-001", name="One", status=Status.IN_PROGRESS)
OTHER = Intent(id="INT-002", name="Two")


def changed(layout: Layout, name: str) -> TracedRecord:
    path = layout.root / name
    path.write_text("def first():\n    return 1\n", encoding="utf-8")
    file = TracedFile(
        path=name, op="modify", after=hash_of_file(path), ranges=(LineRange(1, 2, ""),)
    )
    return TracedRecord(
        id="r",
        time="2026-01-01T00:00:00Z",
        kind="mutation",
        intent_id="INT-001",
        files=(file,),
        raw={},
    )


def test_18_functions_are_named_while_the_file_is_as_it_was_left(tmp_path: Path) -> None:
    layout = laid_out(tmp_path)
    record = changed(layout, "a.py")
    assert write_intent_map(layout, [INTENT, OTHER], [record])
    assert "- `a.py`: `first` (2026-01-01" in layout.map_file.read_text(encoding="utf-8")
    (tmp_path / "a.py").write_text("# moved on\n", encoding="utf-8")
    assert write_intent_map(layout, [INTENT, OTHER], [record])
    assert "- `a.py` (2026-01-01" in layout.map_file.read_text(encoding="utf-8")
    assert not write_intent_map(layout, [INTENT, OTHER], [record])


def test_18_a_turn_renews_only_its_own_region(tmp_path: Path) -> None:
    layout = laid_out(tmp_path)
    write_intent_map(layout, [OTHER], [])
    before = layout.map_file.read_text(encoding="utf-8")
    assert renew_in_map(layout, INTENT, [changed(layout, "a.py")])
    after = layout.map_file.read_text(encoding="utf-8")
    assert after.startswith(before)
    assert "`a.py`: `first`" in after
