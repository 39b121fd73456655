"""The readable text of an HTML page, in a form close to Markdown.

Headings, lists, links, code and tables are kept. Scripts, navigation, forms and everything that a
reader of the page would not see are left out. If the page marks its main part, only that is shown.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.web.html_parts import Inline, PageTable, fenced, language_in
from rookery.web.html_tokens import EndTag, StartTag, TextRun, tokens

_NAMES_NEVER = """
script style template noscript svg canvas object audio video iframe noembed noframes head
button select option input textarea datalist dialog map
"""
_NEVER = frozenset(_NAMES_NEVER.split())
_BESIDE = frozenset(("nav", "footer", "aside"))
"""Left out unless the page has hardly anything else."""
_ROLES = {
    "main": "main",
    "article": "article",
    "navigation": "nav",
    "search": "nav",
    "contentinfo": "footer",
    "complementary": "aside",
}
"""Elements that the role of another stands for."""
_NAMES_VOID = "area base br col embed hr img input link meta param source track wbr"
_VOID = frozenset(_NAMES_VOID.split())
_NAMES_BLOCK = """
address article aside blockquote body caption center dd details div dl dt fieldset figcaption
figure footer form h1 h2 h3 h4 h5 h6 header hgroup html li main menu nav ol p pre search
section summary table tbody td tfoot th thead tr ul
"""
_BLOCKS = frozenset(_NAMES_BLOCK.split())
_IMPLIED_ENDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (frozenset(("li", "p")), frozenset(("ul", "ol", "menu"))),
    **dict.fromkeys(("dt", "dd"), (frozenset(("dt", "dd", "p")), frozenset(("dl",)))),
    **dict.fromkeys(("td", "th"), (frozenset(("td", "th", "p")), frozenset(("table", "tr")))),
    "tr": (frozenset(("td", "th", "tr", "p")), frozenset(("table",))),
}
"""For a start tag: the open elements that it ends, and where the search for them stops."""
_PARAGRAPH = frozenset(("p",))
_OTHER_BLOCKS = _BLOCKS - _PARAGRAPH
_UNSEEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0(?![.\d]*[1-9])|"
    r"font-size\s*:\s*0(?![.\d]*[1-9])",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\s+")
_DEEPEST = 256
_DEEPEST_LIST = 8
_LOOK_BACK = 32
_MOST_TEXT = 4 * MIB
"""Characters after which the rest of a page is left out."""
_ENOUGH = 200
"""Characters that a main part must have to stand for the page."""


class HtmlText(Struct, frozen=True, kw_only=True):
    title: str
    text: str
    date: str = ""
    """When the page says that it was changed or published."""


class _OpenElement(Struct, frozen=True):
    name: str
    role: str
    """The element whose part it plays, usually its own name."""
    unseen: bool


class _Block(Struct, frozen=True):
    text: str
    part: str
    """`main`, `article` or empty: the part of the page that it is in."""
    in_list: bool


def html_text(page: str, url: str) -> HtmlText:
    """`url` is the page's address, which its links are relative to."""
    reader = _read(page, url, _NEVER | _BESIDE)
    if sum(len(block.text) for block in reader.blocks) < _ENOUGH:
        reader = _read(page, url, _NEVER)
    dates = (reader.dates.get(name, "") for name in _DATES)
    return HtmlText(
        title=_SPACE.sub(" ", reader.title).strip(),
        text=_joined(_main_part(reader.blocks)),
        date=next(filter(None, dates), ""),
    )


_DATES = ("article:modified_time", "article:published_time", "last-modified", "date")


def _read(page: str, url: str, left_out: frozenset[str]) -> "_HtmlReader":
    reader = _HtmlReader(url, left_out)
    for token in tokens(page):
        if reader.size > _MOST_TEXT:
            break
        match token:
            case StartTag(name, attributes):
                reader.start(name, attributes)
            case EndTag(name):
                reader.end(name)
            case TextRun(text):
                reader.text(text)
    reader.finish()
    return reader


def _main_part(blocks: Iterable[_Block]) -> list[_Block]:
    everything = list(blocks)
    for part in ("main", "article"):
        found = [block for block in everything if block.part == part]
        if sum(len(block.text) for block in found) >= _ENOUGH:
            return found
    return everything


def _joined(blocks: Iterable[_Block]) -> str:
    text, last = "", None
    for block in blocks:
        tight = last is not None and last.in_list and block.in_list
        text += ("" if last is None else "\n" if tight else "\n\n") + block.text
        last = block
    return text


class _HtmlReader:
    """Turns tags and texts into blocks."""

    def __init__(self, url: str, left_out: frozenset[str]) -> None:
        self.title = ""
        self.dates: dict[str, str] = {}
        self.blocks: list[_Block] = []
        self.size = 0
        self._left_out = left_out
        self._inline = Inline(url)
        self._stack: list[_OpenElement] = []
        self._count: Counter[str] = Counter()
        self._parts: Counter[str] = Counter()
        self._unseen = 0
        self._lists: list[int | None] = []
        """For each open list its next number, or None if it has bullets."""
        self._bullet = ""
        self._tables: list[PageTable] = []
        self._code: list[str] | None = None
        self._language = ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "meta":
            self._meta(attributes)
        if name == "base" and self._count["base"] == 0:
            self._count["base"] = 1
            self._inline.rebase(attributes.get("href", ""))
        self._imply_ends(name)
        if name not in _VOID:
            if len(self._stack) >= _DEEPEST:
                return
            role = _ROLES.get(attributes.get("role", ""), name)
            unseen = not self._left_out.isdisjoint((name, role)) or _is_unseen(attributes)
            self._stack.append(_OpenElement(name, role, unseen))
            self._count[name] += 1
            self._parts[role] += 1
            self._unseen += unseen
        if not self._unseen:
            self._open(name, attributes)

    def end(self, name: str) -> None:
        if not self._count[name] or name in _VOID:
            return
        if name not in _BLOCKS and name not in self._left_out:
            near = [each.name for each in self._stack[-_LOOK_BACK:]]
            if name not in near or any(each in _BLOCKS for each in near[near.index(name) :]):
                return
        while self._stack:
            if self._pop() == name:
                return

    def text(self, text: str) -> None:
        top = self._stack[-1].name if self._stack else ""
        if top == "title" and not self.title:
            self.title = text
        if self._unseen or top == "title":
            return
        if self._code is not None:
            self._code.append(text)
        else:
            self._inline.add(_SPACE.sub(" ", text))

    def finish(self) -> None:
        while self._stack:
            self._pop()
        self._flush()

    def _imply_ends(self, name: str) -> None:
        if name not in _BLOCKS:
            return
        ended, limits = _IMPLIED_ENDS.get(name, (_PARAGRAPH, _OTHER_BLOCKS))
        while found := self._nearest(ended, limits):
            while self._pop() != found:
                pass

    def _nearest(self, wanted: frozenset[str], limits: frozenset[str]) -> str:
        """The innermost open element of those names; empty if a limit is nearer."""
        for each in islice(reversed(self._stack), _LOOK_BACK):
            if each.name in wanted:
                return each.name
            if each.name in limits:
                break
        return ""

    def _pop(self) -> str:
        closed = self._stack.pop()
        if not self._unseen:
            self._close(closed.name)
        self._count[closed.name] -= 1
        self._parts[closed.role] -= 1
        self._unseen -= closed.unseen
        return closed.name

    def _meta(self, attributes: Mapping[str, str]) -> None:
        name = (attributes.get("property") or attributes.get("name") or "").lower()
        if name in _DATES:
            self.dates.setdefault(name, attributes.get("content", "")[:40])

    def _open(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _BLOCKS:
            self._flush()
        self._language = language_in(attributes.get("class", "")) or self._language
        match name:
            case "br":
                self.text("\n") if self._code is not None else self._inline.new_line()
            case "hr":
                self._flush()
                self._emit("---")
            case "img":
                self._inline.image(attributes)
            case "a":
                self._inline.open_link(attributes.get("href", ""))
            case "code" | "kbd" | "samp" | "tt":
                self._inline.open_code()
            case "ul" | "menu":
                self._lists.append(None)
            case "ol":
                self._lists.append(_number(attributes.get("start", "")))
            case "li":
                self._bullet = self._next_bullet()
            case "pre" if self._code is None:
                self._code = []
            case "table":
                self._tables.append(PageTable())
            case "tr" if self._tables:
                self._tables[-1].new_row()
            case "td" | "th" if self._tables:
                self._tables[-1].new_cell()

    def _close(self, name: str) -> None:
        match name:
            case "a":
                self._inline.close_link()
            case "code" | "kbd" | "samp" | "tt":
                self._inline.close_code()
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._flush(f"{'#' * int(name[1])} ")
            case "pre" if self._code is not None and self._count["pre"] == 1:
                self._emit(fenced("".join(self._code), self._language))
                self._code = None
            case "table" if self._tables:
                self._flush()
                self._end_table(self._tables.pop())
        if name in _BLOCKS:
            self._flush()
            self._language = ""
        if name in ("ul", "ol", "menu") and self._lists:
            self._lists.pop()
            self._bullet = ""

    def _end_table(self, table: PageTable) -> None:
        for text in table.blocks():
            self._emit(text)

    def _next_bullet(self) -> str:
        if not self._lists or (number := self._lists[-1]) is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "

    def _flush(self, prefix: str = "") -> None:
        """End the block that is being written."""
        text = self._inline.take()
        if text:
            self._emit(" ".join((prefix + text).split("\n")) if prefix else text)

    def _emit(self, text: str) -> None:
        if not text:
            return
        self.size += len(text)
        if self._tables and self._tables[-1].in_cell:
            self._tables[-1].add(text)
            return
        part = next((each for each in ("main", "article") if self._parts[each]), "")
        self.blocks.append(_Block(self._indented(text), part, bool(self._lists)))

    def _indented(self, text: str) -> str:
        """Indent for the open lists and mark quotations."""
        bullet, self._bullet = self._bullet, ""
        if self._lists:
            depth = min(len(self._lists), _DEEPEST_LIST)
            inner = "  " * (depth - (1 if bullet else 0))
            first, *rest = text.split("\n")
            more = "  " * depth
            text = "\n".join([f"{inner}{bullet}{first}", *(f"{more}{line}" for line in rest)])
        quotes = min(self._count["blockquote"], 5)
        return "\n".join(f"{'> ' * quotes}{line}" for line in text.split("\n"))


def _is_unseen(attributes: Mapping[str, str]) -> bool:
    if "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true":
        return True
    return "style" in attributes and _UNSEEN_STYLE.search(attributes["style"]) is not None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 7 else 1
