"""Find code by what it is about."""

from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar, Protocol

import msgspec

from rookery.core.indexed_code import CodeHit, CodeHits
from rookery.core.limits import KIB
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import Files
from rookery.errors import BadArguments, ToolError
from rookery.tools.file_changes import is_outside

MOST_SHOWN = 12 * KIB
LONGEST_QUERY = 2000


class Index(Protocol):
    async def search(
        self, query: str, path: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> CodeHits:
        """What fits the query best in a folder or file, of that only what may be shown."""
        ...


class CodebaseSearchArgs(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[str, msgspec.Meta(description="What the code does or is called, in words.")]
    path: Annotated[
        str | None, msgspec.Meta(description="Folder to search in; default: all of the workspace.")
    ] = None


class CodebaseSearch:
    name: ClassVar[str] = "codebase_search"
    description: ClassVar[str] = (
        "Find the code that fits a description best, when you do not know its exact words. "
        "search_files finds exact text."
    )
    arguments: ClassVar[type[msgspec.Struct]] = CodebaseSearchArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ

    def __init__(self, index: Index) -> None:
        self._index = index

    async def prepare(self, args: CodebaseSearchArgs, ctx: ToolContext) -> Action:
        query = " ".join(args.query.split())
        if not query or len(query) > LONGEST_QUERY:
            raise BadArguments(f"The query must have 1 to {LONGEST_QUERY} characters.")
        path = ctx.files.locate(args.path or ".")
        if is_outside(path):
            raise ToolError(f"{path} is outside the workspace, which alone is indexed.")

        async def perform(permit: Permit) -> Outcome:
            found = await self._index.search(query, path, permit, shown_by(ctx.files, permit))
            return Outcome(text=_report(query, found))

        below = {"path": path} if args.path else {}
        return Action(
            title=f"Search the code in {path} for {query}",
            perform=perform,
            reads=[path],
            payload={
                "tool": "codebaseSearch",
                "query": query,
                "isOutsideWorkspace": False,
                **below,
            },
        )


def shown_by(files: Files, permit: Permit) -> Callable[[str], bool]:
    """Whether a file may be shown now, whatever held when it was indexed."""

    def may_show(path: str) -> bool:
        try:
            place = files.place(path)
        except ToolError:
            return False
        if permit.withheld and permit.withheld(path):
            return False
        return place.path == path and not (place.ignored or place.credential or place.outside)

    return may_show


def _report(query: str, found: CodeHits) -> str:
    if not found.hits:
        nothing = f"Nothing in the code fits {query!r}. Try other words, or search_files."
        return "\n".join([nothing, *found.notes])
    parts = list(_within(found.hits, MOST_SHOWN))
    return "\n\n".join([*parts, *found.notes])


def _within(hits: tuple[CodeHit, ...], room: int) -> Iterator[str]:
    """As many as there is room for in bytes, but at least one."""
    for place, hit in enumerate(hits):
        part = f"# {hit.path}:{hit.start}-{hit.end} (score {hit.score:.2f})\n{_trimmed(hit.text)}"
        room -= len(part.encode()) + 2
        if room < 0 and place:
            return
        yield part


def _trimmed(text: str) -> str:
    """Without empty lines around it; the first line keeps its indentation."""
    rows = text.replace("\r\n", "\n").rstrip().split("\n")
    while rows and not rows[0].strip():
        rows.pop(0)
    return "\n".join(rows)
