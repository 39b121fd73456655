"""Wardens that are started before their command is known."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.errors import ToolError
from rookery.platform.own_programs import own_script
from rookery.platform.wardens import WaitingWarden, WardensInAdvance
from rookery.workspace.terminal import Terminal
from support.actions import Unkept

pytestmark = pytest.mark.anyio

QUICK = Limits(command_grace=0.2)
PATIENCE = 60


@pytest.fixture
def wardens() -> Iterator[WardensInAdvance]:
    with closing(WardensInAdvance()) as wardens:
        yield wardens


@pytest.fixture
def fresh(tmp_path: Path, wardens: WardensInAdvance) -> Terminal:
    return Terminal(tmp_path, QUICK, wardens=wardens)


async def run(
    shell: Terminal, command: str, *, cwd: str = "", seconds: float = 30, terminal: bool = False
) -> tuple[int, str, int]:
    """The number of its warden, what it wrote and its exit code."""
    permit = Permit(digest="", command=command, cwd=cwd)
    async with shell.run(permit, seconds=seconds, keep=Unkept(), terminal=terminal) as started:
        text = "".join([piece async for piece in started.output()])
        return started.warden, text, (await started.end()).exit_code


def waiting() -> set[int]:
    """The wardens that are ours and have no command."""
    return set(WaitingWarden.pids)


@pytest.fixture
async def shell(fresh: Terminal) -> Terminal:
    """One that has run two commands, so that a warden waits for the third."""
    for _ in range(2):
        await run(fresh, "true")
    return fresh


async def test_the_second_command_has_a_warden_wait_for_the_third(tmp_path: Path, fresh: Terminal):
    (tmp_path / "inner").mkdir()
    await run(fresh, "true")
    assert waiting() == set()
    second, _, _ = await run(fresh, "true")
    (spare,) = waiting()
    assert spare != second
    assert await run(fresh, "pwd; exit 3", cwd="inner") == (spare, f"{tmp_path}/inner\n", 3)


async def test_a_warden_that_waits_knows_nothing_of_ours(
    tmp_path: Path, fresh: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("A_SECRET", "x")
    for _ in range(2):
        await run(fresh, "true")
    (spare,) = waiting()
    proc = Path(f"/proc/{spare}")
    # Python itself may have chosen a locale there
    assert b"A_SECRET" not in (proc / "environ").read_bytes()
    assert (os.readlink(proc / "cwd"), os.getsid(spare)) == ("/", spare)


async def test_a_command_gets_the_variables_of_its_own_time(
    shell: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SINCE_THEN", "a=b\nc")
    assert (await run(shell, 'echo "$SINCE_THEN"'))[1] == "a=b\nc\n"


async def test_a_command_on_a_terminal_does_not_get_the_one_for_a_pipe(shell: Terminal):
    spare = waiting()
    warden, text, _ = await run(shell, "test -t 1 && echo yes", terminal=True)
    assert (text.strip(), waiting()) == ("yes", spare)
    assert warden not in spare


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
async def test_one_that_was_killed_while_it_waited_is_replaced(
    shell: Terminal, number: signal.Signals
):
    (spare,) = waiting()
    watched = os.pidfd_open(spare)
    os.kill(spare, number)
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(watched)
    os.close(watched)
    warden, text, code = await run(shell, "echo ran")
    assert (warden != spare, text, code) == (True, "ran\n", 0)


async def test_one_that_was_stopped_costs_its_command_but_hangs_nothing(shell: Terminal):
    (spare,) = waiting()
    os.kill(spare, signal.SIGSTOP)
    with anyio.fail_after(PATIENCE), pytest.raises(ToolError, match="could not be started"):
        await run(shell, "echo never", seconds=0.3)
    assert spare not in WaitingWarden.pids


async def test_no_process_is_kept_waiting_after_closing(shell: Terminal, wardens: WardensInAdvance):
    (spare,) = waiting()
    wardens.close()
    assert waiting() == set()
    assert str(spare) not in os.listdir("/proc")
    await run(shell, "true")
    assert waiting() == set()


PRODUCT = """
import signal, sys
sys.path[:0] = {path!r}
from rookery.platform.wardens import WaitingWarden
warden = WaitingWarden()  # it ends when nothing holds it any more
print(warden.process.pid, flush=True)
signal.pause()
"""


async def test_one_that_waits_ends_with_a_product_that_is_killed():
    code = PRODUCT.format(path=sys.path)
    async with await anyio.open_process(
        [sys.executable, "-c", code], stderr=subprocess.DEVNULL
    ) as product:
        try:
            assert product.stdout is not None
            watched = os.pidfd_open(int(await product.stdout.receive()))
        finally:
            product.kill()
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(watched)
    os.close(watched)


async def test_a_command_with_more_words_than_a_socket_holds_is_run(
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
