import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rookery.errors import StorageError
from rookery.platform.disk import private_folder
from rookery.platform.user_folders import find_places, sweep_temporary_places, temporary_places


def test_one_variable_moves_everything(tmp_path: Path):
    places = find_places({"ROOKERY_HOME": str(tmp_path)})
    kept = [
        places.settings_file,
        places.keys_file,
        places.tasks,
        places.index_file,
        places.debug_log,
    ]
    assert all(path.is_relative_to(tmp_path) for path in kept)
    assert len(set(kept)) == len(kept)


def test_a_relative_home_does_not_move_with_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    places = find_places({"ROOKERY_HOME": "here"})
    assert places.data.is_relative_to(tmp_path / "here")


def test_a_home_may_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_places({"ROOKERY_HOME": "~/r"}).data.is_relative_to(tmp_path / "r")


@pytest.mark.parametrize("environ", [{}, {"ROOKERY_HOME": ""}])
def test_without_it_the_platforms_conventions_hold(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONFIG", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    places = find_places(environ)
    folders = {places.config, places.data, places.cache, places.state}
    assert len(folders) > 1
    assert all(folder.is_relative_to(tmp_path) for folder in folders)


def test_finding_places_makes_nothing(tmp_path: Path):
    find_places({"ROOKERY_HOME": str(tmp_path / "home")})
    assert not (tmp_path / "home").exists()


def test_temporary_places_are_gone_afterwards_but_keys_are_found(tmp_path: Path):
    usual = find_places({"ROOKERY_HOME": str(tmp_path)})
    with temporary_places(usual) as places:
        private_folder(places.tasks / "t")
        assert not places.tasks.is_relative_to(tmp_path)
        assert places.keys_file == usual.keys_file
        home = places.data.parent
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert not home.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_private_folder_is_closed_to_others_at_every_level_that_was_made(tmp_path: Path):
    tmp_path.chmod(0o755)
    made = private_folder(tmp_path / "a" / "b")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made, made.parent, tmp_path)] == [
        0o700,
        0o700,
        0o755,
    ]
    assert private_folder(made) == made


def test_a_folder_that_cannot_be_made_is_reported_in_a_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError) as reported:
            private_folder(path)
        assert str(path) in str(reported.value)
        assert "ROOKERY_HOME" in str(reported.value)
        assert "--ephemeral" in str(reported.value)


KILLED = """
import os, signal
from rookery.platform.user_folders import find_places, temporary_places
with temporary_places(find_places(os.environ)) as places:
    places.tasks.mkdir(parents=True)
    (places.tasks / "a").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_leftovers_of_a_killed_run_are_removed_and_files_in_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    others = tmp_path / "rookery-12345678"
    others.mkdir()
    subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    with temporary_places(find_places(os.environ)) as places:
        sweep_temporary_places()
        assert sorted(tmp_path.iterdir()) == sorted([others, places.data.parent])
    assert list(tmp_path.iterdir()) == [others]
