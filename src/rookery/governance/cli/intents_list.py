"""`rookery intents list` and `show`."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import file_digest
from pathlib import Path

import click
from msgspec import Struct

from rookery import NAME
from rookery.core.refusals import Problem
from rookery.core.text.terminal_text import Paint, aligned, cells_of, counted, harmless_line
from rookery.governance.cli.common import GovernedFolder, governed_command, now
from rookery.governance.cli.intents_validate import problems_of
from rookery.governance.criteria import CriterionStanding, criteria_standing
from rookery.governance.intents.intent import (
    ORDER,
    Intent,
    IntentStatus,
    digest,
    expired,
    selectable,
    sort_intents,
)
from rookery.governance.intents.intent_checks import summary
from rookery.governance.intents.intent_context import scope_text
from rookery.governance.intents.intent_map import Coverage, IntentActivity, activity, coverage
from rookery.governance.intents.leases import Lease, Leases
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.scope.locations import find_location, ignores_case
from rookery.governance.scope.scope_patterns import scope
from rookery.governance.scope.scope_verdict import Op, PathFinding

HEAD = ["ID", "STATUS", "REV", "SCOPE", "FILES", "LAST CHANGE", "NAME"]
_NUMBERS = frozenset({2, 4})
_NOTHING = IntentActivity()
LABEL = 13
WIDTH = 80
SHORT_DIGEST = 12


class _IntentDetails(Struct, frozen=True, kw_only=True):
    intent: Intent
    digest: str
    done: IntentActivity
    state: str
    criteria: tuple[CriterionStanding, ...]
    leases: tuple[Lease, ...]


@click.command("list")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([str(each) for each in IntentStatus], case_sensitive=False),
    help="Filter by status. Repeatable.",
)
@click.option("--tag", "tags", multiple=True, help="Filter by tag. Repeatable.")
@click.option("--touching", metavar="PATH", help="Only intents that may change this file.")
@governed_command
def list_command(
    governed: GovernedFolder, statuses: Sequence[str], tags: Sequence[str], touching: str | None
) -> int:
    """List the intents: in progress first, closed ones last."""
    found = [
        each
        for each in sort_intents(governed.usable.intents)
        if (not statuses or str(each.status) in statuses)
        and set(tags) <= set(each.tags)
        and (touching is None or _owns(governed, each, touching, governed.folder))
    ]
    done = activity(oldest(governed.layout.folder))
    problems = problems_of(governed)
    governed.echo(*_table(found, done, governed.paint), _total(found, governed, problems))
    governed.print_json(
        {
            "intents": [_as_json(each, done, governed) for each in found],
            "problems": [each.to_json() for each in problems],
        }
    )
    return 0


def format_time(time: str) -> str:
    return time[:16].replace("T", " ") or "-"


def format_scope(intent: Intent) -> str:
    if not intent.owned_scope:
        return "-"
    more = len(intent.owned_scope) - 1
    return f"{intent.owned_scope[0]}{f' +{more}' if more else ''}"


@click.command("show")
@click.argument("intent_id", metavar="ID")
@governed_command
def show_command(governed: GovernedFolder, intent_id: str) -> int:
    """Show an intent: its scope, its acceptance criteria and the recorded changes."""
    details = _load_details(governed, governed.intent(intent_id))
    governed.echo(*_lines(details))
    governed.print_json(_details_as_json(details, governed))
    return 0


def _owns(governed: GovernedFolder, intent: Intent, path: str, folder: Path) -> bool:
    if intent.id in governed.file.broken:
        return False
    at = find_location(governed.layout, path, Op.MODIFY, cwd=os.fspath(folder))
    if isinstance(at, PathFinding) or not at.governed or at.outside:
        return False
    owned = scope(intent.owned_scope, ignore_case=ignores_case(governed.layout.root))
    return owned.covers(at.named) and owned.covers(at.real)


def _table(
    intents: Sequence[Intent], done: Mapping[str, IntentActivity], paint: Paint
) -> list[str]:
    if not intents:
        return []
    rows = [HEAD, *(_row(each, done.get(each.id, _NOTHING)) for each in intents)]
    head, *lines = aligned(rows, right=_NUMBERS)
    return [paint.dim(head), *map(_paint_row, lines, intents, [paint] * len(lines))]


def _row(intent: Intent, done: IntentActivity) -> list[str]:
    return [
        intent.id,
        str(intent.status),
        str(intent.revision),
        format_scope(intent),
        str(len(done.files)),
        format_time(done.last_change),
        intent.name,
    ]


def _paint_row(line: str, intent: Intent, paint: Paint) -> str:
    match intent.status:
        case IntentStatus.IN_PROGRESS:
            return paint.bold(line)
        case IntentStatus.COMPLETED | IntentStatus.ABANDONED:
            return paint.dim(line)
        case _:
            return line


def _total(intents: Sequence[Intent], governed: GovernedFolder, problems: Sequence[Problem]) -> str:
    counts = Counter(each.status for each in intents)
    words = [
        f"{counts[each]} {each.value.lower().replace('_', ' ')}" for each in ORDER if counts[each]
    ]
    totals = f"{counted(len(intents), 'intent')}{': ' if words else ''}{', '.join(words)}."
    where = f" See: {NAME} intents validate" if problems else ""
    return f"{totals} {summary(governed.file, problems)}{where}"


def _as_json(
    intent: Intent, done: Mapping[str, IntentActivity], governed: GovernedFolder
) -> dict[str, object]:
    own = done.get(intent.id, _NOTHING)
    broken = intent.id in governed.file.broken
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


def _load_details(governed: GovernedFolder, intent: Intent) -> _IntentDetails:
    found = coverage_of(governed)
    states = {each.intent_id: each.state for each in found.intents}
    active = Leases(governed.layout).active(now=now())
    return _IntentDetails(
        intent=intent,
        digest=digest(intent, governed.file.policy),
        done=found.activity.get(intent.id, _NOTHING),
        state=states.get(intent.id, ""),
        criteria=criteria_standing(intent, governed.file.policy, found.checks),
        leases=tuple(each for each in active if each.intent_id == intent.id),
    )


def coverage_of(governed: GovernedFolder) -> Coverage:
    layout = governed.layout
    return coverage(
        governed.usable.intents,
        governed.file.policy,
        oldest(layout.folder),
        hash_of=lambda path: _current_hash(layout.root / path),
    )


def _current_hash(path: Path) -> str | None:
    try:
        with path.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None


def _lines(details: _IntentDetails) -> list[str]:
    intent = details.intent
    title = f"{intent.id}  {harmless_line(intent.name)}"
    status = f"{intent.status}, revision {intent.revision}"
    gap = " " * max(2, WIDTH - cells_of(title) - len(status))
    return [f"{title}{gap}{status}", *_facts(details)]


def _facts(details: _IntentDetails) -> Iterator[str]:
    intent = details.intent
    if intent.description:
        yield from _labelled("description", intent.description.splitlines())
    yield from _labelled("scope", ["   ".join(map(scope_text, intent.owned_scope)) or "none"])
    numbered = enumerate(intent.constraints, start=1)
    yield from _labelled("constraints", [f"{number} {each.text}" for number, each in numbered])
    yield from _labelled("criteria", [_criterion(intent, each) for each in details.criteria])
    yield from _labelled("budget", _budget(details))
    yield from _labelled("depends on", [", ".join(intent.depends_on)] if intent.depends_on else [])
    if details.state:
        yield from _labelled("coverage", [f"{details.state}{_progress(details.criteria)}"])
    yield from _labelled("changes", [_changes(details.done)])
    yield from _labelled("running", [f"task {each.task}" for each in details.leases])
    yield from _labelled("digest", [details.digest[:SHORT_DIGEST]])


def _labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        yield f"{'' if place else label:{LABEL}}{harmless_line(line)}".rstrip()


def _criterion(intent: Intent, its: CriterionStanding) -> str:
    text = its.criterion.verify.command if its.criterion.verify else its.criterion.text
    return f"{its.id} [{_standing(intent, its)}] {text}"


def _standing(intent: Intent, its: CriterionStanding) -> str:
    match its.state:
        case "passed" | "failed":
            word = "ok" if its.state == "passed" else "failed"
            return f"{word} {its.at[5:10]} {its.at[11:16]}"
        case "not_run_again":
            return f"not run in revision {intent.revision}"
        case _:
            return its.state.replace("_", " ")


def _budget(details: _IntentDetails) -> list[str]:
    limits, done = details.intent.budget, details.done
    parts = []
    if limits.max_files is not None:
        parts.append(f"{len(done.files)} of {limits.max_files} files")
    if limits.max_changed_lines is not None:
        parts.append(f"{done.lines} of {limits.max_changed_lines} lines")
    if limits.max_tool_calls is not None:
        parts.append(f"{done.calls} of {limits.max_tool_calls} calls")
    if limits.expires_at is not None:
        word = "expired" if expired(details.intent, now()) else "expires"
        parts.append(f"{word} {limits.expires_at.date().isoformat()}")
    return [", ".join(parts)] if parts else []


def _progress(criteria: Sequence[CriterionStanding]) -> str:
    good = sum(each.state == "passed" and bool(each.criterion.verify) for each in criteria)
    noun = "criterion" if len(criteria) == 1 else "criteria"
    return f" ({good} of {len(criteria)} {noun} checked)" if criteria else ""


def _changes(done: IntentActivity) -> str:
    return (
        f"{counted(len(done.files), 'file')}, {counted(done.calls, 'call')}, "
        f"{done.refused} refused, {done.approved_outside} approved outside scope"
    )


def _details_as_json(details: _IntentDetails, governed: GovernedFolder) -> dict[str, object]:
    intent, done = details.intent, details.done
    return {
        "id": intent.id,
        "name": intent.name,
        "description": intent.description,
        "status": str(intent.status),
        "revision": intent.revision,
        "scope": list(intent.owned_scope),
        "constraints": [each.text for each in intent.constraints],
        "criteria": [
            {
                "number": number,
                "id": each.id,
                "text": each.criterion.text,
                "command": each.criterion.verify.command if each.criterion.verify else None,
                "standing": _standing(intent, each),
            }
            for number, each in enumerate(details.criteria, start=1)
        ],
        "depends_on": list(intent.depends_on),
        "coverage": details.state or None,
        "files": sorted(done.files),
        "calls": done.calls,
        "refused": done.refused,
        "approved_outside_scope": done.approved_outside,
        "running_tasks": [each.task for each in details.leases],
        "digest": details.digest,
        "problems": [
            each.to_json() for each in governed.file.problems if each.intent_id == intent.id
        ],
    }
