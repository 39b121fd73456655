"""Write a whole file."""

import re
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, ClassVar

import msgspec

from rookery.core.text.text_lines import with_ends_of
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import FileText
from rookery.tools.file_changes import change_file
from rookery.tools.threads import beside

_FENCE = re.compile(r"```[\w+#.-]*\s*")
_FENCES_DROPPED = "Only the ``` lines around the content were left out."
_SOURCE = frozenset(
    [
        ".bash",
        ".c",
        ".cc",
        ".cfg",
        ".clj",
        ".cpp",
        ".cs",
        ".css",
        ".cts",
        ".dart",
        ".ex",
        ".exs",
        ".fs",
        ".go",
        ".gradle",
        ".graphql",
        ".h",
        ".hpp",
        ".hs",
        ".html",
        ".ini",
        ".java",
        ".jl",
        ".js",
        ".json",
        ".jsx",
        ".kt",
        ".kts",
        ".less",
        ".lua",
        ".m",
        ".mjs",
        ".mts",
        ".nix",
        ".php",
        ".pl",
        ".proto",
        ".ps1",
        ".py",
        ".pyi",
        ".r",
        ".rb",
        ".rs",
        ".sass",
        ".scala",
        ".scss",
        ".sh",
        ".sql",
        ".svelte",
        ".swift",
        ".tf",
        ".toml",
        ".ts",
        ".tsx",
        ".vue",
        ".xml",
        ".yaml",
        ".yml",
        ".zig",
        ".zsh",
    ]
)
"""Files that nobody begins with a code fence on purpose."""


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
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Write",
        hook_arguments={"path": "file_path", "content": "content"},
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
        text = await beside(partial(with_ends_of, old.text, said))
        return await change_file(ctx, old, text, tool="editedExistingFile", whole=True, note=note)


def _without_fences(content: str, path: str) -> str | None:
    """What is in the one code block that the content is: models like to send a file as one.
    None if it is something else, or the file may well be meant to hold a code block.
    """
    lines = content.strip().split("\n")
    fenced = len(lines) > 1 and _FENCE.fullmatch(lines[0]) and lines[-1].rstrip() == "```"
    if not fenced or PurePosixPath(path).suffix.lower() not in _SOURCE:
        return None
    inner = lines[1:-1]
    if any(line.startswith("```") for line in inner):
        return None
    return "".join(f"{line}\n" for line in inner)


TOOL = WriteToFile()
