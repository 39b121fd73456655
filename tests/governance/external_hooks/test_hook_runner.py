"""Hooks as processes: every one ends and leaves nothing behind."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from rookery.governance.external_hooks import hook_runner
from rookery.governance.external_hooks.hook_answers import HookRun
from rookery.governance.external_hooks.hook_config import HookCommand, HookEvent
from rookery.governance.external_hooks.hook_runner import CAPTURE, FLOOD, MAX_CONCURRENT, HookRunner
from support.warm_programs import start_program

pytestmark = pytest.mark.anyio

LARGE = json.dumps({"tool_input": {"content": "x" * 3_000_000}}).encode()
"""Many times what a pipe holds."""


@pytest.fixture
def runner(tmp_path: Path) -> HookRunner:
    return HookRunner(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def hook(command: str, *args: str, seconds: float = 30.0, **env: str) -> HookCommand:
    return HookCommand(
        event=HookEvent.PRE_TOOL_USE,
        name="tried",
        command=command,
        args=args or None,
        timeout=seconds,
        env=tuple(env.items()),
    )


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


async def until(what: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not what():  # noqa: ASYNC110 (another process makes it so)
            await anyio.sleep(0.01)


async def test_the_whole_input_arrives_and_ends(runner: HookRunner):
    script = "import json,sys; print(len(json.load(sys.stdin)['tool_input']['content']))"
    run = await runner.run(hook(sys.executable, "-c", script), LARGE)
    assert (run.status, run.stdout, run.stderr) == (0, "3000000\n", "")


@pytest.mark.parametrize(
    "command", ["exit 0", "exec <&-; sleep 0.1; exit 0", "head -c 10 >/dev/null"]
)
async def test_a_hook_that_does_not_read_its_input_blocks_nothing(runner: HookRunner, command: str):
    run = await runner.run(hook(command), LARGE)
    assert (run.status, run.timed_out, run.trouble) == (0, False, "")


async def test_both_streams_are_kept_apart(runner: HookRunner):
    run = await runner.run(hook("echo out; echo err >&2; exit 3"), b"{}")
    assert (run.status, run.stdout, run.stderr) == (3, "out\n", "err\n")


async def test_the_last_output_of_a_hook_is_read(runner: HookRunner):
    script = "import os; os.write(1, b'x' * 60_000); os.write(2, b'y' * 60_000); os._exit(0)"
    lengths: list[tuple[int, int]] = []

    async def run() -> None:
        run = await runner.run(hook(sys.executable, "-I", "-S", "-c", script), b"{}")
        lengths.append((len(run.stdout), len(run.stderr)))

    async with anyio.create_task_group() as group:
        for _ in range(MAX_CONCURRENT):
            group.start_soon(run)
    assert lengths == [(60_000, 60_000)] * MAX_CONCURRENT


async def test_one_mebibyte_of_each_stream_is_kept(runner: HookRunner):
    much = "head -c 5000000 /dev/zero | tr '\\0' x"
    run = await runner.run(hook(f"{much}; {much} >&2"), b"{}")
    assert run.status == 0
    assert (len(run.stdout), len(run.stderr)) == (CAPTURE, CAPTURE)
    assert run.cut


async def test_a_hook_that_floods_its_output_is_ended_early(runner: HookRunner):
    run = await runner.run(hook("yes", seconds=600), b"{}")
    assert f"more than {FLOOD // 1024 // 1024} MiB" in run.trouble
    assert len(run.stdout) == CAPTURE


async def test_a_hook_that_times_out_is_terminated_and_its_output_kept(
    runner: HookRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A hook that ends on request is not waited for any longer."""
    monkeypatch.setattr(hook_runner, "GRACE", 600.0)
    runs: dict[str, HookRun] = {}

    async def run(name: str, command: str) -> None:
        runs[name] = await runner.run(hook(command, seconds=1), b"{}")

    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            group.start_soon(run, "hangs", "echo $$ > pid; echo so far; exec sleep 900")
            bye = "trap 'echo bye; exit 3' TERM; while :; do sleep 0.05; done"
            group.start_soon(run, "says bye", bye)
    assert runs["hangs"].timed_out
    assert runs["hangs"].stdout == "so far\n"
    assert not alive(int((tmp_path / "pid").read_text()))
    last = runs["says bye"]
    assert (last.timed_out, last.stdout, last.status) == (True, "bye\n", 3)


async def test_a_hook_that_ignores_termination_is_killed(
    runner: HookRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hook_runner, "GRACE", 0.2)
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    run = await runner.run(hook(command, seconds=1), b"{}")
    assert run.timed_out
    assert not alive(int((tmp_path / "pid").read_text()))


STAYS = "sh -c 'echo $$ > pid; exec sleep 600'"
UNTIL_PID = "while [ ! -s pid ]; do sleep 0.01; done"


@pytest.mark.parametrize("way", [f"{STAYS} &", f"setsid {STAYS} &", f"(setsid {STAYS} &)"])
async def test_nothing_outlives_a_hook(runner: HookRunner, tmp_path: Path, way: str):
    command = f"{way}\n{UNTIL_PID}; echo done"
    run = await runner.run(hook(command), b"{}")
    assert (run.status, run.stdout) == (0, "done\n")
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_a_hook_that_kills_its_warden_is_not_waited_for(runner: HookRunner, tmp_path: Path):
    with anyio.fail_after(60) as time:
        run = await runner.run(hook(f"setsid {STAYS} & {UNTIL_PID}; kill -9 $PPID"), b"{}")
    assert not time.cancel_called
    assert run.status is None
    assert not alive(int((tmp_path / "pid").read_text()))


ANOTHER = """
import anyio, sys
from pathlib import Path
from rookery.governance.external_hooks.hook_config import HookCommand, HookEvent
from rookery.governance.external_hooks.hook_runner import HookRunner
command = "echo $$ > pid; exec sleep 600"
hook = HookCommand(event=HookEvent.STOP, name="x", command=command)
anyio.run(HookRunner(Path(sys.argv[1])).run, hook, b"{}")
"""


async def test_a_hook_dies_with_the_product(root: Path):
    pid = root / "pid"
    with start_program(ANOTHER, str(root)) as product:
        await until(lambda: pid.exists() and bool(pid.read_text().strip()))
        product.kill()
    await until(lambda: not alive(int(pid.read_text())))


async def test_a_cancelled_hook_is_ended(runner: HookRunner, tmp_path: Path):
    async with anyio.create_task_group() as group:
        group.start_soon(runner.run, hook("echo $$ > pid; exec sleep 600"), LARGE)
        pid = tmp_path / "pid"
        await until(lambda: pid.exists() and bool(pid.read_text().strip()))
        group.cancel_scope.cancel()
    assert not alive(int(pid.read_text()))


async def test_a_hook_has_no_terminal_and_its_own_process_group(runner: HookRunner):
    script = (
        "import os,sys\n"
        "try: os.open('/dev/tty', os.O_RDWR); tty = 'tty'\n"
        "except OSError: tty = 'no tty'\n"
        "print(tty, os.getsid(0) != int(sys.argv[1]), os.getpgrp() != int(sys.argv[2]))"
    )
    us = str(os.getsid(0)), str(os.getpgrp())
    run = await runner.run(hook(sys.executable, "-c", script, *us), b"{}")
    assert run.stdout == "no tty True True\n"


async def test_only_its_three_streams_are_open(runner: HookRunner):
    run = await runner.run(hook("ls /proc/self/fd | sort -n | head -n 4 | tail -n 1"), b"{}")
    assert run.stdout.strip() in ("3", "4")  # the folder that is listed
    script = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3])"
    run = await runner.run(hook(sys.executable, "-c", script), b"{}")
    assert run.stdout == "[0, 1, 2]\n"


async def test_the_environment_has_no_secrets(tmp_path: Path):
    environ = {
        "PATH": os.environ["PATH"],
        "MYTHING": "seen",
        "SOMEKEYS": "secret",
        "OPENAI_API_KEY": "secret",
        "GH_TOKEN_2": "secret",
        "A_SECRET_B": "secret",
        "DB_PASSWORD_FILE": "secret",
        "WANTED_TOKEN": "wanted",
        "DATABASE": "postgres://user:secret@host/db",
    }
    runner = HookRunner(tmp_path, environ=environ, env_allow=["WANTED_TOKEN", "NOT_SET_TOKEN"])
    run = await runner.run(hook("env", OWN="own"), b"{}", task_id="t1", intent_id="INT-001")
    got = dict(line.split("=", 1) for line in run.stdout.splitlines())
    assert "secret" not in run.stdout
    assert got["MYTHING"] == "seen"
    assert got["WANTED_TOKEN"] == "wanted"
    assert got["OWN"] == "own"
    assert got["CLAUDE_PROJECT_DIR"] == got["ROOKERY_PROJECT_DIR"] == str(tmp_path)
    assert (got["ROOKERY_TASK_ID"], got["ROOKERY_INTENT_ID"]) == ("t1", "INT-001")


def planted(root: Path, place: str, text: str) -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("folder", ["bin", ".", ""])
async def test_no_program_is_found_in_the_workspace_by_its_name(root: Path, folder: str):
    planted(root, "bin/ls", "#!/bin/sh\necho planted\n")
    planted(root, "ls", "#!/bin/sh\necho planted\n")
    first = str(root / folder) if folder == "bin" else folder
    environ = {"PATH": os.pathsep.join([first, os.environ["PATH"]])}
    run = await HookRunner(root, environ=environ).run(hook("ls"), b"{}")
    assert "planted" not in run.stdout
    asked = HookRunner(root, environ=environ, env_allow=["PATH"])
    assert "planted" in (await asked.run(hook("ls"), b"{}")).stdout


async def test_no_module_is_found_beside_a_script(root: Path):
    planted(root, "tools/json.py", "print('planted')\n")
    planted(root, "tools/scan.py", "import json\n")
    script = str(root / "tools" / "scan.py")
    run = await HookRunner(root).run(hook(sys.executable, script), b"{}")
    assert (run.status, run.stdout) == (0, "")
    run = await HookRunner(root).run(hook(sys.executable, script, PYTHONSAFEPATH=""), b"{}")
    assert run.stdout == "planted\n"


async def test_it_runs_in_the_workspace_or_the_nearest_folder_above(root: Path):
    run = await HookRunner(root).run(hook("pwd -P"), b"{}")
    assert run.stdout.strip() == str(root)
    run = await HookRunner(root / "gone" / "too").run(hook("pwd -P"), b"{}")
    assert run.stdout.strip() == str(root)


async def test_with_args_no_shell_reads_them(runner: HookRunner):
    run = await runner.run(hook("printf", "%s|", "$HOME", "a b", "*", "; exit 2"), b"{}")
    assert (run.status, run.stdout) == (0, "$HOME|a b|*|; exit 2|")


async def test_a_missing_program_does_not_block(runner: HookRunner):
    for command, args in (("no-such-program", ()), ("/no/such", ("x",))):
        run = await runner.run(hook(command, *args), b"{}")
        assert run.status == 127
        assert "not found" in run.stderr


async def test_a_hook_that_cannot_be_started_is_reported(runner: HookRunner):
    for command in ("x" * 10_000_000, "echo \0"):
        run = await runner.run(hook(command), b"{}")
        assert run.trouble.startswith("could not be started (")


async def test_at_most_eight_run_at_a_time(runner: HookRunner, tmp_path: Path):
    command = "touch running.$$; ls running.* | wc -l; sleep 0.1; rm running.$$"
    runs: list[HookRun] = []

    async def run() -> None:
        runs.append(await runner.run(hook(command), b"{}"))

    async with anyio.create_task_group() as group:
        for _ in range(2 * MAX_CONCURRENT):
            group.start_soon(run)
    together = [int(each.stdout) for each in runs]
    assert len(together) == 2 * MAX_CONCURRENT
    assert 1 < max(together) <= MAX_CONCURRENT == 8


async def test_a_hook_leaves_no_descriptor_open(runner: HookRunner):
    await runner.run(hook("true"), b"{}")
    before = sorted(os.listdir("/proc/self/fd"))
    for command in ("true", "cat", "exit 2", "sleep 600"):
        await runner.run(hook(command, seconds=0.5), LARGE)
    assert sorted(os.listdir("/proc/self/fd")) == before
