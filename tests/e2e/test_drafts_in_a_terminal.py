"""Drafts in a real terminal: early keys, the editor, and a client that is killed."""

import os
import signal
from pathlib import Path

import pytest

from support.terminal_session import COMMAND, Installed
from support.tmux_session import TmuxSession

SCRIPT = "- calls: [{tool: attempt_completion, arguments: {result: Done.}}]\n" * 3
SLOW_START = "import time; time.sleep(1)"
EDITOR = '#!/bin/sh\nsed -i "s/first/edited/" "$1"\n'


def opened(project: Installed, **environ: str) -> TmuxSession:
    command = [COMMAND, *project.script(SCRIPT)]
    given = {**project.environ, **environ}
    return TmuxSession(command, cwd=project.workspace, environ=given)


@pytest.fixture
def slow(tmp_path: Path) -> dict[str, str]:
    """What makes Python start slowly, so that all keys come first."""
    (tmp_path / "sitecustomize.py").write_text(SLOW_START)
    return {"PYTHONPATH": str(tmp_path)}


def test_early_lines_wait_in_the_input_and_survive_the_editor_and_a_kill(
    rookery: Installed, slow: dict[str, str], tmp_path: Path
):
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o700)
    with opened(rookery, VISUAL=str(editor), **slow) as terminal:
        terminal.type("the first line")
        terminal.press("Enter")
        terminal.type("割引 and more")
        terminal.press("Enter")
        terminal.wait_for("› the first line\n", "   割引 and more\n", "♜ rookery")
        terminal.press("C-g")
        terminal.wait_for("› the edited line\n", "   割引 and more\n")
        terminal.type("!")
        terminal.wait_for("割引 and more!")
        drafts = rookery.home / "state" / "drafts"
        terminal.wait_until(lambda _: any(_texts(drafts, "more!")), "the draft on disk")
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.wait_until_sane()
    with opened(rookery, EDITOR="false") as terminal:
        terminal.wait_for("› the edited line\n", "   割引 and more!\n", "Your last draft is back")
        terminal.press("C-x", "C-e")
        terminal.wait_for("false failed. Your draft is unchanged.", "› the edited line\n")
        terminal.press("Escape")
        terminal.wait_for("Cleared.")
    with opened(rookery, EDITOR="no-such-editor") as terminal:
        terminal.type("a draft")
        terminal.wait_for("› a draft")
        terminal.press("C-g")
        terminal.wait_for("Could not use the editor: no-such-editor: No such", "› a draft")
    assert rookery.sessions() == []


def _texts(folder: Path, ending: str) -> list[bool]:
    found = folder.iterdir() if folder.exists() else ()
    return [path.read_text(encoding="utf-8").endswith(ending) for path in found]


def test_an_early_line_with_enter_is_the_first_message(rookery: Installed, slow: dict[str, str]):
    with opened(rookery, **slow) as terminal:
        terminal.type("fix it")
        terminal.press("Enter")
        terminal.wait_for("› fix it", "✔ Done.", "What next?")
    assert len(rookery.sessions()) == 1


def test_an_edited_plan_outlives_a_kill(rookery: Installed, tmp_path: Path):
    plan = "- calls: [{tool: present_plan, arguments: {plan: '- [ ] The first step'}}]\n"
    command = [COMMAND, *rookery.script(plan), "--permission-mode", "plan", "go"]
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o700)
    environ = {**rookery.environ, "VISUAL": str(editor)}
    with TmuxSession(command, cwd=rookery.workspace, environ=environ) as terminal:
        terminal.wait_for("- [ ] The first step", "Open it in my editor", "↑↓ enter choose")
        terminal.type("4")
        terminal.wait_for("- [ ] The edited step", "↑↓ enter choose")
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.wait_until_sane()
    with opened(rookery) as terminal:
        terminal.wait_for("What should I do?")
        terminal.press("Up")
        terminal.wait_for("› - [ ] The edited step")
