"""List a folder."""

from typing import Annotated, ClassVar

import msgspec

from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.tools.file_changes import is_outside


class ListFilesArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Folder, relative to the workspace.")]
    recursive: Annotated[
        bool | None, msgspec.Meta(description="Folders inside it too; default false.")
    ] = None


class ListFiles:
    name: ClassVar[str] = "list_files"
    description: ClassVar[str] = (
        "List the files and folders in a folder; ignored ones are left out."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ListFilesArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Glob", hook_arguments={"path": "path"}, row_name="listFilesTopLevel"
    )

    async def prepare(self, args: ListFilesArgs, ctx: ToolContext) -> Action:
        path = ctx.files.locate(args.path)
        recursive = bool(args.recursive)

        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await ctx.finder.list(path, recursive=recursive, permit=permit))

        return Action(
            title=f"List {path}{' and all below' if recursive else ''}",
            perform=perform,
            reads=[path],
            payload={
                "tool": "listFilesRecursive" if recursive else "listFilesTopLevel",
                "path": path,
                "isOutsideWorkspace": is_outside(path),
            },
        )


TOOL = ListFiles()
