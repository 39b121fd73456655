"""What the command says of itself, and of values that it cannot take."""

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


def test_every_help_heading_has_existing_options():
    named = [name for names in GROUPS.values() for name in names]
    there = {parameter.name for parameter in task.params}
    assert len(named) == len(set(named))
    assert there - set(named) == {"words", "extension", "version"}


WRONG_VALUES = [
    (["serve", "x"], "Got unexpected extra argument (x). See rookery serve --help.\n"),
    (["list", "--x"], "No such option '--x'. See rookery list --help.\n"),
    (["--timeout", "nan"], "Invalid value for '--timeout': nan is not a number of seconds. See "),
    (["--followup-timeout", "nan"], "Invalid value for '--followup-timeout': nan is not a n"),
    (["--followup-timeout", "inf"], "--followup-timeout must be a number of at least 0, not "),
    (["--consecutive-mistake-limit", "9" * 30], "--consecutive-mistake-limit must be a whole"),
]


def test_a_wrong_value_is_reported_with_the_flag_as_typed(rookery: Installed):
    for arguments, sentence in WRONG_VALUES:
        subcommand = arguments[0] in ("serve", "list")
        done = rookery.run(*arguments, *([] if subcommand else ["-p", *rookery.script("[]"), "go"]))
        assert (done.returncode, done.stdout) == (USAGE, ""), arguments
        assert done.stderr.startswith(f"Error: {sentence}"), arguments
        assert done.stderr.count("\n") == 1, arguments


def test_a_timeout_can_be_unlimited(rookery: Installed):
    done = rookery.run("-p", "--timeout", "inf", *rookery.script(FINISHES), "go")
    assert (done.returncode, done.stdout) == (0, "One.\n")


def test_only_responses_that_request_a_wait_count_as_rate_limits(rookery: Installed):
    for code, headers, number in ((500, {}, 1), (503, {"retry-after": "0.01"}, 8), (529, {}, 8)):
        with LlmServer(status(code, headers=headers), [finish()]) as server:
            done = rookery.run("-p", "--exit-on-error", *at(server), "go")
        assert (done.returncode, len(server.requests)) == (number, 1), code
        assert "trying again" not in done.stderr, code
        assert "Continue with: rookery " in done.stderr, code


def test_an_unsupported_effort_is_reported(rookery: Installed):
    note = "note: claude-x is not known to support reasoning; --reasoning-effort high is ignored.\n"
    with LlmServer([finish()], [finish()], [finish()]) as server:
        told = rookery.run("-p", "-r", "high", *at(server), "go")
        unasked = rookery.run("-p", "-r", "none", *at(server), "go")
        thinks = rookery.run("-p", "-r", "high", *at(server, "claude-opus-4-6"), "go")
    assert [told.returncode, unasked.returncode, thinks.returncode] == [0, 0, 0]
    assert note in told.stderr
    assert "not known to support" not in unasked.stderr + thinks.stderr
    assert ("output_config" in server.requests[2].body) or ("thinking" in server.requests[2].body)


def test_the_first_line_explains_the_flag_it_names(rookery: Installed):
    done = rookery.run("-p", "-a", *rookery.script(FINISHES), "go")
    assert "not interactive: skips actions that need approval; -y allows them\n" in done.stderr
