"""Runs in an untrusted folder."""

import pytest

from llm_server import LlmServer, call, finish
from support.control_stream_client import Driver
from support.model_words import DONE, last_turn, shell
from support.terminal_session import CTRL_C, CTRL_D, Installed, at

QUESTION = "Do you trust this folder? "
PROMPT = "[y/n] "
ON_A_TERMINAL = "provider cannot be set by a project"
REFUSED_SETTING = f"/.rookery/settings.toml: {ON_A_TERMINAL}"
"""Text that appears only if the project's settings were read."""


@pytest.fixture
def strange(fresh: Installed) -> Installed:
    """A folder that wants to choose the provider, and forbids a command."""
    (fresh.workspace / ".rookery").mkdir()
    (fresh.workspace / ".rookery" / "settings.toml").write_text(
        'provider = "openai"\n[commands]\ndeny = ["touch"]\n'
    )
    (fresh.workspace / "a.txt").write_text("what it says\n")
    return fresh


def test_the_trust_question_comes_first(strange: Installed):
    with LlmServer([finish()]) as server:
        with strange.terminal(*at(server), "go") as terminal:
            before = terminal.wait_for(QUESTION)
            terminal.wait_for(PROMPT)
            assert before == (
                f"{strange.workspace}\nIt contains: .rookery/settings.toml (settings).\n"
            )
            terminal.wait_until_it_listens()
            terminal.press(CTRL_C)
            assert terminal.exit_code() == 130
        assert server.requests == []
    assert not strange.home.exists()


def test_text_typed_before_the_trust_question_stays_in_the_input(fresh: Installed):
    with LlmServer([finish()]) as server:
        ahead = fresh.terminal(*at(server))
        ahead.typed_before = b"fix\rthe bug"
        with ahead as terminal:
            terminal.wait_for(PROMPT)
            terminal.type("y")
            terminal.wait_for("What should I do? (Ctrl-D exits) fix the bug")
            assert not server.requests
            terminal.type("s")
            terminal.wait_for(DONE)
    assert "fix the bugs" in last_turn(server.requests[0])


def test_end_of_input_at_the_trust_question_starts_nothing(strange: Installed):
    with LlmServer() as server, strange.terminal(*at(server), "go") as terminal:
        terminal.wait_for(PROMPT)
        terminal.type("maybe")
        terminal.wait_for("Answer y or n; Ctrl-D exits: ")
        terminal.press(CTRL_D)
        assert terminal.exit_code() == 0
    assert not server.requests
    assert strange.sessions() == []


def test_without_trust_only_reading_works_and_help_is_shown(strange: Installed):
    with (
        LlmServer(
            [call("read_file", path="a.txt")],
            [call("write_to_file", path="new.txt", content="hi\n")],
            [shell("touch made")],
            [shell("git status")],
            [finish()],
        ) as server,
        strange.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for(PROMPT)
        terminal.type("\rmaybe\rno")
        terminal.wait_for("Not trusted: read-only. To trust it: rookery trust\n")
        terminal.wait_for("read-only: the folder is not trusted\n")
        terminal.wait_for("● Read a.txt\n")
        shown = terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
        assert "Approve?" not in terminal.screen
        assert ON_A_TERMINAL not in terminal.screen
    read, *refused = [last_turn(request) for request in server.requests[1:]]
    assert "what it says" in read
    assert len(refused) == 3
    for reported in refused:
        assert "This folder is not trusted, so it is read-only" in reported
        assert "The user can trust it with `rookery trust`" in reported
    assert shown.count("skipped: This folder is not trusted") == 3
    assert {file.name for file in strange.workspace.iterdir()} == {".rookery", "a.txt"}
    assert not (strange.home / "config" / "trust.json").exists()


def test_trust_is_remembered_for_this_folder_only(strange: Installed):
    inner = strange.workspace / "inner"
    inner.mkdir()
    with LlmServer(*[[finish()] for _ in range(2)]) as server:
        with strange.terminal(*at(server), "go") as terminal:
            terminal.wait_for(PROMPT)
            terminal.type("y")
            terminal.wait_for(ON_A_TERMINAL)
            terminal.wait_for("asks before it acts\n")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
        with strange.terminal(*at(server), "go") as terminal:
            assert QUESTION not in terminal.wait_for("asks before it acts\n")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
        with strange.terminal("-w", str(inner), *at(server), "go") as terminal:
            terminal.wait_for(QUESTION)
        assert len(server.requests) == 2


READ_ONLY = (
    "note: The folder is not trusted, so it is read-only. To allow changes and commands, use "
    "--trust for one run, or trust it: rookery trust\n"
)


def test_print_only_reads_in_an_untrusted_folder(strange: Installed):
    with LlmServer(
        [call("read_file", path="a.txt")],
        [shell("cat a.txt")],
        [shell("touch made")],
        [call("write_to_file", path="new.txt", content="hi\n")],
        [shell("git log")],
        [finish("Read.")],
    ) as server:
        done = strange.run("-p", *at(server), "go")
    assert done.returncode == 5
    assert done.stderr.startswith(READ_ONLY)
    assert QUESTION not in done.stderr
    assert REFUSED_SETTING not in done.stderr
    read, shown, *refused = [last_turn(request) for request in server.requests[1:]]
    assert "what it says" in read
    assert "what it says" in shown
    assert len(refused) == 3
    assert all("This folder is not trusted" in reported for reported in refused)
    assert {file.name for file in strange.workspace.iterdir()} == {".rookery", "a.txt"}
    assert not (strange.home / "config" / "trust.json").exists()


def test_yes_on_the_command_line_allows_changes_for_this_run(strange: Installed):
    with LlmServer([shell("touch made")], [finish("Made.")]) as server:
        done = strange.run("-p", "-y", *at(server), "go")
    assert (done.returncode, done.stdout) == (0, "Made.\n")
    assert done.stderr.startswith(
        "note: The folder is not trusted. -y allows changes and commands for this run.\n"
    )
    assert (strange.workspace / "made").exists()
    assert REFUSED_SETTING not in done.stderr
    assert not (strange.home / "config" / "trust.json").exists()


def test_the_answer_no_overrides_the_flags(strange: Installed):
    with (
        LlmServer([shell("touch made")], [finish()]) as server,
        strange.terminal("-y", *at(server), "go") as terminal,
    ):
        terminal.wait_for(PROMPT)
        terminal.type("n")
        terminal.wait_for("Not trusted: read-only.")
        terminal.wait_for(": This folder is not trusted")
    assert not (strange.workspace / "made").exists()


def test_a_driver_needs_no_trust_question(strange: Installed):
    with (
        LlmServer([shell("touch made")], [finish()]) as server,
        Driver(strange, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        driver.done("s1")
        assert driver.end() == 0
    assert (strange.workspace / "made").exists()


def test_trust_can_be_given_for_one_run(strange: Installed):
    with LlmServer([shell("touch made")], [finish()]) as server:
        done = strange.run("-p", "--trust", *at(server), "go")
        assert done.returncode == 5
        assert "note: --trust: the folder is trusted for this run.\n" in done.stderr
        assert REFUSED_SETTING in done.stderr
        assert not (strange.workspace / "made").exists()
        assert "deny commands like 'touch'" in last_turn(server.requests[1])
        with strange.terminal(*at(server), "go") as terminal:
            terminal.wait_for(QUESTION)
    assert not (strange.home / "config" / "trust.json").exists()


def test_trust_changed_with_the_trust_command_applies(strange: Installed):
    trusted = strange.run("trust")
    assert trusted.returncode == 0
    assert trusted.stdout.startswith("It contains: .rookery/settings.toml (settings).\n")
    with LlmServer([finish()]) as server:
        assert REFUSED_SETTING in strange.run("-p", *at(server), "go").stderr
        assert strange.run("trust", "--forget").returncode == 0
        with strange.terminal(*at(server), "go") as terminal:
            terminal.wait_for(QUESTION)
