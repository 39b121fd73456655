"""Every end of a run has an exit code, and a code in its structured result."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.terminal_session import Installed

FINISH = "- calls: [{tool: attempt_completion, arguments: {result: One.}}]\n"
WRITE = "- calls: [{tool: write_to_file, arguments: {path: a.txt, content: hi}}]\n"
LOOK = "- calls: [{tool: list_files, arguments: {path: ., recursive: false}}]\n"
QUESTION = (
    '- calls: [{tool: ask_followup_question, arguments: {question: "Which?", follow_up: '
    "[{text: this, mode: null}]}}]\n"
)


def fails(kind: str) -> str:
    return f"- fail: {{kind: {kind}, message: It failed., retry_after: 0.01}}\n"


@pytest.mark.parametrize(
    ("script", "flags", "number", "word"),
    [
        pytest.param(FINISH, [], 0, None, id="done"),
        pytest.param(fails("rejected"), [], 1, "task_failed", id="failed"),
        pytest.param(fails("no_model"), [], 1, "task_failed", id="no-such-model"),
        pytest.param(fails("bad_key"), [], 3, "auth_failed", id="bad-key"),
        pytest.param(fails("no_credit"), [], 4, "no_credit", id="no-credit"),
        pytest.param(WRITE + FINISH, ["max"], 4, "limit_reached", id="budget"),
        pytest.param(WRITE * 9, ["-a"], 5, "policy_denied", id="denied"),
        pytest.param(QUESTION + FINISH, ["-a"], 6, "needs_human", id="needs-human"),
        pytest.param("- say: Hm.\n" * 40, [], 0, None, id="text-is-an-answer"),
        pytest.param(fails("empty"), [], 1, "task_failed", id="empty-answers-are-no-stall"),
        pytest.param(LOOK * 40, [], 7, "stalled", id="stalled-in-circles"),
        pytest.param(fails("dropped"), [], 7, "stalled", id="stalled-dropped"),
        pytest.param(fails("keepalive_only"), [], 7, "stalled", id="stalled-silent"),
        pytest.param(fails("busy"), [], 8, "rate_limited", id="rate-limited"),
    ],
)
def test_a_run_ends_with_its_exit_code_and_status(
    rookery: Installed, script: str, flags: list[str], number: int, word: str | None
):
    environ = {"ROOKERY_MAX_REQUESTS": "1"} if flags == ["max"] else {}
    given = [] if environ else flags
    form = ["-p", "--output-format", "json", *given, *rookery.script(script), "go"]
    done = rookery.run(*form, **environ)
    result = json.loads(done.stdout)
    assert (done.returncode, result.get("code")) == (number, word), done.stderr
    assert result["success"] is (number == 0)


def test_a_run_with_only_refused_changes_is_not_a_success(rookery: Installed):
    flags = ["-p", "-a", "--output-format", "json"]
    done = rookery.run(*flags, *rookery.script(WRITE + FINISH), "go")
    assert done.returncode == 5
    why = "Nothing was changed: 1 action was refused (write_to_file). This run is not interactive."
    assert (
        f"{why} To be asked, run it at a terminal without -p. To allow more: --permission-mode."
        in " ".join(done.stderr.split())
    )
    result = json.loads(done.stdout)
    assert (result["success"], result["code"]) == (False, "policy_denied")
    [denial] = result["permission_denials"]
    assert denial["tool_name"] == "write_to_file"
    assert denial["tool_input"] == {"path": "a.txt", "content": "hi"}


def test_a_run_with_some_refused_changes_says_so(rookery: Installed):
    flags = ["-p", "--output-format", "json"]
    grave = "- calls: [{tool: execute_command, arguments: {command: git reset --hard}}]\n"
    done = rookery.run(*flags, *rookery.script(WRITE + grave + FINISH), "go")
    assert done.returncode == 0
    reported = " ".join(done.stderr.split())
    assert "1 action was refused (execute_command). This run is not interactive." in reported
    assert "run it at a terminal without -p to be asked" in reported
    [denial] = json.loads(done.stdout)["permission_denials"]
    assert denial["tool_name"] == "execute_command"


@pytest.mark.parametrize(
    ("arguments", "number", "code", "form"),
    [
        (["--provider", "openai", "go"], 3, "auth_failed", "json"),
        (["--provider", "openai", "go"], 3, "auth_failed", "stream-json"),
        (["--nosuch", "go"], 2, "usage", "json"),
        (["--nosuch", "go"], 2, "usage", "stream-json"),
        (["--cd", "src", "go"], 2, "usage", "json"),
        (["login"], 2, "usage", "json"),
        (["--timeout", "soon", "go"], 2, "usage", "json"),
        (["-c"], 2, "usage", "json"),
    ],
)
def test_a_failure_before_the_start_is_a_result_too(
    arguments: list[str], number: int, code: str, form: str, rookery: Installed
):
    done = rookery.run("-p", f"--output-format={form}", *arguments)
    result = json.loads(done.stdout if form == "json" else done.stdout.splitlines()[-1])
    assert (done.returncode, result["success"], result["code"]) == (number, False, code)
    assert done.stderr == f"Error: {result['error']}\n"
    assert rookery.sessions() == []


def _filled(home: Path) -> None:
    (home / "data").mkdir(parents=True)
    (home / "data" / "tasks").write_text("no folder")


def _closed(home: Path) -> None:
    home.mkdir(mode=0o500)


@pytest.mark.parametrize(("spoil", "form"), [(_filled, "text"), (_closed, "stream-json")])
def test_a_run_that_cannot_be_stored_does_not_start(
    fresh: Installed, spoil: Callable[[Path], None], form: str
):
    spoil(fresh.home)
    done = fresh.run("-p", "--output-format", form, *fresh.script(FINISH), "go")
    assert done.returncode == 9
    first = "The sessions in " if spoil is _filled else "Cannot store anything in "
    assert done.stderr.startswith(f"Error: {first}")
    if done.stdout:
        assert json.loads(done.stdout.splitlines()[-1])["code"] == "storage_failed"


def test_exit_on_error_can_be_a_setting(rookery: Installed):
    script = rookery.script("- fail: {kind: busy, retry_after: 5}\n  say: x\n")
    done = rookery.run("-p", *script, "go", ROOKERY_EXIT_ON_ERROR="true")
    assert done.returncode == 8
