"""Files, folders and links are swapped while the tools run."""

import ctypes
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from threading import Barrier, Thread

import pytest

from rookery.core.facts import Change
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.workspace import FileText
from rookery.errors import ToolError
from rookery.workspace.file_edits import FileEdit, make
from rookery.workspace.search import without_ripgrep
from rookery.workspace.tree import WorkspaceFinder
from support.workspace_folder import Workbench, permit_to_read

pytestmark = pytest.mark.anyio

ROUNDS = 2000 if os.environ.get("ROOKERY_TORTURE") else 150


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """A folder and a file, and links to outside that will be swapped with them."""
    root = tmp_path / "work"
    root.mkdir()
    bench = Workbench(root)
    bench.put("folder/a.txt", "inside")
    bench.put("file.txt", "inside")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("outside")
    (tmp_path / "outside.txt").write_text("outside")
    (root / ".parked-folder").symlink_to("../outside")
    (root / ".parked-file").symlink_to("../outside.txt")
    return bench


LIBC = ctypes.CDLL(None, use_errno=True)
HERE, EXCHANGE = -100, 2

if not hasattr(LIBC, "renameat2"):
    pytest.skip("this system cannot exchange two names at once", allow_module_level=True)


def exchange(one: Path, other: Path) -> None:
    assert LIBC.renameat2(HERE, bytes(one), HERE, bytes(other), EXCHANGE) == 0


@contextmanager
def swapping(root: Path, *pairs: tuple[str, str]) -> Iterator[None]:
    """Exchange pairs of names in a loop."""
    stop = threading.Event()

    def swap() -> None:
        for one, other in cycle(pairs):
            exchange(root / one, root / other)
            if stop.is_set():
                return

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


PAIRS = (("folder", ".parked-folder"), ("file.txt", ".parked-file"))


async def often(attempt: Callable[[], Awaitable[None]]) -> int:
    """Try many times; return how often it succeeded. Only a ToolError is accepted."""
    worked = 0
    for _ in range(ROUNDS):
        try:
            await attempt()
            worked += 1
        except ToolError:
            continue
    return worked


@pytest.mark.parametrize("path", ["folder/a.txt", "file.txt"])
async def test_nothing_outside_is_read(bench: Workbench, path: str):
    async def read() -> None:
        file = await bench.files.read(path, permit_to_read(path))
        assert isinstance(file, FileText)
        assert file.text == "inside"

    with swapping(bench.root, *PAIRS):
        await often(read)


@pytest.mark.parametrize("path", ["folder/a.txt", "file.txt", "folder/new.txt"])
async def test_nothing_outside_is_written(bench: Workbench, tmp_path: Path, path: str):
    async def write() -> None:
        before = await bench.files.sha(path)
        data = os.urandom(8)
        change = Change(path=path, before=before, after=sha256(data).hexdigest())
        await bench.files.write(change, data, Permit("", changes=frozenset([change])))

    with swapping(bench.root, *PAIRS):
        await often(write)
    assert (tmp_path / "outside.txt").read_text() == "outside"
    assert {file.name: file.read_text() for file in (tmp_path / "outside").iterdir()} == {
        "a.txt": "outside"
    }
    assert not [name for name in os.listdir(bench.root) if name.startswith(".~")]


async def test_nothing_outside_is_searched_or_listed(bench: Workbench):
    finder = WorkspaceFinder(bench.root, bench.files, bench.limits, command=without_ripgrep)
    permit = permit_to_read(".")
    with swapping(bench.root, *PAIRS):
        for _ in range(5 if ROUNDS < 1000 else 50):
            found = await finder.search(".", "inside|outside", None, permit)
            assert "| outside" not in found
        for _ in range(ROUNDS):
            await finder.list(".", recursive=True, permit=permit)


async def test_without_swapping_every_attempt_succeeds(bench: Workbench):
    """Shows that the tests above do not pass merely because everything fails."""

    async def read() -> None:
        await bench.files.read("folder/a.txt", permit_to_read("folder/a.txt"))

    assert await often(read) == ROUNDS


ROUNDS = 60


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def test_only_one_of_two_concurrent_writers_succeeds(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"first")
    start = Barrier(2)
    before = [digest(b"first")]
    won: list[list[bytes]] = [[] for _ in range(ROUNDS)]

    def write(name: bytes) -> None:
        for number in range(ROUNDS):
            data = name + str(number).encode()
            start.wait(60)
            change = Change(path="a.txt", before=before[0], after=digest(data))
            start.wait(60)
            try:
                make([FileEdit(change, data, tmp_path, ("a.txt",))])
                won[number].append(data)
            except ToolError:
                pass
            start.wait(60)
            before[0] = digest(file.read_bytes())

    writers = [Thread(target=write, args=(name,)) for name in (b"one", b"two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [len(each) for each in won] == [1] * ROUNDS
    assert file.read_bytes() == won[-1][0]
