"""`rookery trace`: the command group, `log`, `show`, `stats` and `blame`."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import NoReturn, get_args

import click
from msgspec import to_builtins

from rookery import NAME
from rookery.core.text.terminal_text import counted, harmless_line
from rookery.errors import SettingsError
from rookery.governance.cli.common import (
    CommandFailed,
    GovernanceGroup,
    OpenedLedger,
    TraceExit,
    ledger_command,
    point_in_time,
    print_lines,
    today,
)
from rookery.governance.cli.trace_upkeep import (
    export_command,
    finalize_command,
    install_hooks_command,
    prune_command,
    recover_command,
    seal_command,
    verify_command,
)
from rookery.governance.git_history import history_of
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.ledger.attribution import record_and_before
from rookery.governance.ledger.ledger_reader import (
    HOUSEKEEPING,
    Query,
    follow_records,
    newest,
    oldest,
)
from rookery.governance.ledger.line_history import (
    ChangeReason,
    OwnedLine,
    as_json,
    blame_rows,
    change_reasons,
    line_history,
    porcelain,
    reason_rows,
)
from rookery.governance.ledger.record_text import Columns, chain_of, log_lines, record_page
from rookery.governance.ledger.records import Kind, Outcome
from rookery.governance.ledger.statistics import format_statistics, statistics
from rookery.governance.ledger.traced import TracedRecord

_LINE = re.compile(r"(.+):([1-9][0-9]{0,8})")
_SPAN = re.compile(r"([1-9][0-9]{0,8}),([1-9][0-9]{0,8})")
Span = tuple[int, int]


@click.command("blame")
@click.argument("where", metavar="FILE[:LINE]")
@click.option("-L", "span", default="", metavar="A,B", help="Only lines A to B.")
@click.option("--why", is_flag=True, help="Also show intent, criteria and approval of each call.")
@click.option(
    "--porcelain", "for_tools", is_flag=True, help="Print tab-separated lines for programs."
)
@ledger_command
def blame_command(opened: OpenedLedger, where: str, span: str, why: bool, for_tools: bool) -> int:
    """Show who wrote each line of a file: an agent for an intent, a person, or unknown.

    With a LINE, also show the call that wrote it, its intent and criteria, and who approved it.
    Nothing is guessed.
    """
    path, one = _parse_location(opened, where)
    wanted = (one, one) if one else _span(span)
    relative = path.relative_to(opened.layout.root).as_posix()
    history = history_of(opened.layout.root)
    owned = line_history(opened.folder, relative, _text(path), history)
    if wanted and wanted[0] > len(owned):
        what = counted(len(owned), "line")
        raise CommandFailed(f"{relative} has only {what}.", TraceExit.NOT_FOUND)
    lines = owned[wanted[0] - 1 : wanted[1]] if wanted else owned
    reasons = change_reasons(opened.layout, lines) if why or one or opened.as_json else {}
    if opened.as_json:
        print(json.dumps({"file": relative, "lines": [as_json(line, reasons) for line in lines]}))
    elif for_tools:
        print_lines_with_tabs(map(porcelain, lines))
    else:
        _print(lines, reasons)
    return TraceExit.FINE


def _print(lines: list[OwnedLine], reasons: dict[str, ChangeReason]) -> None:
    """Print blamed lines. The details of a call follow the last of its consecutive lines."""
    rows = zip(lines, blame_rows(lines), strict=True)
    for _, run in groupby(rows, key=lambda row: (row[0].origin, row[0].record)):
        group = list(run)
        print_lines(row for _, row in group)
        last = group[-1][0]
        print_lines(reason_rows(last, reasons.get(last.record.id) if last.record else None))


def print_lines_with_tabs(rows: Iterable[str]) -> None:
    for row in rows:
        print("\t".join(map(harmless_line, row.split("\t"))))


def _parse_location(opened: OpenedLedger, where: str) -> tuple[Path, int]:
    """Split FILE:LINE, with line 0 if there is none. A file name may contain a colon."""
    named, line = where, 0
    if not Path(where).exists() and (found := _LINE.fullmatch(where)):
        named, line = found[1], int(found[2])
    # relative to the current folder first, then to the root
    path = next(
        (each for each in (Path(named), opened.layout.root / named) if each.is_file()), Path(named)
    ).resolve()
    if not path.is_relative_to(opened.layout.root):
        raise SettingsError(f"{named} is outside {opened.layout.root}, the folder of this ledger.")
    if not path.is_file():
        raise CommandFailed(f"No such file: {named}.", TraceExit.NOT_FOUND)
    return path, line


def _span(text: str) -> Span | None:
    if not text:
        return None
    found = _SPAN.fullmatch(text)
    if not found or int(found[1]) > int(found[2]):
        raise SettingsError(f"{text!r} is not a range of lines. Write -L 12,18.")
    return int(found[1]), int(found[2])


def _text(path: Path) -> str:
    try:
        value = path.read_bytes()
    except OSError as error:
        raise CommandFailed(
            f"{path} cannot be read ({error.strerror}).", TraceExit.NOT_FOUND
        ) from error
    if b"\0" in value:
        raise CommandFailed(f"{path} is not a text file.", TraceExit.FINDINGS)
    return value.decode("utf-8", "replace")


SHOWN = 20
PAGE = 1_000
"""Rows that are aligned together, to limit memory."""
KINDS = (*get_args(Kind), "event")
""""event" is a record of another program without a file."""
SHORTEST_ID = 4
SEARCHED_BEFORE = 100_000
"""Lines searched for the record before another one."""


@click.group(cls=GovernanceGroup)
def command() -> None:
    """Read, verify and export the ledger: the record of what agents did here."""


for each in (
    verify_command,
    blame_command,
    export_command,
    recover_command,
    seal_command,
    finalize_command,
    install_hooks_command,
    prune_command,
):
    command.add_command(each)


@command.command("log")
@click.option(
    "-n", "count", type=click.IntRange(min=1), help=f"Maximum number of records ({SHOWN})."
)
@click.option("--all", "everything", is_flag=True, help="All records, including the ledger's own.")
@click.option("--intent", default="", help="Only records of this intent.")
@click.option("--task", default="", help="Only records of this task.")
@click.option(
    "--file",
    "file",
    default="",
    metavar="GLOB",
    help="Only records about this file.",
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    metavar="KIND",
    help="Only this kind: mutation, blocked, ...",
)
@click.option(
    "--outcome",
    type=click.Choice(get_args(Outcome)),
    metavar="OUTCOME",
    help="Only this outcome: success, denied, ...",
)
@click.option("--since", metavar="WHEN", help="Only records since: 7d, 12h or a date.")
@click.option("--until", metavar="WHEN", help="Only records before.")
@click.option(
    "--grep", "text", default="", metavar="TEXT", help="Only records that contain this text."
)
@click.option("--reverse", is_flag=True, help="Oldest first.")
@click.option("-f", "--follow", is_flag=True, help="Wait for new records until interrupted.")
@ledger_command
def log_command(
    opened: OpenedLedger,
    count: int | None,
    everything: bool,
    since: str | None,
    until: str | None,
    reverse: bool,
    follow: bool,
    kind: str | None,
    outcome: str | None,
    **filters: str,
) -> int:
    """List the records, newest first, each with the id that `show` takes."""
    query = Query(
        since=point_in_time(since),
        until=point_in_time(until),
        kind=kind or "",
        outcome=outcome or "",
        # with --json, filtering is left to the caller
        without=frozenset() if everything or kind or opened.as_json else HOUSEKEEPING,
        **filters,
    )
    most = None if everything else count or SHOWN
    if follow:
        _follow(opened, query, most)
    found: Iterable[TracedRecord] = _newest(opened, query, most)
    if not _print_log(opened, reversed(list(found)) if reverse else found):
        _refuse_unknown(opened, query.intent)
        opened.echo("Nothing is recorded yet." if query.matches_all else "No record matches.")
    return TraceExit.FINE


def _refuse_unknown(opened: OpenedLedger, intent: str) -> None:
    if not intent or IntentReader(opened.layout).read().file.find(intent):
        return
    if next(newest(opened.folder, Query(intent=intent)), None) is None:
        raise CommandFailed(
            f"No record matches: no such intent {intent}. List them with: {NAME} intents list",
            TraceExit.NOT_FOUND,
        )


def _follow(opened: OpenedLedger, query: Query, most: int | None) -> NoReturn:
    """Print the last records, oldest first, then new ones as they arrive, each once."""
    coming = follow_records(opened.folder)
    last = list(_newest(opened, query, most))[::-1]
    columns = Columns()
    _print_each(opened, last, columns, page=PAGE)
    known = {record.id for record in last}
    new = (each for each in coming if query.matches(each) and each.id not in known)
    _print_each(opened, new, columns, page=1)
    raise AssertionError("--follow has no end.")


def _newest(opened: OpenedLedger, query: Query, most: int | None) -> Iterator[TracedRecord]:
    return islice(newest(opened.folder, query), most)


def _print_log(opened: OpenedLedger, records: Iterable[TracedRecord]) -> int:
    """Print the records and return their number. `--json` streams one document."""
    if opened.as_json:
        printed = 0
        print('{"records": [', end="")
        for printed, record in enumerate(records, 1):
            print("," if printed > 1 else "", json.dumps(record.raw), sep="", end="")
        print("]}")
        return printed
    return _print_rows(opened, records, Columns(), page=PAGE)


def _print_rows(
    opened: OpenedLedger, records: Iterable[TracedRecord], columns: Columns, *, page: int
) -> int:
    printed, coming = 0, iter(records)
    while group := list(islice(coming, page)):
        lines = list(log_lines(group, today=today()))
        for line, row in zip(lines, columns.rows(lines), strict=True):
            print(_paint_row(opened, row, line.kind), flush=True)
        printed += len(lines)
    return printed


def _print_each(
    opened: OpenedLedger, records: Iterable[TracedRecord], columns: Columns, *, page: int
) -> None:
    """Print records as they arrive; with `--json`, one document per line."""
    if not opened.as_json:
        _print_rows(opened, records, columns, page=page)
        return
    for record in records:
        print(json.dumps(record.raw), flush=True)


def _paint_row(opened: OpenedLedger, row: str, kind: str) -> str:
    text = harmless_line(row)
    colour = {"blocked": opened.paint.red, "decision": opened.paint.yellow}.get(kind)
    return text.replace(kind, colour(kind), 1) if colour else text


@command.command("show")
@click.argument("id")
@ledger_command
def show_command(opened: OpenedLedger, id: str) -> int:
    """Show one record. The beginning of its id is enough."""
    record, before = _record_and_before(opened, id)
    chain = chain_of(record, before)
    if opened.as_json:
        print(json.dumps({"chain": chain, "record": record.raw}))
    else:
        print_lines(record_page(record, chain).splitlines())
    return TraceExit.FINDINGS if "differs" in chain else TraceExit.FINE


def _record_and_before(opened: OpenedLedger, id: str) -> tuple[TracedRecord, TracedRecord | None]:
    if len(id) < SHORTEST_ID:
        raise CommandFailed(
            f"{id} is too short for a record id; give at least {SHORTEST_ID} characters.",
            TraceExit.NOT_FOUND,
        )
    found = record_and_before(opened.folder, id, most=SEARCHED_BEFORE)
    if found is None:
        raise CommandFailed(
            f"No such record: {id}. List them with: {NAME} trace log", TraceExit.NOT_FOUND
        )
    return found


@command.command("stats")
@click.option("--since", metavar="WHEN", help="Only records since: 7d, 12h or a date.")
@ledger_command
def stats_command(opened: OpenedLedger, since: str | None) -> int:
    """Count what was done, refused and approved, and the lines changed."""
    found = statistics(oldest(opened.folder, Query(since=point_in_time(since))))
    if opened.as_json:
        print(json.dumps(to_builtins(found)))
    elif not found.records:
        print_lines(["No records since then." if since else "No records yet."])
    else:
        print_lines(format_statistics(found).splitlines())
    return TraceExit.FINE
