"""Prints the lines of a file that match a regular expression, as `NUMBER:LINE`.

`sessions` runs this file as a script, with the expression on standard input, so that it can be
killed. It handles files of any size, even a single long line: each line is read up to
`LONGEST_LINE` bytes. The first match beyond the limit is printed last, so that the reader knows
there may be more.
"""

import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

PIECE = 64 * 1024
LONGEST_LINE = 4096


def main(path: str, limit: int) -> None:
    pattern = compiled(sys.stdin.buffer.read().decode())
    with open(path, "rb") as file:
        for number, line in enumerate(lines(file), 1):
            text = line.decode("utf-8", "replace")
            if pattern.search(text):
                found = f"{number}:{text}\n".encode()
                sys.stdout.buffer.write(found)
                limit -= len(found)
                if limit < 0:
                    break
    sys.stdout.buffer.flush()


def compiled(pattern: str) -> re.Pattern[str]:
    """The expression, taken literally if it is invalid."""
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(pattern), re.IGNORECASE)


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Every line without its ending, cut where it is too long."""
    line = b""
    while piece := file.read(PIECE):
        first, *more = piece.split(b"\n")
        line = (line + first)[:LONGEST_LINE]
        for following in more:
            yield line
            line = following[:LONGEST_LINE]
    if line:
        yield line


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
