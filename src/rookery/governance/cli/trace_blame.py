"""`rookery trace blame`: from a line to the call that wrote it, its intent, and who allowed it."""

import json
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import click

from rookery.errors import SettingsError
from rookery.governance.cli.trace_common import (
    CannotAnswer,
    Ending,
    OpenedLedger,
    ledger_command,
    print_lines,
)
from rookery.governance.ledger.blame_page import (
    OwnedLine,
    Why,
    as_json,
    blame_rows,
    porcelain,
    why_rows,
)

_LINE = re.compile(r"(.+):([1-9][0-9]{0,8})")
_SPAN = re.compile(r"([1-9][0-9]{0,8}),([1-9][0-9]{0,8})")
Span = tuple[int, int]


@click.command("blame")
@click.argument("where", metavar="FILE[:LINE]")
@click.option("-L", "span", default="", metavar="A,B", help="Only lines A to B.")
@click.option("--why", is_flag=True, help="Say what stands behind each call.")
@click.option("--porcelain", "for_tools", is_flag=True, help="Print lines with tabs, for tools.")
@ledger_command
def blame_command(opened: OpenedLedger, where: str, span: str, why: bool, for_tools: bool) -> int:
    """Print who wrote each line of a file: an agent for an intent, a person, or nobody knows.

    With a LINE, print also the call that wrote it, the intent and its criteria, and who let the
    call through. Nothing is guessed.
    """
    from rookery.governance.ledger.git_history import history_of
    from rookery.governance.ledger.line_history import line_history, whys_behind

    path, one = _place(opened, where)
    wanted = (one, one) if one else _span(span)
    relative = path.relative_to(opened.layout.root).as_posix()
    history = history_of(opened.layout.root)
    owned = line_history(opened.folder, relative, _text(path), history)
    if wanted and wanted[0] > len(owned):
        raise CannotAnswer(f"{relative} has only {len(owned)} lines.", Ending.NOT_FOUND)
    lines = owned[wanted[0] - 1 : wanted[1]] if wanted else owned
    whys = whys_behind(opened.layout, lines) if why or one or opened.as_json else {}
    if opened.as_json:
        print(json.dumps({"file": relative, "lines": [as_json(line, whys) for line in lines]}))
    elif for_tools:
        print_lines_with_tabs(map(porcelain, lines))
    else:
        _print(lines, whys)
    return Ending.FINE


def _print(lines: list[OwnedLine], whys: dict[str, Why]) -> None:
    """What stands behind a call is told once, under the last line in a row that it wrote."""
    rows = zip(lines, blame_rows(lines), strict=True)
    for _, run in groupby(rows, key=lambda row: (row[0].origin, row[0].record)):
        together = list(run)
        print_lines(row for _, row in together)
        last = together[-1][0]
        print_lines(why_rows(last, whys.get(last.record.id) if last.record else None))


def print_lines_with_tabs(rows: Iterable[str]) -> None:
    from rookery.core.text.terminal_text import harmless_line

    for row in rows:
        print("\t".join(map(harmless_line, row.split("\t"))))


def _place(opened: OpenedLedger, where: str) -> tuple[Path, int]:
    """The file and the line, 0 for none. A file may have a colon in its name."""
    named, line = where, 0
    if not Path(where).exists() and (found := _LINE.fullmatch(where)):
        named, line = found[1], int(found[2])
    # somebody in a sub-folder names a file as it is seen from there
    path = next(
        (each for each in (Path(named), opened.layout.root / named) if each.is_file()), Path(named)
    ).resolve()
    if not path.is_relative_to(opened.layout.root):
        raise SettingsError(f"{named} is outside of {opened.layout.root}, whose ledger is asked.")
    if not path.is_file():
        raise CannotAnswer(f"There is no file {named}.", Ending.NOT_FOUND)
    return path, line


def _span(text: str) -> Span | None:
    if not text:
        return None
    found = _SPAN.fullmatch(text)
    if not found or int(found[1]) > int(found[2]):
        raise SettingsError(f"{text!r} names no lines. Write -L 12,18.")
    return int(found[1]), int(found[2])


def _text(path: Path) -> str:
    try:
        held = path.read_bytes()
    except OSError as error:
        raise CannotAnswer(
            f"{path} cannot be read ({error.strerror}).", Ending.NOT_FOUND
        ) from error
    if b"\0" in held:
        raise CannotAnswer(f"{path} is no text, so it has no lines.", Ending.FINDINGS)
    return held.decode("utf-8", "replace")
