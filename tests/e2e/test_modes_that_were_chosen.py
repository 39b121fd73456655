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


@pytest.mark.parametrize("flags", [["-p"], ["-p", "-y"]], ids=" ".join)
@pytest.mark.parametrize("step", [SWITCH, CHILD, ASKING], ids=["switch", "child", "suggestion"])
@pytest.mark.parametrize("chosen", ["ask", "architect"])
def test_nobody_being_there_lets_no_run_do_more_than_its_mode(
    rookery: Installed, flags: list[str], step: object, chosen: str
):
    with LlmServer([step], [WRITE], [finish()], [finish()]) as server:
        rookery.run(*flags, *at(server), "--mode", chosen, "only answer")
    assert not (rookery.workspace / "a.txt").exists()


def test_a_command_of_the_users_own_does_not_either(rookery: Installed):
    folder = rookery.home / "config" / "commands"
    folder.mkdir(parents=True)
    (folder / "deploy.md").write_text(COMMAND_FILE)
    with LlmServer([WRITE], [finish()]) as server:
        rookery.run("-p", *at(server), "--mode", "ask", "/deploy")
    assert not (rookery.workspace / "a.txt").exists()


@pytest.mark.parametrize(
    ("step", "flags"),
    [(SWITCH, []), (SWITCH, ["--mode", "code"]), (CHILD, ["--mode", "orchestrator"])],
)
def test_what_was_not_chosen_otherwise_goes_on(rookery: Installed, step: object, flags: list[str]):
    ask_first = [] if flags else [[call("switch_mode", mode_slug="ask")]]
    with LlmServer(*ask_first, [step], [WRITE], [finish()], [finish()]) as server:
        rookery.run("-p", *at(server), *flags, "write it")
    assert (rookery.workspace / "a.txt").exists() or flags == ["--mode", "code"]


def approve(rookery: Installed, *names: str) -> None:
    config = rookery.home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "settings.toml").write_text("".join(f"{name} = true\n" for name in names))


@pytest.mark.parametrize(
    ("approved", "step", "asked"),
    [
        (["approve_modes"], SWITCH, False),
        (["approve_subtasks"], CHILD, True),
        (["approve_subtasks", "approve_modes"], CHILD, False),
    ],
)
def test_at_a_terminal_more_rights_are_asked_about_unless_modes_are_approved(
    rookery: Installed, approved: list[str], step: object, asked: bool
):
    approve(rookery, *approved)
    with (
        LlmServer([step], [finish()], [finish()]) as server,
        rookery.terminal(*at(server), "--mode", "ask", "go") as terminal,
    ):
        terminal.wait_for("Approve?" if asked else "accepts")
        assert ("may do more than mode ask" in terminal.screen) is asked
