"""Several `rookery sessions` at once, with a running manager and after a killed one."""

import json
import signal

from support.manager_project import SPEAKS_LONG
from support.sessions_shell import PATIENCE, Shell


def test_concurrent_commands_all_succeed(shell: Shell):
    commands = [shell.begin("start", "Do it", "--json") for _ in range(3)]
    reported = [(each.communicate(timeout=PATIENCE), each.returncode) for each in commands]
    assert [(code, err) for (_, err), code in reported] == [(0, "")] * 3
    started = {json.loads(out)["session_ids"][0] for (out, _), _ in reported}
    assert len(started) == 3
    assert shell.run("wait", *started)[0] == 0
    assert set(shell.states()) == started


def test_several_followers_and_commands_do_not_disturb_each_other(shell: Shell):
    shell.plays(SPEAKS_LONG)
    session_id = shell.start()
    with (
        shell.begin("follow", session_id) as first,
        shell.begin("follow", session_id) as second,
        shell.begin("follow", session_id) as third,
    ):
        received = {}
        for each in (first, second, third):
            assert each.stdout
            received[each] = ""
            while received[each].count("word") < 5:
                received[each] += each.stdout.read(1)
            assert received[each].startswith("\n> Do it\n\nword word ")
        first.send_signal(signal.SIGINT)  # a follower may leave at any time
        assert first.wait(PATIENCE) == 130
        assert first.stderr
        assert first.stderr.read() == ""
        second.kill()
        second.wait(PATIENCE)
        assert shell.states() == {session_id: "streaming"}
        assert shell.run("cancel", session_id) == (0, f"Stopped {session_id[:8]}.\n", "")
        assert third.stdout
        reported = received[third] + third.stdout.read()
        assert "is stopped" in reported
        assert reported.count("Do it") == 1
        assert third.wait(PATIENCE) == 1


def test_commands_use_a_running_manager_and_work_after_it_is_killed(shell: Shell):
    with shell.manager() as manager:
        asking = shell.start("--ask")
        assert shell.run("wait", asking)[0] == 6
        shell.plays(SPEAKS_LONG)
        speaking = shell.start()
        assert manager.poll() is None
        with shell.begin("follow", speaking) as follower:
            assert follower.stdout
            assert follower.stdout.readline() == "\n"
            manager.kill()
            manager.wait(PATIENCE)
            assert next((shell.folder / "home").rglob("manager.sock")).is_socket()
            assert shell.run("cancel", speaking)[0] == 0
            assert "is stopped" in follower.stdout.read()
            assert follower.wait(PATIENCE) == 1
    assert shell.states() == {asking: "waiting_approval", speaking: "stopped"}
    assert shell.run("approve", asking)[0] == 0
    assert shell.run("wait", asking)[0] == 0


def test_a_closed_output_pipe_is_not_an_error(shell: Shell):
    session_id = shell.start("--ask")
    with shell.begin("follow", session_id) as follower:
        assert follower.stdout
        assert follower.stderr
        follower.stdout.close()
        assert follower.wait(PATIENCE) == 0
        assert follower.stderr.read() == ""
