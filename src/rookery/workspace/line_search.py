"""Search files for lines, as a separate program: `line_search.py MOST REGEX FILE...`

Replaces ripgrep where it is not installed, and prints the same JSON lines. It is a process so that
it can be killed, as some expressions take `re` forever. It is run by its path, not imported, and
may use the standard library only.
"""

import codecs
import json
import re
import sys
from collections.abc import Iterator

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def main(most: int, regex: str, paths: list[str]) -> int:
    try:
        pattern = re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        print(error, file=sys.stderr)
        return 2
    for path in paths:
        rows = _lines(path)
        for kind, number, line in _found(pattern, rows, most):
            _print({"type": kind, "data": _row(path, number, line)})
        _print({"type": "end", "data": {"path": {"text": path}, "binary_offset": None}})
    return 0


def _found(pattern: re.Pattern[str], rows: list[str], most: int) -> Iterator[tuple[str, int, str]]:
    """Matching lines, and one line of context on either side of each."""
    matching = [at for at, row in enumerate(rows) if pattern.search(row)][:most]
    matches = set(matching)
    shown = sorted({near for at in matching for near in (at - 1, at, at + 1)})
    for at in shown:
        if 0 <= at < len(rows):
            yield ("match" if at in matches else "context"), at + 1, rows[at]


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return []
    mark, encoding = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", "utf-8"))
    if encoding == "utf-8" and b"\0" in data:
        return []
    rows = data[len(mark) :].decode(encoding, "replace").split("\n")
    return [row.removesuffix("\r") for row in (rows if rows[-1] else rows[:-1])]


def _row(path: str, number: int, line: str) -> dict[str, object]:
    return {"path": {"text": path}, "line_number": number, "lines": {"text": line}}


def _print(row: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
