"""List what a file, or each file in a folder, defines."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, ClassVar, Protocol

import msgspec

from rookery.core.indexed_code import Definition, Outline, folded
from rookery.core.limits import KIB
from rookery.core.text.characters import as_utf8
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import FileText
from rookery.errors import ToolError
from rookery.tools.codebase_search import shown_by
from rookery.tools.file_changes import is_outside

MOST_SHOWN = 16 * KIB


class Outlines(Protocol):
    async def outline(self, path: str, text: str) -> Sequence[Definition]:
        """What a text defines that is in a file of this name."""
        ...

    async def outlines_in(
        self, folder: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> Sequence[Outline] | None:
        """The same for the files in a folder of the workspace; None if it is none."""
        ...


class ListCodeDefinitionNamesArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="File or folder, relative to the workspace.")]


class ListCodeDefinitionNames:
    name: ClassVar[str] = "list_code_definition_names"
    description: ClassVar[str] = (
        "List what a file, or each file in a folder, defines: classes, functions, headings, with "
        "the lines they are in."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ListCodeDefinitionNamesArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ

    def __init__(self, outlines: Outlines) -> None:
        self._outlines = outlines

    async def prepare(self, args: ListCodeDefinitionNamesArgs, ctx: ToolContext) -> Action:
        path = ctx.files.locate(args.path)

        async def perform(permit: Permit) -> Outcome:
            inside = None
            if not is_outside(path):
                may_show = shown_by(ctx.files, permit)
                inside = await self._outlines.outlines_in(path, permit, may_show)
            found = [await self._of_file(path, ctx, permit)] if inside is None else inside
            return Outcome(text=_report(path, found))

        return Action(
            title=f"List what {path} defines",
            perform=perform,
            reads=[path],
            payload={
                "tool": "listCodeDefinitionNames",
                "path": path,
                "isOutsideWorkspace": is_outside(path),
            },
        )

    async def _of_file(self, path: str, ctx: ToolContext, permit: Permit) -> Outline:
        file = await ctx.files.read(path, permit)
        if not isinstance(file, FileText):
            raise ToolError(f"{path} is not a text file and defines nothing.")
        return Outline(path, tuple(await self._outlines.outline(path, as_utf8(file.text))))


def _report(path: str, found: Sequence[Outline]) -> str:
    telling = [outline for outline in found if outline.definitions]
    if not telling:
        return f"Nothing is known to be defined in {path}. read_file shows what is there."
    return "\n\n".join(_within(telling, MOST_SHOWN))


def _within(outlines: Sequence[Outline], room: int) -> Iterator[str]:
    """Every file gets an equal share of the room that is left."""
    for place, outline in enumerate(outlines):
        head = f"# {outline.path}\n"
        share = room // (len(outlines) - place)
        body = folded(outline.definitions, share - len(head))
        if not body:
            yield f"({len(outlines) - place} more files; name one of them.)"
            return
        room -= len(head) + len(body) + 2
        yield head + body
