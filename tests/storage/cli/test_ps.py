"""`rookery ps`: the commands that run, for people and for scripts."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_commands import ps_command
from rookery.storage.running_commands import CommandRegistry, ListedCommand


@pytest.fixture
def commands() -> CommandRegistry:
    return CommandRegistry(find_places(os.environ).running)


@pytest.fixture
def listed(commands: CommandRegistry) -> Iterator[ListedCommand]:
    """A process that is in the list."""
    with subprocess.Popen(["sleep", "60"]) as process:
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            born = int(file.read().rpartition(")")[2].split()[19])
        one = ListedCommand(
            id=process.pid,
            born=born,
            task_id="0123456789abcdef",
            call_id="c1",
            command="npm run dev\n# \x1b[31m",
            folder="/srv/web",
            state="background",
            started=0,
        )
        commands.put(one)
        yield one
        process.kill()


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str) -> str:
        code = ps_command.main(
            list(arguments), standalone_mode=False, help_option_names=["-h", "--help"]
        )
        assert code == 0
        return capsys.readouterr().out

    return call


def test_ps_reports_that_no_commands_run(printed):
    assert printed() == "No command is running.\n"
    assert json.loads(printed("--json")) == {"commands": []}
    assert printed("--stop", "all") == "Ended 0 commands.\n"


def test_each_command_is_a_line(printed, listed: ListedCommand):
    row, _, hint = printed().splitlines()
    assert row == (f"{listed.id}  01234567  1970-01-01  background  /srv/web  npm run dev # ␛[31m")
    assert hint == "End one with: rookery ps --stop ID"


def test_json_output_is_one_object(printed, listed: ListedCommand):
    assert json.loads(printed("--json")) == {
        "commands": [
            {
                "id": listed.id,
                "session": "0123456789abcdef",
                "callId": "c1",
                "command": "npm run dev\n# \x1b[31m",
                "folder": "/srv/web",
                "state": "background",
                "ts": 0,
            }
        ]
    }


@pytest.mark.parametrize("which", ["its id", "all"])
def test_a_command_is_ended(printed, listed: ListedCommand, which: str):
    wanted = "all" if which == "all" else str(listed.id)
    assert printed("--stop", wanted) == "Ended 1 command.\n"
    assert printed() == "No command is running.\n"


@pytest.mark.parametrize("given", ["", "0", "1", "-1", "x", "al"])
def test_a_command_that_is_not_listed_is_not_ended(printed, listed: ListedCommand, given: str):
    with pytest.raises(SettingsError, match="is running"):
        printed("--stop", given)


def test_a_command_is_kept(printed, commands: CommandRegistry):
    code = (
        "import signal; [signal.signal(number, signal.SIG_IGN) for number in (10, 12)]; "
        "print(); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            born = int(file.read().rpartition(")")[2].split()[19])
        commands.put(
            ListedCommand(
                id=process.pid,
                born=born,
                task_id="t1",
                call_id="c1",
                command="x",
                folder="/",
                state="background",
                started=0,
            )
        )
        assert f"rookery ps --stop {process.pid}" in printed("--keep", str(process.pid))
        assert json.loads(printed("--json"))["commands"][0]["state"] == "kept"
        process.kill()
