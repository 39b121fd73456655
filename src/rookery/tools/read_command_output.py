"""Read or search an output that was too long to show."""

import re
import warnings
from functools import partial
from typing import Annotated, ClassVar

import msgspec

from rookery.core.limits import KIB
from rookery.core.text.output_preview import readable
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import Artifacts
from rookery.errors import BadArguments
from rookery.tools.threads import beside

DEFAULT_LIMIT = 40 * KIB
PIECE = 64 * KIB


class ReadCommandOutputArgs(msgspec.Struct, forbid_unknown_fields=True):
    artifact_id: Annotated[str, msgspec.Meta(description="As the result named it: cmd-1.txt.")]
    search: Annotated[
        str | None,
        msgspec.Meta(description="Regular expression, case-insensitive: only lines that match."),
    ] = None
    offset: Annotated[int | None, msgspec.Meta(description="Byte to read from.")] = None
    limit: Annotated[
        int | None, msgspec.Meta(description="Bytes to return, 40960 if not given.")
    ] = None


class ReadCommandOutput:
    name: ClassVar[str] = "read_command_output"
    description: ClassVar[str] = (
        "Read more of a command's output, or search it, when execute_command showed only its "
        "beginning and end."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ReadCommandOutputArgs
    group: ClassVar[ToolGroup] = ToolGroup.COMMAND

    async def prepare(self, args: ReadCommandOutputArgs, ctx: ToolContext) -> Action:
        if not re.fullmatch(r"cmd-[0-9]{1,18}\.txt", args.artifact_id):
            raise BadArguments(f"{args.artifact_id} is no artifact id; they look like cmd-1.txt.")
        limit = min(max(args.limit or DEFAULT_LIMIT, 1), ctx.limits.read_bytes)
        work = (
            partial(_search, ctx.artifacts, args.artifact_id, args.search, limit)
            if args.search
            else partial(_read, ctx.artifacts, args.artifact_id, args.offset or 0, limit)
        )

        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await beside(work))

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
    state = "COMPLETE" if end == size else f"TRUNCATED, go on at offset {end}"
    header = f"{artifact_id}: {size} bytes in all, here {offset} to {end}. {state}."
    lines = readable(data.decode("utf-8", "replace")).removesuffix("\n").split("\n")
    return "\n".join([header, *(f"{number} | {line}" for number, line in enumerate(lines, first))])


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
    return "\n".join([header, *(f"{number} | {readable(line)}" for number, line in shown)])


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


TOOL = ReadCommandOutput()
