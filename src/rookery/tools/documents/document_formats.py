"""The text of notebooks, spreadsheets and word-processing documents, line by line.

`document_worker` imports this before it gives up access to files, so all imports must be at the
top. Documents are untrusted: nothing is assumed to be present or of the right type.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

LONGEST_OUTPUT = 8_000
"""Characters of output kept per cell."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SHOWN_TYPES = ("text/plain", "text/markdown", "text/latex")
_OLD_TYPES = {"text": "text/plain", "png": "image/png", "jpeg": "image/jpeg", "svg": "image/svg"}
MOST_ROWS = 50_000
_WRAPPERS = ("sdt", "sdtContent", "customXml", "ins", "moveTo")
_UNSEEN = ("del", "moveFrom", "Fallback", "pPr", "rPr")


class NotANotebook(ValueError):
    pass


def notebook_text(source: str) -> Iterator[str]:
    """One text per cell. Raises `NotANotebook` before the first."""
    cells = _cells(source)
    for number, cell in enumerate(cells, start=1):
        kind = cell.get("cell_type")
        kind = kind if isinstance(kind, str) else "unknown"
        text = _joined(cell.get("source", cell.get("input")))
        yield f"--- cell {number}, {kind} ---\n{text}".rstrip("\n")
        if output := _bounded("\n".join(_outputs(cell))):
            yield f"--- output of cell {number} ---\n{output}"


def sheet_lines(rows: Iterable[Iterable[Any]], links: Mapping[str, str]) -> Iterator[str]:
    """The non-empty rows, with tabs between cells. `links` are by cell coordinate."""
    count = 0
    for row in rows:
        line = "\t".join(_cell(cell, links) for cell in row).rstrip("\t")
        if not line:
            continue
        if count == MOST_ROWS:
            yield f"(Only the first {MOST_ROWS} rows of this sheet are shown.)"
            return
        count += 1
        yield line


def word_lines(body: Any, styles: Mapping[str, str]) -> Iterator[str]:
    """One text per paragraph and table; `styles` maps style ids to names."""
    for block in _inside(body, "p", "tbl"):
        yield _table(block) if local_name(block) == "tbl" else _paragraph(block, styles)


def local_name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _cells(source: str) -> list[Mapping[str, Any]]:
    try:
        notebook = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise NotANotebook from error
    sheets = _mappings(_field(notebook, "worksheets"))  # up to version 3
    cells = _field(notebook, "cells", _field(sheets[0], "cells") if sheets else None)
    if not isinstance(cells, list):
        raise NotANotebook
    return _mappings(cells)


def _outputs(cell: Mapping[str, Any]) -> Iterator[str]:
    for output in _mappings(cell.get("outputs")):
        match output.get("output_type"):
            case "stream":
                yield _joined(output.get("text")).rstrip("\n")
            case "error" | "pyerr":
                yield _error(output)
            case _:
                yield _display(_content(output))


def _error(output: Mapping[str, Any]) -> str:
    return (
        "\n".join(_strings(output.get("traceback")))
        or f"{output.get('ename')}: {output.get('evalue')}"
    )


def _content(output: Mapping[str, Any]) -> dict[str, Any]:
    """The displayed content by media type. Old notebooks have it beside the other fields."""
    data = output.get("data")
    if isinstance(data, Mapping):
        return dict(data)
    return {kind: output[name] for name, kind in _OLD_TYPES.items() if name in output}


def _display(content: Mapping[str, Any]) -> str:
    shown = next((kind for kind in _SHOWN_TYPES if kind in content), None)
    pictures = [kind for kind in content if kind.startswith("image/")]
    named = pictures if shown else list(content)
    text = [_joined(content[shown]).rstrip("\n")] if shown else []
    return "\n".join([*text, *(f"[{kind}, not shown]" for kind in named)])


def _bounded(output: str) -> str:
    output = _COLOURS.sub("", output)
    if len(output) <= LONGEST_OUTPUT:
        return output
    more = len(output) - LONGEST_OUTPUT
    return f"{output[:LONGEST_OUTPUT]}\n({more} more characters of output are not shown.)"


def _joined(source: Any) -> str:
    """Text is one string or a list of lines."""
    return source if isinstance(source, str) else "".join(_strings(source))


def _strings(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _field(value: Any, name: str, default: Any = None) -> Any:
    return value.get(name, default) if isinstance(value, dict) else default


def _cell(cell: Any, links: Mapping[str, str]) -> str:
    if cell.value is None:
        return ""
    text = " ".join(_value(cell).split())
    target = links.get(cell.coordinate, "") if links else ""
    return f"{text} ({target})" if target and target != text else text


def _value(cell: Any) -> str:
    match cell.value:
        case bool(flag):
            return "TRUE" if flag else "FALSE"
        case datetime() as moment:
            day = moment.date().isoformat()
            return day if moment.time() == time() else f"{day} {moment.time():%H:%M:%S}"
        case date() as day:
            return day.isoformat()
        case value if cell.data_type == "e":
            return f"[{value}]"
        case value:
            return str(value)


def _inside(parent: Any, *names: str) -> Iterator[Any]:
    """Elements with this name in order, also inside content controls and tracked insertions."""
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
    """The text without deletions and duplicates."""
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
