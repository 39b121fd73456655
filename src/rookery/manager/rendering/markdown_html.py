"""Renders Markdown as sanitised HTML, at once or block by block while the text arrives.

Raw HTML is shown as text. Images are named, not loaded; links lead only to http, https and mail,
and show their host. Each block of a growing text is rendered once; if the text defines link
references, all blocks are rendered again when it is complete.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.text.characters import whole
from rookery.manager.rendering.safe_html import (
    ALIGNMENTS,
    CODE,
    SCHEMES,
    highlighted,
    language_named,
    plain,
    sanitised,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n|\n|\r(?!\Z)")
"""A carriage return at the very end may be the first half of a line end."""
_FENCE = re.compile(r"( {0,3})(?:(`{3,})[^`]*|(~{3,}).*)\Z", re.DOTALL)
_ITEM = re.compile(r"([ \t]*)([-+*]|\d{1,9}[.)])([ \t]+|\Z)")
_BLANKS = " \t"
_OF_ITEMS = "-+*0123456789"


class BlockScanner:
    def __init__(self) -> None:
        self._read = 0
        """End of the lines read so far."""
        self._start = 0
        """Start of the block that is not complete yet."""
        self._begin()

    def _begin(self) -> None:
        self._fence: tuple[str, int] | None = None
        self._has_words = False
        self._after_blank = False
        self._in_list = False
        self._inside = 0
        """Indentation of the last top-level item's text; 0 if indented lines may not belong to
        it."""
        self._doubtful = False

    def cut(self, text: str, *, complete: bool) -> Iterator[tuple[int, int]]:
        """Yield start and end of each block that is complete now; `text` is everything so far."""
        for found in _LINE_END.finditer(text, self._read):
            start, self._read = self._read, found.end()
            yield from self._take(text[start : found.start()], start, found.end())
        if self._surely_begins_another(text[self._read : self._read + 1]):
            yield from self._cut_at(self._read)
        if complete and self._start < len(text):
            yield from self._cut_at(len(text))

    def _take(self, line: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        if self._doubtful:
            return
        if self._fence:
            if self._closes(line):
                yield from self._cut_at(end)
            return
        if not line.strip(_BLANKS):
            self._after_blank = True
            return
        if self._begins_another(line):
            yield from self._cut_at(start)
        self._has_words, self._after_blank = True, False
        self._note(line)

    def _begins_another(self, line: str) -> bool:
        if not (self._has_words and self._after_blank) or line[0] in _BLANKS:
            return False
        return not (self._in_list and _ITEM.match(line))

    def _surely_begins_another(self, first: str) -> bool:
        """Like `_begins_another`, for a line of which only the first character is known."""
        if not first or first in "\r\n" or self._fence or self._doubtful:
            return False
        if self._in_list and first in _OF_ITEMS:
            return False
        return self._begins_another(first)

    def _note(self, line: str) -> None:
        if item := _ITEM.match(line):
            self._in_list = True
            if not item[1]:
                self._inside = len(item[2]) + min(4, len(item[3])) if item[3].strip("\t") else 0
        elif len(line) - len(line.lstrip(" ")) < self._inside:
            self._inside = 0
        if fence := _FENCE.match(line):
            self._open(fence)

    def _open(self, fence: re.Match[str]) -> None:
        indent, marks = len(fence[1]), fence[2] or fence[3]
        if not self._in_list or not indent:
            self._fence = marks[0], len(marks)
        elif not 0 < self._inside <= indent:
            self._doubtful = True

    def _closes(self, line: str) -> bool:
        assert self._fence
        mark, length = self._fence
        marks = line.strip(_BLANKS)
        indent = len(line) - len(line.lstrip(_BLANKS))
        return indent < 4 and len(marks) >= length and not marks.strip(mark)

    def _cut_at(self, end: int) -> Iterator[tuple[int, int]]:
        yield self._start, end
        self._start = end
        self._begin()


LONGEST_TEXT = 256 * KIB
"""Characters; longer texts are not rendered."""
LONGEST_BLOCK = 32 * KIB
"""Characters of a block other than code; longer ones are shown as plain text, because the parser
needs quadratic time for some inputs."""
SECONDS_TO_RENDER = 1.0
"""CPU time for a text; later blocks are shown as plain text."""
MOST_ADDRESSES = 256 * KIB
"""Characters of all addresses in a block; further links are dropped. An address defined once can
be used thousands of times by a reference of three characters."""
_LONGEST_ADDRESS = 200
_LONGEST_HOST = 255
"""Longest host name; a cut one would hide which domain it belongs to."""
_KEPT_BLOCKS, _LONGEST_KEPT = 512, 8 * KIB
_ROOM = "room for addresses"


class Cut(Struct, frozen=True, kw_only=True):
    """Blocks that have become complete; the last ends at UTF-16 unit `upto`. With `anew`,
    earlier blocks of the text no longer count."""

    text: str
    parts: tuple[str, ...]
    upto: int
    anew: bool
    complete: bool


class Rendered(Struct, frozen=True, kw_only=True):
    """HTML blocks that cover a text up to UTF-16 unit `upto`. They follow earlier blocks, or
    replace them with `anew`."""

    blocks: tuple[str, ...]
    upto: int
    anew: bool


def rendered(text: str) -> tuple[str, ...]:
    """All blocks of a complete text; none if it is too long."""
    growing = GrowingHtml()
    cut = growing.cut(text, complete=True)
    return growing.rendered(cut).blocks if cut else ()


def make_ready() -> None:
    """Load the libraries, so that the first text does not wait for them."""
    rendered("```python\nx\n```")


class GrowingHtml:
    """Renders one growing text. `cut` is cheap; its results must be rendered in order, and may
    be in another thread."""

    def __init__(self) -> None:
        self._is_new = True
        self._begin("")

    def _begin(self, text: str) -> None:
        self._text = text
        self._scanner = BlockScanner()
        self._upto = 0
        self._complete = False

    def cut(self, text: str, *, complete: bool) -> Cut | None:
        """Return the blocks that have become complete since the last call; None without any."""
        if text == self._text and complete == self._complete:
            return None
        fresh = self._complete or not text.startswith(self._text)
        if fresh:
            self._begin(text)
        self._text, self._complete = text, complete
        if len(text) > LONGEST_TEXT:
            return self._withdraw(text)
        parts = tuple(text[a:b] for a, b in self._scanner.cut(text, complete=complete))
        if not (parts or (fresh and not self._is_new)):
            return None
        self._upto += sum(map(units, parts))
        anew, self._is_new = fresh or self._is_new, False
        return Cut(text=text, parts=parts, upto=self._upto, anew=anew, complete=complete)

    def _withdraw(self, text: str) -> Cut | None:
        """Withdraw what was rendered before, once."""
        had, self._is_new = not self._is_new, True
        return Cut(text=text, parts=(), upto=0, anew=True, complete=False) if had else None

    def rendered(self, cut: Cut) -> Rendered:
        if cut.anew:
            self._references: dict[str, Any] = {}
            self._count = 0
            self._seconds = 0.0
        blocks = self._blocks(cut.parts)
        self._count += len(blocks)
        if cut.complete and self._references and self._count > 1:
            return self._render_all(cut)
        return Rendered(blocks=blocks, upto=cut.upto, anew=cut.anew)

    def _blocks(self, parts: Sequence[str]) -> tuple[str, ...]:
        return tuple(block for part in parts if (block := self._block(part)))

    def _block(self, part: str) -> str:
        if self._seconds > SECONDS_TO_RENDER:
            return _paragraph(whole(part))
        begin = time.thread_time()
        try:
            return self._rich_block(part)
        finally:
            self._seconds += time.thread_time() - begin

    def _rich_block(self, part: str) -> str:
        if self._references or "]:" in part:
            return _block(part, self._references)
        return _kept_block(part) if len(part) <= _LONGEST_KEPT else _block(part, {})

    def _render_all(self, cut: Cut) -> Rendered:
        """Render all blocks again, because early ones may use references defined later."""
        self._seconds = 0.0
        ends = BlockScanner().cut(cut.text, complete=True)
        blocks = self._blocks([cut.text[a:b] for a, b in ends])
        return Rendered(blocks=blocks, upto=cut.upto, anew=True)


def units(text: str) -> int:
    """Length in UTF-16 units, as browsers count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@lru_cache(maxsize=_KEPT_BLOCKS)
def _kept_block(part: str) -> str:
    return _block(part, {})


def _block(part: str, references: dict[str, Any]) -> str:
    text = whole(part)
    if len(text) > LONGEST_BLOCK and not text.startswith(("```", "~~~")):
        return _paragraph(text)
    around = {"references": references, _ROOM: MOST_ADDRESSES}
    return sanitised(_parser().render(text, around))


def _paragraph(text: str) -> str:
    return sanitised(f"<p>{plain(text)}</p>") if text.strip() else ""


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
    setattr(parser, "validateLink", _is_link)  # noqa: B010 (it is a method to the type checker)
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _is_link(address: str) -> bool:
    """Whether a link is allowed. Others stay text, brackets and all. Without a host, an address
    would lead to this server."""
    scheme, colon, rest = address.strip().partition(":")
    if not colon or scheme.lower() not in SCHEMES:
        return False
    return scheme.lower() == "mailto" or (
        rest.startswith("//") and 0 < len(_host(address.strip())) <= _LONGEST_HOST
    )


def _text(_: Any, tokens: Sequence["Token"], place: int, *__: Any) -> str:
    return plain(tokens[place].content)


def _inline_code(_: Any, tokens: Sequence["Token"], place: int, *__: Any) -> str:
    return f"<code>{plain(tokens[place].content)}</code>"


def _fence(_: Any, tokens: Sequence["Token"], place: int, *__: Any) -> str:
    token = tokens[place]
    words = token.info.split()
    said = words[0] if words else ""
    name = language_named(said)
    shown = f' class="language-{name}"' if name else ""
    code = highlighted(said, token.content.removesuffix("\n"))
    return f'<pre class="{CODE}"><code{shown}>{code}\n</code></pre>\n'


def _picture(_: Any, tokens: Sequence["Token"], place: int, __: Any, around: dict[str, Any]) -> str:
    token = tokens[place]
    named = plain(token.content)
    address = str(token.attrs.get("src", ""))
    shown = _address(address) if _has_room(around, min(len(address), _LONGEST_ADDRESS)) else ""
    return f'<span class="picture">{named} {shown}</span>'


def _has_room(around: dict[str, Any], length: int) -> bool:
    around[_ROOM] -= length
    return bool(around[_ROOM] >= 0)


def _address(address: str) -> str:
    cut = address if len(address) <= _LONGEST_ADDRESS else f"{address[:_LONGEST_ADDRESS]}…"
    return f"({plain(cut)})"


def _link_open(
    _: Any, tokens: Sequence["Token"], place: int, __: Any, around: dict[str, Any]
) -> str:
    token = tokens[place]
    address = str(token.attrs.get("href", ""))
    if not address or not _has_room(around, len(address)):
        token.attrs.pop("href", None)
        return "<a>"
    return f'<a href="{escape(address)}">'


def _link_close(_: Any, tokens: Sequence["Token"], place: int, *__: Any) -> str:
    """Show the host behind the link, unless the link's text is the address."""
    begin = place - 1
    while tokens[begin].type != "link_open":
        begin -= 1
    address = str(tokens[begin].attrs.get("href", ""))
    said = "".join(token.content for token in tokens[begin + 1 : place]).strip()
    host = _host(address)
    plainly = (address, host, address.removeprefix("mailto:"))
    if not host or (said in plainly and "@" not in urlsplit(address).netloc):
        return "</a>"
    return f'</a><span class="host"> ({plain(host)})</span>'


def _host(address: str) -> str:
    """Host of an address, or the recipient of a mail link; empty if it cannot be parsed."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return parts.netloc.rpartition("@")[2] if parts.scheme != "mailto" else parts.path


def _cell_open(_: Any, tokens: Sequence["Token"], place: int, *__: Any) -> str:
    """Aligned by a class, because styles are not allowed."""
    token = tokens[place]
    align = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return f'<{token.tag} class="{align}">' if align in ALIGNMENTS else f"<{token.tag}>"


_RULES: Mapping[str, Any] = {
    "text": _text,
    "code_inline": _inline_code,
    "fence": _fence,
    "code_block": _fence,
    "image": _picture,
    "link_open": _link_open,
    "link_close": _link_close,
    "td_open": _cell_open,
    "th_open": _cell_open,
}
