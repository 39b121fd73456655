"""Replace the one place of a piece of text in a file."""

from functools import partial
from typing import Annotated, ClassVar

import msgspec

from rookery.core.text.text_lines import Swap
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments
from rookery.tools.file_changes import change_file, existing, explain_miss
from rookery.tools.threads import beside


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
        from rookery.tools.edits.literal_edits import Ambiguous, Missing, explain, replace_text

        if not args.old_string:
            raise BadArguments("old_string is empty. write_to_file creates a file.")
        if args.old_string == args.new_string:
            raise BadArguments("old_string and new_string are the same.")
        file = await existing(args.file_path, ctx)
        edited = await beside(
            partial(replace_text, file.text, args.old_string, args.new_string, everywhere=False)
        )
        match edited:
            case str(text):
                swap = Swap(args.old_string, args.new_string)
                return await change_file(ctx, file, text, tool="appliedDiff", swaps=[swap])
            case Missing():
                return explain_miss(ctx, file, lambda text: explain(text, args.old_string, edited))
            case Ambiguous(lines):
                return explain_miss(ctx, file, lambda _: _told_apart(lines))


def _told_apart(lines: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, lines))
    return (
        f"The text is in the file more than once, at lines {listed}. Quote more of what is "
        "around it."
    )


TOOL = SearchReplace()
