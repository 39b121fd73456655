"""Flags that shape one run: images, instructions, whole outputs."""

import json

from llm_server import LlmServer, finish
from support.model_words import system
from support.recorded_task import PICTURE
from support.terminal_session import Installed, at


def test_images_and_instructions_reach_the_model(rookery: Installed):
    (rookery.workspace / "shot.png").write_bytes(PICTURE)
    config = rookery.home / "config" / "settings.toml"
    config.write_text('[context]\ninstructions = "Speak plainly."\n')
    flags = ("--image", "shot.png", "--append-system-prompt", "Be brief.")
    with LlmServer([finish()]) as server:
        done = rookery.run("-p", "what is this", *flags, *at(server))
    assert done.returncode == 0, done.stderr
    assert "Speak plainly.\nBe brief." in system(server.requests[0])
    assert "image/png" in json.dumps(server.requests[0].body["messages"])


def test_verbose_shows_the_whole_output(rookery: Installed):
    script = "- calls: [{tool: execute_command, arguments: {command: seq 40}}]\n- say: Done.\n"
    short = rookery.run("-p", "go", *rookery.script(script))
    whole = rookery.run("-p", "go", "--verbose", *rookery.script(script))
    assert "\n  25\n" not in short.stderr
    assert "\n  25\n" in whole.stderr


def test_a_session_is_chosen_from_a_list(rookery: Installed):
    script = rookery.script("- say: First.\n")
    assert rookery.run("-p", "the older task", *script).returncode == 0
    assert rookery.run("-p", "the newer task", *script).returncode == 0
    with rookery.terminal("--resume", *script) as terminal:
        terminal.wait_for("1  just now  the newer task")
        terminal.wait_for("2  just now  the older task")
        terminal.wait_for("Which session?")
        terminal.type("7")
        terminal.wait_for("Which session?")
        terminal.type("2")
        terminal.wait_for("Continuing: the older task")


def test_a_continued_session_begins_with_its_result(rookery: Installed):
    script = (
        "- {say: I look., calls: [{tool: attempt_completion, arguments: {result: All is well.}}]}"
    )
    assert rookery.run("-p", "look", *rookery.script(script)).returncode == 0
    assert "Last message: All is well." in rookery.run("-p", "-c", "again").stderr


def test_the_changes_of_a_session_are_shown_and_it_is_left(rookery: Installed):
    script = rookery.script(
        "- calls: [{tool: write_to_file, arguments: {path: a.txt, content: new line}}]\n"
        "- say: Done.\n"
    )
    with rookery.terminal("write it", *script) as terminal:
        terminal.wait_for("Approve?")
        terminal.type("y")
        terminal.wait_for("Done. [Enter")
        terminal.type("/diff")
        terminal.wait_for("a.txt (added)")
        terminal.wait_for("+new line")
        terminal.wait_for("Done. [Enter")
        terminal.type("/usage")
        terminal.wait_for("tokens in")
        terminal.wait_for("Done. [Enter")
        terminal.type("/quit")
        terminal.exit_code()
    assert "Continue with" not in terminal.screen
