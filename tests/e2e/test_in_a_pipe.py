"""The command as programs and scripts use it: flags, pipes, signals and exit codes."""

import json
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from llm_server import LlmServer, Recorded, call, finish, gate, say
from support.model_words import FINISHES, LOOK, shell
from support.terminal_session import COMMAND, PATIENCE, Installed, at

ONE_ID = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"


def first_words(request: Recorded) -> str:
    return json.dumps(request.body["messages"][0], ensure_ascii=False)


def test_print_runs_without_questions_and_prints_only_the_result(rookery: Installed):
    rookery.environ["ROOKERY_SANDBOX_NETWORK"] = "on"  # no note where there is no namespace
    with LlmServer([say("I will."), shell("touch made")], [finish("It is made.")]) as server:
        done = rookery.run("-p", *at(server), "make", "it")
    assert (done.returncode, done.stdout) == (0, "It is made.\n")
    assert "auto-approve\nI will.\n● Run touch made\n" in done.stderr
    assert (rookery.workspace / "made").exists()
    assert "make it" in first_words(server.requests[0])


def test_the_prompt_comes_from_a_file_or_a_pipe(rookery: Installed):
    (rookery.workspace / "prompt.txt").write_text("from a file: grüße\n", encoding="utf-8")
    with LlmServer([finish()], [finish()], [finish()]) as server:
        filed = rookery.run("-p", *at(server), "--prompt-file", "prompt.txt")
        piped = rookery.run("-p", *at(server), input="from a pipe: grüße\n")
        broken = rookery.run("-p", *at(server), input=b"caf\xe9")
    assert [filed.returncode, piped.returncode, broken.returncode] == [0, 0, 0]
    assert "from a file: grüße" in first_words(server.requests[0])
    assert "from a pipe: grüße" in first_words(server.requests[1])
    assert "caf\ufffd" in first_words(server.requests[2])


def test_piped_text_is_added_to_the_prompt(rookery: Installed):
    with LlmServer([finish()]) as server:
        rookery.run("-p", *at(server), "why does it fail?", input="Error: no such host\n")
    words = first_words(server.requests[0])
    assert "why does it fail?" in words
    assert "<piped_text>\\nError: no such host" in words
    assert rookery.run("list").stdout.endswith("\twhy does it fail?\n")


def test_an_open_pipe_without_input_does_not_stop_a_run(rookery: Installed):
    with rookery.piped("-p", *rookery.script(FINISHES), "go on") as process:
        assert process.wait(PATIENCE) == 0
        assert process.stdin
        assert not process.stdin.closed


def test_the_list_that_a_loop_reads_is_left_alone(rookery: Installed):
    script = " ".join(rookery.script(FINISHES))
    loop = f'printf "a\\nb\\n" | while read name; do {COMMAND} -p {script} "fix $name"; done'
    done = subprocess.run(
        ["sh", "-c", loop],
        cwd=rookery.workspace,
        env=rookery.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == "One.\nOne.\n"
    assert "note: Standard input was not read, because the calling script uses it too." in (
        done.stderr
    )


LOOP = """
import subprocess, sys
lines = open(0, "rb", buffering=0)
while line := lines.readline():
    subprocess.run([*sys.argv[1:], line])
"""


def test_the_lines_that_a_program_reads_are_left_alone(rookery: Installed):
    """Any program that has the same input may be a loop over its lines."""
    names = rookery.workspace / "names"
    names.write_text("a\nb\n", encoding="utf-8")
    with names.open("rb") as given:
        done = subprocess.run(
            [sys.executable, "-c", LOOP, *COMMAND.split(), "-p", *rookery.script(FINISHES)],
            cwd=rookery.workspace,
            env=rookery.environ,
            stdin=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.stdout == "One.\nOne.\n"


def test_input_that_does_not_end_is_announced_and_limited(rookery: Installed):
    script = rookery.script(FINISHES)
    with rookery.piped("-p", *script, "go on") as process:
        assert process.stdin
        process.stdin.write(b"text\n")
        process.stdin.flush()
        assert process.stderr
        assert process.stderr.readline() == b"note: Waiting for the end of standard input.\n"
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    much = rookery.run("-p", *script, "go on", input="x" * (33 << 20))
    assert much.returncode == 2
    assert "Standard input has more than 32 MiB." in much.stderr


def test_workspace_model_and_mode_can_be_chosen(rookery: Installed, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    with LlmServer([call("write_to_file", path="made", content="x")], [finish()]) as server:
        done = rookery.run(
            "-py", *at(server), "-m", "claude-y", "-w", str(other), "--mode", "debug", "go"
        )
    assert done.returncode == 0
    assert (other / "made").exists()
    assert server.requests[0].body["model"] == "claude-y"
    assert rookery.sessions() == []
    [session] = json.loads(rookery.run("list", "--all", "--format", "json").stdout)["sessions"]
    assert (session["workspace"], session["mode"]) == (str(other), "debug")


def test_a_session_continues_by_its_id_only_in_its_own_workspace(
    rookery: Installed, tmp_path: Path
):
    script = rookery.script(FINISHES * 2)
    first = rookery.run("-p", "--create-with-session-id", ONE_ID, *script, "go")
    again = rookery.run("-p", "--create-with-session-id", ONE_ID, *script, "go")
    elsewhere = rookery.run("-p", "-w", str(tmp_path), "--session-id", ONE_ID, *script, "more")
    more = rookery.run("-p", "--session-id", ONE_ID, *script, "and more")
    assert (first.returncode, more.returncode) == (0, 0)
    assert (again.returncode, elsewhere.returncode) == (2, 2)
    assert again.stderr == (
        f"Error: Session {ONE_ID} already exists. Continue it with --session-id {ONE_ID}.\n"
    )
    assert f"belongs to {rookery.workspace}. Continue it there, or with -w" in elsewhere.stderr
    assert [session["id"] for session in rookery.sessions()] == [ONE_ID]


def test_continue_resumes_the_last_session(rookery: Installed):
    nothing = rookery.run("-p", "-c", *rookery.script("[]"))
    assert nothing.returncode == 2
    assert nothing.stderr.startswith("Error: No session to continue in ")
    with LlmServer([say("Let me think ", gate())]) as server:
        done = rookery.run("-p", "--timeout", "0.5", *at(server), "go")
    assert (done.returncode, done.stdout) == (124, "Let me think\n")
    assert "The time given with --timeout is up.\nContinue with: rookery " in done.stderr
    assert rookery.sessions()[0]["id"] in done.stderr
    with LlmServer([finish("One.")], [finish("Two.")]) as server:
        unfinished = rookery.run("-p", "-c", *at(server))
        completed = rookery.run("-p", "-c", *at(server))  # repeats its result
        reported = rookery.run("-p", "-c", *at(server), "and now the docs")
    assert (unfinished.returncode, unfinished.stdout) == (0, "One.\n")
    assert (completed.returncode, completed.stdout) == (0, "One.\n")
    assert (reported.returncode, reported.stdout) == (0, "Two.\n")
    assert "and now the docs" in json.dumps(server.requests[1].body["messages"])
    assert len(rookery.sessions()) == 1


def test_an_ephemeral_run_leaves_nothing_behind(fresh: Installed):
    write = "- calls: [{tool: write_to_file, arguments: {path: a.txt, content: hi}}]\n"
    run = "- calls: [{tool: execute_command, arguments: {command: touch made}}]\n"
    script = fresh.script(write + run + FINISHES)
    done = fresh.run("-p", "-y", "--ephemeral", *script, "go")
    assert (done.returncode, done.stdout) == (0, "One.\n")
    assert {file.name for file in fresh.workspace.iterdir()} == {"a.txt", "made"}
    assert not fresh.home.exists()
    assert fresh.sessions() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_at_once_and_keeps_the_task(
    rookery: Installed, number: signal.Signals, code: int
):
    waiting = gate()
    flags = ["-p", "--output-format", "json"]
    with (
        LlmServer([say("Let me think ", waiting)]) as server,
        rookery.piped(*flags, *at(server), "go") as process,
    ):
        process.stdin.close()
        waiting.wait_until_reached()
        process.send_signal(number)
        out, err = process.stdout.read(), process.stderr.read()
        assert (process.wait(PATIENCE), err) == (code, b"")
    assert json.loads(out)["code"] == "task_aborted"
    assert len(rookery.sessions()) == 1


def test_a_hangup_is_ignored_if_the_parent_ignores_it(rookery: Installed):
    waiting = gate()
    with LlmServer([say("Let me think ", waiting), finish("Done.")]) as server:
        process = subprocess.Popen(
            ["nohup", COMMAND, "-p", *at(server), "go"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=rookery.workspace,
            env=rookery.environ,
        )
        waiting.wait_until_reached()
        process.send_signal(signal.SIGHUP)
        waiting.open()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, b"Done.\n")


def test_the_debug_log_contains_no_key(rookery: Installed):
    key = f"sk-ant-{uuid.uuid4().hex}"
    with LlmServer([say("Hello."), LOOK], [finish()]) as server:
        done = rookery.run("-p", "-d", *at(server), "go", ANTHROPIC_API_KEY=key)
    assert done.returncode == 0
    file = rookery.home / "state" / "debug.log"
    assert file.stat().st_mode & 0o077 == 0
    log = file.read_text(encoding="utf-8")
    assert "[Facts] TaskOpened: " in log
    assert "[State] " in log
    assert server.requests[0].headers["x-api-key"] == key
    for file in rookery.home.rglob("*"):
        assert not file.is_file() or key.encode() not in file.read_bytes()


def test_the_demo_repairs_its_repository(fresh: Installed):
    done = fresh.run("demo", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0
    assert "FAILED (failures=2)" in done.stdout
    assert "● Edit prices.py (+2 −2)\n" in done.stdout
    assert "The tests pass. The repository was removed.\n" in done.stdout
    assert not fresh.home.exists()
