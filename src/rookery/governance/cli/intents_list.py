"""`rookery intents list`: what there is to do, and how far it is."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from rookery import NAME
from rookery.core.findings import Problem
from rookery.core.text.terminal_text import Paint
from rookery.governance.cli.intents_common import (
    Desk,
    Wishes,
    aligned,
    common,
    counted,
    now,
    open_desk,
)
from rookery.governance.cli.intents_validate import problems_of
from rookery.governance.intents.activity import Activity, activity
from rookery.governance.intents.intent import Intent, Status, selectable
from rookery.governance.intents.intent_order import ORDER, in_order
from rookery.governance.intents.problem_report import summary
from rookery.governance.ledger.brief_records import counted_records
from rookery.governance.scope.locations import find_location, ignores_case
from rookery.governance.scope.scope_patterns import scope
from rookery.governance.scope.scope_verdict import Op, PathFinding

HEAD = ["ID", "STATUS", "REV", "SCOPE", "FILES", "LAST CHANGE", "NAME"]
_NUMBERS = frozenset({2, 4})
_NOTHING = Activity()


@click.command("list")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([str(each) for each in Status], case_sensitive=False),
    help="Only those. Repeatable.",
)
@click.option("--tag", "tags", multiple=True, help="Only those with this tag. Repeatable.")
@click.option("--touching", metavar="PATH", help="Only those that may change this file.")
@common
def list_command(
    wishes: Wishes, statuses: Sequence[str], tags: Sequence[str], touching: str | None
) -> int:
    """Print the intents: those in progress first, closed ones last."""
    desk = open_desk(wishes)
    found = [
        each
        for each in in_order(desk.usable.intents)
        if (not statuses or str(each.status) in statuses)
        and set(tags) <= set(each.tags)
        and (touching is None or _owns(desk, each, touching, wishes.folder))
    ]
    done = activity(counted_records(desk.layout.folder))
    problems = problems_of(desk)
    wishes.say(*_table(found, done, wishes.paint), _sums(found, desk, problems))
    wishes.tell(
        {
            "intents": [_as_json(each, done, desk) for each in found],
            "problems": [each.to_json() for each in problems],
        }
    )
    return 0


def time_shown(time: str) -> str:
    return time[:16].replace("T", " ") or "-"


def scope_shown(intent: Intent) -> str:
    if not intent.owned_scope:
        return "-"
    more = len(intent.owned_scope) - 1
    return f"{intent.owned_scope[0]}{f' +{more}' if more else ''}"


def _owns(desk: Desk, intent: Intent, said: str, folder: Path) -> bool:
    if intent.id in desk.file.broken:
        return False
    at = find_location(desk.layout, said, Op.MODIFY, cwd=os.fspath(folder))
    if isinstance(at, PathFinding) or not at.governed or at.outside:
        return False
    owned = scope(intent.owned_scope, ignore_case=ignores_case(desk.layout.root))
    return owned.covers(at.named) and owned.covers(at.real)


def _table(intents: Sequence[Intent], done: Mapping[str, Activity], paint: Paint) -> list[str]:
    if not intents:
        return []
    rows = [HEAD, *(_row(each, done.get(each.id, _NOTHING)) for each in intents)]
    head, *lines = aligned(rows, right=_NUMBERS)
    return [paint.dim(head), *map(_coloured, lines, intents, [paint] * len(lines))]


def _row(intent: Intent, done: Activity) -> list[str]:
    return [
        intent.id,
        str(intent.status),
        str(intent.revision),
        scope_shown(intent),
        str(len(done.files)),
        time_shown(done.last_change),
        intent.name,
    ]


def _coloured(line: str, intent: Intent, paint: Paint) -> str:
    match intent.status:
        case Status.IN_PROGRESS:
            return paint.bold(line)
        case Status.COMPLETED | Status.ABANDONED:
            return paint.dim(line)
        case _:
            return line


def _sums(intents: Sequence[Intent], desk: Desk, problems: Sequence[Problem]) -> str:
    counts = Counter(each.status for each in intents)
    words = [
        f"{counts[each]} {each.value.lower().replace('_', ' ')}" for each in ORDER if counts[each]
    ]
    told = f"{counted(len(intents), 'intent')}{': ' if words else ''}{', '.join(words)}."
    where = f" See: {NAME} intents validate" if problems else ""
    return f"{told} {summary(desk.file, problems)}{where}"


def _as_json(intent: Intent, done: Mapping[str, Activity], desk: Desk) -> dict[str, object]:
    own = done.get(intent.id, _NOTHING)
    broken = intent.id in desk.file.broken
    return {
        "id": intent.id,
        "name": intent.name,
        "status": str(intent.status),
        "revision": intent.revision,
        "scope": list(intent.owned_scope),
        "tags": list(intent.tags),
        "files": len(own.files),
        "last_change": own.last_change or None,
        "selectable": not broken and selectable(intent, now()),
    }
