"""The body of a word-processing document as text: its paragraphs and tables, in order.

The elements are those of any XML library; only their tags, texts and children are looked at.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_WRAPPERS = ("sdt", "sdtContent", "customXml", "ins", "moveTo")
_UNSEEN = ("del", "moveFrom", "Fallback", "pPr", "rPr")


def word_lines(body: Any, styles: Mapping[str, str]) -> Iterator[str]:
    """One text for each paragraph and table; `styles` are the names of styles by their ids."""
    for block in _inside(body, "p", "tbl"):
        yield _table(block) if local_name(block) == "tbl" else _paragraph(block, styles)


def local_name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _inside(parent: Any, *names: str) -> Iterator[Any]:
    """What is called so, in order, also inside content controls and tracked insertions."""
    for child in parent:
        if local_name(child) in names:
            yield child
        elif local_name(child) in _WRAPPERS:
            yield from _inside(child, *names)


def _paragraph(paragraph: Any, styles: Mapping[str, str]) -> str:
    text = _text(paragraph)
    if not text.strip():
        return ""
    name = _style(paragraph, styles)
    word, _, level = name.partition(" ")
    if name == "title":
        return f"# {text}"
    if word == "heading" and level.isdecimal():
        return f"{'#' * min(int(level), 6)} {text}"
    return f"- {text}" if word == "list" else text


def _style(paragraph: Any, styles: Mapping[str, str]) -> str:
    style = paragraph.find("{*}pPr/{*}pStyle")
    id = "" if style is None else next(iter(style.attrib.values()), "")
    return styles.get(id, "").lower()


def _text(element: Any) -> str:
    """The words in it, without those that were deleted or stand there a second time."""
    pieces: list[str] = []
    for child in element:
        match local_name(child):
            case "t":
                pieces.append(child.text or "")
            case "tab":
                pieces.append("\t")
            case "br" | "cr":
                pieces.append("\n")
            case "p" | "tc":
                pieces.append(_text(child) + " ")
            case name if name not in _UNSEEN:
                pieces.append(_text(child))
    return "".join(pieces)


def _table(table: Any) -> str:
    rows = [[_flat(cell) for cell in _inside(row, "tc")] for row in _inside(table, "tr")]
    return "\n".join(" | ".join(row) for row in rows if any(row))


def _flat(cell: Any) -> str:
    return " ".join(_text(cell).split())
