"""Several `rookery sessions` at once, beside a manager that runs, and after one that was killed."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.manager_project import SPEAKS_LONG, WRITES
from support.sessions_shell import PATIENCE, Shell, opened_shell


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shell]:
    with opened_shell(tmp_path, getattr(request, "param", WRITES)) as shell:
        yield shell


def plays(script: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shell", [script], indirect=True, ids=[""])


def test_commands_at_the_same_time_take_turns_and_none_is_lost(shell: Shell):
    commands = [shell.begin("start", "Do it", "--json") for _ in range(3)]
    told = [(each.communicate(timeout=PATIENCE), each.returncode) for each in commands]
    assert [(code, err) for (_, err), code in told] == [(0, "")] * 3
    started = {json.loads(out)["session_ids"][0] for (out, _), _ in told}
    assert len(started) == 3
    assert shell.run("wait", *started)[0] == 0
    assert set(shell.states()) == started


@plays(SPEAKS_LONG)
def test_while_a_session_is_followed_others_reach_the_manager(shell: Shell):
    session_id = shell.start()
    with shell.begin("follow", session_id) as follower:
        assert follower.stdout
        assert follower.stdout.readline() == "\n"
        assert shell.states() == {session_id: "streaming"}
        assert shell.run("cancel", session_id) == (0, f"Stopped {session_id[:8]}.\n", "")
        assert "is stopped" in follower.stdout.read()
        assert follower.wait(PATIENCE) == 1


@plays(SPEAKS_LONG)
def test_two_follow_and_one_goes_on_when_the_other_is_killed(shell: Shell):
    session_id = shell.start()
    with shell.begin("follow", session_id) as first, shell.begin("follow", session_id) as second:
        for each in (first, second):
            assert each.stdout
            assert each.stdout.readline() == "\n"
        first.kill()
        first.wait(PATIENCE)
        assert shell.run("cancel", session_id)[0] == 0
        assert second.stdout
        told = second.stdout.read()
        assert "is stopped" in told
        assert "> Do it" in told
        assert told.count("Do it") == 1
        assert second.wait(PATIENCE) == 1


@plays(SPEAKS_LONG)
def test_whoever_follows_goes_on_when_the_manager_is_killed(shell: Shell):
    with shell.manager() as manager:
        session_id = shell.start()
        with shell.begin("follow", session_id) as follower:
            assert follower.stdout
            assert follower.stdout.readline() == "\n"
            manager.kill()
            manager.wait(PATIENCE)
            assert shell.run("cancel", session_id)[0] == 0
            assert "is stopped" in follower.stdout.read()
            assert follower.wait(PATIENCE) == 1


def test_a_command_goes_through_a_manager_that_runs(shell: Shell):
    with shell.manager() as manager:
        session_id = shell.start("--ask")
        assert shell.run("wait", session_id)[0] == 6
        assert shell.run("approve", session_id)[0] == 0
        assert shell.run("wait", session_id)[0] == 0
        assert manager.poll() is None
    assert (shell.path / "made.txt").exists()


def test_a_manager_that_was_killed_is_in_nobodys_way(shell: Shell):
    with shell.manager() as manager:
        session_id = shell.start("--ask")
        assert shell.run("wait", session_id)[0] == 6
        manager.kill()
        manager.wait(PATIENCE)
    socket = next((shell.folder / "home").rglob("manager.sock"))
    assert socket.is_socket()
    assert shell.states() == {session_id: "waiting_approval"}
    assert shell.run("approve", session_id)[0] == 0
    assert shell.run("wait", session_id)[0] == 0


@plays(SPEAKS_LONG)
def test_whoever_has_seen_enough_leaves_and_the_session_goes_on(shell: Shell):
    session_id = shell.start()
    with shell.begin("follow", session_id) as follower:
        assert follower.stdout
        assert follower.stderr
        assert follower.stdout.readline() == "\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(PATIENCE) == 130
        assert follower.stderr.read() == ""
    assert shell.states() == {session_id: "streaming"}


def test_a_reader_that_leaves_is_no_error(shell: Shell):
    session_id = shell.start("--ask")
    with shell.begin("follow", session_id) as follower:
        assert follower.stdout
        assert follower.stderr
        follower.stdout.close()
        assert follower.wait(PATIENCE) == 0
        assert follower.stderr.read() == ""
