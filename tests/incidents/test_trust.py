"""to K12: nothing of a folder is run, loaded or obeyed before trust, and policy never."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, finish
from rookery.core.settings_reference import PROJECT_MAY
from rookery.permissions.trust import TrustStore
from support.canaries import KEY, World, remove, run, tree
from support.hostile_repositories import (
    git_everything,
    project_settings,
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


@pytest.fixture
def stranger(tmp_path: Path) -> Any:
    """A world whose workspace nobody trusts."""
    made = World(tmp_path, trusted=False)
    yield made
    remove(made)


def test_commands_that_only_show_something_start_nothing(stranger: World):
    for plant in (git_everything, settings_and_programs, python_modules):
        plant(stranger)
    before = tree(stranger.workspace)
    for command in EVERY_COMMAND:
        assert stranger.run(*command).returncode in (0, 1)
    assert stranger.harm() == []
    assert tree(stranger.workspace) == before


def test_modules_of_the_folder_are_not_imported(visited: Callable[[str], Any]):
    seen = visited("python")
    assert seen.world.harm(seen.visit) == []


@pytest.mark.xfail(
    strict=True,
    reason="the interpreter imports sitecustomize before any code of ours runs; only -E or -I in "
    "the first line of the entry script would help, and that line is the installer's to write",
)
def test_not_even_if_PYTHONPATH_has_an_empty_entry(stranger: World):
    """Which `export PYTHONPATH=$PYTHONPATH:/somewhere` leaves behind in many a shell."""
    python_modules(stranger)
    environ = stranger.environ | {"PYTHONPATH": ":/nowhere"}
    subprocess.run([COMMAND, "list"], cwd=stranger.workspace, env=environ, capture_output=True)
    assert list(stranger.effects()) == []


def test_not_even_if_it_is_started_as_a_module(stranger: World):
    python_modules(stranger)
    (stranger.workspace / "rookery.py").unlink()
    subprocess.run(
        [sys.executable, "-m", "rookery", "list"],
        cwd=stranger.workspace,
        env=stranger.environ,
        capture_output=True,
    )
    assert list(stranger.effects()) == []


def test_the_question_of_trust_comes_first_silence_is_no_yes(stranger: World):
    """At a terminal: until it is answered there is no request; a no leaves everything unrun."""
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


def test_a_run_without_anybody_there_trusts_nothing(stranger: World):
    settings_and_programs(stranger)
    visit = stranger.visit([run("touch made")], [run("ls")], flags=())
    assert stranger.harm(visit) == []
    assert not (stranger.workspace / "made").exists()
    changing, reading = visit.results
    assert "not trusted" in changing
    assert "Not interactive: this needs approval" in reading


# ── what a project may choose ───────────────────────────────────────────────────────────


def test_a_trusted_project_chooses_no_endpoint_and_no_policy(
    world: World,
):
    """The key goes to the server that the user named; what is refused is said."""
    settings_and_programs(world)
    visit = world.visit([run("touch made")], [run("touch other")])
    assert world.harm(visit) == []
    assert visit.requests[0].body["model"] == "some-model"
    assert all("Not interactive: this needs approval" in result for result in visit.results)
    assert "base_url cannot be set by a project" in visit.err
    assert not (world.workspace / "h").exists()


def test_without_flags_the_users_own_endpoint_is_used_and_not_the_projects(
    world: World,
):
    world.put(".rookery/settings.toml", project_settings(world))
    with LlmServer([finish()]) as server:
        (world.home / "config" / "settings.toml").write_text(
            f'provider = "anthropic"\nmodel = "mine"\nbase_url = "{server.url}"\n'
        )
        done = world.run("-p", "go", ANTHROPIC_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 1
    assert server.requests[0].body["model"] == "mine"
    assert list(world.effects()) == []


def test_what_a_project_may_set_is_a_short_list_that_only_tightens():
    never = r"provider|model|base_url|key|proxy|mode|allow|writable|leave|hook|env|mcp|path|log"
    keys = {".".join(key) for key in PROJECT_MAY if key[0] != "limits"}
    assert {key for key in keys if re.search(rf"(?:^|\.)(?:{never})", key)} == set()


def test_a_trusted_folder_starts_no_server_that_nobody_approved(world: World):
    settings_and_programs(world)
    visit = world.visit()
    world.run("settings")
    assert world.harm(visit) == []


# ── whom trust is for ───────────────────────────────────────────────────────────────────


def test_trust_is_for_one_folder_and_nobody_inherits_it(world: World):
    """Not a folder below, above, a link's other name for something else, or what replaces it."""
    store = TrustStore(world.home / "config" / "trust.json")
    root = world.workspace
    (root / "sub").mkdir()
    assert store.trusts(root)
    assert not store.trusts(root / "sub")
    assert not store.trusts(root.parent)
    os.rename(root, root.parent / "moved")
    root.mkdir()
    assert not store.trusts(root)
    root.rmdir()
    os.symlink("moved", root)
    assert not store.trusts(root)
    os.unlink(root)
    os.rename(root.parent / "moved", root)
    assert store.trusts(root)


def test_print_does_not_switch_off_trust(stranger: World):
    stranger.visit([run("touch made")], flags=("-p",))
    assert not (stranger.workspace / "made").exists()
