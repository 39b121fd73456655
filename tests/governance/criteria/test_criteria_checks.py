"""The command of a criterion: its exit, its last output, and its clean-up."""

import os
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from rookery.core.limits import Limits
from rookery.engine.ports.checks import LARGEST_TAIL, CheckResult
from rookery.governance.criteria import (
    check_criterion,
)
from rookery.governance.intents.intent import Verify
from rookery.governance.layout import Layout
from rookery.workspace.terminal import Terminal
from support.intent_files import laid_out

pytestmark = pytest.mark.anyio


async def checked(root: Path, command: str, **more: object) -> CheckResult:
    verify = Verify(command=command, **more)  # type: ignore[arg-type]
    shell = Terminal(root, Limits(command_grace=0.2))
    return await check_criterion(verify, laid_out(root), shell, confined=False)


async def test_a_check_that_succeeds(tmp_path: Path) -> None:
    result = await checked(tmp_path, "echo fine")
    assert (result.ok, result.exit_code, result.tail) == (True, 0, ("fine",))
    assert not result.timed_out


async def test_the_last_20_lines_of_a_failing_check_are_kept(tmp_path: Path) -> None:
    result = await checked(tmp_path, "seq 100; echo wrong >&2; exit 3")
    assert (result.ok, result.exit_code) == (False, 3)
    assert result.tail == (*map(str, range(82, 101)), "wrong")


async def test_only_the_end_of_much_output_is_remembered(tmp_path: Path) -> None:
    result = await checked(tmp_path, f"yes | head -c {4 * LARGEST_TAIL}; echo; echo end")
    assert result.ok
    assert result.tail[-1] == "end"
    assert len(result.tail) == 20


async def test_a_check_that_times_out_leaves_no_process(tmp_path: Path) -> None:
    began = time.monotonic()
    result = await checked(
        tmp_path, "sh -c 'echo $$ > inner; exec sleep 600' & sleep 600", timeout_s=1
    )
    assert (result.ok, result.timed_out) == (False, True)
    assert time.monotonic() - began < 300
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "inner").read_text()), 0)


async def test_a_cancelled_check_leaves_no_process(tmp_path: Path) -> None:
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    async with anyio.create_task_group() as group:
        group.start_soon(checked, tmp_path, "echo $$ > pid; sleep 600")
        with anyio.fail_after(60):
            pid = int(await anyio.to_thread.run_sync(pipe.read_text))
        group.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_it_runs_in_the_folder_it_names(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    assert (await checked(tmp_path, "pwd", cwd="web")).tail == (str(tmp_path / "web"),)


@pytest.mark.parametrize("folder", ["..", "/", "nowhere", "out"])
async def test_a_check_does_not_run_in_an_outside_or_missing_folder(
    tmp_path: Path, folder: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    result = await checked(root, "touch ran", cwd=folder)
    assert (result.ok, result.exit_code) == (False, None)
    assert result.tail
    assert not any((each / "ran").exists() for each in (tmp_path, root))


async def test_a_folder_is_relative_to_the_governance_root(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    layout = Layout(inner, tmp_path)
    shell = Terminal(tmp_path, Limits())
    result = await check_criterion(Verify(command="pwd"), layout, shell, confined=False)
    assert result.tail == (str(inner),)
