"""`rookery intents coverage` and `map`: which intents the code stands for, and where."""

from collections.abc import Mapping, Sequence
from hashlib import file_digest
from pathlib import Path

import click

from rookery.cli.intents_desk import (
    FINDINGS,
    Desk,
    Wishes,
    aligned,
    common,
    counted,
    open_desk,
)
from rookery.core.intents.by_products import is_by_product
from rookery.core.intents.criteria_standing import (
    CriterionStanding,
    criteria_standing,
    is_check,
    to_the_second,
)
from rookery.core.intents.intent import digest
from rookery.core.intents.intent_map import MapEntry, map_text
from rookery.core.ledger.coverage import (
    Coverage,
    IntentCoverage,
    KnownIntent,
    coverage,
)
from rookery.core.ledger.traced import TracedRecord
from rookery.core.values import value
from rookery.workspace.ledger.reading import oldest
from rookery.workspace.orchestration.mapped_intents import intent_map

FAULTS = frozenset({"outdated", "uncovered", "orphan"})


@click.command("coverage")
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=click.Choice(sorted(FAULTS)),
    help="Do not fail because of this state. Repeatable.",
)
@common
def coverage_command(wishes: Wishes, allowed: Sequence[str]) -> int:
    """Compare intents with recorded changes: what is proved, what is left behind, what has no
    reason. Fails if something is outdated, uncovered or an orphan."""
    desk = open_desk(wishes)
    found = coverage_of(desk).coverage
    states = {each.state for each in found.intents} | ({"orphan"} if found.orphans else set())
    faults = (states & FAULTS) - set(allowed)
    wishes.say(*_lines(found))
    wishes.tell(
        {
            "intents": [_as_json(each) for each in found.intents],
            "orphans": list(found.orphans),
            "drifted": list(found.drifted),
            "ok": not faults,
        }
    )
    return FINDINGS if faults else 0


@click.command("map")
@common
def map_command(wishes: Wishes) -> int:
    """Print which files and functions each intent lives in, as Markdown. Writes no file."""
    desk = open_desk(wishes)
    entries = intent_map(desk.layout, desk.usable.intents, oldest(desk.layout.folder))
    wishes.say(map_text(entries).rstrip("\n"))
    wishes.tell({"intents": [_entry_as_json(each) for each in entries]})
    return 0


def _entry_as_json(entry: MapEntry) -> dict[str, object]:
    files = [
        {
            "path": file.path,
            "symbols": list(file.symbols),
            "last_change": file.last_change or None,
            "sha256": file.after or None,
            "changes": file.changes,
        }
        for file in entry.files
    ]
    return {"id": entry.intent.id, "name": entry.intent.name, "files": files}


@value
class Proved:
    """What the ledger and the intents come to. `standings` are of the criteria, by intent."""

    coverage: Coverage
    standings: Mapping[str, tuple[CriterionStanding, ...]]


def coverage_of(desk: Desk) -> Proved:
    folder = desk.layout.folder
    paths: set[str] = set()
    last_changes: dict[str, str] = {}
    checks: list[TracedRecord] = []
    for record in oldest(folder):
        if is_check(record):
            checks.append(record)
        for file in record.files:
            if not is_by_product(file.path):
                paths.update(filter(None, (file.path, file.origin)))
                last_changes[record.intent_id] = record.time
    hashes = {path: _present(desk.layout.root / path) for path in paths}
    intents, policy = desk.usable.intents, desk.file.policy
    standings = {each.id: criteria_standing(each, policy, checks) for each in intents}
    known = [
        KnownIntent(
            id=each.id,
            status=str(each.status),
            revision=each.revision,
            digest=digest(each, policy),
            verified=_verified(standings[each.id], last_changes.get(each.id, "")),
        )
        for each in intents
    ]
    return Proved(coverage=coverage(known, oldest(folder), hashes), standings=standings)


def _verified(criteria: Sequence[CriterionStanding], last_change: str) -> bool:
    """All its criteria can be checked, were checked since anything changed, and hold."""
    since = to_the_second(last_change)
    return bool(criteria) and all(
        each.criterion.verify and each.state == "passed" and since <= to_the_second(each.at)
        for each in criteria
    )


def _present(path: Path) -> str | None:
    try:
        with path.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None  # there is no such file any more


def _lines(found: Coverage) -> list[str]:
    rows = [
        [
            each.intent_id,
            each.state,
            counted(each.changes, "change"),
            counted(len(each.files), "file"),
        ]
        for each in found.intents
    ]
    rows += [["-", "orphan", path, ""] for path in found.orphans]
    rows += [["-", "drifted", path, ""] for path in found.drifted]
    return aligned(rows) if rows else ["no intent is in progress or completed, and nothing changed"]


def _as_json(each: IntentCoverage) -> dict[str, object]:
    return {
        "id": each.intent_id,
        "state": each.state,
        "changes": each.changes,
        "files": list(each.files),
        "drifted": list(each.drifted),
    }
