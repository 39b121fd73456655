"""A browser leaves no process or folder behind, however it ends."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from rookery.browser import running_browser
from rookery.browser.browser_session import CLOSE_SECONDS, FORCED_SECONDS, BrowserLife
from rookery.browser.reach import BrowserReach
from rookery.browser.running_browser import FALLBACK_PARENTS, LONGEST_PATH, PREFIX, scratch_folder
from rookery.errors import ToolError
from support.browser_site import Site, folder_of, open_bench, processes_of
from support.processes import PATIENCE, command_line, descendants, environment, until_gone

pytestmark = pytest.mark.anyio
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def longest_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder with the longest path we accept."""
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        folder = Path(top, "x" * (LONGEST_PATH - len(f"{top}//{PREFIX}") - 8))
        folder.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        yield folder


async def test_a_cancelled_launch_leaves_nothing_and_a_hanging_driver_is_killed(
    program: str, site: Site, longest_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("END_SECONDS", "STOP_SECONDS"):
        monkeypatch.setattr(running_browser, name, 0.5)
    monkeypatch.setenv("LANGUAGE", str(longest_folder))  # marks the drivers that this test starts
    async with open_bench(program) as bench:
        with anyio.move_on_after(0.2) as step:
            await bench.call("launch", url=f"{site.origin}/")
        assert step.cancelled_caught
        assert "title: Welcome" in (await bench.call("launch", url=f"{site.origin}/")).text
        pids, folder = processes_of(bench), folder_of(bench.session.running.pid)
        assert folder.parent == longest_folder, "a browser starts with the longest path we accept"
        await until_gone([pid for pid in drivers(longest_folder) if pid != pids[0]])
        assert drivers(longest_folder) == pids[:1]
        for pid in pids[:2]:
            os.kill(pid, signal.SIGSTOP)
        with anyio.fail_after(CLOSE_SECONDS + FORCED_SECONDS + PATIENCE):
            await bench.call("close")
        await until_gone(pids)
    assert not folder.exists()


def drivers(mark: Path) -> list[int]:
    """Drivers with this mark in their environment."""
    return [
        pid
        for pid in descendants(os.getpid())
        if b"playwright" in command_line(pid) and os.fsencode(mark) in environment(pid)
    ]


async def test_an_idle_browser_is_ended():
    life = BrowserLife(BrowserReach(network=False, local=True))
    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(life.wait_for_end, 0.3)
        await anyio.sleep(0.2)
        assert not life.stopping.is_set()
        life.touch()
        await life.stopping.wait()
    assert anyio.current_time() - began >= 0.5


async def test_a_browser_ends_when_its_driver_is_killed(
    program: str, site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    async with open_bench(program) as bench:
        await bench.visit(f"{site.origin}/other")
        driver, *browser = processes_of(bench)
        assert not any(b"canary" in environment(pid) for pid in browser)
        folder = folder_of(browser[0])
        os.kill(driver, signal.SIGKILL)
        await until_gone(browser)
        with pytest.raises(ToolError, match="has ended"):
            await bench.call("click", coordinate="1,1")
        await bench.call("close")
        assert not folder.exists()
    assert complaints_of_the_loop() == []


def complaints_of_the_loop() -> list[str]:
    """The event loop's reports of unretrieved exceptions."""
    loop = asyncio.get_running_loop()
    usual = loop.get_exception_handler()
    received: list[str] = []
    loop.set_exception_handler(lambda loop, context: received.append(str(context)))
    gc.collect()
    loop.set_exception_handler(usual)
    return received


async def test_a_browser_ends_when_rookery_is_killed(program: str, site: Site):
    script = f"""
        import sys, anyio
        from rookery.browser.browser_session import BrowserSession
        from rookery.core.hosts import web_address

        async def main():
            async with anyio.create_task_group() as group:
                session = BrowserSession(group.start_soon, path={program!r})
                await session.launch(web_address({site.origin + "/"!r}))
                print(session.running.pid, flush=True)
                await anyio.sleep_forever()

        anyio.run(main)
    """
    with _product(textwrap.dedent(script)) as product:
        assert product.stdout is not None
        pid = int(product.stdout.readline())
        pids, folder = descendants(product.pid), folder_of(pid)
        assert pid in pids
        product.kill()
        await until_gone(pids)
    with scratch_folder():
        assert not folder.exists(), "the next start removes the leftovers"


def _product(script: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
    )


def test_locked_or_foreign_folders_are_not_removed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    with scratch_folder() as held, scratch_folder() as other:
        assert held.is_dir()
        assert other.is_dir()
    assert elsewhere.is_dir()
    assert not held.exists()


def test_a_long_path_for_temporary_files_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with scratch_folder() as folder:
        assert folder.parent in FALLBACK_PARENTS
    assert not folder.exists()
    monkeypatch.setattr(running_browser, "FALLBACK_PARENTS", (Path("/nowhere"),))
    with pytest.raises(ToolError) as reported, scratch_folder():
        pass
    assert str(reported.value).startswith("The browser was not started: it needs a folder")
    assert f"{deep} has a longer one" in str(reported.value)
    assert "/nowhere cannot be used (No such file or directory)" in str(reported.value)
    assert os.listdir(deep) == []


async def test_a_program_that_is_not_a_browser_is_reported(program: str, site: Site):
    async with open_bench("/bin/false") as bench:
        with pytest.raises(ToolError, match="/bin/false does not start"):
            await bench.call("launch", url=f"{site.origin}/")
