"""Sessions recorded by earlier versions still open, look the same and continue."""

import json
from pathlib import Path
from typing import Any

import pytest

from golden.frozen import thaw
from golden.resuming import facts_of, resumed
from golden.scenarios import SESSION
from golden.sessions import SESSIONS

KEPT = Path(__file__).parent / "journals"
MARK = "cache_control"


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recorded_session_is_listed_shown_and_resumed_as_before(name: str, tmp_path: Path):
    seen = json.loads(json.dumps(resumed(thaw(KEPT / f"{name}.json", tmp_path))))
    expected: dict[str, Any] = json.loads((KEPT / f"{name}.expected.json").read_text("utf-8"))
    for part, value in expected.items():
        assert without_marks(seen[part]) == without_marks(value), part
    assert seen.keys() == expected.keys()


def without_marks(value: Any) -> Any:
    """Without the cache marks, which are not part of the conversation."""
    match value:
        case dict():
            return {key: without_marks(part) for key, part in value.items() if key != MARK}
        case list():
            return [without_marks(part) for part in value]
        case _:
            return value


def test_a_recorded_session_is_printed_fact_by_fact_as_it_was_written(tmp_path: Path):
    rookery = thaw(KEPT / "governed.json", tmp_path)
    printed = [json.loads(line) for line in rookery.run("show", "--json").stdout.splitlines()]
    recorded = facts_of(rookery)
    # fields that facts have got since then are printed too
    kept = [{name: new[name] for name in old} for new, old in zip(printed, recorded, strict=True)]
    assert kept == recorded


def test_files_are_restored_from_recorded_checkpoints(tmp_path: Path):
    rookery = thaw(KEPT / "rewound.json", tmp_path)
    done = rookery.run("rewind", SESSION, "--to", "1", "--files", "-y")
    assert (done.returncode, done.stderr) == (0, "")
    assert (rookery.workspace / "a.txt").read_text(encoding="utf-8") == "one\n"


def test_every_recorded_session_is_resumed():
    assert {path.name.partition(".")[0] for path in KEPT.iterdir()} == SESSIONS.keys()
