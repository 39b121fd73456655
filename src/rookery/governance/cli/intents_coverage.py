"""`rookery intents coverage` and `map`: which intents the code stands for, and where."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import file_digest
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.cli.intents_common import (
    FINDINGS,
    CommonOptions,
    GovernedFolder,
    aligned,
    common,
    counted,
    open_folder,
)
from rookery.governance.criteria.criteria_standing import (
    CriterionStanding,
    criteria_standing,
    is_check,
    to_the_second,
)
from rookery.governance.intents.intent import digest
from rookery.governance.intents.intent_map import MapEntry, intent_map, map_text
from rookery.governance.ledger.brief_records import Counted, counted_lines
from rookery.governance.ledger.coverage import (
    Coverage,
    IntentCoverage,
    KnownIntent,
    coverage,
)
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.ledger.statistics import is_by_product
from rookery.governance.ledger.traced import TracedRecord, records_on

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
def coverage_command(options: CommonOptions, allowed: Sequence[str]) -> int:
    """Compare intents with recorded changes: what is proved, what is left behind, what has no
    reason. Fails if something is outdated, uncovered or an orphan."""
    governed = open_folder(options)
    found = coverage_of(governed).coverage
    states = {each.state for each in found.intents} | ({"orphan"} if found.orphans else set())
    faults = (states & FAULTS) - set(allowed)
    options.say(*_lines(found))
    options.tell(
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
def map_command(options: CommonOptions) -> int:
    """Print which files and functions each intent lives in, as Markdown. Writes no file."""
    governed = open_folder(options)
    entries = intent_map(governed.layout, governed.usable.intents, oldest(governed.layout.folder))
    options.say(map_text(entries).rstrip("\n"))
    options.tell({"intents": [_entry_as_json(each) for each in entries]})
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


class Proved(Struct, frozen=True, kw_only=True):
    """What the ledger and the intents come to. `standings` are of the criteria, by intent."""

    coverage: Coverage
    standings: Mapping[str, tuple[CriterionStanding, ...]]


def coverage_of(governed: GovernedFolder) -> Proved:
    """In one pass: a ledger may hold hundreds of thousands of records."""
    last_changes: dict[str, str] = {}
    checks: list[TracedRecord] = []

    def counted_records() -> Iterator[Counted]:
        for line, record in counted_lines(governed.layout.folder):
            if is_check(record):
                checks.extend(filter(is_check, records_on(line)))
            if any(not is_by_product(file.path) for file in record.files):
                last_changes[record.intent_id] = record.time
            yield record

    intents, policy = governed.usable.intents, governed.file.policy
    known = [
        KnownIntent(
            id=each.id,
            status=str(each.status),
            revision=each.revision,
            digest=digest(each, policy),
            verified=True,
        )
        for each in intents
    ]
    found = coverage(known, counted_records(), _Hashes(governed.layout.root))
    standings = {each.id: criteria_standing(each, policy, checks) for each in intents}
    proved = {id for id in standings if _verified(standings[id], last_changes.get(id, ""))}
    judged = tuple(_judged(each, proved) for each in found.intents)
    return Proved(coverage=replace(found, intents=judged), standings=standings)


def _judged(found: IntentCoverage, proved: Collection[str]) -> IntentCoverage:
    """Criteria are known only after all records were read."""
    covered = found.state == "covered" and found.intent_id not in proved
    return replace(found, state="unverified") if covered else found


class _Hashes(Mapping[str, str | None]):
    """The present hashes of files, computed on first use."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __getitem__(self, path: str) -> str | None:
        return _present(self._root / path)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


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
