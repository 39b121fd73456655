"""Change one file: replace a piece of its text, apply search/replace blocks, or write it whole."""

import re
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec.structs import replace

from rookery.core.text.characters import as_utf8
from rookery.core.text.text_lines import Swap, line_swap, with_ends_of
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import FileText
from rookery.errors import BadArguments
from rookery.tools.file_changes import change_file, existing, explain_miss, in_thread

if TYPE_CHECKING:
    from rookery.core.text.diff_blocks import Applied

_FENCE = re.compile(r"```[\w+#.-]*\s*")
_FENCES_DROPPED = "Only the ``` lines around the content were left out."
_SOURCE_SUFFIXES = """
    .bash .c .cc .cfg .clj .cpp .cs .css .cts .dart .ex .exs .fs .go .gradle .graphql .h .hpp
    .hs .html .ini .java .jl .js .json .jsx .kt .kts .less .lua .m .mjs .mts .nix .php .pl
    .proto .ps1 .py .pyi .r .rb .rs .sass .scala .scss .sh .sql .svelte .swift .tf .toml .ts
    .tsx .vue .xml .yaml .yml .zig .zsh
"""
_SOURCE = frozenset(_SOURCE_SUFFIXES.split())
"""Files that never start with a code fence on purpose."""


class WriteToFileArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    content: Annotated[str, msgspec.Meta(description="All of it, nothing left out.")]


class WriteToFile:
    name: ClassVar[str] = "write_to_file"
    description: ClassVar[str] = (
        "Create a file, or replace everything in it. To change a part, use edit or apply_diff."
    )
    arguments: ClassVar[type[msgspec.Struct]] = WriteToFileArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Write",
        hook_arguments={"path": "file_path", "content": "content"},
        essential=True,
        row_name="newFileCreated",
    )

    async def prepare(self, args: WriteToFileArgs, ctx: ToolContext) -> Action:
        path = ctx.files.locate(args.path)
        unfenced = _without_fences(args.content, path)
        content = args.content if unfenced is None else unfenced
        note = "" if unfenced is None else _FENCES_DROPPED
        old = await ctx.files.examine(path)
        if old is None:
            fresh = FileText(path=path, text="", sha="")
            return await change_file(ctx, fresh, content, tool="newFileCreated", note=note)
        said = content.removeprefix("\ufeff") if old.bom else content
        text = await in_thread(partial(with_ends_of, old.text, said))
        return await change_file(ctx, old, text, tool="editedExistingFile", whole=True, note=note)


def _without_fences(content: str, path: str) -> str | None:
    """The content of the single code block that models like to wrap files in. None if it is
    something else, or if the file may be meant to contain a code block."""
    lines = content.strip().split("\n")
    fenced = len(lines) > 1 and _FENCE.fullmatch(lines[0]) and lines[-1].rstrip() == "```"
    if not fenced or PurePosixPath(path).suffix.lower() not in _SOURCE:
        return None
    inner = lines[1:-1]
    if any(line.startswith("```") for line in inner):
        return None
    return "".join(f"{line}\n" for line in inner)


_HINT = "Several blocks may be sent in one call."


class ApplyDiffArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    diff: Annotated[
        str,
        msgspec.Meta(
            description="Blocks of: <<<<<<< SEARCH, optional :start_line:N and -------, the lines "
            "as they are, =======, the new lines, >>>>>>> REPLACE; each marker on its own line, "
            "and a backslash before such markers in file text."
        ),
    ]


class ApplyDiff:
    name: ClassVar[str] = "apply_diff"
    description: ClassVar[str] = (
        "Change parts of a file with search/replace blocks. Each SEARCH part must match whole "
        "lines and be unique in the file, or have a start line."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ApplyDiffArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_arguments={"path": "file_path"},
        explained=frozenset({"diff"}),
    )

    async def prepare(self, args: ApplyDiffArgs, ctx: ToolContext) -> Action:
        from rookery.core.text.diff_blocks import Malformed, apply, explain, parse

        blocks = await in_thread(partial(parse, args.diff))
        if isinstance(blocks, Malformed):
            raise BadArguments(f"The diff is malformed. {blocks.reason}")
        file = await existing(args.path, ctx)
        applied = await in_thread(partial(apply, file.text, blocks))
        if not applied.count:
            return explain_miss(ctx, file, partial(explain, misses=applied.misses))
        said = as_utf8(file.text) if applied.misses else ""
        return await change_file(
            ctx,
            file,
            applied.text,
            tool="appliedDiff",
            payload={"diff": args.diff},
            reads=bool(applied.misses),
            swaps=[line_swap(block.search, block.replace) for block in blocks],
            note=await in_thread(partial(_note, said, applied)),
        )


def _note(text: str, applied: "Applied") -> str:
    from rookery.core.text.diff_blocks import explain

    if not applied.misses:
        return _HINT if applied.count == 1 else ""
    total = applied.count + len(applied.misses)
    reasons = explain(text, applied.misses)
    return f"Only {applied.count} of {total} blocks were applied.\n\n{reasons}"


class SearchReplaceArgs(msgspec.Struct, forbid_unknown_fields=True):
    file_path: str
    old_string: Annotated[str, msgspec.Meta(description="Unique in the file.")]
    new_string: str


class SearchReplace:
    name: ClassVar[str] = "search_replace"
    description: ClassVar[str] = "Replace an exact piece of text that is in a file once."
    arguments: ClassVar[type[msgspec.Struct]] = SearchReplaceArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    traits: ClassVar[ToolTraits] = ToolTraits(is_synonym=True)

    async def prepare(self, args: SearchReplaceArgs, ctx: ToolContext) -> Action:
        return await _replace_exactly(args, ctx, everywhere=False)


class EditFileArgs(msgspec.Struct, forbid_unknown_fields=True):
    file_path: str
    old_string: Annotated[str, msgspec.Meta(description="Empty to create the file.")]
    new_string: str
    expected_replacements: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, msgspec.Meta(description="Default 1.")
    ] = None


class EditFile:
    name: ClassVar[str] = "edit_file"
    description: ClassVar[str] = "Replace text in a file; its whitespace may be quoted loosely."
    arguments: ClassVar[type[msgspec.Struct]] = EditFileArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_arguments={name: name for name in ("file_path", "old_string", "new_string")},
        is_synonym=True,
    )

    async def prepare(self, args: EditFileArgs, ctx: ToolContext) -> Action:
        from rookery.core.text.literal_edits import (
            Miscounted,
            Missing,
            explain_loose,
            replace_loosely,
        )

        old, new = args.old_string, args.new_string
        if not old:
            return await _create(ctx, args.file_path, new)
        if old.replace("\r\n", "\n") == new.replace("\r\n", "\n"):
            raise BadArguments("old_string and new_string are the same.")
        file = await existing(args.file_path, ctx)
        expected = args.expected_replacements or 1
        edited = await in_thread(partial(replace_loosely, file.text, old, new, expected))
        match edited:
            case str(text):
                return await change_file(
                    ctx, file, text, tool="appliedDiff", swaps=[Swap(old, new)]
                )
            case Missing() | Miscounted():
                return explain_miss(
                    ctx, file, lambda text: explain_loose(text, old, edited, expected)
                )


async def _create(ctx: ToolContext, path: str, text: str) -> Action:
    if await ctx.files.examine(path):
        raise BadArguments(
            f"{path} already exists, so old_string must not be empty: quote the text to change."
        )
    fresh = FileText(path=ctx.files.locate(path), text="", sha="")
    action = await change_file(ctx, fresh, text, tool="newFileCreated")
    return replace(action, payload={**action.payload, "diff": action.diff})


class EditArgs(msgspec.Struct, forbid_unknown_fields=True):
    file_path: str
    old_string: Annotated[str, msgspec.Meta(description="The text as it is, with whitespace.")]
    new_string: str
    replace_all: bool | None = None


class EditText:
    name: ClassVar[str] = "edit"
    description: ClassVar[str] = (
        "Replace one exact piece of text in a file. It must be unique there, or replace_all true."
    )
    arguments: ClassVar[type[msgspec.Struct]] = EditArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT
    traits: ClassVar[ToolTraits] = ToolTraits(skipped=frozenset({"replace_all"}), essential=True)

    async def prepare(self, args: EditArgs, ctx: ToolContext) -> Action:
        return await _replace_exactly(args, ctx, everywhere=bool(args.replace_all))


async def _replace_exactly(
    args: SearchReplaceArgs | EditArgs, ctx: ToolContext, *, everywhere: bool
) -> Action:
    from rookery.core.text.literal_edits import explain, replace_text

    old, new = args.old_string, args.new_string
    if not old:
        raise BadArguments("old_string is empty. write_to_file creates a file.")
    if old == new:
        raise BadArguments("old_string and new_string are the same.")
    file = await existing(args.file_path, ctx)
    work = partial(replace_text, file.text, old, new, everywhere)
    edited = await in_thread(work, once_through=file.text)
    if isinstance(edited, str):
        return await change_file(ctx, file, edited, tool="appliedDiff", swaps=[Swap(old, new)])
    can_all = isinstance(args, EditArgs)
    return explain_miss(ctx, file, lambda text: explain(text, old, edited, can_all=can_all))


TOOLS = (EditText(), EditFile(), SearchReplace(), ApplyDiff(), WriteToFile())
