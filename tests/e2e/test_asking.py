"""Which actions ask, what the question shows, and what "always" covers."""

import subprocess
from pathlib import Path

import pytest

from llm_server import LlmServer, call, finish
from support.model_words import ALLOW, DONE, last_turn, shell
from support.terminal_session import Installed, at

ONCE = "Approve? [y/n, or say why not] "


@pytest.fixture
def repository(rookery: Installed) -> Installed:
    subprocess.run(["git", "init", "-q"], cwd=rookery.workspace, check=True)
    build = rookery.workspace / "build"
    build.mkdir()
    for name in ("one.o", "two.o", "three.o"):
        (build / name).touch()
    (rookery.workspace / "a.py").write_text("x = 1\n")
    return rookery


NOTES = {
    "rm -rf build": "deletes 3 files below build/",
    "touch made ../beside": "writes made",
    "curl http://127.0.0.1:9/": "uses the network",
    "cat ~/.ssh/id_rsa": "/.ssh/id_rsa, where keys and passwords are kept",
    "echo $(cat a.py)": "",
}


def test_a_command_question_shows_its_folder_and_reach(repository: Installed):
    with (
        LlmServer(*[[shell(line)] for line in NOTES], [finish()]) as server,
        repository.terminal(*at(server), "go") as terminal,
    ):
        for line, note in NOTES.items():
            terminal.wait_for(f"Run this command:\n  {line}\n")
            shown = terminal.wait_for("Approve? ")
            assert "sandbox" in shown.splitlines()[0], line
            reported = [" ".join(each.split()) for each in shown.split("\n  ! ")]
            assert any(note in each for each in reported), line
            terminal.type("n")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert len(list((repository.workspace / "build").iterdir())) == 3
    for request in server.requests[1:]:
        assert "The user denied this call." in last_turn(request)


def test_reading_in_a_trusted_folder_needs_no_approval(repository: Installed):
    lines = ["ls -la", "git status", "grep -rn x .", "cat a.py | head -n 1"]
    with (
        LlmServer(*[[shell(line)] for line in lines], [finish()]) as server,
        repository.terminal(*at(server), "go") as terminal,
    ):
        for line in lines:
            assert "Approve?" not in terminal.wait_for(f"● Run {line}\n")
        assert "Approve?" not in terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    for request in server.requests[1:]:
        assert "Exit code: 0" in last_turn(request)


def test_always_shows_the_rule_and_allows_exactly_this_command(
    repository: Installed,
):
    rule = f"exactly this command in {repository.workspace}, for 30 days: touch made"
    with LlmServer(
        [shell("touch made")],
        [shell("touch made")],
        [shell("touch made other")],
        [finish()],
        [shell("touch made")],
        [finish()],
    ) as server:
        with repository.terminal(*at(server), "go") as terminal:
            terminal.wait_for(ALLOW)
            terminal.type("a")
            terminal.wait_for(f"Always allow {rule}? [y/n] ")
            assert not (repository.workspace / "made").exists()
            terminal.type("n")
            terminal.wait_for(ALLOW)
            assert not (repository.workspace / "made").exists()
            terminal.type("a")
            terminal.wait_for("? [y/n] ")
            terminal.type("y")
            terminal.wait_for("● Run touch made\n")
            assert "Approve?" not in terminal.wait_for("● Run touch made\n")
            terminal.wait_for("  touch made other\n")
            terminal.wait_for(ALLOW)
            terminal.type("n")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
        assert rule in repository.run("trust", "--list").stdout
        with repository.terminal(*at(server), "again") as terminal:
            assert "Approve?" not in terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
    assert not (repository.workspace / "other").exists()


def write_instructions() -> object:
    return call("write_to_file", path="AGENTS.md", content="Obey.\n")


GRAVE = {
    "deletes .git": lambda: shell("rm -rf .git"),
    "protected, because ": write_instructions,
    "outside the workspace": lambda: call("write_to_file", path="../beside.txt", content="x"),
}


def untouched(workspace: Path) -> bool:
    return (
        (workspace / ".git" / "HEAD").exists()
        and not (workspace / "AGENTS.md").exists()
        and not (workspace.parent / "beside.txt").exists()
    )


def test_auto_approval_still_asks_about_dangerous_actions(repository: Installed):
    with (
        LlmServer(*[[deed()] for deed in GRAVE.values()], [finish()]) as server,
        repository.terminal("-y", *at(server), "go") as terminal,
    ):
        for note in GRAVE:
            assert f"  ! {note}" in terminal.wait_for(ONCE)
            terminal.type("a")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert untouched(repository.workspace)


def test_dangerous_actions_are_refused_in_a_noninteractive_run(repository: Installed):
    skipped = "Not interactive: this needs approval, so it was skipped."
    with LlmServer(*[[deed()] for deed in GRAVE.values()], [finish()]) as server:
        done = repository.run("-p", "-y", *at(server), "go")
    assert (done.returncode, done.stdout) == (5, "Done.\n")
    assert done.stderr.count(f"skipped: {skipped}") == 3
    for request in server.requests[1:]:
        assert skipped in last_turn(request)
    assert untouched(repository.workspace)


def test_protected_files_can_be_allowed_for_one_run(repository: Installed):
    with LlmServer([write_instructions()], [finish()]) as server:
        done = repository.run("-p", "--allow-protected", *at(server), "go")
    assert done.returncode == 0
    assert (repository.workspace / "AGENTS.md").read_text() == "Obey.\n"
