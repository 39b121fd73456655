"""The input history, shared between sessions."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.tui.input_files import MAX_ENTRIES, InputHistory


def test_entries_are_kept_newest_last(tmp_path: Path):
    path = tmp_path / "home" / "cli-history.json"
    history = InputHistory(path)
    for text in ("one", "two\nlines", "割引"):
        history.add(text)
    assert InputHistory(path).entries == ["one", "two\nlines", "割引"]
    assert json.loads(path.read_text(encoding="utf-8"))["version"] == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_blank_lines_and_immediate_repeats_are_not_added(tmp_path: Path):
    history = InputHistory(tmp_path / "history.json")
    for text in ("one", "one", "  \n", "two", "one"):
        history.add(text)
    assert history.entries == ["one", "two", "one"]


def test_five_hundred_are_kept(tmp_path: Path):
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"version": 1, "entries": [str(n) for n in range(MAX_ENTRIES)]}))
    history = InputHistory(path)
    history.add("new")
    assert len(InputHistory(path).entries) == MAX_ENTRIES
    assert InputHistory(path).entries[-2:] == [str(MAX_ENTRIES - 1), "new"]
    assert InputHistory(path).entries[0] == "1"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"entries": 3}', '{"entries": [1, null]}', "\x00", "[" * 100_000]
)
def test_an_invalid_file_counts_as_empty_and_is_replaced(tmp_path: Path, text: str):
    path = tmp_path / "history.json"
    path.write_text(text)
    history = InputHistory(path)
    assert history.entries == []
    history.add("one")
    assert InputHistory(path).entries == ["one"]


def test_a_file_that_is_not_text_counts_as_empty(tmp_path: Path):
    path = tmp_path / "history.json"
    path.write_bytes(b"\xff\xfe\xff")
    assert InputHistory(path).entries == []


def test_entries_of_another_session_are_kept(tmp_path: Path):
    one, other = InputHistory(tmp_path / "h.json"), InputHistory(tmp_path / "h.json")
    one.add("from one")
    other.add("from the other")
    assert InputHistory(tmp_path / "h.json").entries == ["from one", "from the other"]


def test_entries_stay_in_memory_if_the_file_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    history = InputHistory(tmp_path / "file" / "h.json")
    history.add("one")
    assert history.entries == ["one"]


def test_no_temporary_file_is_left(tmp_path: Path):
    InputHistory(tmp_path / "h.json").add("one")
    assert os.listdir(tmp_path) == ["h.json"]


@given(st.lists(st.text()))
def test_any_text_can_be_remembered(tmp_path_factory: pytest.TempPathFactory, texts: list[str]):
    path = tmp_path_factory.mktemp("history") / "h.json"
    history = InputHistory(path)
    for text in texts:
        history.add(text)
    assert InputHistory(path).entries == history.entries
