"""Problems that language servers report for edits: in time, late, twice, or no longer."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from rookery.core.settings_sections import LanguageServerSettings
from rookery.diagnostics import lsp_wire
from rookery.diagnostics.languages import FoundServer
from rookery.diagnostics.servers import LanguageServers
from rookery.platform.piped_process import PipedProcess

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[1] / "support" / "scripted_language_server.py"
PATIENCE = 60.0


class Workplace:
    """A folder with files that a scripted language server looks at."""

    def __init__(self, folder: Path, servers: LanguageServers) -> None:
        self.folder = folder
        self.servers = servers

    async def edit(self, path: str, text: str, *, wait: bool = True) -> list[str]:
        """Change a file, and return what is new."""
        file = self.folder / path
        self.servers.before_edit(path, file.read_text() if file.exists() else None)
        file.write_text(text)
        self.servers.after_edit(path, text)
        if wait:
            await self.servers.wait()
        return self.news()

    def news(self) -> list[str]:
        found = self.servers.collect()
        elsewhere = [each for many in found.elsewhere.values() for each in many]
        return [f"{each.path}:{each.line} {each.message}" for each in (*found.new, *elsewhere)]


@asynccontextmanager
async def workplace(
    tmp_path: Path, way: str, *, seconds: float = PATIENCE, allowed: bool = True
) -> AsyncIterator[Workplace]:
    async def start(found: FoundServer) -> PipedProcess:
        return PipedProcess(found.argv, folder=found.root, environment=os.environ)

    async def may_run() -> bool:
        return allowed

    command = f"*.toy: {sys.executable} {SERVER} {way} {tmp_path / 'starts'}"
    settings = LanguageServerSettings(add=(command,), seconds=seconds)
    folder = tmp_path / "work"
    folder.mkdir()
    async with anyio.create_task_group() as group:
        servers = LanguageServers(
            folder,
            settings,
            start=start,
            allowed=may_run,
            readable=lambda path: "secret" not in path,
            start_soon=group.start_soon,
        )
        yield Workplace(folder, servers)
        group.cancel_scope.cancel()


async def eventually(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not holds():  # noqa: ASYNC110 (another process makes it so)
            await anyio.sleep(0.005)


def starts(tmp_path: Path) -> int:
    file = tmp_path / "starts"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.parametrize("way", ["well", "unversioned", "asked"])
async def test_only_problems_that_an_edit_caused_are_new(tmp_path: Path, way: str):
    async with workplace(tmp_path, way) as work:
        (work.folder / "a.toy").write_text("error: old\nfine\n")
        assert await work.edit("a.toy", "more\nerror: old\nerror: new\n") == ["a.toy:3 new"]
        assert await work.edit("a.toy", "more\nerror: old\n") == []
        assert await work.edit("b.toy", "warning: hm\n") == ["b.toy:1 hm"]
        assert await work.edit("a.toy", "error: old\nbreaks b.toy: gone\n") == ["b.toy:1 gone"]
        assert work.servers.all_problems() == [
            "a.toy:1:1: error: old [toy T1]",
            "b.toy:1:1: error: gone [toy T1]",
        ]
    assert starts(tmp_path) == 1


async def test_a_file_that_changed_beside_the_edits_is_looked_at_again(tmp_path: Path):
    async with workplace(tmp_path, "well") as work:
        assert await work.edit("a.toy", "fine\n") == []
        assert await work.edit("b.toy", "fine\n") == []
        (work.folder / "a.toy").write_text("error: by a command\n")
        assert await work.edit("b.toy", "fine too\n") == ["a.toy:1 by a command"]


async def test_each_task_gets_the_problems_of_its_own_edits(tmp_path: Path):
    async with workplace(tmp_path, "well") as work:
        (work.folder / "a.toy").write_text("error: mine\n")
        work.servers.before_edit("a.toy", None)
        work.servers.after_edit("a.toy", "error: mine\n", "another task")
        assert await work.edit("b.toy", "error: yours\n") == ["b.toy:1 yours"]
        assert [each.message for each in work.servers.collect("another task").new] == ["mine"]
        assert work.news() == []


async def test_a_slow_server_blocks_nothing_and_its_answer_comes_later(tmp_path: Path):
    async with workplace(tmp_path, "waits", seconds=0.1) as work:
        assert await work.edit("a.toy", "error: late\n") == []
        (work.folder / "go").touch()
        news: list[str] = []

        def arrived() -> bool:
            news.extend(work.news())
            return bool(news)

        await eventually(arrived)
        assert news == ["a.toy:1 late"]


async def test_a_server_that_dies_is_started_once_more_and_then_given_up(tmp_path: Path):
    async with workplace(tmp_path, "dies") as work:
        assert await work.edit("a.toy", "error: one\n") == ["a.toy:1 one"]
        await work.edit("a.toy", "error: two\n")
        await eventually(lambda: starts(tmp_path) == 2)
        await work.edit("a.toy", "error: three\n")
        await eventually(lambda: bool(work.servers.notes))
        (note,) = work.servers.notes
        assert note.endswith("It ended. It wrote: out of toys")
        assert await work.edit("a.toy", "error: four\n") == []
    assert starts(tmp_path) == 2


@pytest.mark.parametrize(
    ("way", "why"),
    [("babbles", "something other than messages"), ("nonsense", "that cannot be read")],
)
async def test_a_server_that_does_not_keep_to_the_protocol_is_given_up(
    tmp_path: Path, way: str, why: str
):
    async with workplace(tmp_path, way) as work:
        assert await work.edit("a.toy", "error: one\n") == []
        await eventually(lambda: starts(tmp_path) == 2)
        await work.edit("a.toy", "error: two\n")
        await eventually(lambda: bool(work.servers.notes))
        assert why in work.servers.notes[0]


async def test_a_server_that_no_longer_reads_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lsp_wire, "WRITE_SECONDS", 0.2)
    async with workplace(tmp_path, "deaf") as work:
        with anyio.fail_after(PATIENCE):
            while not work.servers.notes:
                assert await work.edit("a.toy", "x" * 500_000) == []
                await anyio.sleep(0.02)
        assert lsp_wire.NOT_READ in work.servers.notes[0]


async def test_a_file_that_the_agent_may_not_read_is_neither_shown_nor_reported(tmp_path: Path):
    async with workplace(tmp_path, "well") as work:
        assert await work.edit("secret.toy", "error: one\n") == []
        assert starts(tmp_path) == 0
        assert await work.edit("a.toy", "fine\n") == []
        assert await work.edit("a.toy", "breaks secret.toy: key 123\n") == []
        assert work.servers.all_problems() == []


async def test_nothing_is_started_where_servers_may_not_run(tmp_path: Path):
    async with workplace(tmp_path, "well", allowed=False) as work:
        assert await work.edit("a.toy", "error: one\n") == []
        assert work.servers.notes == []
    assert starts(tmp_path) == 0


async def test_a_server_ends_with_the_host(tmp_path: Path):
    async with workplace(tmp_path, "well") as work:
        await work.edit("a.toy", "fine\n")
        pid = int((tmp_path / "starts").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
