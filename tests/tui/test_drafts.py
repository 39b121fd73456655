"""Drafts are not lost: by Esc, a crash, the editor, or keys typed too early."""

import os
import subprocess
from pathlib import Path

import pytest

from rookery.core.commands import OpenTask, Rewind
from rookery.platform.editor import editor_command
from rookery.tui.app import FullScreen
from rookery.tui.input_files import DraftFile, InputHistory
from rookery.tui.task_controller import StartOptions
from rookery.tui.terminal_driver import early_message
from support.each_row import each_row
from support.scripted_host import ScriptedHost
from support.tui_scenes import completed
from support.tui_session import play
from support.tui_waiting import seen, until

NAME = "0123456789abcdef"


def left_by_another(folder: Path, text: str) -> Path:
    """The draft of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    folder.mkdir(exist_ok=True)
    path = folder / f"{NAME}.{process.pid}"
    path.write_text(text)
    return path


def test_a_draft_is_taken_over_once_its_process_is_gone(tmp_path: Path):
    left = left_by_another(tmp_path, "half a\nsentence")
    mine = DraftFile(tmp_path, NAME)
    assert mine.take() == "half a\nsentence"
    assert not left.exists()
    (own,) = tmp_path.iterdir()
    assert own.name == f"{NAME}.{os.getpid()}"
    mine.save("  ")
    assert not own.exists()
    mine.save("more")
    assert own.stat().st_mode & 0o777 == 0o600


def test_drafts_of_running_clients_and_other_folders_are_left_alone(tmp_path: Path):
    (tmp_path / f"{NAME}.1").write_text("of a running process")
    left_by_another(tmp_path, "elsewhere").rename(tmp_path / "fedcba9876543210.999999")
    assert DraftFile(tmp_path, NAME).take() == ""


@each_row(
    ("typed", "keys"),
    [
        ("fix it", "fix it"),
        ("fix it\n", "fix it\r"),
        ("fix it\r", "fix it\r"),
        ("one\ntwo", "\x1b[200~one\ntwo\x1b[201~"),
        ("one\r\ntwo\r\n", "\x1b[200~one\ntwo\x1b[201~"),
        ("one\x1b[D\ntwo", "one\x1b[D\ntwo"),
        ("\n\n", ""),
        ("  \n", "  "),
        ("\x1b[200~one\rtwo\x1b[201~", "\x1b[200~one\ntwo\x1b[201~"),
        ("one\x1b\rtwo", "\x1b[200~one\ntwo\x1b[201~"),
        ("", ""),
    ],
)
def test_of_early_keys_only_a_single_line_is_sent(typed: str, keys: str):
    assert early_message(typed) == keys


@each_row(
    ("environ", "command"),
    [
        ({}, ["vi"]),
        ({"EDITOR": "nano -w"}, ["nano", "-w"]),
        ({"EDITOR": "nano", "VISUAL": "code --wait"}, ["code", "--wait"]),
        ({"VISUAL": ""}, ["vi"]),
    ],
)
def test_the_users_editor(environ: dict[str, str], command: list[str]):
    assert editor_command(environ) == command


@pytest.mark.anyio
async def test_escape_clears_the_draft_and_up_brings_it_back():
    async with play(task=False) as it:
        await it.type("half a thought")
        await it.press("escape")
        assert it.composer.text == ""
        await it.see("Cleared. ↑ brings it back.")
        await it.press("up")
        assert it.composer.text == "half a thought"
        await it.press("enter")
        assert [each.text for each in it.sent(OpenTask)] == ["half a thought"]


@pytest.mark.anyio
async def test_a_draft_is_saved_while_it_is_typed_and_restored(tmp_path: Path):
    left_by_another(tmp_path, "half a")
    inputs = InputHistory(draft=DraftFile(tmp_path, NAME))
    app = FullScreen(ScriptedHost(), StartOptions(), inputs)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "› half a" in seen(pilot))
        await pilot.press("x")
        own = tmp_path / f"{NAME}.{os.getpid()}"
        await until(pilot, lambda: own.read_text() == "half ax")
        await pilot.press("y", "escape", "up")
    assert own.read_text() == "half axy"


@pytest.mark.anyio
async def test_a_draft_does_not_mix_with_a_task_of_the_command_line(tmp_path: Path):
    left_by_another(tmp_path, "half a")
    inputs = InputHistory(draft=DraftFile(tmp_path, NAME))
    opening = StartOptions(first=OpenTask(task_id="t1", text="fix it"))
    app = FullScreen(ScriptedHost(), opening, inputs)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Your last draft is kept" in seen(pilot))
        assert app._page.composer.text == ""
        await pilot.press("up")
        assert app._page.composer.text == "half a"


@pytest.mark.anyio
async def test_a_second_escape_in_an_idle_session_lists_the_checkpoints():
    async with play() as it:
        completed(it.host)
        await it.settle()
        await it.press("escape")
        await it.see("Press Esc again to list the checkpoints.")
        await it.press("escape")
        await it.see("─Checkpoints")


@pytest.mark.anyio
async def test_an_escape_after_other_keys_is_a_first_one():
    async with play() as it:
        completed(it.host)
        await it.settle()
        await it.press("escape", "a", "backspace", "escape")
        await it.see("Press Esc again to list the checkpoints.")
        assert "─Checkpoints" not in it.screen


@pytest.mark.anyio
@pytest.mark.parametrize(("words", "kept"), [("copy", "opy"), ("my", "my"), ("fly", "ly")])
async def test_words_typed_at_the_checkpoints_are_text_and_rewind_nothing(words: str, kept: str):
    async with play() as it:
        completed(it.host)
        await it.settle()
        await it.press("escape", "escape")
        await it.see("─Checkpoints")
        await it.press(*words)
        await it.until(lambda: it.composer.text == kept)
        assert len(it.app.screen_stack) == 1
        assert it.sent(Rewind) == []


@pytest.mark.anyio
async def test_readline_keys_undo_and_recall():
    async with play(task=False) as it:
        await it.type("one")
        await it.press("ctrl+u")
        assert it.composer.text == ""
        await it.press("ctrl+underscore")
        assert it.composer.text == "one"
        await it.press("escape", "ctrl+p")
        assert it.composer.text == "one"
        await it.press("ctrl+n")
        assert it.composer.text == ""
