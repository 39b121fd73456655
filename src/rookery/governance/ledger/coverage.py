"""Which intents the recorded changes cover, and which files left their intents behind."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from rookery.governance.intents.intent_map import HOST_CALLS, Activity, take_record
from rookery.governance.ledger.statistics import REFUSED, CountedRecord, is_by_product

CoverageState = Literal["covered", "unverified", "outdated", "uncovered", "drifted", "orphan"]
_COUNTED = frozenset({"IN_PROGRESS", "COMPLETED"})


class KnownIntent(Struct, frozen=True, kw_only=True):
    """What coverage needs to know of an intent as it is now."""

    id: str
    status: str
    revision: int = 1
    digest: str = ""
    verified: bool = False
    """All its criteria can be checked, were checked, and hold."""


class IntentCoverage(Struct, frozen=True, kw_only=True):
    intent_id: str
    state: CoverageState
    changes: int = 0
    files: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()


class Coverage(Struct, frozen=True, kw_only=True):
    intents: tuple[IntentCoverage, ...]
    orphans: tuple[str, ...]
    """Files changed under no intent, or under one that is gone."""
    drifted: tuple[str, ...]
    """Files that are not as the last recorded change left them."""


def coverage(
    intents: Iterable[KnownIntent],
    records: Iterable[CountedRecord],
    hashes: Mapping[str, str | None],
) -> Coverage:
    """From records oldest first and the present SHA-256 of files (None: there is no such file).

    A file whose present hash is not given is not judged, and what tools leave behind never is.
    """
    known = {intent.id: intent for intent in intents}
    done: dict[str, Activity] = {}
    changes: dict[str, list[bool]] = {}
    last: dict[str, tuple[str, str | None]] = {}
    for record in records:
        take_record(done, record)
        if not _is_change(record):
            continue
        if record.tool_name not in HOST_CALLS:
            its = known.get(record.intent_id)
            current = its is not None and _is_current(record, its)
            changes.setdefault(record.intent_id, []).append(current)
        for file in record.files:
            if is_by_product(file.path):
                continue
            last[file.path] = (record.intent_id, file.after.sha256 if file.after else None)
            if file.op == "rename" and file.origin:
                last[file.origin] = (record.intent_id, None)
    drifted = {path for path, (_, after) in last.items() if hashes.get(path, after) != after}
    return Coverage(
        intents=tuple(
            _of_intent(
                intent,
                changes.get(intent.id, []),
                sorted(done.get(intent.id, Activity()).files),
                sorted(path for path in drifted if last[path][0] == intent.id),
            )
            for intent in sorted(known.values(), key=lambda intent: intent.id)
            if intent.status in _COUNTED or intent.id in changes
        ),
        orphans=tuple(sorted(path for path, (named, _) in last.items() if named not in known)),
        drifted=tuple(sorted(drifted)),
    )


def _of_intent(
    intent: KnownIntent,
    changes: Sequence[bool],
    files: Sequence[str],
    astray: Sequence[str],
) -> IntentCoverage:
    """`changes` has for each whether it was made under the intent as it is now."""
    state: CoverageState = "covered" if intent.verified else "unverified"
    if not changes:
        state = "uncovered"
    elif not any(changes):
        state = "outdated"
    elif astray:
        state = "drifted"
    return IntentCoverage(
        intent_id=intent.id,
        state=state,
        changes=len(changes),
        files=tuple(files),
        drifted=tuple(astray),
    )


def _is_change(record: CountedRecord) -> bool:
    worked = any(not is_by_product(file.path) for file in record.files)
    return worked and record.outcome not in REFUSED


def _is_current(record: CountedRecord, intent: KnownIntent) -> bool:
    """Under the present revision. The digest counts where no revision was recorded."""
    if record.intent_rev is not None:
        return record.intent_rev == intent.revision
    return not intent.digest or record.intent_digest == intent.digest
