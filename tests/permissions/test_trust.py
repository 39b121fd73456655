"""Which folders are trusted, and that nothing else is."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.errors import SettingsError, StorageError
from rookery.permissions.trust import TrustStore, never_trusted


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "people" / "ada"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "trust.json"


@pytest.fixture
def store(file: Path) -> TrustStore:
    return TrustStore(file)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    return root


def test_a_folder_is_trusted_after_it_is_added(store: TrustStore, root: Path):
    assert not store.trusts(root)
    store.trust(root)
    assert store.trusts(root)
    assert [kept.folder.path for kept in store.all()] == [str(root)]
    assert store.all()[0].still_there
    assert store.forget(root)
    assert not store.trusts(root)
    assert not store.forget(root)


def test_parents_and_children_do_not_inherit_trust(store: TrustStore, root: Path):
    store.trust(root)
    assert not store.trusts(root / "sub")
    assert not store.trusts(root.parent)


def test_trusting_a_link_trusts_its_target(store: TrustStore, root: Path, tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(root)
    store.trust(link)
    assert store.trusts(root)
    link.unlink()
    link.symlink_to(root / "sub")
    assert not store.trusts(link)


@pytest.mark.parametrize("how", ["made anew", "moved there"])
def test_a_folder_that_replaces_a_trusted_one_is_not_trusted(
    how: str, store: TrustStore, root: Path, tmp_path: Path
):
    store.trust(root)
    other = tmp_path / "other"
    other.mkdir()
    shutil.rmtree(root)
    if how == "made anew":
        root.mkdir()  # file systems give it the number that has just become free
    else:
        other.rename(root)
    assert not store.trusts(root)
    assert not store.all()[0].still_there
    store.trust(root)
    assert store.trusts(root)
    assert len(store.all()) == 1


def test_a_moved_folder_needs_trust_again(store: TrustStore, root: Path):
    store.trust(root)
    moved = root.rename(root.with_name("moved"))
    assert not store.trusts(moved)
    moved.rename(root)
    assert store.trusts(root)


def test_the_home_folder_and_its_parents_are_refused(store: TrustStore, home: Path, tmp_path: Path):
    for folder, why in (
        (Path("/"), "/ cannot be trusted as a whole. Start in your project's folder."),
        (home, f"{home} is your home folder, which cannot be trusted as a whole. Start in"),
        (home.parent, f"{home.parent} contains your home folder, so it cannot be trusted."),
    ):
        assert never_trusted(folder).startswith(why)
        with pytest.raises(SettingsError) as refusal:
            store.trust(folder)
        assert str(refusal.value) == never_trusted(folder)
        assert not store.trusts(folder)
    assert store.all() == []
    assert not never_trusted(home / "project")


def test_a_folder_that_became_the_home_is_no_longer_trusted(
    store: TrustStore, root: Path, monkeypatch: pytest.MonkeyPatch
):
    store.trust(root)
    monkeypatch.setenv("HOME", str(root))
    assert not store.trusts(root)


def test_a_missing_folder_is_not_trusted(store: TrustStore, root: Path):
    assert not store.trusts(root / "nowhere")
    with pytest.raises(SettingsError, match="cannot be trusted: No such file"):
        store.trust(root / "nowhere")


def test_a_removed_folder_can_be_forgotten(store: TrustStore, root: Path):
    store.trust(root)
    shutil.rmtree(root)
    assert store.forget(root)
    assert store.all() == []


def test_a_folder_name_that_is_not_unicode_can_be_trusted(store: TrustStore, tmp_path: Path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    odd.mkdir()
    store.trust(odd)
    assert store.trusts(odd)


def test_the_trust_file_is_private_and_complete(store: TrustStore, file: Path, root: Path):
    store.trust(root)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert {path.name for path in file.parent.iterdir()} == {"trust.json", "trust.json.lock"}


def test_trusting_twice_keeps_the_first_date(store: TrustStore, root: Path):
    store.trust(root)
    before = store.all()
    store.trust(root)
    assert store.all() == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"not json",
        b'[{"folder": 1, "since": 2}]',
        b'["/"]',
        b"\xff\xfe",
        b"[" * 100_000,
        b'[{"folder": {"path": "/x", "device": "1", "inode": 2}, "since": 3}]',
    ],
    ids=lambda content: content[:20].decode("latin-1"),
)
def test_a_damaged_file_trusts_nothing_and_is_not_changed(
    content: bytes, store: TrustStore, file: Path, root: Path
):
    file.parent.mkdir()
    file.write_bytes(content)
    file.chmod(0o600)
    assert not store.trusts(root)
    assert store.all() == []
    assert store.problem == (f"{file} is damaged, so it is ignored. Remove it, then approve again.")
    with pytest.raises(StorageError, match="is damaged"):
        store.trust(root)
    assert file.read_bytes() == content


@pytest.mark.parametrize("mode", [0o660, 0o606, 0o644])
def test_a_trust_file_accessible_to_others_is_ignored(
    mode: int, store: TrustStore, file: Path, root: Path
):
    store.trust(root)
    file.chmod(mode)
    assert not store.trusts(root)
    assert f"chmod 600 {file}" in store.problem
    file.chmod(0o600)
    assert store.trusts(root)
    assert not store.problem


def test_a_pipe_in_place_of_the_trust_file_does_not_block(
    store: TrustStore, file: Path, root: Path
):
    file.parent.mkdir()
    os.mkfifo(file, 0o600)
    assert not store.trusts(root)
    assert "is not a regular file of yours" in store.problem


def test_an_unwritable_folder_is_reported_and_nothing_is_lost(
    store: TrustStore, file: Path, root: Path
):
    store.trust(root)
    file.parent.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="Cannot store anything in"):
            store.trust(root / "sub")
    finally:
        file.parent.chmod(0o700)
    assert store.trusts(root)


def test_concurrent_processes_lose_no_entries(store: TrustStore, file: Path, tmp_path: Path):
    folders = [tmp_path / f"p{number}" for number in range(24)]
    for folder in folders:
        folder.mkdir()
    script = (
        "import sys; from pathlib import Path; from rookery.permissions.trust import TrustStore\n"
        "store = TrustStore(Path(sys.argv[1]))\n"
        "for folder in sys.argv[2:]: store.trust(Path(folder))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(file), *map(str, folders[part::3])])
        for part in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert all(map(store.trusts, folders))
    assert len(json.loads(file.read_text())) == 24
