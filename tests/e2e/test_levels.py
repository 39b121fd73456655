"""Levels in whole runs: what happens without asking, and what never does."""

import sys
from pathlib import Path

import pytest

from support.terminal_session import CTRL_D, Installed

SCRIPT = """\
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: "new\\n"}}]
- calls: [{tool: execute_command, arguments: {command: touch made}}]
- say: Done.
"""
DESTRUCTIVE = """\
- calls: [{tool: execute_command, arguments: {command: rm -rf .git}}]
- say: Done.
"""


@pytest.mark.parametrize(
    ("flags", "made"),
    [
        (["--permission-mode", "ask"], set[str]()),
        (["--permission-mode", "acceptEdits"], {"a.txt"}),
        (["--approval-mode", "auto_edit"], {"a.txt"}),
        (["--permission-mode", "plan"], set[str]()),
        (["--ask-for-approval", "never"], {"a.txt", "made"}),
        (["--yolo"], {"a.txt", "made"}),
    ],
)
def test_a_run_does_what_its_level_allows(unconfined: Installed, flags: list[str], made: set[str]):
    unconfined.run("-p", "go", *flags, *unconfined.script(SCRIPT))
    assert {path.name for path in unconfined.workspace.iterdir()} == made


def test_no_flag_switches_the_guard_off(unconfined: Installed):
    other = unconfined.workspace / ".git"
    other.mkdir()
    done = unconfined.run(
        "-p", "go", "--dangerously-skip-permissions", *unconfined.script(DESTRUCTIVE)
    )
    assert "Running as with -y. Destructive actions always ask." in done.stderr
    assert other.is_dir()


def test_an_untrusted_folder_is_read_only_at_every_level_but_auto(fresh: Installed):
    fresh.environ["ROOKERY_SANDBOX_USE"] = "off"
    fresh.run("-p", "go", "--permission-mode", "edits", *fresh.script(SCRIPT))
    assert not list(fresh.workspace.iterdir())


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--permission-mode", "wild"], "is one of ask, edits, plan, sandboxed and auto"),
        (["-y", "--permission-mode", "ask"], "give only one"),
        (["--full-auto", "--sandbox", "off"], "needs a sandbox without network"),
    ],
)
def test_a_level_that_cannot_be_had_is_refused(rookery: Installed, flags: list[str], sentence: str):
    done = rookery.run("-p", "go", *flags, *rookery.script(SCRIPT))
    assert sentence in done.stderr
    assert done.returncode != 0
    assert not list(rookery.workspace.iterdir())


def test_the_level_changes_at_the_prompt_and_auto_ends_with_the_run(unconfined: Installed):
    script = unconfined.script(SCRIPT)
    with unconfined.terminal("go", "--no-tui", *script) as terminal:
        terminal.wait_for("ask · Approve?")
        terminal.type("/permissions auto")
        terminal.wait_for("level auto: acts without asking. Destructive actions always ask.")
        terminal.wait_for("auto · Approve?")
        terminal.type("y")
        terminal.wait_for("Done. [Enter")
        terminal.type("")
        assert terminal.exit_code() == 0
    assert {path.name for path in unconfined.workspace.iterdir()} == {"a.txt", "made"}
    more = "- calls: [{tool: execute_command, arguments: {command: touch x}}]\n"
    again = unconfined.script(SCRIPT + more)
    with unconfined.terminal("-c", "more", "--no-tui", *again) as terminal:
        terminal.wait_for("ask · Approve?")


def test_a_rule_for_commands_that_begin_alike_is_kept_listed_and_removed(unconfined: Installed):
    unconfined.environ["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    run = "- calls: [{tool: execute_command, arguments: {command: '%s'}}]\n"
    script = unconfined.script(
        "".join(run % each for each in ("pytest --version", "pytest -h", "pytest -c x"))
    )
    with unconfined.terminal("go", "--no-tui", *script) as terminal:
        terminal.wait_for("Approve? [y/n/a/p")
        terminal.type("p")
        terminal.wait_for("pytest …")
        terminal.wait_for("begin with these words")
        terminal.type("y")
        terminal.wait_for("● Run pytest -h")
        terminal.wait_for("pytest -c x")
        terminal.wait_for("Approve? [y/n/a,")
        terminal.type("/permissions")
        terminal.wait_for("→ ask        asks before every change")
        terminal.wait_for("pytest …")
    listed = unconfined.run("trust", "--list").stdout
    assert "that begin with these words" in listed
    rule_id = next(line.split()[0] for line in listed.splitlines() if "begin with" in line)
    assert unconfined.run("trust", "--forget-rule", rule_id).returncode == 0
    assert "begin with" not in unconfined.run("trust", "--list").stdout


PLANNED = """\
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: "new\\n"}}]
- calls: [{tool: present_plan, arguments: {plan: "# Plan\\n\\n- [ ] Write a.txt\\n"}}]
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: "new\\n"}}]
- say: Done.
"""


def test_a_plan_is_the_result_of_a_run_and_is_carried_out_when_continued(unconfined: Installed):
    script = unconfined.script(PLANNED)
    done = unconfined.run("-p", "go", "--permission-mode", "plan", *script)
    assert (done.returncode, done.stdout) == (0, "# Plan\n\n- [ ] Write a.txt\n\n")
    assert not list(unconfined.workspace.iterdir())
    again = unconfined.run("-p", "-c", "carry it out", *script)
    assert (again.returncode, again.stdout) == (0, "Done.\n")
    assert (unconfined.workspace / "a.txt").exists()


def test_a_plan_is_commented_edited_and_approved_at_the_prompt(unconfined: Installed):
    editor = unconfined.workspace.parent / "editor"
    editor.write_text("#!/bin/sh\necho '- [ ] Mine' > $1\n")
    editor.chmod(0o755)
    first = "- calls: [{tool: present_plan, arguments: {plan: '1. First'}}]\n"
    script = unconfined.script(first + PLANNED.partition("\n")[2])
    flags = ("--no-tui", "--permission-mode", "plan")
    with unconfined.terminal("go", *flags, *script, EDITOR=str(editor)) as terminal:
        terminal.wait_for("plan · Carry out this plan?")
        terminal.type("yes")
        terminal.wait_for("Type a, e or u to carry it out")
        terminal.wait_for("plan · Carry out this plan?")
        terminal.type("write a.txt")
        terminal.wait_for("Write a.txt")
        terminal.wait_for("plan · Carry out this plan?")
        terminal.type("o")
        terminal.wait_for("☐ Mine")
        terminal.wait_for("plan · Carry out this plan?")
        terminal.type("e")
        terminal.wait_for("level edits")
        terminal.wait_for("edits · Done. [Enter")
    assert (unconfined.workspace / "a.txt").exists()


def test_a_level_that_a_flag_names_is_kept_when_the_session_is_continued(unconfined: Installed):
    script = unconfined.script(PLANNED)
    with unconfined.terminal("go", "--permission-mode", "plan", *script) as terminal:
        terminal.wait_for("plan · Carry out this plan?")
        terminal.press(CTRL_D)
        terminal.exit_code()
    with unconfined.terminal("-c", *script) as terminal:
        terminal.wait_for("plan · Carry out this plan?")
    for flags in (["--permission-mode", "edits"], []):
        with unconfined.terminal("-c", *flags, *script) as terminal:
            terminal.wait_for("edits · Carry out this plan?")


def test_tools_are_allowed_and_refused_for_one_run(unconfined: Installed):
    flags = ("--permission-mode", "ask", "--allowedTools", "Bash(touch:*)")
    unconfined.run("-p", "go", *flags, *unconfined.script(SCRIPT))
    assert {path.name for path in unconfined.workspace.iterdir()} == {"made"}
    (unconfined.workspace / "made").unlink()
    done = unconfined.run("-p", "go", "--disallowedTools", "Write", *unconfined.script(SCRIPT))
    assert "does not allow write_to_file in this run" in done.stderr
    assert {path.name for path in unconfined.workspace.iterdir()} == {"made"}
