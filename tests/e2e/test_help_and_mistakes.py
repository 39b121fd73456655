"""What the command says of itself, and of values that it cannot take."""

import pytest

from llm_server import LlmServer, finish, status
from rookery.cli.command_line import GROUPS, OTHERS
from rookery.cli.main import task
from support.terminal_session import Installed

FINISHES = "- calls: [{tool: attempt_completion, arguments: {result: One.}}]\n"
USAGE = 2


def at(server: LlmServer, model: str = "claude-x") -> list[str]:
    return ["--provider", "anthropic", "-m", model, "--base-url", server.url]


def test_the_help_shows_options_under_headings(rookery: Installed):
    told = rookery.run("--help").stdout
    lines = told.splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == [f"{heading}:" for heading in (*GROUPS, OTHERS)]
    assert lines[lines.index(f"{OTHERS}:") + 1 :][:3] == [
        "  -V, --version  Show the version and exit.",
        "  -h, --help     Show this message and exit.",
        "",
    ]
    for puzzling in ("own kit", "grave", "End after seconds"):
        assert puzzling not in told


def test_every_heading_is_about_options_that_there_are():
    named = [name for names in GROUPS.values() for name in names]
    there = {parameter.name for parameter in task.params}
    assert len(named) == len(set(named))
    assert there - set(named) == {"words", "extension", "version"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "x"], "Got unexpected extra argument (x). See rookery serve --help.\n"),
        (["list", "--x"], "No such option '--x'. See rookery list --help.\n"),
        (
            ["--timeout", "nan"],
            "Invalid value for '--timeout': nan is not a number of seconds. See ",
        ),
        (["--followup-timeout", "nan"], "Invalid value for '--followup-timeout': nan is not a n"),
        (["--followup-timeout", "inf"], "--followup-timeout must be a number of at least 0, not "),
        (["--consecutive-mistake-limit", "9" * 30], "--consecutive-mistake-limit must be a whole"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_a_wrong_value_is_said_with_the_flag_as_it_was_typed(
    rookery: Installed, arguments: list[str], sentence: str
):
    subcommand = arguments[0] in ("serve", "list")
    done = rookery.run(*arguments, *([] if subcommand else ["-p", *rookery.script("[]"), "go"]))
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert done.stderr.startswith(f"Error: {sentence}")
    assert done.stderr.count("\n") == 1


def test_a_timeout_may_be_endless(rookery: Installed):
    done = rookery.run("-p", "--timeout", "inf", *rookery.script(FINISHES), "go")
    assert (done.returncode, done.stdout) == (0, "One.\n")


@pytest.mark.parametrize(
    ("code", "headers", "number"),
    [
        pytest.param(500, {}, 1, id="it-broke"),
        pytest.param(503, {"retry-after": "0.01"}, 8, id="it-says-when-to-come-back"),
        pytest.param(429, {}, 8, id="too-many-requests"),
        pytest.param(529, {}, 8, id="overloaded"),
    ],
)
def test_only_who_asks_to_wait_limits_the_rate(
    rookery: Installed, code: int, headers: dict[str, str], number: int
):
    with LlmServer(status(code, headers=headers), [finish()]) as server:
        done = rookery.run("-p", "--exit-on-error", *at(server), "go")
    assert (done.returncode, len(server.requests)) == (number, 1)
    assert "trying again" not in done.stderr
    assert "Continue with: rookery " in done.stderr


def test_an_effort_that_is_not_sent_is_told(rookery: Installed):
    note = "note: claude-x is not known to support reasoning; --reasoning-effort high is ignored.\n"
    with LlmServer([finish()], [finish()], [finish()]) as server:
        told = rookery.run("-p", "-r", "high", *at(server), "go")
        unasked = rookery.run("-p", "-r", "none", *at(server), "go")
        thinks = rookery.run("-p", "-r", "high", *at(server, "claude-opus-4-6"), "go")
    assert [told.returncode, unasked.returncode, thinks.returncode] == [0, 0, 0]
    assert note in told.stderr
    assert "not known to support" not in unasked.stderr + thinks.stderr
    assert ("output_config" in server.requests[2].body) or ("thinking" in server.requests[2].body)


def test_the_first_line_says_what_the_flag_it_names_would_do(rookery: Installed):
    done = rookery.run("-p", "-a", *rookery.script(FINISHES), "go")
    assert "not interactive: skips actions that need approval; -y allows them\n" in done.stderr
