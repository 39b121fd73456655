"""A status line of the user's own."""

import subprocess
from pathlib import Path

import pytest

from rookery.core.settings_sections import UiSettings
from rookery.tui.own_status import StatusFields, branch_of, command_output, filled
from support.each_row import each_row
from support.scripted_host import ABOUT
from support.tui_session import play

FIELDS = StatusFields(model="gpt-5.2", mode="code", cost="$0.10", context="29%", branch="main")


@each_row(
    ("template", "line"),
    [
        ("{model} · {mode}", "gpt-5.2 · code"),
        ("{cost}{context}", "$0.1029%"),
        ("{other} {", "{other} {"),
        ("no fields", "no fields"),
        ("{folder} · {mode} | ", "code"),
    ],
)
def test_the_fields_of_a_template_are_filled_in(template: str, line: str):
    assert filled(template, FIELDS) == line


def test_model_and_branch_names_cannot_control_the_terminal():
    assert "\x1b" not in filled("{branch}", StatusFields(branch="a\x1b]0;title\x07"))


@each_row(
    ("command", "line"),
    [
        ("cat", '{"model":"gpt-5.2","mode":"code"'),
        (r"printf '\033[31mred\033[0m\nsecond'", "red"),
        ("exit 3", "status command: exit code 3"),
        ("yes", "status command: "),
        ("pwd", "/"),
    ],
)
def test_the_first_line_of_a_command_is_shown_without_colours(command: str, line: str):
    assert command_output(command, FIELDS, "/").startswith(line)


def test_the_branch_of_a_repository_and_of_a_linked_worktree(tmp_path: Path):
    assert branch_of(tmp_path) == ""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    assert branch_of(tmp_path) == "main"
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    other = tmp_path / "other"
    subprocess.run([*git, "worktree", "add", "-q", "-b", "topic/one", str(other)], check=True)
    (other / "inner").mkdir()
    assert branch_of(other / "inner") == "topic/one"


@pytest.mark.anyio
async def test_the_line_is_below_the_status():
    async with play(task=False, ui=UiSettings(status_line="{mode} in {folder}, {nothing}")) as it:
        await it.see("code in ~/shop, {nothing}")
        assert ABOUT.workspace == "/home/ada/shop"
        await it.see("ui.status_line: there is no field {nothing}.")
        assert it.lines[-1].strip() == "code in ~/shop, {nothing}"
