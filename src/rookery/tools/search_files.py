"""Search files for a regular expression."""

from typing import Annotated, ClassVar

import msgspec

from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.tools.file_changes import is_outside


class SearchFilesArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Folder or file, relative to the workspace.")]
    regex: Annotated[str, msgspec.Meta(description="Matched line by line; no look-around.")]
    file_pattern: Annotated[
        str | None, msgspec.Meta(description="Only these files, e.g. *.py or src/**/*.{ts,tsx}.")
    ] = None


class SearchFiles:
    name: ClassVar[str] = "search_files"
    description: ClassVar[str] = (
        "Find lines that match a regular expression, with a line of context; ignored files are "
        "left out."
    )
    arguments: ClassVar[type[msgspec.Struct]] = SearchFilesArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Grep",
        hook_arguments={"regex": "pattern", "path": "path", "file_pattern": "glob"},
    )

    async def prepare(self, args: SearchFilesArgs, ctx: ToolContext) -> Action:
        path = ctx.files.locate(args.path)

        async def perform(permit: Permit) -> Outcome:
            return Outcome(
                text=await ctx.finder.search(path, args.regex, args.file_pattern, permit)
            )

        pattern = {"filePattern": args.file_pattern} if args.file_pattern else {}
        return Action(
            title=f"Search {path} for {args.regex}",
            perform=perform,
            reads=[path],
            payload={
                "tool": "searchFiles",
                "path": path,
                "regex": args.regex,
                "isOutsideWorkspace": is_outside(path),
                **pattern,
            },
        )


TOOL = SearchFiles()
