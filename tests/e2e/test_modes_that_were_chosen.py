"""A mode that was chosen for a run holds in everything that the run does."""

import pytest

from llm_server import LlmServer, call, finish
from support.terminal_session import Installed, at

WRITE = call("write_to_file", path="a.txt", content="x\n")
SWITCH = call("switch_mode", mode_slug="code", reason="to write")
CHILD = call("new_task", mode="code", message="Write a.txt.")
ASKING = call(
    "ask_followup_question", question="May I?", follow_up=[{"text": "Yes.", "mode": "code"}]
)
COMMAND_FILE = "---\nmode: code\n---\nDeploy it.\n"


@pytest.mark.parametrize("step", [SWITCH, ASKING], ids=["switch", "suggestion"])
def test_a_noninteractive_run_gets_no_more_rights_than_its_mode(rookery: Installed, step: object):
    with LlmServer([step], [WRITE], [finish()], [finish()]) as server:
        rookery.run("-p", "-y", *at(server), "--mode", "ask", "only answer")
    assert not (rookery.workspace / "a.txt").exists()


def test_a_user_command_gets_no_more_rights_than_the_mode(rookery: Installed):
    folder = rookery.home / "config" / "commands"
    folder.mkdir(parents=True)
    (folder / "deploy.md").write_text(COMMAND_FILE)
    with LlmServer([WRITE], [finish()]) as server:
        rookery.run("-p", *at(server), "--mode", "ask", "/deploy")
    assert not (rookery.workspace / "a.txt").exists()


@pytest.mark.parametrize(
    ("step", "flags"),
    [(SWITCH, []), (CHILD, ["--mode", "orchestrator"])],
)
def test_a_mode_switch_is_allowed_if_no_mode_was_chosen(
    rookery: Installed, step: object, flags: list[str]
):
    ask_first = [] if flags else [[call("switch_mode", mode_slug="ask")]]
    with LlmServer(*ask_first, [step], [WRITE], [finish()], [finish()]) as server:
        rookery.run("-p", *at(server), *flags, "write it")
    assert (rookery.workspace / "a.txt").exists()


def approve(rookery: Installed, *names: str) -> None:
    config = rookery.home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "settings.toml").write_text("".join(f"{name} = true\n" for name in names))


@pytest.mark.parametrize(
    ("approved", "asked"),
    [(["approve_subtasks"], True), (["approve_subtasks", "approve_modes"], False)],
)
def test_a_mode_with_more_rights_asks_unless_modes_are_approved(
    rookery: Installed, approved: list[str], asked: bool
):
    approve(rookery, *approved)
    with (
        LlmServer([CHILD], [finish()], [finish()]) as server,
        rookery.terminal(*at(server), "--mode", "ask", "go") as terminal,
    ):
        terminal.wait_for("Approve?" if asked else "accepts")
        assert ("may do more than mode ask" in terminal.screen) is asked
