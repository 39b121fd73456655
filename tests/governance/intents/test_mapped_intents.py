"""The intent map names functions only in files that are as they were left."""

from pathlib import Path

from rookery.governance.intents.intent import Intent, IntentStatus
from rookery.governance.intents.intent_map import intent_map, map_text
from rookery.governance.layout import Layout
from rookery.governance.ledger.records import LineRange, TracedFile
from rookery.governance.ledger.recovery import hash_of_file
from rookery.governance.ledger.traced import TracedRecord
from support.intent_files import laid_out

INTENT = Intent(id="INT-001", name="One", status=IntentStatus.IN_PROGRESS)


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


def test_functions_are_named_while_the_file_is_as_it_was_left(tmp_path: Path) -> None:
    layout = laid_out(tmp_path)
    record = changed(layout, "a.py")
    assert "- `a.py`: `first` (2026-01-01" in map_text(intent_map(layout, [INTENT], [record]))
    (tmp_path / "a.py").write_text("# moved on\n", encoding="utf-8")
    assert "- `a.py` (2026-01-01" in map_text(intent_map(layout, [INTENT], [record]))
