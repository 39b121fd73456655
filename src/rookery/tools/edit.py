"""Replace an exact piece of text in a file."""

from functools import partial
from typing import Annotated, ClassVar

import msgspec

from rookery.core.text.text_lines import Swap
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments
from rookery.tools.file_changes import change_file, existing, explain_miss
from rookery.tools.threads import beside


class EditArgs(msgspec.Struct, forbid_unknown_fields=True):
    file_path: Annotated[str, msgspec.Meta(description="File, relative to the workspace.")]
    old_string: Annotated[str, msgspec.Meta(description="The text as it is, whitespace included.")]
    new_string: Annotated[str, msgspec.Meta(description="The text as it shall be.")]
    replace_all: Annotated[
        bool | None, msgspec.Meta(description="Replace every occurrence; default false.")
    ] = None


class EditText:
    name: ClassVar[str] = "edit"
    description: ClassVar[str] = (
        "Replace one exact piece of text in a file. It must be unique in the file unless "
        "replace_all is true."
    )
    arguments: ClassVar[type[msgspec.Struct]] = EditArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT

    async def prepare(self, args: EditArgs, ctx: ToolContext) -> Action:
        from rookery.tools.edits.literal_edits import Ambiguous, Missing, explain, replace_text

        if not args.old_string:
            raise BadArguments("old_string is empty. write_to_file creates a file.")
        if args.old_string == args.new_string:
            raise BadArguments("old_string and new_string are the same.")
        file = await existing(args.file_path, ctx)
        everywhere, swap = bool(args.replace_all), Swap(args.old_string, args.new_string)
        edited = await beside(
            partial(replace_text, file.text, args.old_string, args.new_string, everywhere)
        )
        match edited:
            case str(text):
                return await change_file(ctx, file, text, tool="appliedDiff", swaps=[swap])
            case Missing() | Ambiguous():
                return explain_miss(ctx, file, lambda text: explain(text, args.old_string, edited))


TOOL = EditText()
