"""Run a shell command to its end."""

import math
from typing import Annotated, ClassVar

import anyio
import msgspec

from rookery.core.facts import Ending, OutputStreamed
from rookery.core.limits import KIB, MIB
from rookery.core.output_preview import Cleaner, Preview
from rookery.engine.ports import (
    Action,
    Artifact,
    CommandEnd,
    Outcome,
    Permit,
    ToolContext,
    ToolGroup,
)
from rookery.errors import BadArguments, ToolError

SHOWN_WHOLE = 256 * KIB
"""Output that clients are shown as it comes; of what follows they see samples."""
SAMPLE = 4 * KIB
SAMPLE_SECONDS = 0.2

_CORE_DUMPS = {"SIGQUIT", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV"}


class ExecuteCommandArgs(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[str, msgspec.Meta(description="The command line, for bash or sh.")]
    cwd: Annotated[
        str | None, msgspec.Meta(description="Where to run it, relative to the workspace.")
    ] = None
    timeout: Annotated[
        float | None, msgspec.Meta(description="Seconds after which it is ended.")
    ] = None


class ExecuteCommand:
    name: ClassVar[str] = "execute_command"
    description: ClassVar[str] = (
        "Run a shell command and wait for its end. It has no terminal and no input, and each call "
        "starts a fresh shell. Processes it leaves in the background are ended with it."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ExecuteCommandArgs
    group: ClassVar[ToolGroup] = ToolGroup.COMMAND

    async def prepare(self, args: ExecuteCommandArgs, ctx: ToolContext) -> Action:
        _check(args.command, ctx.limits.command_text)
        cwd = ctx.files.locate(args.cwd) if args.cwd else ""

        async def perform(permit: Permit) -> Outcome:
            return await _run(permit, _seconds(args.timeout, ctx.limits.command_seconds), ctx)

        return Action(
            title=f"Run {_first_line(args.command)}" + (f" in {cwd}" if cwd else ""),
            perform=perform,
            command=args.command,
            cwd=cwd,
            payload={"tool": "executeCommand", "command": args.command, "cwd": cwd},
        )


def _check(command: str, longest: int) -> None:
    if not command.strip():
        raise BadArguments("execute_command was called without a command.")
    if "\0" in command:
        raise BadArguments("The command holds a NUL character. Write it as text, such as '\\0'.")
    if len(command.encode("utf-8", "replace")) > longest:
        raise ToolError(
            f"The command is longer than {longest} bytes. Write a script to a file and run that."
        )


def _seconds(wanted: float | None, allowed: float) -> float:
    """The smaller of two limits; what is not above zero is none."""
    return min((limit for limit in (wanted, allowed) if limit and limit > 0), default=math.inf)


def _first_line(command: str) -> str:
    first, *more = command.strip().splitlines()
    return f"{first[:100]} …" if more or len(first) > 100 else first


async def _run(permit: Permit, seconds: float, ctx: ToolContext) -> Outcome:
    artifact = ctx.artifacts.create()
    cleaner = Cleaner()
    preview = Preview(size=ctx.limits.output_for_model, head=ctx.limits.output_head)
    live = _LiveOutput(ctx)
    async with ctx.shell.run(permit, seconds=seconds, keep=artifact) as running:
        async for piece in running.output():
            live.show(piece)
            preview.add(cleaner.add(piece))
        end = await running.end()
    live.show_rest()
    preview.add(cleaner.finish())
    stopped = end.timed_out or end.flooded
    return Outcome(
        text="\n".join(
            [
                f"Directory: {permit.cwd or '.'}",
                _status(end, seconds, ctx.limits.output_total),
                *_output(preview, artifact),
            ]
        ),
        ending=Ending.FAILED if stopped else Ending.DONE,
        exit_code=end.exit_code,
    )


class _LiveOutput:
    """Output for those who watch: all of it at first, then a sample now and then.

    News is never forgotten, so a flood that was shown whole would fill the memory.
    """

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._shown = 0
        self._next_sample = 0.0
        self._held = ""
        self._skipped = 0

    def show(self, piece: str) -> None:
        if self._shown < SHOWN_WHOLE:
            self._append(piece)
            return
        self._skipped += len(self._held)
        self._held = piece
        if anyio.current_time() >= self._next_sample:
            self.show_rest()
            self._next_sample = anyio.current_time() + SAMPLE_SECONDS

    def show_rest(self) -> None:
        if not self._held:
            return
        sample = self._held[-SAMPLE:]
        skipped = self._skipped + len(self._held) - len(sample)
        self._append((f"\n[… {skipped} characters not shown …]\n" if skipped else "") + sample)
        self._held, self._skipped = "", 0

    def _append(self, text: str) -> None:
        self._shown += len(text)
        self._ctx.append(OutputStreamed(call_id=self._ctx.call_id, text=text))


def _status(end: CommandEnd, seconds: float, most: int) -> str:
    match end:
        case CommandEnd(timed_out=True):
            return (
                f"Ended by the time limit of {seconds:g} s, before it was done. "
                "Do not run it again unchanged."
            )
        case CommandEnd(flooded=True):
            return (
                f"Ended because it wrote more than {most / MIB:g} MiB. "
                "Send its output to a file, or ask it for less."
            )
        case CommandEnd(exit_code=0):
            return "Exit code: 0"
        case CommandEnd(exit_code=code) if code < 0:
            return "Exit code: unknown. Nobody saw the command end; check what it has done."
        case CommandEnd(exit_code=code, signal=""):
            return f"Exit code: {code}. Look at the output for the reason before going on."
        case CommandEnd(exit_code=code, signal=name):
            core = "; it may have left a core dump" if name in _CORE_DUMPS else ""
            return f"Exit code: {code}, killed by {name}{core}."


def _output(preview: Preview, artifact: Artifact) -> list[str]:
    if preview.complete:
        return ["Output:", preview.text()] if preview.total else ["It wrote nothing."]
    return [
        f"Output: {artifact.size} bytes, kept as {artifact.id}. This is its beginning and its "
        "end; read_command_output reads or searches the rest.",
        preview.text(),
    ]


TOOL = ExecuteCommand()
