"""Replace a piece of text in a file, though its blanks may be quoted wrongly."""

from functools import partial
from typing import Annotated, ClassVar

import msgspec
from msgspec.structs import replace

from rookery.core.text.text_lines import Swap
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import FileText
from rookery.errors import BadArguments
from rookery.tools.file_changes import change_file, existing, explain_miss
from rookery.tools.threads import beside


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
        from rookery.tools.edits.literal_edits import (
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
        edited = await beside(partial(replace_loosely, file.text, old, new, expected))
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
            f"{path} is there already, so old_string must not be empty: quote what is to change."
        )
    fresh = FileText(path=ctx.files.locate(path), text="", sha="")
    action = await change_file(ctx, fresh, text, tool="newFileCreated")
    return replace(action, payload={**action.payload, "diff": action.diff})


TOOL = EditFile()
