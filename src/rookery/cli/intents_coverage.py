"""`rookery intents coverage` and `map`: which intents the code stands for, and where."""

from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path

import click

from rookery.cli.intents_close import criterion_id
from rookery.cli.intents_desk import (
    FINDINGS,
    Desk,
    Wishes,
    aligned,
    common,
    counted,
    open_desk,
)
from rookery.core.intents.intent import Intent, Status, digest
from rookery.core.ledger.coverage import (
    Coverage,
    IntentCoverage,
    KnownIntent,
    coverage,
)
from rookery.workspace.ledger.reading import oldest
from rookery.workspace.orchestration.intent_map_file import write_intent_map

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
    found = coverage_of(desk)
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
    """Write anew which files and functions each intent lives in. Your own text in it is kept."""
    desk = open_desk(wishes)
    changed = write_intent_map(desk.layout, desk.usable.intents, oldest(desk.layout.folder))
    name = desk.layout.shown(desk.layout.map_file)
    wishes.say(f"{name} is {'written anew' if changed else 'as it was'}")
    wishes.tell({"file": name, "changed": changed})
    return 0


def coverage_of(desk: Desk) -> Coverage:
    folder = desk.layout.folder
    paths: set[str] = set()
    last_changes: dict[str, str] = {}
    for record in oldest(folder):
        for file in record.files:
            paths.update(filter(None, (file.path, file.origin)))
            last_changes[record.intent_id] = record.time
    hashes = {path: _present(desk.layout.root / path) for path in paths}
    known = [
        KnownIntent(
            id=each.id,
            status=str(each.status),
            revision=each.revision,
            digest=digest(each, desk.file.policy),
            verified=verified(each, last_changes.get(each.id, "")),
        )
        for each in desk.usable.intents
    ]
    return coverage(known, oldest(folder), hashes)


def verified(intent: Intent, last_change: str) -> bool:
    """All its criteria can be checked, were checked since anything changed, and hold."""
    last, criteria = intent.last_verification, intent.acceptance_criteria
    if last is None or not last.ok or not criteria or not all(each.verify for each in criteria):
        return False
    begun = [each.at for each in intent.status_history if each.status == Status.IN_PROGRESS]
    since = max((_second(each) for each in (last_change, *begun)), default="")
    ids = {criterion_id(number, each) for number, each in enumerate(criteria, start=1)}
    return since <= _second(last.at) and ids <= set(last.criteria)


def _second(time: str) -> str:
    """A time to the second, in which the file and the ledger can be compared."""
    return time[:19]


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
