"""What a run leaves that was killed at once, and what the next one makes of it."""

from pathlib import Path

from llm_server import LlmServer, finish, gate
from support.terminal_session import Installed


def test_leftovers_of_an_ephemeral_run_are_removed_by_the_next_run(
    rookery: Installed, tmp_path: Path
):
    def left() -> list[Path]:
        return list(scratch.glob("rookery-*/data/tasks"))

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with LlmServer([gate(), finish()]) as server:
        at = ["--provider", "anthropic", "-m", "claude-opus-5", "--base-url", server.url]
        rookery.environ["TMPDIR"] = str(scratch)
        with rookery.piped("-p", "--ephemeral", *at, "go") as run:
            run.stdin.close()
            assert run.stderr.readline().startswith(b"rookery ")
            run.kill()
        assert len(left()) == 1
    finishes = rookery.script("- calls: [{tool: attempt_completion, arguments: {result: One.}}]")
    done = rookery.run("-p", *finishes, "go")
    assert done.returncode == 0, done.stderr
    assert left() == []


def test_sandbox_leftovers_of_a_killed_run_are_removed_by_the_next_run(
    rookery: Installed, tmp_path: Path
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    waits = rookery.script(
        "- calls:\n"
        "  - {tool: execute_command, arguments: {command: sleep 30, cwd: null, timeout: null}}\n"
    )
    rookery.environ["TMPDIR"] = str(scratch)
    with rookery.piped("-p", *waits, "go") as run:
        run.stdin.close()
        assert any(b"sleep 30" in line for line in run.stderr)
        run.kill()
    assert list(scratch.glob("rookery-*"))
    finishes = rookery.script("- calls: [{tool: attempt_completion, arguments: {result: One.}}]")
    done = rookery.run("-p", *finishes, "go")
    assert done.returncode == 0, done.stderr
    assert list(scratch.glob("rookery-*")) == []
