"""Wardens that are forked from a process kept ready."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.errors import ToolError
from rookery.platform.own_programs import own_script
from rookery.platform.wardens import (
    ForkedWardens,
    ForkServer,
    WaitingWarden,
    end_orphans,
    process_state,
)
from rookery.workspace.terminal import Terminal
from support.actions import Unkept

pytestmark = pytest.mark.anyio

QUICK = Limits(command_grace=0.2)
PATIENCE = 60


@pytest.fixture
def wardens() -> Iterator[ForkedWardens]:
    with closing(ForkedWardens()) as wardens:
        yield wardens


@pytest.fixture
def fresh(tmp_path: Path, wardens: ForkedWardens) -> Terminal:
    return Terminal(tmp_path, QUICK, wardens=wardens)


async def run(
    shell: Terminal, command: str, *, cwd: str = "", seconds: float = 30, terminal: bool = False
) -> tuple[int, str, int]:
    """The number of its warden, what it wrote and its exit code."""
    permit = Permit(digest="", command=command, cwd=cwd)
    async with shell.run(permit, seconds=seconds, keep=Unkept(), terminal=terminal) as started:
        text = "".join([piece async for piece in started.output()])
        return started.warden, text, (await started.end()).exit_code


def server(wardens: ForkedWardens) -> int:
    assert wardens.server
    return wardens.server.pid


@pytest.fixture
async def shell(fresh: Terminal) -> Terminal:
    """One that has run a command, so that its fork server runs."""
    await run(fresh, "true")
    return fresh


async def test_one_process_forks_all_wardens_and_they_are_our_children(
    tmp_path: Path, fresh: Terminal, wardens: ForkedWardens
):
    (tmp_path / "inner").mkdir()
    family = "read -r _ _ _ parent _ session _ < /proc/$PPID/stat; echo $parent $session; pwd"
    runs = [await run(fresh, f"{family}; exit 3", cwd="inner") for _ in range(2)]
    for warden, text, code in runs:
        assert (text, code) == (f"{os.getpid()} {warden}\n{tmp_path}/inner\n", 3)
    (first, _, _), (second, _, _) = runs
    assert len({first, second, server(wardens)}) == 3
    assert WaitingWarden.pids == set()


async def test_a_fork_server_knows_nothing_of_ours(
    fresh: Terminal, wardens: ForkedWardens, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("A_SECRET", "x")
    await run(fresh, "true")
    proc = Path(f"/proc/{server(wardens)}")
    # Python itself may have chosen a locale there
    assert b"A_SECRET" not in (proc / "environ").read_bytes()
    assert os.readlink(proc / "cwd") == "/"


async def test_a_command_has_no_file_of_its_warden_and_its_fork_server(shell: Terminal):
    _, text, _ = await run(shell, "ls -l /proc/self/fd | sed -n 's/.* -> //p'")
    places = [each.partition(":")[0] for each in text.splitlines()]
    assert [each for each in places if not each.startswith("/proc/")] == [
        *("/dev/null", "pipe", "pipe")  # the second pipe is the one to sed
    ]


async def test_a_command_gets_the_current_variables(
    shell: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SINCE_THEN", "a=b\nc")
    assert (await run(shell, 'echo "$SINCE_THEN"'))[1] == "a=b\nc\n"


async def test_a_command_gets_a_terminal_from_the_same_server(
    shell: Terminal, wardens: ForkedWardens
):
    before = server(wardens)
    _, text, _ = await run(shell, "test -t 0 && test -t 1 && tty", terminal=True)
    assert text.startswith("/dev/pts/")
    assert server(wardens) == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
async def test_a_server_that_was_killed_costs_no_command(
    shell: Terminal, wardens: ForkedWardens, number: signal.Signals
):
    watched = os.pidfd_open(server(wardens))
    os.kill(server(wardens), number)
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(watched)
    os.close(watched)
    for word in ("first", "second"):
        _, text, code = await run(shell, f"echo {word}")
        assert (text, code) == (f"{word}\n", 0)
    assert wardens.server


async def test_a_server_that_was_stopped_hangs_nothing(shell: Terminal, wardens: ForkedWardens):
    stopped = server(wardens)
    os.kill(stopped, signal.SIGSTOP)
    with anyio.fail_after(PATIENCE):
        assert (await run(shell, "echo ran"))[1] == "ran\n"
    assert str(stopped) not in os.listdir("/proc")


async def test_a_command_that_kills_its_warden_and_the_server_leaves_nothing(
    shell: Terminal, wardens: ForkedWardens
):
    before = server(wardens)
    _, text, _ = await run(
        shell, f"setsid sleep 600 & echo $!; kill -9 {before} $PPID; exec sleep 600"
    )
    assert text.strip() not in os.listdir("/proc")
    assert (await run(shell, "echo ran"))[1] == "ran\n"


async def test_hosts_share_a_server_until_it_breaks_or_the_last_one_closes(
    tmp_path: Path, shell: Terminal, wardens: ForkedWardens
):
    others = ForkedWardens()
    other = Terminal(tmp_path, QUICK, wardens=others)
    await run(other, "true")
    first = server(wardens)
    assert server(others) == first
    os.kill(first, signal.SIGSTOP)
    for each in (shell, other):
        assert (await run(each, "echo ran"))[1] == "ran\n"
        await run(each, "true")
    second = server(wardens)
    assert second == server(others) != first
    wardens.close()
    assert (await run(other, "echo ran"))[1] == "ran\n"
    assert server(others) == second
    others.close()
    assert not {str(first), str(second)} & set(os.listdir("/proc"))


def test_a_late_answer_of_a_server_is_for_no_other_request():
    server = ForkServer()
    with closing(server):
        os.kill(server.pid, signal.SIGSTOP)
        for _ in range(2):
            with pytest.raises(OSError, match=r"timed out|Bad file descriptor"):
                WaitingWarden(server=server)
            os.kill(server.pid, signal.SIGCONT)


async def test_no_process_is_kept_after_closing(shell: Terminal, wardens: ForkedWardens):
    ready = server(wardens)
    wardens.close()
    assert str(ready) not in os.listdir("/proc")
    await run(shell, "true")
    assert wardens.server is None


PRODUCT = """
import signal, sys
sys.path[:0] = {path!r}
from rookery.platform.wardens import ForkServer, WaitingWarden
server = ForkServer()
started = WaitingWarden()  # it ends when nothing holds it any more
forked = WaitingWarden(server=server)
print(server.pid, started.process.pid, forked.process.pid, flush=True)
signal.pause()
"""


async def test_waiting_processes_end_if_rookery_is_killed():
    code = PRODUCT.format(path=sys.path)
    async with await anyio.open_process(
        [sys.executable, "-c", code], stderr=subprocess.DEVNULL
    ) as product:
        try:
            assert product.stdout is not None
            numbers = map(int, (await product.stdout.receive()).split())
            watched = [os.pidfd_open(number) for number in numbers]
        finally:
            product.kill()
    for each in watched:
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(each)
        os.close(each)


async def test_a_command_with_a_megabyte_of_variables_runs(
    fresh: Terminal, monkeypatch: pytest.MonkeyPatch
):
    for number in range(10):
        monkeypatch.setenv(f"LONG_{number}", "x" * 100_000)
    assert (await run(fresh, "echo ${#LONG_0} ${#LONG_9}"))[1] == "100000 100000\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("echo " + "x" * 3_000_000, "Argument list too long", id="too large"),
        pytest.param("echo \0", "cannot be passed to a shell", id="null"),
        pytest.param("echo \ud800", "cannot be passed to a shell", id="half a character"),
    ],
)
async def test_a_command_that_no_system_takes_is_refused_in_a_sentence(
    fresh: Terminal, command: str, words: str
):
    with pytest.raises(ToolError, match=words):
        await run(fresh, command)
    assert (await run(fresh, "echo next"))[1] == "next\n"


async def test_a_folder_that_is_gone_by_then_is_reported(tmp_path: Path):
    (tmp_path / "gone").mkdir()
    warden = WaitingWarden()
    (tmp_path / "gone").rmdir()
    warden.order(["/bin/true"], grace=0.1, folder=tmp_path / "gone", environment={})
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(warden.link)
    assert warden.link.recv(100) == b"failed 2\n"
    warden.dismiss()


# ── compiled scripts ────────────────────────────────────────────────────────────────────


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text("print('as it is')\n")
    return path


def compiled(script: Path, *more: str) -> None:
    subprocess.run([sys.executable, *more, "-m", "compileall", "-q", script], check=True)


def test_a_script_is_run_compiled_if_that_is_up_to_date(script: Path):
    assert own_script(script) == str(script)
    compiled(script)
    assert own_script(script).endswith(".pyc")
    said = subprocess.run([sys.executable, "-I", "-S", own_script(script)], capture_output=True)
    assert said.stdout == b"as it is\n"


def test_a_script_that_was_changed_is_run_as_it_is(script: Path):
    compiled(script)
    script.write_text("print('changed')\n")
    assert own_script(script) == str(script)


def test_nothing_compiled_is_taken_from_elsewhere(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    prefix = str(tmp_path / "cache")
    compiled(script, "-X", f"pycache_prefix={prefix}")
    monkeypatch.setattr(sys, "pycache_prefix", prefix)
    assert own_script(script) == str(script)


async def test_a_warden_that_another_thread_starts_is_no_orphan(wardens: ForkedWardens):
    first = wardens.take(terminal=False)
    now = process_state(first.process.pid)
    first.dismiss()
    assert now  # older children of this process belong to other tests
    alive: list[bool] = []

    def start_some() -> None:
        for _ in range(100):
            warden = wardens.take(terminal=False)
            alive.append(warden.waits)
            warden.dismiss()

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, start_some)
        while len(alive) < 100:
            end_orphans(now.began, WaitingWarden.pids)
            await anyio.lowlevel.checkpoint()
    assert all(alive)
