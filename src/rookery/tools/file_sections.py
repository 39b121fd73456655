"""What a model sees of a file of any kind: lines, a block of code, an image.

Blocks are found by indentation. Each file leaves less room for the next.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import TOGETHER, Image, Picture, Sight, picture
from rookery.core.facts import Seen
from rookery.core.limits import MIB, Limits
from rookery.core.text.characters import as_utf8
from rookery.core.text.text_lines import Passage, Span, joined_spans, passage, rows_of
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import FileBytes, FileText
from rookery.errors import ToolError
from rookery.tools.file_changes import in_thread

if TYPE_CHECKING:
    from rookery.tools.documents.document_text import DocumentText

TAB = 4
DOCUMENT_BYTES = 50 * MIB
"""Larger documents are not read."""
_ARCHIVES = (".docx", ".docm", ".xlsx", ".xlsm")
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
COMMENTS = ("#", "//", "--", "/*", "*", '"""', "'''")


class IndentationAround(Struct, frozen=True, kw_only=True):
    """The block of code around a line, counted from 0. Without `max_levels`, all of them."""

    anchor: int
    max_levels: int
    include_siblings: bool
    include_header: bool
    limit: int


class SectionSpec(Struct, frozen=True, kw_only=True):
    """The requested part of a file: lines, a block, or as much as fits from the start."""

    path: str
    spans: tuple[Span, ...] = ()
    around: IndentationAround | None = None


class FileSection(Struct, frozen=True, kw_only=True):
    text: str
    images: tuple[Image, ...] = ()
    seen: tuple[Seen, ...] = ()
    failed: bool = False
    refused: bool = False


class _Lines(Struct, frozen=True, kw_only=True):
    """The shown lines of a text; `whole` if those are all. `cut_after` is the last one if there
    was no room for more."""

    words: tuple[str, ...]
    size: int
    whole: bool
    cut_after: int = 0


class DocumentKind(StrEnum):
    PDF = "pdf"
    ZIP = "zip"
    """A document in an archive; its parts tell which kind."""
    NOTEBOOK = "ipynb"
    COMPOUND = "compound"
    """An old or password-protected document; not supported."""


def most_to_read(path: str) -> int | None:
    """How many bytes to read of a file that may be a document, judging by its name."""
    suffix = PurePosixPath(path).suffix.lower()
    return DOCUMENT_BYTES if suffix in (".pdf", ".ipynb", *_ARCHIVES) else None


def document_kind(path: str, data: bytes) -> DocumentKind | None:
    """The kind of document. An archive counts only if its name says that it is a document."""
    suffix = PurePosixPath(path).suffix.lower()
    if data.startswith(b"%PDF-") or (suffix == ".pdf" and b"%PDF-" in data[:1024]):
        return DocumentKind.PDF
    if suffix in _ARCHIVES and data.startswith(b"PK\x03\x04"):
        return DocumentKind.ZIP
    if suffix in _ARCHIVES and data.startswith(_COMPOUND):
        return DocumentKind.COMPOUND
    if suffix == ".ipynb" and data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return DocumentKind.NOTEBOOK
    return None


class Sections:
    """The files of one call. Each leaves less room for the next."""

    def __init__(self, ctx: ToolContext, permit: Permit) -> None:
        self._ctx = ctx
        self._permit = permit
        self._room = ctx.limits.read_bytes
        self._picture_room = TOGETHER

    async def show(self, spec: SectionSpec) -> FileSection:
        if self._room <= 0:
            return _section(spec, "(Not shown: this call shows enough already. Read it by itself.)")
        most = most_to_read(spec.path)
        match await self._ctx.files.read(spec.path, self._permit, most):
            case FileText() as file:
                return await self._notebook(file, spec) or await self._text(file, spec)
            case FileBytes() as file:
                return self._picture(file, spec) or await self._document(file, spec)

    async def _text(self, file: FileText, spec: SectionSpec) -> FileSection:
        text = as_utf8(file.text)
        lines = await self._lines(text, spec)
        rest = await self._rest(file.path, text, lines.cut_after)
        seen = (Seen(file.path, file.sha, lines.whole),) if file.sha else ()
        words = [_title(spec), *_part_of(file), *lines.words, *rest]
        return FileSection(text="\n".join(words), seen=seen)

    async def _rest(self, path: str, text: str, after: int) -> list[str]:
        """The definitions in the lines that did not fit."""
        if not after or self._ctx.outline is None:
            return []
        from rookery.core.indexed_code import rest_in_short

        size = sum(map(len, rows_of(text)[after:]))
        outline = rest_in_short(await self._ctx.outline(path, text), after, size)
        self._room -= len(outline.encode())
        return [f"(Defined in the rest, by lines:)\n{outline}"] if outline else []

    async def _notebook(self, file: FileText, spec: SectionSpec) -> FileSection | None:
        """None if it is not a notebook: then it is shown as text."""
        data = as_utf8(file.text).encode()
        if not file.sha or document_kind(file.path, data) is not DocumentKind.NOTEBOOK:
            return None
        from rookery.tools.documents.document_text import document_text

        document = await document_text(DocumentKind.NOTEBOOK, data)
        return await self._extracted(document, spec) if document.text else None

    async def _document(self, file: FileBytes, spec: SectionSpec) -> FileSection:
        kind = document_kind(file.path, file.data)
        if kind is None:
            return _section(spec, _unreadable(file))
        if not file.sha:
            most = DOCUMENT_BYTES // MIB
            return _section(spec, _unreadable(file, f"It is larger than {most} MiB."))
        from rookery.tools.documents.document_text import document_text

        document = await document_text(kind, file.data)
        if not document.text.strip():
            return _section(spec, _unreadable(file, document.problem))
        return await self._extracted(document, spec)

    async def _extracted(self, document: "DocumentText", spec: SectionSpec) -> FileSection:
        lines = await self._lines(document.text, spec)
        problem = [f"({document.problem})"] if document.problem else []
        return _section(spec, *problem, *lines.words)

    def _picture(self, file: FileBytes, spec: SectionSpec) -> FileSection | None:
        shown = _seen_picture(file, self._ctx, self._picture_room)
        if shown is None:
            return None
        words = f"{_title(spec)}\n({shown.words}.)"
        if shown.image is None:
            return FileSection(text=words)
        self._picture_room -= len(file.data)
        return FileSection(text=words, images=(shown.image,))

    async def _lines(self, text: str, spec: SectionSpec) -> _Lines:
        work = partial(_chosen, text, spec, self._ctx.limits, self._room)
        lines = await in_thread(work, once_through=text)
        self._room -= lines.size
        return lines


class CodeBlock(Struct, frozen=True):
    """Line indices, including the last. `cut` if the limit was reached."""

    first: int
    last: int
    cut: bool


def block_around(lines: Sequence[str], around: IndentationAround) -> CodeBlock:
    """Grow from the anchor, alternately up and down, while lines belong to the block.

    A line belongs if it is not outside the outermost wanted level. At that level only the nearest
    line on each side is taken, and the comments above it, unless siblings are wanted.
    """
    levels = _levels(lines)
    inner = levels[around.anchor]
    outermost = max(0, inner - around.max_levels) if around.max_levels else 0

    def belongs(at: int, edges: int, *, header: bool) -> bool:
        if not 0 <= at < len(lines) or levels[at] < outermost:
            return False
        if levels[at] > outermost or around.include_siblings or edges == 0:
            return True
        return header and lines[at].lstrip().startswith(COMMENTS)

    first = last = around.anchor
    edges_above = edges_below = 0
    up = down = True
    while (up or down) and last - first + 1 < around.limit:
        up = up and belongs(first - 1, edges_above, header=around.include_header)
        if up:
            first -= 1
            edges_above += levels[first] == outermost
        if last - first + 1 >= around.limit:
            break
        down = down and belongs(last + 1, edges_below, header=False)
        if down:
            last += 1
            edges_below += levels[last] == outermost
    cut = (up and belongs(first - 1, edges_above, header=around.include_header)) or (
        down and belongs(last + 1, edges_below, header=False)
    )
    return _trimmed(lines, first, last, cut)


def _seen_picture(file: FileBytes, ctx: ToolContext, room: int) -> Picture | None:
    """None if it is not an image. `room` is what is left for images in this call."""
    sight = Sight(sees=ctx.sees_images, most=ctx.limits.image_bytes, room=room)
    return picture(file.data, sight, complete=bool(file.sha))


def _section(spec: SectionSpec, *words: str) -> FileSection:
    return FileSection(text="\n".join([_title(spec), *words]))


def _title(spec: SectionSpec) -> str:
    return f"File: {spec.path}"


def _chosen(text: str, spec: SectionSpec, limits: Limits, room: int) -> _Lines:
    rows = rows_of(text)
    if not rows:
        return _Lines(words=("(The file is empty.)",), size=0, whole=True)
    if spec.around is not None:
        return _block(rows, spec, spec.around, limits, room)
    wanted = joined_spans(spec.spans or (Span(0, limits.read_lines - 1),))
    there = [span for span in wanted if span.first < len(rows)]
    if not there:
        raise _past_the_end(wanted[0].first, spec, rows)
    missing = [
        f"(Line {span.first + 1} is past the end.)" for span in wanted if span.first >= len(rows)
    ]
    spans = [_within(span, len(rows), limits) for span in there]
    passages = _passages(rows, spans, limits, room)
    lines = _lines([*missing, *_where(passages, spans, len(rows))], passages, len(rows))
    last = passages[-1].span.last
    most = spans[-1].first + limits.read_lines - 1
    as_wanted = last + 1 == len(rows) or last == wanted[-1].last < most
    return lines if as_wanted else replace(lines, cut_after=last + 1)


def _block(
    rows: Sequence[str],
    spec: SectionSpec,
    around: IndentationAround,
    limits: Limits,
    room: int,
) -> _Lines:
    if around.anchor >= len(rows):
        raise _past_the_end(around.anchor, spec, rows)
    block = block_around(rows, around)
    span = Span(block.first, block.last)
    passages = _passages(rows, [span], limits, room)
    if block.cut or passages[0].span != span:
        return _lines(_where(passages, [span], len(rows)), passages, len(rows))
    return _lines([f"(Lines {span} of {len(rows)}, the whole block.)"], passages, len(rows))


def _past_the_end(first: int, spec: SectionSpec, rows: Sequence[str]) -> ToolError:
    return ToolError(
        f"Line {first + 1} is past the end of {spec.path}, which has {len(rows)} lines."
    )


def _within(span: Span, total: int, limits: Limits) -> Span:
    return Span(span.first, min(span.last, span.first + limits.read_lines - 1, total - 1))


def _passages(
    rows: Sequence[str], spans: Sequence[Span], limits: Limits, room: int
) -> list[Passage]:
    width = len(str(spans[-1].last + 1))
    passages: list[Passage] = []
    for span in spans:
        if passages and room <= 0:
            break
        shown = passage(rows, span, width=width, longest=limits.read_line_length, room=room)
        room -= shown.size
        passages.append(shown)
    return passages


def _where(passages: Sequence[Passage], spans: Sequence[Span], total: int) -> list[str]:
    """Which lines these are, and how to continue."""
    last = passages[-1].span.last
    if len(spans) == 1 and last + 1 == total:
        return []
    shown = ", ".join(str(each.span) for each in passages)
    all_shown = len(spans) > 1 and last == spans[-1].last
    more = "" if all_shown else f" To continue: offset={last + 2}."
    return [f"(Lines {shown} of {total}.{more})"]


def _lines(notes: Sequence[str], passages: Sequence[Passage], total: int) -> _Lines:
    words = list(notes)
    for number, each in enumerate(passages):
        words += [*(["..."] if number else []), *each.rows]
    return _Lines(
        words=tuple(words),
        size=sum(each.size for each in passages),
        whole=all(each.uncut for each in passages)
        and [each.span for each in passages] == [Span(0, total - 1)],
    )


def _part_of(file: FileText) -> list[str]:
    if file.sha:
        return []
    known = len(file.text.encode("utf-8", "surrogateescape")) // MIB
    return [
        f"(Only the first {known} MiB of {file.size} bytes are read; the line count is of "
        "these. Use a command for the rest.)"
    ]


def _unreadable(file: FileBytes, reason: str = "") -> str:
    kind = PurePosixPath(file.path).suffix or "no extension"
    return f"(Not a text file: {kind}, {len(file.data)} bytes. {reason or 'Not shown.'})"


def _levels(lines: Sequence[str]) -> list[int]:
    """Blank lines take the level of the line before them."""
    levels: list[int] = []
    for line in lines:
        code = line.lstrip(" \t")
        if code.strip():
            levels.append(len(line[: len(line) - len(code)].replace("\t", " " * TAB)) // TAB)
        else:
            levels.append(levels[-1] if levels else 0)
    return levels


def _trimmed(lines: Sequence[str], first: int, last: int, cut: bool) -> CodeBlock:
    while first < last and not lines[first].strip():
        first += 1
    while last > first and not lines[last].strip():
        last -= 1
    return CodeBlock(first, last, cut)
