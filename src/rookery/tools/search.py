"""Look for files and code: list a folder, search for text, find code, list definitions."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

import msgspec
from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.text.characters import as_utf8
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import Files, FileText
from rookery.errors import BadArguments, ToolError
from rookery.tools.file_changes import is_outside

if TYPE_CHECKING:
    from rookery.core.indexed_code import CodeHit, CodeHits, Definition, Outline

MOST_SHOWN = 12 * KIB
LONGEST_QUERY = 2000


class Index(Protocol):
    async def search(
        self, query: str, path: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> "CodeHits":
        """The best matches in a folder or file, without what may not be shown."""
        ...


class CodebaseSearchArgs(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[str, msgspec.Meta(description="What the code does or is called, in words.")]
    path: Annotated[str | None, msgspec.Meta(description="Folder to search in.")] = None


class CodebaseSearch(Struct):
    name: ClassVar[str] = "codebase_search"
    description: ClassVar[str] = (
        "Find the code that fits a description, if you do not know its exact words. "
        "search_files finds exact text."
    )
    arguments: ClassVar[type[msgspec.Struct]] = CodebaseSearchArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ
    traits: ClassVar[ToolTraits] = ToolTraits(editor_kind="search")

    index: Index

    async def prepare(self, args: CodebaseSearchArgs, ctx: ToolContext) -> Action:
        query = " ".join(args.query.split())
        if not query or len(query) > LONGEST_QUERY:
            raise BadArguments(f"The query must have 1 to {LONGEST_QUERY} characters.")
        path = ctx.files.locate(args.path or ".")
        if is_outside(path):
            raise ToolError(f"{path} is outside the workspace, which alone is indexed.")

        async def perform(permit: Permit) -> Outcome:
            found = await self.index.search(query, path, permit, shown_by(ctx.files, permit))
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
    """Whether a file may be shown now; that may have changed since it was indexed."""

    def may_show(path: str) -> bool:
        try:
            place = files.place(path)
        except ToolError:
            return False
        if permit.withheld and permit.withheld(path):
            return False
        return place.path == path and not (place.ignored or place.credential or place.outside)

    return may_show


def _report(query: str, found: "CodeHits") -> str:
    if not found.hits:
        nothing = f"Nothing in the code fits {query!r}. Try other words, or search_files."
        return "\n".join([nothing, *found.notes])
    parts = list(_within(found.hits, MOST_SHOWN))
    return "\n\n".join([*parts, *found.notes])


def _within(hits: "tuple[CodeHit, ...]", room: int) -> Iterator[str]:
    """As many as fit in this many bytes, but at least one."""
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


MOST_OUTLINED = 16 * KIB


class Outlines(Protocol):
    async def outline(self, path: str, text: str) -> "Sequence[Definition]":
        """The definitions in the text of a file."""
        ...

    async def outlines_in(
        self, folder: str, permit: Permit, may_show: Callable[[str], bool]
    ) -> "Sequence[Outline] | None":
        """The outlines of the files in a folder of the workspace; None if it is not a folder."""
        ...


class ListCodeDefinitionNamesArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: str


class ListCodeDefinitionNames(Struct):
    name: ClassVar[str] = "list_code_definition_names"
    description: ClassVar[str] = (
        "List what a file, or each file in a folder, defines: classes, functions, headings, and "
        "their lines."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ListCodeDefinitionNamesArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ
    traits: ClassVar[ToolTraits] = ToolTraits(editor_kind="search")

    outlines: Outlines

    async def prepare(self, args: ListCodeDefinitionNamesArgs, ctx: ToolContext) -> Action:
        path = ctx.files.locate(args.path)

        async def perform(permit: Permit) -> Outcome:
            inside = None
            if not is_outside(path):
                may_show = shown_by(ctx.files, permit)
                inside = await self.outlines.outlines_in(path, permit, may_show)
            found = [await self._of_file(path, ctx, permit)] if inside is None else inside
            return Outcome(text=_outlines(path, found))

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

    async def _of_file(self, path: str, ctx: ToolContext, permit: Permit) -> "Outline":
        from rookery.core.indexed_code import Outline

        file = await ctx.files.read(path, permit)
        if not isinstance(file, FileText):
            raise ToolError(f"{path} is not a text file, so it has no definitions.")
        return Outline(path, tuple(await self.outlines.outline(path, as_utf8(file.text))))


def _outlines(path: str, found: "Sequence[Outline]") -> str:
    nonempty = [outline for outline in found if outline.definitions]
    if not nonempty:
        return f"No definitions found in {path}. read_file shows its content."
    return "\n\n".join(_shared(nonempty, MOST_OUTLINED))


def _shared(outlines: "Sequence[Outline]", room: int) -> Iterator[str]:
    """Share the remaining room equally between files."""
    from rookery.core.indexed_code import folded

    for place, outline in enumerate(outlines):
        head = f"# {outline.path}\n"
        share = room // (len(outlines) - place)
        body = folded(outline.definitions, share - len(head))
        if not body:
            yield f"({len(outlines) - place} more files; name one of them.)"
            return
        room -= len(head) + len(body) + 2
        yield head + body


class SearchFilesArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Folder or file.")]
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
        editor_kind="search",
        hook_arguments={"regex": "pattern", "path": "path", "file_pattern": "glob"},
        skipped=frozenset({"file_pattern"}),
        essential=True,
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


class ListFilesArgs(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    recursive: bool | None = None


class ListFiles:
    name: ClassVar[str] = "list_files"
    description: ClassVar[str] = (
        "List the files and folders in a folder; ignored ones are left out."
    )
    arguments: ClassVar[type[msgspec.Struct]] = ListFilesArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Glob",
        editor_kind="search",
        hook_arguments={"path": "path"},
        row_name="listFilesTopLevel",
        essential=True,
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


TOOLS = (ListFiles(), SearchFiles())
