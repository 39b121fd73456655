"""Nothing of a folder is run, loaded or obeyed before trust, and policy never."""

import re
import subprocess
import sys

import pytest

from llm_server import LlmServer, finish
from rookery.core.settings_reference import PROJECT_MAY
from support.canaries import KEY, World, run, tree
from support.hostile_repositories import (
    git_everything,
    python_modules,
    settings_and_programs,
)
from support.terminal_session import COMMAND

EVERY_COMMAND = [
    ["list"],
    ["list", "--all", "--format", "json"],
    ["doctor"],
    ["settings"],
    ["ps"],
    ["trust", "--list"],
    ["--version"],
    ["--help"],
]


def test_product_commands_that_only_show_something_start_nothing(stranger: World):
    for plant in (git_everything, settings_and_programs, python_modules):
        plant(stranger)
    before = tree(stranger.workspace)
    for command in EVERY_COMMAND:
        assert stranger.run(*command).returncode in (0, 1)
    assert stranger.harm() == []
    assert tree(stranger.workspace) == before


@pytest.mark.xfail(
    strict=True,
    reason="the interpreter imports sitecustomize before any code of ours runs; only -E or -I in "
    "the first line of the entry script would help, and that line is the installer's to write",
)
def test_an_empty_pythonpath_entry_loads_no_module_of_the_workspace(stranger: World):
    """Which `export PYTHONPATH=$PYTHONPATH:/somewhere` leaves behind in many a shell."""
    python_modules(stranger)
    environ = stranger.environ | {"PYTHONPATH": ":/nowhere"}
    subprocess.run([COMMAND, "list"], cwd=stranger.workspace, env=environ, capture_output=True)
    assert list(stranger.effects()) == []


def test_starting_as_a_module_loads_no_module_of_the_workspace(stranger: World):
    python_modules(stranger)
    (stranger.workspace / "rookery.py").unlink()
    subprocess.run(
        [sys.executable, "-m", "rookery", "list"],
        cwd=stranger.workspace,
        env=stranger.environ,
        capture_output=True,
    )
    assert list(stranger.effects()) == []


def test_the_trust_question_comes_first_and_needs_an_answer(stranger: World):
    """At a terminal: no request before the answer; after a rejection nothing runs."""
    settings_and_programs(stranger)
    with LlmServer([run(stranger.evil("after-no"))], [finish()]) as server:
        flags = ["--provider", "anthropic", "-m", "m", "--base-url", server.url, "go"]
        with stranger.terminal(*flags, ANTHROPIC_API_KEY=KEY) as terminal:
            before = terminal.wait_for("Do you trust this folder?")
            assert ".mcp.json" in before
            assert server.requests == []
            assert list(stranger.effects()) == []
            terminal.type("")
            terminal.wait_for("Answer y or n")
            assert server.requests == []
            terminal.type("n")
            terminal.wait_for("Not trusted")
            terminal.wait_for("Done. [")
            terminal.type("")
            assert terminal.exit_code() == 0
    assert stranger.harm() == []


def test_a_non_interactive_run_trusts_nothing(stranger: World):
    settings_and_programs(stranger)
    for flags in (("-p",), ()):
        visit = stranger.visit([run("touch made")], [run("ls")], flags=flags)
        assert stranger.harm(visit) == []
        assert not (stranger.workspace / "made").exists()
        assert "not trusted" in visit.results[0]
    assert "Not interactive: this needs approval" in visit.results[1]


# ── what a project may choose ───────────────────────────────────────────────────────────


def test_a_trusted_project_cannot_set_the_endpoint_or_the_policy(
    world: World,
):
    """The key goes to the server that the user named; refusals are reported."""
    settings_and_programs(world)
    visit = world.visit([run("touch made")], [run("touch other")])
    assert world.harm(visit) == []
    assert visit.requests[0].body["model"] == "some-model"
    assert all("Not interactive: this needs approval" in result for result in visit.results)
    assert "base_url cannot be set by a project" in visit.err
    assert not (world.workspace / "h").exists()


def test_a_project_cannot_set_anything_that_loosens_security():
    never = r"provider|model|base_url|key|proxy|mode|allow|writable|leave|hook|env|mcp|path|log"
    keys = {".".join(key) for key in PROJECT_MAY if key[0] != "limits"}
    assert {key for key in keys if re.search(rf"(?:^|\.)(?:{never})", key)} == set()


# ── whom trust is for ───────────────────────────────────────────────────────────────────
