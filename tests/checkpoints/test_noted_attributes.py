"""What a checkpoint notes about a file, and what it leaves out."""

import os
from pathlib import Path

import pytest

from rookery.checkpoints.file_versions import (
    MOST_OF_A_FILE,
    MOST_OF_ALL,
    NotedAttributes,
    bounded,
    note_of,
    noted_attributes,
)
from rookery.checkpoints.shadow_repository import snapshot_of
from rookery.checkpoints.snapshot_trees import UNSEEN
from support.access_lists import ACL, acl

NOTED = NotedAttributes((7, 8), {ACL: acl(), "user.tag": b"red"})


def note_at(path: Path) -> str:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with path.open("rb") as file:
            return note_of(folder, file.fileno())
    finally:
        os.close(folder)


def test_a_note_says_what_was_noted():
    assert noted_attributes(NOTED.text) == NOTED


def test_of_an_ordinary_file_nothing_is_noted(tmp_path: Path):
    (tmp_path / "a").write_text("x")
    assert note_at(tmp_path / "a") == ""


def test_attributes_that_are_too_large_are_not_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "a"
    file.write_text("x")
    os.setxattr(file, "user.small", b"red")
    assert noted_attributes(note_at(file)).extended == {"user.small": b"red"}
    monkeypatch.setattr("rookery.checkpoints.file_versions.MOST_OF_A_FILE", 2)
    assert note_at(file) == ""


def test_with_too_many_notes_only_owners_and_access_lists_are_kept():
    large = NotedAttributes(None, {"user.tag": b"x" * MOST_OF_A_FILE}).text
    notes = {f"f{number:03}": large for number in range(MOST_OF_ALL // MOST_OF_A_FILE)}
    kept = bounded({**notes, "a": NOTED.text, "none": ""})
    assert kept == (("a", NotedAttributes((7, 8), {ACL: acl()}).text),)


@pytest.mark.parametrize("note", ['{"named": []}', '{"named": [], "access_lists": {}}'])
def test_an_older_checkpoint_without_notes_is_read(note: str):
    assert snapshot_of("1", commit(note), lambda _: UNSEEN).beside.attributes == ()


def test_an_older_checkpoint_with_access_lists_is_read():
    text = commit(f'{{"named": [], "access_lists": {{"a": "{acl().hex()}"}}}}')
    ((path, note),) = snapshot_of("1", text, lambda _: UNSEEN).beside.attributes
    assert (path, noted_attributes(note)) == ("a", NotedAttributes(None, {ACL: acl()}))


def commit(note: str) -> str:
    return f"tree {'00' * 20}\nauthor a\n\nEverything\n\n{note}\n"
