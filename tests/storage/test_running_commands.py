import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.engine.ports.actions import Permit
from rookery.errors import StorageError
from rookery.platform.user_folders import find_places
from rookery.storage.running_commands import CommandRegistry, ListedCommand

WARDEN = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def look(*_):
    print("kept by", signal.sigtimedwait([signal.SIGUSR1], 0).si_pid, flush=True)
signal.signal(signal.SIGUSR2, look)
print("up", flush=True)
while True:
    time.sleep(60)
"""


class Running:
    """A command as the list sees it."""

    pid = 1
    kept = False

    def __init__(self, warden: int) -> None:
        self.warden = warden


@pytest.fixture
def commands(tmp_path: Path) -> CommandRegistry:
    return CommandRegistry(find_places({"ROOKERY_HOME": str(tmp_path / "home")}).running)


@pytest.fixture
def warden() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen([sys.executable, "-c", WARDEN], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout
        assert it.stdout.readline() == "up\n"
        yield it
        it.kill()


def enter(commands: CommandRegistry, warden: int, command: str = "make") -> ListedCommand:
    of_task = commands.of("t1", Path("/srv"))
    permit = Permit(digest="", command=command, cwd="sub")
    of_task.enter(Running(warden), call_id="c1", permit=permit, state="running")  # type: ignore[arg-type]
    [listed] = commands.all()
    return listed


def test_a_command_is_listed_until_it_leaves(
    commands: CommandRegistry, warden: "subprocess.Popen[str]", tmp_path: Path
):
    assert commands.all() == []
    assert not (tmp_path / "home").exists()
    running, of_task = Running(warden.pid), commands.of("t1", Path("/srv"))
    permit = Permit(digest="", command="make\udcff", cwd="sub")
    of_task.enter(running, call_id="c1", permit=permit, state="running")  # type: ignore[arg-type]
    [listed] = commands.all()
    assert listed == ListedCommand(
        id=warden.pid,
        born=listed.born,
        task_id="t1",
        call_id="c1",
        command="make\ufffd",
        folder="/srv/sub",
        state="running",
        started=listed.started,
    )
    of_task.enter(running, call_id="c1", permit=permit, state="background")  # type: ignore[arg-type]
    assert commands.all() == [replace(listed, state="background")]
    [file] = (tmp_path / "home" / "state" / "running").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    of_task.leave(running)  # type: ignore[arg-type]
    assert commands.all() == []
    assert not file.exists()


def test_a_dead_command_is_not_listed_and_is_removed(
    commands: CommandRegistry, warden: "subprocess.Popen[str]", tmp_path: Path
):
    listed = enter(commands, warden.pid)
    commands.put(replace(listed, id=os.getpid()))  # the PID was reused
    warden.kill()
    os.waitid(os.P_PID, warden.pid, os.WEXITED | os.WNOWAIT)  # dead, if not buried
    assert commands.all() == []
    assert list((tmp_path / "home" / "state" / "running").iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"id": 1}', b"\xff", b"9" * 5000])
def test_a_damaged_file_is_not_listed(commands: CommandRegistry, tmp_path: Path, data: bytes):
    folder = tmp_path / "home" / "state" / "running"
    folder.mkdir(parents=True)
    (folder / "12.json").write_bytes(data)
    assert commands.all() == []


def test_a_command_is_ended_by_its_warden(
    commands: CommandRegistry, warden: "subprocess.Popen[str]"
):
    listed = enter(commands, warden.pid)
    commands.stop(listed)
    assert warden.wait() == -signal.SIGTERM
    assert commands.all() == []
    with pytest.raises(StorageError, match=f"Command {warden.pid} has already ended."):
        commands.stop(listed)


def test_a_process_with_a_reused_pid_is_not_signalled(
    commands: CommandRegistry, warden: "subprocess.Popen[str]"
):
    listed = enter(commands, warden.pid)
    for act in (commands.stop, commands.keep):
        with pytest.raises(StorageError, match="has already ended"):
            act(replace(listed, born=listed.born - 1))
    assert warden.poll() is None


def test_a_command_is_kept(commands: CommandRegistry, warden: "subprocess.Popen[str]"):
    commands.keep(enter(commands, warden.pid))
    assert warden.stdout
    assert warden.stdout.readline() == f"kept by {os.getpid()}\n"
    assert [command.state for command in commands.all()] == ["kept"]


def test_a_list_that_cannot_be_written_stops_nothing(tmp_path: Path):
    (tmp_path / "file").write_text("")
    commands = CommandRegistry(tmp_path / "file" / "running")
    of_task = commands.of("t1", tmp_path)
    running = Running(os.getpid())
    of_task.enter(running, call_id="c1", permit=Permit(digest=""), state="running")  # type: ignore[arg-type]
    of_task.leave(running)  # type: ignore[arg-type]
    assert commands.all() == []
