"""Read a file, a slice of it, or the block of code around a line; or several files at once."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from rookery.core.facts import Ending
from rookery.core.limits import Limits
from rookery.core.replies import CREDENTIALS, KEPT_FROM_YOU, denied
from rookery.core.text.text_lines import Span
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import Place
from rookery.errors import BadArguments, Denied, ToolError
from rookery.tools.file_sections import FileSection, IndentationAround, Sections, SectionSpec

MOST_FILES = 20
_SEPARATOR = "\n---\n"
_NAMED_FILES = 3
_TO_THE_END = 10**9
_LONGEST_NUMBER = 9


class Indentation(msgspec.Struct, forbid_unknown_fields=True):
    anchor_line: Annotated[int | None, msgspec.Meta(description="Line in the block.")] = None
    max_levels: Annotated[int | None, msgspec.Meta(description="Levels outwards; 0: all.")] = None
    include_siblings: bool | None = None
    include_header: bool | None = None
    max_lines: int | None = None


class FileLines(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    line_ranges: Annotated[
        list[Any] | None,
        msgspec.Meta(description='E.g. "10-20".', extra_json_schema={"items": {"type": "string"}}),
    ] = None


class ReadFileArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str | None, msgspec.Meta(description="File, relative to the workspace.")] = None
    mode: Annotated[
        Literal["slice", "indentation"] | None,
        msgspec.Meta(description="slice (default), or the block around a line."),
    ] = None
    offset: Annotated[int | None, msgspec.Meta(description="First line, from 1.")] = None
    limit: Annotated[int | None, msgspec.Meta(description="Most lines; default 2000.")] = None
    indentation: Indentation | None = None
    files: Annotated[
        list[FileLines] | None, msgspec.Meta(description="Several files instead of path.")
    ] = None


class _Wanted(Struct, frozen=True, kw_only=True):
    """A requested file and the part of it to show."""

    spec: SectionSpec
    place: Place


class ReadFile:
    name: ClassVar[str] = "read_file"
    description: ClassVar[str] = (
        "Read text, pdf, docx, xlsx or ipynb with line numbers, or see an image."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ReadFileArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Read",
        hook_arguments={"path": "file_path", "offset": "offset", "limit": "limit"},
        skipped=frozenset({"files", "indentation", "mode"}),
        essential=True,
    )

    async def prepare(self, args: ReadFileArgs, ctx: ToolContext) -> Action:
        if bool(args.path) is bool(args.files):
            raise BadArguments("read_file takes either path or files, one of the two.")
        return _batch(args, ctx) if args.files else _single(args, args.path or "", ctx)


TOOLS = (ReadFile(),)


def span_of(said: Any) -> Span:
    """From `"10-20"`, `[10, 20]` or `{"start": 10, "end": 20}`; without an end, to the last."""
    start: Any
    end: Any
    match said:
        case str():
            start, _, end = said.partition("-")
        case [start, end]:
            pass
        case {"start": start, "end": end}:
            pass
        case {"start": start}:
            end = None
        case _:
            raise _wrong(said)
    first, last = _number(start, said), _number(end, said, missing=_TO_THE_END)
    if first < 1:
        raise ToolError(f"Lines {first}-{last} are invalid: lines count from 1.")
    if last < first:
        raise ToolError(f"Lines {first}-{last} are invalid: the last comes before the first.")
    return Span(first - 1, last - 1)


def _single(args: ReadFileArgs, path: str, ctx: ToolContext) -> Action:
    _refuse_wrong_numbers(args)
    place = ctx.files.place(path)
    spec = _spec(args, place.path, ctx.limits)

    async def perform(permit: Permit) -> Outcome:
        section = await Sections(ctx, permit).show(spec)
        return Outcome(text=section.text, images=section.images, seen=section.seen)

    start = _first_line(args)
    return Action(
        title=f"Read {place.path}",
        perform=perform,
        reads=[place.path],
        payload={
            "tool": "readFile",
            "path": place.path,
            "isOutsideWorkspace": place.outside,
            "content": place.path,
            "reason": f"up to {_most(args, ctx.limits)} lines from line {start}",
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


def _most(args: ReadFileArgs, limits: Limits) -> int:
    return min(args.limit or limits.read_lines, limits.read_lines)


def _spec(args: ReadFileArgs, path: str, limits: Limits) -> SectionSpec:
    start, most = _first_line(args) - 1, _most(args, limits)
    if args.mode != "indentation":
        return SectionSpec(path=path, spans=(Span(start, start + most - 1),))
    around = args.indentation or Indentation()
    return SectionSpec(
        path=path,
        around=IndentationAround(
            anchor=start,
            max_levels=around.max_levels or 0,
            include_siblings=bool(around.include_siblings),
            include_header=around.include_header is not False,
            limit=min(most, around.max_lines or most),
        ),
    )


def _batch(args: ReadFileArgs, ctx: ToolContext) -> Action:
    files = args.files or []
    if args.mode or args.offset or args.limit or args.indentation:
        raise BadArguments(
            "mode, offset, limit and indentation can be used with path, not with files."
        )
    if len(files) > MOST_FILES:
        raise BadArguments(f"{len(files)} files are too many; one call reads up to {MOST_FILES}.")
    asked = _found(files, ctx)
    wanted = [each for each in asked if isinstance(each, _Wanted)]
    if not wanted:
        why = _SEPARATOR.join(each.text for each in asked if isinstance(each, FileSection))
        refused = any(isinstance(each, FileSection) and each.refused for each in asked)
        raise Denied(denied(why)) if refused else ToolError(why)

    async def perform(permit: Permit) -> Outcome:
        return await _joined(asked, ctx, permit)

    names = [each.spec.path for each in wanted]
    rest = len(names) - _NAMED_FILES
    return Action(
        title=f"Read {', '.join(names[:_NAMED_FILES])}{f' and {rest} more' if rest > 0 else ''}",
        perform=perform,
        reads=names,
        notes=[f"reads {name}" for name in names] if rest > 0 else (),
        payload={
            "tool": "readFile",
            "isOutsideWorkspace": any(each.place.outside for each in wanted),
            "batchFiles": [_shown(each) for each in wanted],
        },
    )


def _found(files: Sequence[FileLines], ctx: ToolContext) -> list[_Wanted | FileSection]:
    """The files in order, each once; a sentence in place of an invalid one."""
    asked: dict[str, _Wanted | FileSection] = {}
    for file in files:
        try:
            spans = tuple(map(span_of, file.line_ranges or ()))
            place = ctx.files.place(file.path)
        except BadArguments:
            raise
        except ToolError as error:
            asked[file.path] = _failure(file.path, error)
            continue
        if refusal := _refusal(place):
            asked[place.path] = FileSection(
                text=f"File: {place.path}\n{refusal}", failed=True, refused=True
            )
            continue
        before = asked.get(place.path)
        if isinstance(before, _Wanted):
            spans = (*before.spec.spans, *spans) if spans and before.spec.spans else ()
        asked[place.path] = _Wanted(spec=SectionSpec(path=place.path, spans=spans), place=place)
    return list(asked.values())


def _refusal(place: Place) -> str:
    """Why one of several files is left out: it would be refused, and the whole call with it."""
    if place.ignored:
        return KEPT_FROM_YOU.format(path=place.path)
    return CREDENTIALS.format(path=place.path) if place.credential else ""


async def _joined(
    asked: Sequence[_Wanted | FileSection], ctx: ToolContext, permit: Permit
) -> Outcome:
    sections = Sections(ctx, permit)
    parts = [await _part(each, sections) for each in asked]
    return Outcome(
        text=_SEPARATOR.join(part.text for part in parts),
        ending=Ending.FAILED if all(part.failed for part in parts) else Ending.DONE,
        images=tuple(image for part in parts for image in part.images),
        seen=tuple(seen for part in parts for seen in part.seen),
    )


async def _part(asked: _Wanted | FileSection, sections: Sections) -> FileSection:
    """The shown part of one file. A read error does not affect the other files."""
    if isinstance(asked, FileSection):
        return asked
    try:
        return await sections.show(asked.spec)
    except Denied:
        raise
    except ToolError as error:
        return _failure(asked.spec.path, error)


def _failure(path: str, error: ToolError) -> FileSection:
    return FileSection(text=f"File: {path}\n{error}", failed=True)


def _shown(wanted: _Wanted) -> Mapping[str, Any]:
    path = wanted.spec.path
    lines = ", ".join(map(str, wanted.spec.spans))
    return {
        "path": path,
        "lineSnippet": f"lines {lines}" if lines else "",
        "isOutsideWorkspace": wanted.place.outside,
        "key": f"{path} ({lines})" if lines else path,
        "content": path,
    }


def _number(part: Any, said: Any, missing: int | None = None) -> int:
    if missing is not None and part in (None, ""):
        return missing
    if isinstance(part, str) and len(part) <= _LONGEST_NUMBER and part.strip().isdecimal():
        return int(part)
    if isinstance(part, int) and not isinstance(part, bool):
        return min(part, _TO_THE_END)
    raise _wrong(said)


def _wrong(said: Any) -> BadArguments:
    return BadArguments(f'line_ranges holds {repr(said)[:80]}; a range is like "10-20".')
