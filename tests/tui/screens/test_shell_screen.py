"""The user's shell line: its output, its end, and the message built from it."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from rookery.core.queries import AskAbout
from rookery.tui.screens.shell_screen import (
    MAX_LINES,
    Output,
    ShellEnd,
    ShellEnding,
    ShellLine,
    ShellScreen,
    as_message,
)
from support.scripted_host import ABOUT, ScriptedHost
from support.tui_bare_app import BareApp
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio


async def ran(command: str, folder: Path, **limits: float) -> tuple[ShellLine, ShellEnd]:
    line = ShellLine(command, str(folder), **limits)
    with anyio.fail_after(60):
        return line, await line.run(lambda: None)


async def test_a_line_runs_in_the_users_shell_and_in_the_workspace(tmp_path: Path):
    line, end = await ran("pwd; echo wrong >&2; exit 3", tmp_path)
    assert line.output.text == f"{tmp_path}\nwrong"
    assert (end.fate, end.exit_code, end.words) == (ShellEnding.ENDED, 3, "exit code 3")


async def test_a_shell_line_gets_no_input(tmp_path: Path):
    line, end = await ran("cat; echo done", tmp_path)
    assert (line.output.text, end.exit_code) == ("done", 0)


async def test_stopping_a_shell_line_ends_its_children(tmp_path: Path):
    line = ShellLine("sleep 300 & echo $!; wait", str(tmp_path))
    news = anyio.Event()
    ends: list[ShellEnd] = []

    async def run() -> None:
        ends.append(await line.run(news.set))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await news.wait()
            line.stop()
    assert ends[0].fate is ShellEnding.STOPPED
    await _gone(int(line.output.text))


async def test_a_shell_line_is_stopped_at_its_time_limit(tmp_path: Path):
    for limit in (0.3, 3.0, 30.0):  # a busy machine needs longer to start the shell
        line, end = await ran("echo begun; exec sleep 300", tmp_path, limit=limit)
        assert end.fate is ShellEnding.TOO_LONG
        if line.output.text:
            break
    assert line.output.text == "begun"


async def test_a_shell_line_ends_when_its_screen_is_closed(tmp_path: Path):
    line = ShellLine("trap '' TERM; echo $$; sleep 300", str(tmp_path))
    news = anyio.Event()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(line.run, news.set)
            await news.wait()
            group.cancel_scope.cancel()
    await _gone(int(line.output.text))


async def test_a_line_that_leaves_a_process_running_still_ends(tmp_path: Path):
    line, end = await ran("sleep 300 & echo $!", tmp_path)
    assert end.fate is ShellEnding.ENDED
    left = int(line.output.text)
    os.kill(left, 9)
    await _gone(left)  # which holds its end of the pipe


async def test_a_missing_workspace_folder_is_reported(tmp_path: Path):
    _, end = await ran("pwd", tmp_path / "elsewhere")
    assert end.fate is ShellEnding.NOT_STARTED
    assert "elsewhere" in end.words


async def test_only_the_last_lines_are_kept(tmp_path: Path):
    line, _ = await ran(f"seq 1 {MAX_LINES + 50}", tmp_path)
    assert line.output.dropped == 50
    assert line.output.text.startswith("51\n")


def test_output_is_joined_from_any_pieces():
    whole = "one\ntwo\r\nthree \x1b[31mred\x1b[0m\n\nend"
    expected = "one\ntwo\nthree red\n\nend"
    for size in range(1, len(whole)):
        output = Output()
        for at in range(0, len(whole), size):
            output.add(whole[at : at + size])
        output.finish()
        assert output.text == expected, size


def test_a_message_cannot_be_ended_by_the_output():
    reported = as_message("cat a.md", "```\nfence\n````", ShellEnd(ShellEnding.ENDED, 0))
    assert reported.startswith("I ran this command (exit code 0):\n`````\n$ cat a.md\n")
    assert reported.endswith("\n`````\n")


def test_a_message_is_never_too_long():
    assert len(as_message("yes", "y\n" * 100_000, ShellEnd(ShellEnding.STOPPED))) < 13_000


@asynccontextmanager
async def shell(folder: Path, command: str) -> AsyncIterator[tuple[BareApp, Pilot[Any]]]:
    """The panel with a running line."""
    host = ScriptedHost()
    host.answer(AskAbout, replace(ABOUT, workspace=str(folder)))
    app = BareApp(host)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.about.workspace)
        await app.push_screen(ShellScreen(app, command))
        yield app, pilot


async def test_the_panel_shows_output_and_keeps_it_for_the_next_message(tmp_path: Path):
    async with shell(tmp_path, "printf 'a\\033]0;title\\007b\\n'; echo 割引") as (app, pilot):
        await until(pilot, lambda: "(exit code 0)" in seen(pilot))
        assert "ab" in seen(pilot)
        assert "割引" in seen(pilot)
        assert seen(pilot).count("exit code") == 1
        assert app.attached == []
        await pilot.press("enter")
        await until(pilot, lambda: app.attached)
        ((name, text),) = app.attached
        assert name.endswith("echo 割引 (2 lines)")
        assert text.endswith("\nab\n割引\n```\n")
        assert not isinstance(app.screen, ShellScreen)


async def test_text_closes_the_panel_and_goes_to_the_input(tmp_path: Path):
    async with shell(tmp_path, "echo done") as (app, pilot):
        await until(pilot, lambda: "(exit code 0)" in seen(pilot))
        await pilot.press("i")
        await until(pilot, lambda: not isinstance(app.screen, ShellScreen))
        assert (app.inserted, app.attached) == (["i"], [])


async def test_escape_first_stops_and_then_closes(tmp_path: Path):
    async with shell(tmp_path, "echo begun; sleep 300") as (app, pilot):
        await until(pilot, lambda: "begun" in seen(pilot) and "Esc stop" in seen(pilot))
        await pilot.press("enter")
        assert app.attached == []
        await pilot.press("escape")
        await until(pilot, lambda: "(stopped)" in seen(pilot) and "Esc close" in seen(pilot))
        assert isinstance(app.screen, ShellScreen)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, ShellScreen))
        assert app.attached == []


async def test_leaving_the_app_ends_the_command(tmp_path: Path):
    note = tmp_path / "pid"
    async with shell(tmp_path, f"echo $$ > {note}; sleep 300") as (app, pilot):
        await until(pilot, lambda: note.exists() and note.read_text().strip())
        (running,) = [each for each in app.workers if each.node is app.screen]
    with pytest.raises(WorkerCancelled):
        await running.wait()  # until it has waited for the shell
    await _gone(int(note.read_text()))


async def _gone(pid: int) -> None:
    with anyio.fail_after(60):
        while _runs(pid):  # noqa: ASYNC110 (no event when another process ends)
            await anyio.sleep(0.01)


def _runs(pid: int) -> Any:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if sys.platform != "linux":
        return True
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
