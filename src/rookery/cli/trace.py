"""`rookery trace`: what agents changed here and why, and whether the record of it is whole."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import NoReturn

import click

from rookery import NAME
from rookery.cli.trace_blame import blame_command
from rookery.cli.trace_commits import finalize_command, install_hooks_command
from rookery.cli.trace_desk import (
    CannotAnswer,
    Desk,
    Ending,
    ledger_command,
    point_in_time,
    print_lines,
    today,
)
from rookery.cli.trace_export import export_command
from rookery.cli.trace_upkeep import import_command, prune_command, recover_command, seal_command
from rookery.cli.trace_verify import verify_command
from rookery.clients.terminal_text import harmless_line
from rookery.core.ledger.log_lines import LogLine, log_lines
from rookery.core.ledger.queries import Query
from rookery.core.ledger.record_page import chain_of, record_page
from rookery.core.ledger.statistics import statistics, told
from rookery.core.ledger.traced import TracedRecord

SHOWN = 20
LOOKED_THROUGH = 5_000
"""Records at the end of a ledger that are looked through before an index is asked for help."""
SHORTEST_ID = 4
SEARCHED_BEFORE = 100_000
"""Lines through which the record before another one is looked for."""


@click.group()
def command() -> None:
    """Read the ledger of what agents did here, check it, and hand it on."""


for each in (
    verify_command,
    blame_command,
    export_command,
    recover_command,
    seal_command,
    finalize_command,
    import_command,
    install_hooks_command,
    prune_command,
):
    command.add_command(each)


@command.command("log")
@click.option("-n", "count", type=click.IntRange(min=1), help=f"How many at most ({SHOWN}).")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--intent", default="", help="Only what was done for this intent.")
@click.option("--task", default="", help="Only what this task did.")
@click.option("--file", "file", default="", metavar="GLOB", help="Only what touched such a file.")
@click.option("--kind", default="", help="Only records of this kind: mutation, blocked, ...")
@click.option("--outcome", default="", help="Only what ended so: success, denied, ...")
@click.option("--since", metavar="WHEN", help="Only from then on: 7d, 12h or a date.")
@click.option("--until", metavar="WHEN", help="Only before then.")
@click.option("--grep", "text", default="", metavar="TEXT", help="Only what holds this text.")
@click.option("--reverse", is_flag=True, help="Oldest first.")
@click.option("-f", "--follow", is_flag=True, help="Go on as records come, until interrupted.")
@ledger_command
def log_command(
    desk: Desk,
    count: int | None,
    everything: bool,
    since: str | None,
    until: str | None,
    reverse: bool,
    follow: bool,
    **asked: str,
) -> int:
    """Print the records, newest first."""
    query = Query(since=point_in_time(since), until=point_in_time(until), **asked)
    most = None if everything else count or SHOWN
    if follow:
        _follow(desk, query, most)
    found: Iterable[TracedRecord] = _newest(desk, query, most)
    if not _print_log(desk, reversed(list(found)) if reverse else found):
        desk.say("No record matches." if query != Query() else "Nothing is recorded yet.")
    return Ending.FINE


def _follow(desk: Desk, query: Query, most: int | None) -> NoReturn:
    """The last ones, oldest first, and all that come. What comes meanwhile is printed once."""
    from rookery.workspace.ledger.following import followed

    coming = followed(desk.folder)
    last = list(_newest(desk, query, most))[::-1]
    _print_each(desk, last)
    known = {record.id for record in last}
    _print_each(desk, (each for each in coming if query.matches(each) and each.id not in known))
    raise AssertionError("A ledger is followed for ever.")


def _newest(desk: Desk, query: Query, most: int | None) -> Iterator[TracedRecord]:
    """Straight from the end of the ledger if they are there; else by the index, which takes a
    while to be made and then saves reading everything."""
    from rookery.core.ledger.traced import records_in
    from rookery.workspace.ledger.ledger_index import LedgerIndex
    from rookery.workspace.ledger.reading import newest
    from rookery.workspace.ledger.segments import newest_first

    if query == Query() or most is None:
        yield from islice(newest(desk.folder, query), most)
        return
    lines = newest_first(desk.folder)
    last = records_in(islice(lines, LOOKED_THROUGH))
    near = list(islice(filter(query.matches, last), most))
    if len(near) == most or next(lines, None) is None:
        yield from near
    else:
        yield from islice(LedgerIndex(desk.folder).find(query), most)


def _print_log(desk: Desk, records: Iterable[TracedRecord]) -> int:
    """How many were printed. For a program they are one document, made as it is printed."""
    printed = 0
    if desk.as_json:
        print('{"records": [', end="")
        for printed, record in enumerate(records, 1):
            print("," if printed > 1 else "", json.dumps(record.raw), sep="", end="")
        print("]}")
        return printed
    for line in log_lines(records, today=today()):
        print(_painted(desk, line), flush=True)
        printed += 1
    return printed


def _print_each(desk: Desk, records: Iterable[TracedRecord]) -> None:
    """One by one as they come; for a program each is a document of its own, on its line."""
    if not desk.as_json:
        _print_log(desk, records)
        return
    for record in records:
        print(json.dumps(record.raw), flush=True)


def _painted(desk: Desk, line: LogLine) -> str:
    text = harmless_line(line.text)
    colours = {"blocked": desk.paint.red, "decision": desk.paint.yellow}
    colour = colours.get(line.kind)
    return text.replace(line.kind, colour(line.kind), 1) if colour else text


@command.command("show")
@click.argument("id")
@ledger_command
def show_command(desk: Desk, id: str) -> int:
    """Print one record. The first digits of its id will do."""
    record, before = _record_and_before(desk, id)
    chain = chain_of(record, before)
    if desk.as_json:
        print(json.dumps({"chain": chain, "record": record.raw}))
    else:
        print_lines(record_page(record, chain).splitlines())
    return Ending.FINDINGS if "differs" in chain else Ending.FINE


def _record_and_before(desk: Desk, id: str) -> tuple[TracedRecord, TracedRecord | None]:
    from rookery.workspace.ledger.writing_records import record_and_before

    if len(id) < SHORTEST_ID:
        raise CannotAnswer(
            f"{id} is too short for the id of a record; write {SHORTEST_ID} of its digits or more.",
            Ending.NOT_FOUND,
        )
    found = record_and_before(desk.folder, id, most=SEARCHED_BEFORE)
    if found is None:
        raise CannotAnswer(
            f"There is no record {id}. They are listed with: {NAME} trace log", Ending.NOT_FOUND
        )
    return found


@command.command("stats")
@click.option("--since", metavar="WHEN", help="Only from then on: 7d, 12h or a date.")
@ledger_command
def stats_command(desk: Desk, since: str | None) -> int:
    """Print what was done, refused and approved, and where the lines went."""
    from rookery.workspace.ledger.reading import oldest

    found = statistics(oldest(desk.folder, Query(since=point_in_time(since))))
    if desk.as_json:
        pairs = {
            name: dict(held) if isinstance(held, tuple) else held
            for name, held in asdict(found).items()
        }
        print(json.dumps(pairs))
    else:
        print_lines(told(found).splitlines())
    return Ending.FINE
