"""Programs read and write the same on the pipes as in the recorded transcripts."""

import json
from pathlib import Path

import pytest

from golden.scenarios import SCENARIOS
from golden.streams import transcript

KEPT = Path(__file__).parent / "streams"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_prints_the_recorded_lines(name: str, tmp_path: Path):
    lines = (KEPT / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert transcript(name, tmp_path) == [json.loads(line) for line in lines]


def test_every_recorded_transcript_is_replayed():
    assert {path.stem for path in KEPT.iterdir()} == SCENARIOS.keys()
