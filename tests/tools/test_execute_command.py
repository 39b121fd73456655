from pathlib import Path

import anyio
import pytest

from rookery.core.asks import AskKind
from rookery.core.facts import Ending, OutputStreamed
from rookery.core.limits import KIB, MIB, Limits
from rookery.engine.ports import Outcome, Permit
from rookery.errors import BadArguments, Denied, ToolError
from rookery.tools.execute_command import TOOL
from tool_bench import Bench

pytestmark = pytest.mark.anyio

QUICK = Limits(command_grace=0.2)


def shown(bench: Bench) -> str:
    return "".join(fact.text for fact in bench.facts if isinstance(fact, OutputStreamed))


async def test_an_action_says_what_would_be_run_and_where(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    (bench.root / "sub").mkdir()
    action = await bench.prepare(TOOL, command="make\nmake install", cwd="./sub")
    assert (action.title, action.command, action.cwd) == (
        "Run make … in sub",
        "make\nmake install",
        "sub",
    )
    assert action.payload == {
        "tool": "executeCommand",
        "command": "make\nmake install",
        "cwd": "sub",
    }
    assert action.ask is AskKind.COMMAND


async def test_a_finished_command_tells_directory_status_and_output(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    assert await bench.call(TOOL, command="printf 'one\ntwo'") == Outcome(
        text="Directory: .\nExit code: 0\nOutput:\none\ntwo", exit_code=0
    )
    assert shown(bench) == "one\ntwo"


@pytest.mark.parametrize(
    ("command", "status", "code"),
    [
        ("true", "Exit code: 0\nIt wrote nothing.", 0),
        ("exit 2", "Exit code: 2. Look at the output for the reason before going on.", 2),
        ("kill -SEGV $$", "killed by SIGSEGV; it may have left a core dump.", 139),
        ("kill -HUP $$", "Exit code: 129, killed by SIGHUP.", 129),
        ("kill -KILL $PPID; sleep 60", "Exit code: unknown.", -1),
    ],
)
async def test_a_command_that_ran_is_done_whatever_its_exit_code(
    tmp_path: Path, command: str, status: str, code: int
):
    outcome = await Bench(tmp_path, QUICK).call(TOOL, command=command)
    assert status in outcome.text
    assert (outcome.ending, outcome.exit_code) == (Ending.DONE, code)


@pytest.mark.parametrize(
    ("wanted", "allowed", "told"), [(0.3, 60, "0.3 s"), (60, 0.4, "0.4 s"), (None, 0.5, "0.5 s")]
)
async def test_the_smaller_time_limit_ends_a_command_and_its_output_so_far_is_told(
    tmp_path: Path, wanted: float | None, allowed: float, told: str
):
    bench = Bench(tmp_path, Limits(command_grace=0.2, command_seconds=allowed))
    outcome = await bench.call(TOOL, command="echo begun; sleep 60", timeout=wanted)
    assert outcome.ending is Ending.FAILED
    assert f"time limit of {told}" in outcome.text
    assert outcome.text.endswith("Output:\nbegun\n")


async def test_no_time_limit_is_a_limit_that_never_comes(tmp_path: Path):
    bench = Bench(tmp_path, Limits(command_seconds=0))
    assert (await bench.call(TOOL, command="echo ok")).ending is Ending.DONE


async def test_a_flood_is_ended_and_only_samples_of_it_are_shown(tmp_path: Path):
    bench = Bench(tmp_path, Limits(command_grace=0.2, output_total=20 * MIB))
    outcome = await bench.call(TOOL, command="yes")
    assert outcome.ending is Ending.FAILED
    assert "wrote more than 20 MiB" in outcome.text
    assert "[… the line above" in outcome.text
    assert len(shown(bench)) < 2 * MIB
    assert "characters not shown …]" in shown(bench)


async def test_a_long_output_is_previewed_and_kept_whole(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    outcome = await bench.call(TOOL, command="seq 100000; printf end")
    assert "Output: 588898 bytes, kept as cmd-1.txt." in outcome.text
    assert "read_command_output" in outcome.text
    assert "\n1\n2\n3\n" in outcome.text
    assert "bytes omitted …]" in outcome.text
    assert outcome.text.endswith("99999\n100000\nend")
    assert len(outcome.text.encode()) < QUICK.output_for_model + 1 * KIB
    data, size = bench.context.artifacts.read("cmd-1.txt", 0, MIB)
    assert data == b"".join(b"%d\n" % number for number in range(1, 100_001)) + b"end"
    assert size == len(data)


async def test_the_model_reads_clean_text_and_clients_see_what_was_written(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    outcome = await bench.call(TOOL, command=r"printf '1%%\r99%%\r\033[31mred\033[0m\n'")
    assert outcome.text.endswith("Output:\nred\n")
    assert shown(bench) == "1%\r99%\r\x1b[31mred\x1b[0m\n"


async def test_a_line_at_a_time_is_not_a_fact_at_a_time(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    await bench.call(TOOL, command="for i in {1..2000}; do echo $i; done")
    assert shown(bench).split() == [str(number) for number in range(1, 2001)]
    assert len(bench.facts) < 200


@pytest.mark.parametrize(
    ("command", "error"),
    [("", BadArguments), (" \n", BadArguments), ("echo \0", BadArguments), ("é" * 51, ToolError)],
)
async def test_a_command_that_cannot_be_run_is_refused(
    tmp_path: Path, command: str, error: type[ToolError]
):
    bench = Bench(tmp_path, Limits(command_text=100))
    with pytest.raises(error):
        await bench.prepare(TOOL, command=command)


async def test_a_command_of_exactly_the_longest_length_is_run(tmp_path: Path):
    bench = Bench(tmp_path, Limits(command_text=7))
    assert "ok" in (await bench.call(TOOL, command="echo ok")).text


@pytest.mark.parametrize("cwd", ["..", "/etc"])
async def test_a_folder_outside_the_workspace_is_refused(tmp_path: Path, cwd: str):
    with pytest.raises(ToolError):
        await Bench(tmp_path, QUICK).prepare(TOOL, command="ls", cwd=cwd)


async def test_a_folder_that_is_gone_is_named(tmp_path: Path):
    with pytest.raises(ToolError, match="There is no directory gone"):
        await Bench(tmp_path, QUICK).call(TOOL, command="ls", cwd="gone")


async def test_without_a_permit_nothing_happens(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    action = await bench.prepare(TOOL, command="touch made")
    with pytest.raises(Denied):
        await action.perform(Permit(digest=""))
    assert list(bench.root.iterdir()) == []


async def test_a_cancelled_command_leaves_what_it_wrote_on_disk(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel_when_up() -> None:
                await bench.appended.wait()
                scope.cancel()

            group.start_soon(cancel_when_up)
            await bench.call(TOOL, command="echo up; sleep 60")
    assert scope.cancelled_caught
    assert bench.context.artifacts.read("cmd-1.txt", 0, 10) == (b"up\n", 3)
