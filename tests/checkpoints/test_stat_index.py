"""Folders that have not changed since the last walk are not listed again."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.checkpoints.checkpoint_snapshot import drop_unneeded
from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.checkpoints.git_views import GitScanner
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_trees import Trees
from rookery.checkpoints.stat_index import (
    FolderSearch,
    FoundPaths,
    Index,
    KnownFolder,
    SeenFolders,
    read_index,
    write_index,
)
from rookery.core.limits import Limits

pytestmark = pytest.mark.anyio

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))

NAME = st.text(st.characters(codec=None, exclude_characters="/\0"), min_size=1).filter(
    lambda name: os.fsdecode(name.encode("utf-8", "replace")) == name
)
ID = st.binary(min_size=20, max_size=20)
FOLDER = st.builds(
    KnownFolder,
    st.dictionaries(NAME, st.binary(min_size=56, max_size=56)),
    st.binary(max_size=36),
    st.binary(max_size=20),
    st.lists(NAME).map(tuple),
    st.builds(Trees, ID, ID, ID),
    st.lists(ID).map(tuple),
)


@settings(max_examples=200 if TORTURE else 15)
@given(st.dictionaries(NAME, FOLDER), st.integers(1, 10**6))
def test_an_index_is_read_exactly_and_rejected_if_damaged(rows: Index, place: int):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        write_index(path, rows)
        assert read_index(path) == rows
        data = path.read_bytes()
        at = place % len(data)
        path.write_bytes(data[:at])
        assert read_index(path) == {}
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert read_index(path) == {}


def make_files(work: Path) -> None:
    """More files than an index needs to be written."""
    for number in range(240):
        path = work / f"part{number % 4}" / f"area{number // 20}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
    (work / "part0" / "area0").chmod(0o700)
    (work / "part0" / "area1").chmod(0o775)
    (work / "part1" / "area1" / "file21.py").chmod(0o600)


async def saved_index(work: Path, home: Path) -> Path:
    """Save everything once it is old enough to be trusted, and return the index of that."""
    await anyio.sleep(max(0, newest_change(work) + 2.1 - time.time()))
    assert (await ShadowCheckpoints(work, home, Limits()).save(None)).problem == ""
    return only_repository(home) / "stat_index"


def newest_change(work: Path) -> float:
    return max(os.lstat(path).st_ctime for path in (work, *work.rglob("*")))


def only_repository(home: Path) -> Path:
    (repository,) = home.glob("*.git")
    return repository


def seen(work: Path, index: Path) -> SeenFolders:
    store = ObjectStore(index.parent / "objects" / "pack")
    store.refresh()
    old = read_index(index)
    return SeenFolders(work, store, old, 100_000, (), lambda: None)


async def test_an_unchanged_folder_is_found_without_listing_it(tmp_path: Path):
    work = tmp_path / "work"
    make_files(work)
    index = await saved_index(work, tmp_path / "home")
    folders = ["part0/area0/", "part0/area1/", "part1/area1/", "part2/"]

    def unchanged() -> list[str]:
        found = seen(work, index)
        return [path for path in folders if found.unchanged(path, os.lstat(work / path), b"")]

    assert unchanged() == folders
    assert seen(work, index).unchanged("part2/", os.lstat(work / "part2"), b"other rules") is None
    (work / "part0" / "area0" / "new").touch()
    (work / "part1" / "area1" / "file21.py").write_text("edited\n")
    (work / "part2" / "area0" / "new").touch()
    assert unchanged() == ["part0/area1/", "part2/"]
    for pack in index.parent.glob("objects/pack/*.idx"):
        pack.unlink()
    assert unchanged() == []


CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda work: (work / "part0/area0/file0.py").write_text("edited\n"),
    "added": lambda work: (work / "part0/area1/new.py").write_text("new\n"),
    "removed": lambda work: (work / "part1/area0/file1.py").unlink(),
    "renamed": lambda work: (work / "part1/area1").rename(work / "part1/renamed"),
    "rights": lambda work: (work / "part1/area2/file41.py").chmod(0o640),
    "rights of a folder": lambda work: (work / "part1/area2").chmod(0o750),
    "empty folder": lambda work: (work / "part2/area0/empty").mkdir(),
    "folder to link": lambda work: [
        (work / "part2/area1").rename(work / "moved"),
        (work / "part2/area1").symlink_to("../moved"),
    ],
    "deep": lambda work: (work / "part2/area0/empty/a/b").mkdir(parents=True),
    "repository": lambda work: subprocess.run(
        ["git", "init", "-q", work / "part3/area3"], check=True
    ),
    "secret": lambda work: (work / "part3/area4/.env").write_text("KEY=1\n"),
    "ignored above": lambda work: (work / ".gitignore").write_text("area5/\n.env\nfile8?.py\n"),
    "ignored inside": lambda work: (work / "part0/.gitignore").write_text("*.py\n"),
    "new and ignored": lambda work: (work / "part0/area2/later.py").write_text("later\n"),
    "not ignored": lambda work: (work / ".gitignore").unlink(),
    "removed folder": lambda work: (work / "part2/area0/empty/a/b").rmdir(),
}


async def test_folders_that_are_not_listed_again_are_stored_correctly(tmp_path: Path):
    work, home = tmp_path / "work", tmp_path / "home"
    make_files(work)
    index = await saved_index(work, home)
    kept = index.read_bytes()
    long = ShadowCheckpoints(work, home, Limits())
    for name, change in CHANGES.items():
        change(work)
        trees: dict[str, str] = {}
        for how, data in {"from memory": None, "from disk": kept, "listed": b""}.items():
            checkpoints = long
            if data is not None:
                index.write_bytes(data)
                checkpoints = ShadowCheckpoints(work, home, Limits())
            trees[how] = tree(index.parent, (await checkpoints.save(None)).id)
        assert len(set(trees.values())) == 1, (name, trees)


def tree(repository: Path, checkpoint: str) -> str:
    command = ["git", f"--git-dir={repository}", "rev-parse", f"{checkpoint}^{{tree}}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def test_caches_go_with_the_last_checkpoint(tmp_path: Path):
    work, home = tmp_path / "work", tmp_path / "home"
    make_files(work)
    for number in range(240):
        (work / f"empty{number}").mkdir()
    repository = (await saved_index(work, home)).parent
    GitScanner(work, tmp_path / "aside", home).scan(())
    assert {"stat_index", "git_folders"} <= set(os.listdir(repository))
    assert drop_unneeded(home, (), (), others_work=False) == ""
    assert not {"stat_index", "git_folders"} & set(os.listdir(repository))


class Sessions:
    """Searches of a folder for secrets and repositories, each by a new session."""

    def __init__(self, work: Path, cache: Path) -> None:
        self._work = work
        self._cache = cache
        self.listed: set[str] = set()
        """The folders that the last search listed and that had files."""

    def search(self) -> FoundPaths:
        self.listed.clear()
        found = FolderSearch(self._work, self._is_secret, file=self._cache).find([""])
        assert found
        assert found == FolderSearch(self._work, lambda path: path.endswith(".env")).find([""])
        return found

    def _is_secret(self, path: str) -> bool:
        self.listed.add(os.path.dirname(path))
        return path.endswith(".env")


async def test_a_later_session_lists_only_folders_that_have_changed(tmp_path: Path):
    work, cache = tmp_path / "work", tmp_path / "found"
    folders = [work / f"part{number % 4}" / f"area{number}" for number in range(240)]
    for folder in folders:
        (folder / "inner").mkdir(parents=True)
        (folder / ".env").touch()
    os.mkdir(os.fsencode(folders[9]) + b"/\xff")
    (folders[0] / "inner" / ".git").mkdir()
    await anyio.sleep(max(0, newest_change(work) + 2.1 - time.time()))

    sessions = Sessions(work, cache)
    first = sessions.search()
    assert (len(first.files), first.repositories) == (240, ("part0/area0/inner/.git",))
    assert len(sessions.listed) == 240
    assert sessions.search() == first
    assert sessions.listed == {"part1/area9"}  # a name in it is not UTF-8

    times = os.lstat(folders[1])
    (folders[1] / ".git").touch()
    os.utime(folders[1], ns=(times.st_atime_ns, times.st_mtime_ns))
    (folders[2] / "inner" / ".env").touch()
    (folders[3] / ".env").rename(folders[3] / "inner" / "moved")
    folders[4].rename(work / "part1" / "area4")
    folders[5].rename(tmp_path / "elsewhere")
    folders[5].symlink_to(tmp_path / "elsewhere")
    found = sessions.search()
    assert found.repositories == ("part0/area0/inner/.git", "part1/area1/.git")
    assert "part2/area2/inner/.env" in found.files
    assert len(found.files) == 239
    assert sessions.listed == {
        *("part1", "part1/area1", "part1/area4", "part1/area9"),
        *("part2/area2/inner", "part3/area3/inner"),
    }


async def test_a_damaged_cache_of_a_search_is_not_used(tmp_path: Path):
    work, cache = tmp_path / "work", tmp_path / "found"
    for number in range(240):
        (work / f"area{number}").mkdir(parents=True)
        (work / f"area{number}" / "file").touch()
    await anyio.sleep(max(0, newest_change(work) + 2.1 - time.time()))
    sessions = Sessions(work, cache)
    sessions.search()
    data = cache.read_bytes()
    for damaged in (data[:-1], data[:500] + bytes([data[500] ^ 1]) + data[501:], b""):
        cache.write_bytes(damaged)
        sessions.search()
        assert len(sessions.listed) == 240
