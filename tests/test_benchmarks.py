"""The benchmarks compare like with like: both sides do the same work. How fast is not tested."""

import json
from argparse import ArgumentTypeError
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rookery.core.folds.history import history
from rookery.storage.journal_contents import SNAPSHOT, read_record
from rookery.storage.verify import verify

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
CASES = ("3-turns", "short-arguments")


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


def test_hosts_in_one_process_do_the_same_work_as_bare_loops(track: Any, tmp_path: Path):
    for run in (track.rookery, partial(track.hosts, count=2), partial(track.bare_at_once, count=2)):
        run("3-turns")
    places = list((tmp_path / "workspaces" / "3-turns").iterdir())
    assert len(places) == 5
    for place in places:
        assert (place / "log.txt").read_text() == "0\n"
        assert (place / "notes.txt").read_text().startswith("count = 1\n")


def test_a_session_made_longer_is_sound_and_can_be_continued(track: Any, tmp_path: Path):
    track.rookery("3-turns")
    (sample,) = (track.home / "data" / "tasks").iterdir()
    folder = tmp_path / "long"
    import_module("sessions").write_session(folder, sample, 5_000, tmp_path)
    assert verify(folder) == []
    record = read_record(folder)
    assert len(record.events) >= 5_000
    assert (folder / SNAPSHOT).exists()
    assert not record.state.pending
    assert len(history(record.events)) < 2_000


def test_an_agent_that_is_named_gets_the_same_work(track: Any, tmp_path: Path):
    runs, peers, cases = (import_module(name) for name in ("runs", "peers", "cases"))
    with runs.serving("rookery@3") as model:
        program = runs.ROOKERY[0]
        run = peers.run_peer(
            "rookery", program, "rookery@3", "1", tmp_path / "p", model, cases.FILES
        )
    files = {path.name: path.read_text() for path in (tmp_path / "p" / "workspace").iterdir()}
    assert files["notes.txt"].startswith("count = 1\n")
    assert files["log.txt"] == "0\n"
    assert len(run.turns) == 3
    (wanted, bad) = ("codex=/usr/bin/codex", "emacs=/usr/bin/emacs")
    compare = import_module("run")
    assert compare._peer(wanted) == ("codex", "/usr/bin/codex")
    with pytest.raises(ArgumentTypeError, match="not emacs"):
        compare._peer(bad)
