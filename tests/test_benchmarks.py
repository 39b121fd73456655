"""The benchmarks compare like with like: both sides do the same work. How fast is not tested."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
CASES = ("3-turns", "short-text", "short-arguments")


@pytest.fixture
def track(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCHMARKS)
    runs, cases = import_module("runs"), import_module("cases")
    with runs.serving(*CASES) as model:
        yield runs.Track(tmp_path, model, cases.FILES)


@pytest.mark.parametrize("case", CASES)
def test_both_agents_make_the_same_files_with_equally_many_equal_requests(track: Any, case: str):
    rookery, bare = track.rookery(case), track.bare(case)
    files = rookery.files()
    assert files == bare.files()
    assert len(rookery.sizes) == len(bare.sizes)
    assert json.loads(bare.first_request) == json.loads(rookery.first_request)
    if case == "3-turns":
        assert files["notes.txt"].startswith(b"count = 1\n")
        assert files["log.txt"] == b"0\n"
        assert len(rookery.sizes) == 4
    if case == "short-arguments":
        assert len(files["long.txt"]) == 990
