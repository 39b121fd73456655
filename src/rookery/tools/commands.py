"""Run a shell command, and read an output that was too long to show."""

import math
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, ClassVar

import msgspec
from msgspec.structs import replace

from rookery.core.blocks import Image
from rookery.core.facts import Answered, Ending
from rookery.core.limits import KIB
from rookery.core.replies import BLOCKED_FOR_NOW, user_message
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Judgement, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import Artifacts
from rookery.errors import BadArguments, ToolError
from rookery.tools.file_changes import in_thread

DEFAULT_LIMIT = 40 * KIB
PIECE = 64 * KIB
_TITLE = 100


class ReadCommandOutputArgs(msgspec.Struct, forbid_unknown_fields=True):
    artifact_id: Annotated[str, msgspec.Meta(description="From the result: cmd-1.txt.")]
    search: Annotated[
        str | None,
        msgspec.Meta(description="Case-insensitive regular expression."),
    ] = None
    offset: Annotated[int | None, msgspec.Meta(description="First byte.")] = None
    limit: Annotated[int | None, msgspec.Meta(description="Most bytes; default 40960.")] = None


class ReadCommandOutput:
    name: ClassVar[str] = "read_command_output"
    description: ClassVar[str] = (
        "Read or search the whole of an output that execute_command shortened."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ReadCommandOutputArgs
    group: ClassVar[ToolGroup] = ToolGroup.COMMAND

    async def prepare(self, args: ReadCommandOutputArgs, ctx: ToolContext) -> Action:
        if not re.fullmatch(r"cmd-[0-9]{1,18}\.txt", args.artifact_id):
            raise BadArguments(
                f"{args.artifact_id} is not an artifact id; they look like cmd-1.txt."
            )
        limit = min(max(args.limit or DEFAULT_LIMIT, 1), ctx.limits.read_bytes)
        work = (
            partial(_search, ctx.artifacts, args.artifact_id, args.search, limit)
            if args.search
            else partial(_read, ctx.artifacts, args.artifact_id, args.offset or 0, limit)
        )

        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await in_thread(work))

        return Action(
            title=f"Search {args.artifact_id}" if args.search else f"Read {args.artifact_id}",
            perform=perform,
            payload={
                "tool": "readCommandOutput",
                "artifactId": args.artifact_id,
                "searchPattern": args.search,
                "readStart": args.offset or 0,
                "readEnd": (args.offset or 0) + limit,
            },
        )


def _read(artifacts: Artifacts, artifact_id: str, offset: int, limit: int) -> str:
    data, size = artifacts.read(artifact_id, offset, limit)
    end = offset + len(data)
    first = 1 + _newlines_before(artifacts, artifact_id, offset)
    state = "COMPLETE" if end == size else f"TRUNCATED, continue at offset {end}"
    header = f"{artifact_id}: {size} bytes in all, here {offset} to {end}. {state}."
    lines = _readable(data.decode("utf-8", "replace")).removesuffix("\n").split("\n")
    return "\n".join([header, *(f"{number} | {line}" for number, line in enumerate(lines, first))])


def _readable(text: str) -> str:
    from rookery.core.text.output_preview import readable

    return readable(text)


def _newlines_before(artifacts: Artifacts, artifact_id: str, offset: int) -> int:
    return sum(
        artifacts.read(artifact_id, start, min(PIECE, offset - start))[0].count(b"\n")
        for start in range(0, offset, PIECE)
    )


def _search(artifacts: Artifacts, artifact_id: str, pattern: str, limit: int) -> str:
    found = artifacts.lines(artifact_id, pattern, limit)
    sought = f"{pattern}{_fault(pattern)}"
    if not found:
        return f"No line of {artifact_id} matches {sought}."
    cut = sum(len(f"{number}:{line}\n".encode()) for number, line in found) > limit
    shown = (found[:-1] or [_clipped(*found[0], limit)]) if cut else found
    header = f"{artifact_id}: {_counted(len(shown), cut=cut)} {sought}, at most {limit} bytes."
    return "\n".join([header, *(f"{number} | {_readable(line)}" for number, line in shown)])


def _fault(pattern: str) -> str:
    """Why a search takes the expression literally, if it does."""
    try:
        with warnings.catch_warnings(action="ignore"):  # they would be written on the screen
            re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        return f" (taken literally, because as an expression it is faulty: {error})"
    return ""


def _clipped(number: int, line: str, limit: int) -> tuple[int, str]:
    return number, line.encode()[:limit].decode("utf-8", "ignore")


def _counted(lines: int, *, cut: bool) -> str:
    if lines == 1:
        return "the first line that matches" if cut else "1 line that matches"
    return f"{'the first ' if cut else ''}{lines} lines that match"


MOST_CHANGES_SHOWN = 5


class ExecuteCommandArgs(msgspec.Struct, forbid_unknown_fields=True):
    command: str
    cwd: str | None = None
    timeout: Annotated[float | None, msgspec.Meta(description="Seconds to wait.")] = None
    terminal: Annotated[bool | None, msgspec.Meta(description="Use a pseudo-terminal.")] = None


class ExecuteCommand:
    name: ClassVar[str] = "execute_command"
    description: ClassVar[str] = (
        "Run a shell command and wait for its end. It gets no input and a fresh shell. After "
        "timeout, as for a server, it runs on: you get the output so far, and a message when it "
        "ends. Processes it leaves behind end with it."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ExecuteCommandArgs
    group: ClassVar[ToolGroup] = ToolGroup.COMMAND
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_arguments={"command": "command", "timeout": "timeout"},
        skipped=frozenset({"terminal", "cwd", "timeout"}),
        essential=True,
    )

    async def prepare(self, args: ExecuteCommandArgs, ctx: ToolContext) -> Action:
        _check(args.command, ctx.limits.command_text)
        cwd = ctx.files.locate(args.cwd) if args.cwd else ""
        if PurePosixPath(cwd).is_absolute():
            raise ToolError(f"{cwd} is outside the workspace. Commands run inside it.")

        def looked_at() -> tuple[Judgement, str]:
            judged = ctx.judge(args.command, cwd)
            return judged, ctx.shell.describe(confined=not judged.needs_keys)

        judged, where = await in_thread(looked_at)

        async def perform(permit: Permit) -> Outcome:
            def check() -> None:
                _check_unchanged(judged, ctx.judge(args.command, cwd))

            return await _run(permit, args, ctx, check)

        return Action(
            title=f"Run {first_line(args.command)}" + (f" in {cwd}" if cwd else ""),
            perform=perform,
            command=args.command,
            cwd=cwd,
            where=where,
            judgement=judged,
            notes=judged.notes,
            payload={"tool": "executeCommand", "command": args.command, "cwd": cwd},
        )


def first_line(command: str) -> str:
    first, *more = command.strip().splitlines()
    return f"{first[:_TITLE]} …" if more or len(first) > _TITLE else first


def _check(command: str, longest: int) -> None:
    if not command.strip():
        raise BadArguments("execute_command was called without a command.")
    if "\0" in command:
        raise BadArguments("The command holds a NUL character. Write it as text, such as '\\0'.")
    if len(command.encode("utf-8", "replace")) > longest:
        raise ToolError(
            f"The command is longer than {longest} bytes. Write a script to a file and run that."
        )


def _check_unchanged(shown: Judgement, now: Judgement) -> None:
    """Check that the command still means what was approved: while the user decides, files come
    and go, and a folder may become a link to another one."""
    if _unordered(now) == _unordered(shown):
        return
    before, after = _effects(shown), _effects(now)
    changes = [f"it now {one}" for one in after if one not in before]
    changes += [f"no longer {one}" for one in before if one not in after]
    described = changes[:MOST_CHANGES_SHOWN] or ["the files it names have changed"]
    if len(changes) > MOST_CHANGES_SHOWN:
        described.append(f"{len(changes) - MOST_CHANGES_SHOWN} more")
    raise ToolError(
        "What this command would do has changed since it was checked: "
        f"{'; '.join(described)}. It was not run; call it again."
    )


def _unordered(judged: Judgement) -> Judgement:
    """Folder order is arbitrary and changes with new files."""
    return replace(
        judged,
        targets=tuple(sorted(judged.targets, key=lambda at: (at.path, at.deed, at.reach))),
        dangers=tuple(sorted(judged.dangers)),
        notes=tuple(sorted(judged.notes)),
    )


def _effects(judged: Judgement) -> list[str]:
    return list(dict.fromkeys((*judged.dangers, *judged.notes)))


def _shortest(*limits: float | None) -> float:
    """The smallest limit above zero; zero means no limit."""
    return min((limit for limit in limits if limit and limit > 0), default=math.inf)


async def _run(
    permit: Permit, args: ExecuteCommandArgs, ctx: ToolContext, check: Callable[[], None]
) -> Outcome:
    from rookery.tools.programs.command_watch import CommandWatch, finished, still_running

    artifact = ctx.artifacts.create()
    seconds = _shortest(ctx.limits.command_seconds)
    patience = _shortest(args.timeout, ctx.limits.command_soft_seconds)
    async with AsyncExitStack() as context:
        running = await context.enter_async_context(
            ctx.shell.run(
                permit, seconds=seconds, keep=artifact, terminal=bool(args.terminal), check=check
            )
        )
        watch = CommandWatch(running, permit, artifact, ctx, patience=patience)
        context.callback(watch.leave_list)
        ended = await watch.wait()
        words, images = _said(watch.answer)
        if not ended and not watch.aborted:
            waits = running.waits_for_input()
            watch.send_to_background(context)
            text = still_running(
                permit.cwd, watch.seconds, watch.preview, artifact, waits_for_input=waits
            )
            shown = text + _blocked_note(running.blocked) + words
            return Outcome(text=shown, images=images, blocked=running.blocked)
        if not ended:
            running.stop()
        end = await watch.end()
    where = ctx.shell.describe(confined=True) if permit.confined else ""
    cut_short = end.timed_out or end.flooded or end.stopped
    text = finished(permit.cwd, end, ctx.limits, watch.preview, artifact, where=where)
    text += watch.unreached_note(end, watch.preview.text())
    return Outcome(
        text=text + _blocked_note(running.blocked) + words,
        ending=Ending.FAILED if cut_short else Ending.DONE,
        exit_code=end.exit_code,
        images=images,
        blocked=running.blocked,
    )


def _blocked_note(hosts: Sequence[str]) -> str:
    return f"\n{BLOCKED_FOR_NOW.format(', '.join(hosts))}" if hosts else ""


def _said(answer: Answered | None) -> tuple[str, tuple[Image, ...]]:
    """What the user wrote while the command ran, for the model."""
    if answer is None or not (answer.text or answer.images):
        return "", ()
    return "\n" + user_message(answer.text), answer.images


TOOLS = (ExecuteCommand(), ReadCommandOutput())
