"""What a checkpoint notes about a file, and what it leaves out."""

import os
from pathlib import Path

import pytest

from rookery.checkpoints.file_versions import (
    MAX_NOTE_BYTES,
    MAX_TOTAL_BYTES,
    SavedAttributes,
    limit_notes,
    note_of,
    parse_note,
)
from rookery.checkpoints.shadow_repository import snapshot_of
from rookery.checkpoints.snapshot_trees import UNSEEN
from support.access_lists import ACL, acl

NOTED = SavedAttributes((7, 8), {ACL: acl(), "user.tag": b"red"})


def note_at(path: Path) -> str:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with path.open("rb") as file:
            return note_of(folder, file.fileno(), os.fstat(file.fileno()))
    finally:
        os.close(folder)


def test_a_note_survives_a_round_trip():
    assert parse_note(NOTED.text) == NOTED


def test_an_ordinary_file_has_no_note(tmp_path: Path):
    (tmp_path / "a").write_text("x")
    assert note_at(tmp_path / "a") == ""


def test_oversized_attributes_are_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "a"
    file.write_text("x")
    os.setxattr(file, "user.small", b"red")
    assert parse_note(note_at(file)).extended == {"user.small": b"red"}
    monkeypatch.setattr("rookery.checkpoints.file_versions.MAX_NOTE_BYTES", 2)
    assert note_at(file) == ""


def test_with_too_many_notes_only_owners_and_access_lists_are_kept():
    large = SavedAttributes(None, {"user.tag": b"x" * MAX_NOTE_BYTES}).text
    notes = {f"f{number:03}": large for number in range(MAX_TOTAL_BYTES // MAX_NOTE_BYTES)}
    kept = limit_notes({**notes, "a": NOTED.text, "none": ""})
    assert kept == (("a", SavedAttributes((7, 8), {ACL: acl()}).text),)


@pytest.mark.parametrize("note", ['{"named": []}', '{"named": [], "access_lists": {}}'])
def test_an_older_checkpoint_without_notes_is_read(note: str):
    assert snapshot_of("1", commit(note), lambda _: UNSEEN).metadata.attributes == ()


def test_an_older_checkpoint_with_access_lists_is_read():
    text = commit(f'{{"named": [], "access_lists": {{"a": "{acl().hex()}"}}}}')
    ((path, note),) = snapshot_of("1", text, lambda _: UNSEEN).metadata.attributes
    assert (path, parse_note(note)) == ("a", SavedAttributes(None, {ACL: acl()}))


def commit(note: str) -> str:
    return f"tree {'00' * 20}\nauthor a\n\nEverything\n\n{note}\n"
