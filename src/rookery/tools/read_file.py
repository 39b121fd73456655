"""Read a file, a slice of it, or the block of code around a line."""

import base64
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal

import msgspec

from rookery.core.blocks import Image
from rookery.core.characters import as_utf8
from rookery.core.indentation_blocks import block_around
from rookery.core.limits import MIB, Limits
from rookery.core.text_lines import rows_of
from rookery.engine.ports import (
    Action,
    FileBytes,
    FileText,
    Outcome,
    Permit,
    ToolContext,
    ToolGroup,
)
from rookery.errors import ToolError
from rookery.tools.threads import beside

_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


class Indentation(msgspec.Struct, forbid_unknown_fields=True):
    anchor_line: Annotated[int | None, msgspec.Meta(description="Line in the block.")] = None
    max_levels: Annotated[int | None, msgspec.Meta(description="Levels outwards; 0: all.")] = None
    include_siblings: bool | None = None
    include_header: bool | None = None
    max_lines: int | None = None


class ReadFileArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="File, relative to the workspace.")]
    mode: Annotated[
        Literal["slice", "indentation"] | None,
        msgspec.Meta(description="slice (default), or the code block around a line."),
    ] = None
    offset: Annotated[int | None, msgspec.Meta(description="First line, from 1.")] = None
    limit: Annotated[int | None, msgspec.Meta(description="Most lines; default 2000.")] = None
    indentation: Indentation | None = None


class ReadFile:
    name: ClassVar[str] = "read_file"
    description: ClassVar[str] = "Read a file with line numbers. Images are shown if you can see."
    arguments: ClassVar[type[msgspec.Struct]] = ReadFileArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ

    async def prepare(self, args: ReadFileArgs, ctx: ToolContext) -> Action:
        _refuse_wrong_numbers(args)
        path = ctx.files.locate(args.path)

        async def perform(permit: Permit) -> Outcome:
            match await ctx.files.read(path, permit):
                case FileText() as file:
                    text = await beside(partial(_shown, file, args, ctx.limits))
                    return Outcome(text=text)
                case FileBytes() as file:
                    return _picture(file, ctx) or Outcome(text=_unreadable(file))

        start = _first_line(args)
        most = min(args.limit or ctx.limits.read_lines, ctx.limits.read_lines)
        return Action(
            title=f"Read {path}",
            perform=perform,
            reads=[path],
            payload={
                "tool": "readFile",
                "path": path,
                "isOutsideWorkspace": False,
                "content": path,
                "reason": f"up to {most} lines from line {start}",
                "startLine": start,
            },
        )


def _refuse_wrong_numbers(args: ReadFileArgs) -> None:
    around = args.indentation or Indentation()
    numbers = {
        "offset": args.offset,
        "limit": args.limit,
        "anchor_line": around.anchor_line,
        "max_lines": around.max_lines,
    }
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise ToolError(f"{name} is {number}, but counts from 1.")


def _first_line(args: ReadFileArgs) -> int:
    anchor = args.indentation.anchor_line if args.indentation else None
    return (anchor if args.mode == "indentation" else None) or args.offset or 1


def _shown(file: FileText, args: ReadFileArgs, limits: Limits) -> str:
    rows = rows_of(as_utf8(file.text))
    if not rows:
        return f"File: {file.path}\n(The file is empty.)"
    start = _first_line(args) - 1
    if start >= len(rows):
        raise ToolError(
            f"Line {start + 1} is past the end of {file.path}, which has {len(rows)} lines."
        )
    most = min(args.limit or limits.read_lines, limits.read_lines)
    whole_block = False
    first, last = start, min(start + most, len(rows)) - 1
    if args.mode == "indentation":
        around = args.indentation or Indentation()
        block = block_around(
            rows,
            start,
            max_levels=around.max_levels or 0,
            include_siblings=bool(around.include_siblings),
            include_header=around.include_header is not False,
            limit=min(most, around.max_lines or most),
        )
        first, last, whole_block = block.first, block.last, not block.cut
    numbered = _numbered(rows, first, last, limits)
    shown_last = first + len(numbered) - 1
    notes = _notes(file, first, shown_last, len(rows), whole_block and shown_last == last)
    return "\n".join([f"File: {file.path}", *notes, *numbered])


def _numbered(rows: list[str], first: int, last: int, limits: Limits) -> list[str]:
    """As many of the lines as fit, but at least one."""
    width, size, numbered = len(str(last + 1)), 0, list[str]()
    for number in range(first, last + 1):
        row = f"{number + 1:>{width}} | {_cut(rows[number].removesuffix(chr(13)), limits)}"
        size += len(row.encode()) + 1
        if numbered and size > limits.read_bytes:
            break
        numbered.append(row)
    return numbered


def _cut(row: str, limits: Limits) -> str:
    longest = limits.read_line_length
    return row if len(row) <= longest else row[: longest - 3] + "..."


def _notes(file: FileText, first: int, last: int, total: int, whole_block: bool) -> list[str]:
    notes: list[str] = []
    if not file.sha:
        known = len(file.text.encode("utf-8", "surrogateescape")) // MIB
        notes.append(
            f"(Only the first {known} MiB of {file.size} bytes are read; the line count is of "
            "these. Use a command for the rest.)"
        )
    if whole_block:
        notes.append(f"(Lines {first + 1}-{last + 1} of {total}, the whole block.)")
    elif last + 1 < total:
        notes.append(f"(Lines {first + 1}-{last + 1} of {total}. To go on: offset={last + 2}.)")
    return notes


def _picture(file: FileBytes, ctx: ToolContext) -> Outcome | None:
    media_type = _media_type(file.data)
    if media_type is None:
        return None
    about = f"File: {file.path}\n(Image, {len(file.data) // 1024} KB"
    if not ctx.sees_images:
        return Outcome(text=f"{about}; this model cannot see images.)")
    if len(file.data) > ctx.limits.image_bytes:
        most = ctx.limits.image_bytes // MIB
        return Outcome(text=f"{about}; too large to be shown, the limit is {most} MiB.)")
    image = Image(media_type=media_type, data=base64.b64encode(file.data).decode())
    return Outcome(text=f"{about}.)", images=(image,))


def _media_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _PICTURES if data.startswith(mark)), None)


def _unreadable(file: FileBytes) -> str:
    kind = PurePosixPath(file.path).suffix or "no extension"
    return f"File: {file.path}\n(Not a text file: {kind}, {len(file.data)} bytes. Not shown.)"


TOOL = ReadFile()
