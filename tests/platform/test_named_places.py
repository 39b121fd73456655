"""Places that are looked up below a folder: found whenever they are there."""

import os
from pathlib import Path

import pytest

from rookery.platform import descriptors
from rookery.platform.paths import NamedPlaces, real_paths

PLACES = (".netrc", ".config/gh", ".config/gh/hosts.yml", ".config/Code/User", ".ssh")


def found(home: Path, places: NamedPlaces) -> dict[str, bool]:
    return {path.removeprefix(f"{home}/"): link for path, link in places.below(str(home))}


def test_a_place_is_found_once_it_is_there_and_so_is_a_link_to_it(tmp_path: Path):
    places = NamedPlaces(PLACES)
    assert found(tmp_path, places) == {}
    (tmp_path / ".config" / "gh").mkdir(parents=True)
    (tmp_path / ".netrc").touch()
    assert found(tmp_path, places) == {".netrc": False, ".config/gh": False}
    (tmp_path / ".config" / "gh" / "hosts.yml").symlink_to("elsewhere")
    assert found(tmp_path, places)[".config/gh/hosts.yml"] is True


def test_all_places_behind_a_link_are_named(tmp_path: Path):
    (tmp_path / ".config").symlink_to("dotfiles")
    behind = {place: True for place in PLACES if place.startswith(".config/")}
    assert found(tmp_path, NamedPlaces(PLACES)) == behind


def test_places_in_a_folder_that_cannot_be_listed_may_be_there(tmp_path: Path):
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config").chmod(0o100)
    try:
        assert ".config/gh" in found(tmp_path, NamedPlaces(PLACES))
    finally:
        (tmp_path / ".config").chmod(0o700)


def test_a_folder_is_listed_again_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(descriptors, "_SETTLED", -(1 << 62))  # the names are kept at once
    places = NamedPlaces(PLACES)
    os.utime(tmp_path, (1, 1))
    assert found(tmp_path, places) == {}
    (tmp_path / ".ssh").mkdir()
    assert found(tmp_path, places) == {".ssh": False}
    (tmp_path / ".ssh").rmdir()
    (tmp_path / ".ssh").symlink_to("elsewhere")
    os.utime(tmp_path, (2, 2))
    assert found(tmp_path, places) == {".ssh": True}


def test_a_path_may_be_as_deep_as_a_file_system_allows():
    deep = "/a" * 2_000
    assert [*real_paths([deep, f"{deep}/..", "/"])] == [deep, deep.removesuffix("/a"), "/"]
