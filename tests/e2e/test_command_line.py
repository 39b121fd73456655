"""What the options of the command do, seen from outside."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, call, finish, gate, say
from support.model_words import DONE, FINISHES
from support.terminal_session import COMMAND, Installed

KEY = "sk-0123456789abcdef0123"
QUESTION = call(
    "ask_followup_question",
    question="Which?",
    follow_up=[{"text": "this", "mode": "debug"}, {"text": "that", "mode": None}],
)
ROW = ["--output-format", "stream-json"]


def at(server: LlmServer, provider: str = "openai", model: str = "gpt-5") -> list[str]:
    return ["--provider", provider, "-m", model, "--base-url", f"{server.url}/v1"]


def bodies(server: LlmServer) -> list[dict[str, Any]]:
    return [request.body for request in server.requests]


def answers(server: LlmServer) -> str:
    """The results of the last calls in the last request."""
    reported = [
        each["content"] for each in bodies(server)[-1]["messages"] if each["role"] == "tool"
    ]
    return "\n".join(reported)


def test_the_default_of_a_flag_does_not_override_a_setting(rookery: Installed):
    with LlmServer([finish()], [finish()], [finish()]) as server:
        for effort in ({}, {"ROOKERY_REASONING_EFFORT": "high"}):
            rookery.run("-p", *at(server), "go", **effort)
        rookery.run("-p", "-r", "none", *at(server), "go", ROOKERY_REASONING_EFFORT="high")
    sent = [body.get("reasoning_effort") for body in bodies(server)]
    assert sent == [None, "high", "none"]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="there is no /proc here")
def test_a_key_on_the_command_line_is_hidden(rookery: Installed):
    waiting = gate()
    with LlmServer([say("Hm.", waiting), finish()]) as server:
        process = subprocess.Popen(
            [COMMAND, "-p", "-d", *ROW, "-k", KEY, *at(server), f"use {KEY}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=rookery.workspace,
            env=rookery.environ,
        )
        waiting.wait_until_reached()
        shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        waiting.open()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert b"--output-format" in shown
    assert KEY.encode() not in shown
    assert KEY.encode() not in err
    assert KEY not in (rookery.home / "state" / "debug.log").read_text(encoding="utf-8")


def test_consecutive_mistakes_end_the_run(rookery: Installed):
    wrong = "".join(
        f"- calls: [{{tool: read_file, arguments: {{wrong: {n}}}}}]\n" for n in range(12)
    )
    script = rookery.script(wrong + FINISHES)
    limited = rookery.run("-p", "--consecutive-mistake-limit", "1", *script, "go")
    never = rookery.run("-p", "--consecutive-mistake-limit", "0", *script, "go")
    assert (limited.returncode, never.returncode, never.stdout) == (7, 0, "One.\n")


def test_commands_run_in_the_chosen_shell(rookery: Installed):
    run = "- calls: [{tool: execute_command, arguments: {command: 'echo run by $0'}}]\n"
    script = rookery.script(run + FINISHES)
    named = rookery.run("-p", "--terminal-shell", "/bin/sh", *script, "go")
    usual = rookery.run("-p", *script, "go")
    assert "run by /bin/sh\n" in named.stderr
    assert "run by /bin/sh\n" not in usual.stderr


def test_an_invalid_shell_is_ignored_with_a_warning(rookery: Installed):
    for shell in ("bash", "/nowhere/sh", "/etc/passwd", "/tmp"):
        done = rookery.run("-p", "--terminal-shell", shell, *rookery.script(FINISHES), "go")
        assert (done.returncode, done.stdout) == (0, "One.\n"), shell
        assert done.stderr.startswith(f"note: {shell} is not an absolute path to an executable")


def test_an_extension_is_ignored_with_a_notice(rookery: Installed):
    done = rookery.run("-p", "-e", "ext.js", *rookery.script(FINISHES), "go")
    assert (done.returncode, done.stdout) == (0, "One.\n")
    assert done.stderr.startswith("note: Extensions are not supported; -e is ignored.\n")


def test_an_unknown_command_is_refused_with_suggestions(rookery: Installed):
    (rookery.workspace / ".rookery" / "commands").mkdir(parents=True)
    (rookery.workspace / ".rookery" / "commands" / "review.md").write_text("Review it.\n")
    script = rookery.script(FINISHES)
    for flags in (["-p"], ["-p", *ROW], []):
        done = rookery.run(*flags, *script, "/reviw the tests")
        assert done.returncode == 2, flags
        assert "Error: No such command: /reviw. Known: /review.\n" in done.stderr, flags
    assert rookery.sessions() == []
    assert rookery.run("-p", *script, "/review it").returncode == 0
    assert rookery.run("-p", *script, "/tmp is full").returncode == 0


class TestQuestionsOfAnAutomaticRun:
    def test_a_noninteractive_run_sends_the_first_answer_at_once(self, rookery: Installed):
        with LlmServer([QUESTION], [finish()]) as server:
            done = rookery.run("-p", *at(server), "go")
        assert done.returncode == 0
        assert "\nthis\n" in answers(server)
        assert "Answered automatically: this" in done.stderr
        assert "now in debug mode" in done.stderr

    def test_a_terminal_leaves_time_to_type_an_answer(self, rookery: Installed):
        with (
            LlmServer([QUESTION], [QUESTION], [finish()]) as server,
            rookery.terminal("-y", *at(server), "go") as terminal,
        ):
            terminal.wait_for("code mode · auto-approve")
            terminal.wait_for("1. this (switches to debug mode)\n  2. that\n")
            terminal.wait_for("(answering 1 in 60 s, unless you type) > ")
            terminal.press(b"2 more testss\x7f\r")
            terminal.wait_for("(answering 1 in 60 s, unless you type) > ")
            terminal.press(b"1\r")
            terminal.wait_for("now in debug mode")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
        assert "<user_message>\n2 more tests\n</user_message>" in answers(server)

    def test_a_terminal_answers_automatically_after_the_timeout(self, rookery: Installed):
        with (
            LlmServer([QUESTION], [finish()]) as server,
            rookery.terminal("-y", "--followup-timeout", "0.2", *at(server), "go") as terminal,
        ):
            terminal.wait_for("Answered automatically: this")
            terminal.wait_for(DONE)
            terminal.type("")
            assert terminal.exit_code() == 0


def test_lines_for_the_client_switch_model_approval_and_mode(rookery: Installed):
    write = call("write_to_file", path="a.txt", content="hi\n")
    with (
        LlmServer([QUESTION], [write], [finish()]) as server,
        rookery.terminal("-a", *at(server), "go") as terminal,
    ):
        for line, reported in [
            ("/mode", "code (now), "),
            ("/model", "  openai gpt-5  (now)\n"),
            ("/model gpt-5-mini", "now using gpt-5-mini"),
            ("/approve on", "level auto: acts"),
            ("/queue", "No queued messages."),
            ("/aprove off", "No such command: /aprove. Known: /approve. /help lists all."),
        ]:
            terminal.wait_for(" · > ")
            terminal.type(line)
            terminal.wait_for(reported)
        terminal.wait_for(" · > ")
        terminal.type("that")
        terminal.wait_for("● Create a.txt")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert [body["model"] for body in bodies(server)] == ["gpt-5", "gpt-5-mini", "gpt-5-mini"]


def test_library_warnings_are_not_shown(rookery: Installed):
    noisy = rookery.workspace.parent / "sitecustomize.py"
    noisy.write_text(
        "import anyio, logging, warnings\n"
        "run = anyio.run\n"
        "def noisily(*about, **more):\n"
        "    warnings.warn('chatter', stacklevel=1)\n"
        "    logging.getLogger('library').warning('chatter')\n"
        "    return run(*about, **more)\n"
        "anyio.run = noisily\n"
    )
    environ = {"PYTHONPATH": os.pathsep.join([str(noisy.parent)])}
    done = rookery.run("-p", *rookery.script(FINISHES), "go", **environ)
    assert (done.returncode, done.stdout) == (0, "One.\n")
    assert "chatter" not in done.stderr
