"""Write a whole file."""

from pathlib import PurePosixPath
from typing import Annotated, ClassVar

import msgspec

from rookery.core.text_lines import with_ends_of
from rookery.engine.ports import Action, FileText, ToolContext, ToolGroup
from rookery.tools.file_changes import change_file

_MARKDOWN = {".md", ".mdx", ".markdown", ".rmd", ".qmd"}


class WriteToFileArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="File, relative to the workspace.")]
    content: Annotated[str, msgspec.Meta(description="The whole content, nothing left out.")]


class WriteToFile:
    name: ClassVar[str] = "write_to_file"
    description: ClassVar[str] = (
        "Create a file, or replace everything in it. To change part of a file use apply_diff "
        "or edit."
    )
    arguments: ClassVar[type[msgspec.Struct]] = WriteToFileArgs
    group: ClassVar[ToolGroup] = ToolGroup.EDIT

    async def prepare(self, args: WriteToFileArgs, ctx: ToolContext) -> Action:
        path = ctx.files.locate(args.path)
        content = _without_fences(args.content, path)
        old = await ctx.files.examine(path)
        if old is None:
            fresh = FileText(path=path, text="", sha="")
            return await change_file(ctx, fresh, content, tool="newFileCreated")
        text = with_ends_of(old.text, content.removeprefix("\ufeff") if old.bom else content)
        return await change_file(ctx, old, text, tool="editedExistingFile")


def _without_fences(content: str, path: str) -> str:
    """A file is not a code block, although models like to send it as one."""
    lines = content.strip().split("\n")
    fenced = len(lines) > 1 and lines[0].startswith("```") and lines[-1].rstrip() == "```"
    if not fenced or PurePosixPath(path).suffix.lower() in _MARKDOWN:
        return content
    return "".join(f"{line}\n" for line in lines[1:-1])


TOOL = WriteToFile()
