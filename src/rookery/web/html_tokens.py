"""HTML as a sequence of tags and text.

Pages come from strangers: the time is linear in the size of the page, whatever it holds. Each
search for the end of something either moves on or ends the page.
"""

import re
from collections.abc import Iterator
from html import unescape
from typing import TypeAlias

from msgspec import Struct

_MARKUP = re.compile(r"<(?:!--|!|\?|/?[a-zA-Z][^\s/>]*)")
_SPACE = re.compile(r"[\s/]*")
_NAME = re.compile(r"[^\s/>=][^\s/>=]*")
_EQUALS = re.compile(r"\s*=\s*")
_BARE = re.compile(r"[^\s>]*")
_RAW = frozenset(("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"))
"""Elements whose content is text, up to their end tag."""
_LONGEST_NAME = 40
_LONGEST_VALUE = 4000


class StartTag(Struct, frozen=True):
    name: str
    attributes: dict[str, str]


class EndTag(Struct, frozen=True):
    name: str


class TextRun(Struct, frozen=True):
    text: str


Token: TypeAlias = StartTag | EndTag | TextRun


def tokens(page: str) -> Iterator[Token]:
    """The tags and texts of a page, in order. Comments and declarations are left out."""
    at = 0
    while found := _MARKUP.search(page, at):
        if found.start() > at:
            yield TextRun(unescape(page[at : found.start()]))
        mark, at = found[0], found.end()
        if mark == "<!--":
            at = _after(page, "-->", at - 2)  # `<!-->` is a whole comment
        elif mark in ("<!", "<?"):
            at = _after(page, ">", at)
        elif mark.startswith("</"):
            at = _after(page, ">", at)
            yield EndTag(mark[2 : 2 + _LONGEST_NAME].lower())
        else:
            attributes, at = _attributes(page, at)
            name = mark[1 : 1 + _LONGEST_NAME].lower()
            yield StartTag(name, attributes)
            if name in _RAW:
                text, at = _raw(page, name, at)
                yield from (TextRun(text), EndTag(name))
    if at < len(page):
        yield TextRun(unescape(page[at:]))


def _after(page: str, end: str, at: int) -> int:
    found = page.find(end, at)
    return len(page) if found < 0 else found + len(end)


def _attributes(page: str, at: int) -> tuple[dict[str, str], int]:
    """The attributes of a tag, the first of each name, and where the tag ends."""
    found: dict[str, str] = {}
    while True:
        space = _SPACE.match(page, at)
        at = space.end() if space else at
        if at >= len(page):
            return found, at
        if page[at] == ">":
            return found, at + 1
        name = _NAME.match(page, at)
        at = name.end() if name else at + 1
        equals = _EQUALS.match(page, at)
        value = ""
        if equals:
            value, at = _value(page, equals.end())
        if name:
            found.setdefault(name[0][:_LONGEST_NAME].lower(), unescape(value[:_LONGEST_VALUE]))


def _value(page: str, at: int) -> tuple[str, int]:
    quote = page[at : at + 1]
    if quote and quote in "\"'":
        end = page.find(quote, at + 1)
        return (page[at + 1 : end], end + 1) if end >= 0 else ("", len(page))
    bare = _BARE.match(page, at)
    return (bare[0], bare.end()) if bare else ("", at)


def _raw(page: str, name: str, at: int) -> tuple[str, int]:
    """The content of an element that holds only text, and where its end tag ends."""
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(page, at)
    if end is None:
        return page[at:], len(page)
    text = page[at : end.start()]
    return unescape(text) if name in ("title", "textarea") else text, _after(page, ">", end.end())
