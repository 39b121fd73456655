import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from rookery.commands.judge import CommandJudge
from rookery.core.asks import AskKind
from rookery.core.facts import (
    Asked,
    CommandDetached,
    CommandEnded,
    CommandQuiet,
    Ending,
    OutputStreamed,
)
from rookery.core.limits import KIB, MIB, Limits
from rookery.core.text.terminal_text import lines_in_gap
from rookery.engine.ports.actions import Outcome, Permit
from rookery.engine.ports.workspace import CommandEnd
from rookery.errors import BadArguments, CommandRejected, Denied, StorageError, ToolError
from rookery.tools.commands import ExecuteCommand
from rookery.tools.programs import command_watch
from rookery.tools.programs.command_watch import OFFER_SECONDS_WITH_OUTPUT
from rookery.workspace.terminal import AsItIsLauncher, Terminal
from support.each_row import each_row
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio

TOOL = ExecuteCommand()

QUICK = Limits(command_grace=0.2)


def shown(bench: Bench) -> str:
    return "".join(fact.text for fact in bench.facts if isinstance(fact, OutputStreamed))


def lasting(bench: Bench) -> list[str]:
    return [type(fact).__name__ for fact in bench.facts if fact.lasting]


async def test_an_action_names_the_command_and_its_folder(tmp_path: Path):
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


async def test_every_line_of_a_flood_is_shown_or_counted(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    await bench.call(TOOL, command="seq 300000")
    pieces = [fact.text for fact in bench.facts if isinstance(fact, OutputStreamed)]
    gaps = [lines for piece in pieces if (lines := lines_in_gap(piece)) is not None]
    seen = "".join(piece for piece in pieces if lines_in_gap(piece) is None).count("\n")
    assert gaps
    assert seen + sum(gaps) == 300_000
    assert shown(bench).endswith("\n299999\n300000\n")


async def test_a_finished_command_reports_directory_status_and_output(tmp_path: Path):
    bench = Bench(tmp_path, QUICK)
    assert await bench.call(TOOL, command="printf 'one\ntwo'") == Outcome(
        text="Directory: .\nExit code: 0\nOutput:\none\ntwo", exit_code=0
    )
    assert shown(bench) == "one\ntwo"


@each_row(
    ("end", "words"),
    [
        (CommandEnd(exit_code=0), "Exit code: 0"),
        (CommandEnd(exit_code=139, signal="SIGSEGV"), "SIGSEGV; it may have left a core dump."),
        (CommandEnd(exit_code=129, signal="SIGHUP"), "Exit code: 129, killed by SIGHUP."),
        (CommandEnd(exit_code=-1), "Exit code: unknown."),
    ],
)
def test_the_end_of_a_command_is_described(end: CommandEnd, words: str):
    assert words in command_watch.status(end, QUICK)


async def test_a_command_that_ran_is_done_whatever_its_exit_code(tmp_path: Path):
    outcome = await Bench(tmp_path, Limits(command_seconds=0)).call(TOOL, command="exit 2")
    assert outcome.text.endswith(
        "Exit code: 2. Look at the output for the reason before going on.\nIt wrote nothing."
    )
    assert (outcome.ending, outcome.exit_code) == (Ending.DONE, 2)


async def test_the_hard_limit_ends_a_command_and_keeps_its_output_so_far(tmp_path: Path):
    bench = Bench(tmp_path, Limits(command_grace=0.2, command_seconds=0.4))
    outcome = await bench.call(TOOL, command="echo begun; sleep 60", timeout=60)
    assert outcome.ending is Ending.FAILED
    assert "time limit of 0.4 s" in outcome.text
    assert outcome.text.endswith("Output:\nbegun\n")


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


@pytest.mark.parametrize(
    ("command", "error"),
    [("", BadArguments), (" \n", BadArguments), ("echo \0", BadArguments), ("é" * 51, ToolError)],
)
async def test_a_command_that_cannot_be_run_is_refused(
    tmp_path: Path, command: str, error: type[ToolError]
):
    bench = Bench(tmp_path, Limits(command_text=100))
    await bench.prepare(TOOL, command="x" * 100)
    with pytest.raises(error):
        await bench.prepare(TOOL, command=command)


@pytest.mark.parametrize("cwd", ["..", "/etc", "way-out"])
async def test_a_folder_outside_the_workspace_is_refused(tmp_path: Path, cwd: str):
    bench = Bench(tmp_path, QUICK)
    (bench.root / "way-out").symlink_to("/")
    with pytest.raises(ToolError):
        await bench.prepare(TOOL, command="ls", cwd=cwd)


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


# ── running on in the background ────────────────────────────────────────────────────────

UNTIL_TOLD = "echo early; read line < go; echo late; exit 3"
"""A command that runs until `go` is written."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path, QUICK)
    os.mkfifo(bench.root / "go")
    return bench


def let_it_go_on(bench: Bench) -> None:
    (bench.root / "go").write_text("go\n")


async def test_the_models_timeout_moves_the_command_to_the_background(bench: Bench):
    async with bench.task():
        outcome = await bench.call(TOOL, command=UNTIL_TOLD, timeout=0.3)
        assert (outcome.ending, outcome.exit_code) == (Ending.DONE, None)
        assert "Still running after 1 s." in outcome.text
        assert "goes to cmd-1.txt" in outcome.text
        assert outcome.text.endswith("Output so far:\nearly\n")
        let_it_go_on(bench)
        ended = await bench.next(CommandEnded)
    [detached] = [fact for fact in bench.facts if isinstance(fact, CommandDetached)]
    assert detached == CommandDetached(
        call_id="c1", command=UNTIL_TOLD, artifact="cmd-1.txt", pid=detached.pid
    )
    assert detached.pid > 1
    assert ended == CommandEnded(
        call_id="c1",
        text=(
            f"[automatic] The command that ran in the background has ended: {UNTIL_TOLD}\n"
            "Exit code: 3. Look at the output for the reason before going on.\n"
            "Output:\nlate\n"
        ),
        exit_code=3,
    )
    assert bench.context.artifacts.read("cmd-1.txt", 0, 100) == (b"early\nlate\n", 11)


async def test_the_soft_limit_moves_the_command_to_the_background(tmp_path: Path):
    bench = Bench(tmp_path, Limits(command_grace=0.2, command_soft_seconds=0.2))
    async with bench.task():
        outcome = await bench.call(TOOL, command="sleep 60")
        assert "It has written nothing yet." in outcome.text
        assert bench.context.artifacts.read("cmd-1.txt", 0, 10) == (b"", 0)
        assert lasting(bench) == ["CommandDetached"]


async def test_the_hard_limit_also_ends_a_command_in_the_background(tmp_path: Path):
    bench = Bench(tmp_path, Limits(command_grace=0.2, command_seconds=0.5))
    async with bench.task():
        await bench.call(TOOL, command="sleep 60", timeout=0.1)
        ended = await bench.next(CommandEnded)
    assert "Ended by the time limit of 0.5 s" in ended.text
    assert ended.text.endswith("It wrote nothing more.")


async def test_a_long_output_in_the_background_is_previewed_and_kept_whole(bench: Bench):
    async with bench.task():
        await bench.call(TOOL, command="echo 0; read line < go; seq 100000", timeout=0.2)
        let_it_go_on(bench)
        ended = await bench.next(CommandEnded)
    assert "Output: 588897 bytes, kept as cmd-1.txt." in ended.text
    assert len(ended.text.encode()) < QUICK.output_for_model + 1 * KIB
    wanted = b"".join(b"%d\n" % number for number in range(100_001))
    assert bench.context.artifacts.read("cmd-1.txt", 0, MIB) == (wanted, len(wanted))


async def test_an_unfinished_line_is_reported_only_once(bench: Bench):
    async with bench.task():
        outcome = await bench.call(
            TOOL, command="printf 'Half a '; read line < go; echo line", timeout=0.2
        )
        assert outcome.text.endswith("Output so far:\nHalf a ")
        let_it_go_on(bench)
        ended = await bench.next(CommandEnded)
    assert ended.text.endswith("Output:\nline\n")


async def test_a_command_in_the_background_ends_with_the_task(bench: Bench):
    async with bench.task():
        await bench.call(TOOL, command="trap '' TERM; (setsid sleep 61 &); sleep 60", timeout=0.2)
        detached = await bench.next(CommandDetached)
    with pytest.raises(ProcessLookupError):
        os.kill(detached.pid, 0)
    assert lasting(bench) == ["CommandDetached"]


async def test_a_command_in_the_background_can_be_stopped(bench: Bench):
    async with bench.task() as background:
        await bench.call(TOOL, command="echo up; sleep 60", timeout=0.2)
        background.stop("c1")
        ended = await bench.next(CommandEnded)
        assert "Ended by the user before it was done." in ended.text
        assert ended.exit_code == 143
        await anyio.wait_all_tasks_blocked()
        for call_id in ("c1", "c2"):
            with pytest.raises(CommandRejected, match=f"Call {call_id} has no command"):
                background.stop(call_id)


async def test_a_full_disk_is_reported_when_a_background_command_ends(bench: Bench):
    class FullDisk:
        def create(self) -> FullArtifact:
            return FullArtifact()

    bench.context = replace(bench.context, artifacts=FullDisk())  # type: ignore[arg-type]
    async with bench.task():
        await bench.call(TOOL, command="echo up; read line < go", timeout=0.2)
        let_it_go_on(bench)
        ended = await bench.next(CommandEnded)
    assert "The disk is full." in ended.text


class FullArtifact:
    id = "cmd-1.txt"
    size = 0

    def write(self, data: bytes) -> None:
        raise StorageError("The disk is full.")

    def close(self) -> None:
        pass


# ── continue or abort ───────────────────────────────────────────────────────────────────


async def test_a_command_that_ends_soon_offers_nothing(bench: Bench):
    async with bench.task():
        began = anyio.current_time()
        await bench.call(TOOL, command="echo up; sleep 0.1; echo down")
        took = anyio.current_time() - began
    assert lasting(bench) == [] or took >= OFFER_SECONDS_WITH_OUTPUT


async def test_the_offer_is_made_once_and_withdrawn_at_the_end(bench: Bench):
    async with bench.task():
        await bench.call(TOOL, command="for i in 1 2 3 4 5; do echo $i; sleep 0.2; done")
    assert lasting(bench) == ["Asked", "OfferWithdrawn"]
    [asked] = [fact for fact in bench.facts if isinstance(fact, Asked)]
    assert (asked.ask, asked.text) == (AskKind.COMMAND_OUTPUT, "")


async def test_a_silent_command_is_offered_too_though_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    assert command_watch.OFFER_SECONDS > OFFER_SECONDS_WITH_OUTPUT
    monkeypatch.setattr(command_watch, "OFFER_SECONDS", 0.2)
    async with bench.task(to_offer="no"):
        outcome = await bench.call(TOOL, command="sleep 60")
    assert "It wrote nothing." in outcome.text


async def test_yes_sends_the_command_to_the_background(bench: Bench):
    async with bench.task(to_offer="yes"):
        outcome = await bench.call(TOOL, command=UNTIL_TOLD)
        assert outcome.ending is Ending.DONE
        assert "Still running" in outcome.text
        assert "user_message" not in outcome.text
        let_it_go_on(bench)
        await bench.next(CommandEnded)
    assert lasting(bench) == ["Asked", "CommandDetached", "CommandEnded"]


async def test_answering_no_ends_the_command_and_the_call_fails(bench: Bench):
    async with bench.task(to_offer="no"):
        outcome = await bench.call(TOOL, command="echo early; (setsid sleep 60 &); sleep 60")
    assert (outcome.ending, outcome.exit_code) == (Ending.FAILED, 143)
    assert outcome.text == (
        "Directory: .\nEnded by the user before it was done. Do not run it again unless they ask."
        "\nOutput:\nearly\n"
    )
    assert lasting(bench) == ["Asked"]


async def test_a_message_is_delivered_and_the_command_continues(bench: Bench):
    async with bench.task(to_offer="message use the other port"):
        outcome = await bench.call(TOOL, command=UNTIL_TOLD)
        assert outcome.text.endswith("<user_message>\nuse the other port\n</user_message>")
        assert "Still running" in outcome.text
        let_it_go_on(bench)
        await bench.next(CommandEnded)


async def test_a_cancelled_call_withdraws_its_offer_and_ends_its_command(bench: Bench):
    async with bench.task(), anyio.create_task_group() as group:

        async def cancel_once_offered() -> None:
            await bench.next(Asked)
            group.cancel_scope.cancel()

        group.start_soon(cancel_once_offered)
        await bench.call(TOOL, command="echo $$; sleep 60")
    assert lasting(bench) == ["Asked", "OfferWithdrawn"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(shown(bench)), 0)


# ── silence, terminals and what waits for input ─────────────────────────────────────────


async def test_silence_is_reported_repeatedly(tmp_path: Path):
    bench = Bench(tmp_path, Limits(command_grace=0.2, quiet_seconds=0.1))
    for name in ("go", "end"):
        os.mkfifo(bench.root / name)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(bench.call, TOOL, command="read x < go; echo up; read x < end"))
        with anyio.fail_after(60):
            before = [await bench.next(CommandQuiet), await bench.next(CommandQuiet)]
            went_on = time.monotonic()
            let_it_go_on(bench)
            await bench.next(OutputStreamed)
            after = await bench.next(CommandQuiet)
            since = time.monotonic() - went_on
            (bench.root / "end").write_text("go\n")
    assert 0.1 <= before[0].seconds < before[1].seconds
    assert 0.1 <= after.seconds <= since


async def test_a_command_gets_a_terminal_only_if_it_is_asked_for(bench: Bench):
    for terminal, reported in ((None, "not a tty\n"), (True, "40 120\nxterm-256color\n")):
        outcome = await bench.call(
            TOOL, command="tty > /dev/null && stty size && echo $TERM || tty", terminal=terminal
        )
        assert outcome.text.endswith(f"Output:\n{reported}")


PROMPTS = (
    "read -p 'Name: ' x",
    "(printf 'Name: '; head -n 1 /dev/tty)",
)


async def test_a_command_that_waits_for_terminal_input_is_reported(tmp_path: Path):
    async def demand(bench: Bench, prompt: str) -> None:
        async with bench.task():
            outcome = await bench.call(TOOL, command=prompt, terminal=True, timeout=2)
            assert "It is waiting for input" in outcome.text, prompt
            assert outcome.text.endswith("Output so far:\nName: ")

    async with anyio.create_task_group() as group:
        for number, prompt in enumerate(PROMPTS):
            (tmp_path / str(number)).mkdir()
            group.start_soon(demand, Bench(tmp_path / str(number), QUICK), prompt)


@pytest.mark.parametrize(("command", "terminal"), [("sleep 60", True), ("cat go", False)])
async def test_a_slow_command_is_not_reported_as_waiting_for_input(
    bench: Bench, command: str, terminal: bool
):
    async with bench.task():
        outcome = await bench.call(TOOL, command=command, terminal=terminal, timeout=0.3)
        assert "Still running" in outcome.text
        assert "waiting for input" not in outcome.text


class InASandbox(AsItIsLauncher):
    def describe(self, *, confined: bool) -> str:
        return "in the sandbox"


async def test_a_refusal_by_the_sandbox_is_reported_as_one(bench: Bench):
    shell = Terminal(bench.root, QUICK, InASandbox())
    bench.context = replace(bench.context, shell=shell)
    refused = await bench.call(TOOL, command="echo Read-only file system; exit 1")
    assert "It may have been blocked: it ran in the sandbox." in refused.text
    fine = await bench.call(TOOL, command="echo Read-only file system")
    assert "blocked" not in fine.text


# ── only the approved command runs ──────────────────────────────────────────────────────


def judged_bench(folder: Path) -> Bench:
    bench = Bench(folder, QUICK)
    for place in ("src/build", ".git/build"):
        (bench.root / place).mkdir(parents=True)
        (bench.root / place / "a.o").write_text("x")
    (bench.root / "a.o").write_text("x")
    (bench.root / "notes.txt").write_text("notes")
    (folder / "home").mkdir()
    files, home = bench.context.files, folder / "home"
    hiding = files.boundaries.hiding
    judge = CommandJudge(files, bench.root, home=home, hiding=hiding, temporary=())
    bench.context = replace(bench.context, judge=judge)
    return bench


def link_to_git(root: Path) -> None:
    (root / "src").rename(root / "moved")
    (root / "src").symlink_to(".git")


def one_more(root: Path) -> None:
    (root / "b.o").write_text("made meanwhile")


def one_more_below(root: Path) -> None:
    (root / "src/build/b.o").write_text("made meanwhile")


def one_less(root: Path) -> None:
    (root / "a.o").unlink()


def in_the_way(root: Path) -> None:
    (root / "new.txt").write_text("made meanwhile")


def link_outside(root: Path) -> None:
    (root / "notes.txt").unlink()
    (root / "notes.txt").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("command", "meanwhile", "reported"),
    [
        ("rm -rf src/build", link_to_git, "it now deletes .git/build"),
        ("rm -rf src/build", one_more_below, "it now deletes 2 files below src/build/"),
        ("rm -f *.o", one_more, "it now deletes b.o"),
        ("rm -f *.o", one_less, "no longer deletes a.o"),
        ("echo x > new.txt", in_the_way, "it now overwrites new.txt; no longer writes new.txt"),
        ("cat notes.txt", link_outside, "it now reads outside the workspace: /etc/passwd"),
    ],
)
async def test_a_command_whose_effects_changed_since_approval_is_not_run(
    tmp_path: Path, command: str, meanwhile: Callable[[Path], None], reported: str
):
    bench = judged_bench(tmp_path)
    action = await bench.prepare(TOOL, command=command)
    permit = Permit(digest=action.digest, command=action.command, plain=action.judgement.plain)  # type: ignore[union-attr]
    meanwhile(bench.root)
    before = sorted(bench.root.rglob("*"))
    with pytest.raises(ToolError) as refused:
        await action.perform(permit)
    said = str(refused.value)
    assert said.startswith("What this command would do has changed since it was checked: ")
    assert reported in said
    assert said.endswith("It was not run; call it again.")
    assert sorted(bench.root.rglob("*")) == before
    assert lasting(bench) == []


async def test_changed_effects_on_many_files_are_summarised(tmp_path: Path):
    bench = judged_bench(tmp_path)
    action = await bench.prepare(TOOL, command="rm -f *.o")
    for number in range(9):
        (bench.root / f"{number}.o").touch()
    with pytest.raises(ToolError, match=r"it now deletes \d\.o; 4 more\. It was not run"):
        await action.perform(Permit(digest=action.digest, command=action.command))


@pytest.mark.parametrize("command", ["rm -rf src/build", "rm -f *.o", "cat notes.txt"])
async def test_unrelated_changes_do_not_stop_a_command(tmp_path: Path, command: str):
    bench = judged_bench(tmp_path)
    action = await bench.prepare(TOOL, command=command)
    (bench.root / "other.txt").write_text("made meanwhile")
    (bench.root / "notes.txt").write_text("changed meanwhile")
    outcome = await action.perform(Permit(digest=action.digest, command=action.command))
    assert outcome.exit_code == 0, outcome.text
