"""A notebook as text: its cells in order, and what they printed.

Notebooks are JSON by agreement only, so nothing is taken to be there or to be what it should.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST_OUTPUT = 8_000
"""Characters of output that are kept of one cell."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SHOWN_TYPES = ("text/plain", "text/markdown", "text/latex")
_OLD_TYPES = {"text": "text/plain", "png": "image/png", "jpeg": "image/jpeg", "svg": "image/svg"}


class NotANotebook(ValueError):
    pass


def notebook_text(source: str) -> Iterator[str]:
    """The cells, one text each. Raises `NotANotebook` before the first of them if it is none."""
    cells = _cells(source)
    for number, cell in enumerate(cells, start=1):
        kind = cell.get("cell_type")
        kind = kind if isinstance(kind, str) else "unknown"
        text = _joined(cell.get("source", cell.get("input")))
        yield f"--- cell {number}, {kind} ---\n{text}".rstrip("\n")
        if output := _bounded("\n".join(_outputs(cell))):
            yield f"--- output of cell {number} ---\n{output}"


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
    """What is displayed, by media type. Old notebooks have it beside the other fields."""
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
