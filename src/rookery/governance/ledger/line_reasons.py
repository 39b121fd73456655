"""What stands behind the lines of a file: the intent and its criteria, and who let the call
through that wrote them."""

from collections.abc import Iterable, Mapping

from rookery.governance.criteria.criteria_standing import CHECK_TOOL, is_check
from rookery.governance.intents.intent import Intent, IntentFile, digest
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.layout import Layout
from rookery.governance.ledger.blame_page import (
    NamedCriterion,
    OwnedLine,
    Why,
    approval_words,
    approver,
    held_words,
)
from rookery.governance.ledger.line_records import decisions
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.traced import TracedRecord, records_on

Check = tuple[str, str]
"""An intent and a command that checks one of its criteria."""


def whys_behind(layout: Layout, lines: Iterable[OwnedLine]) -> dict[str, Why]:
    """By the ids of the records that the lines come from."""
    records = {line.record.id: line.record for line in lines if line.record}
    calls = {(record.task_id, record.tool_use_id) for record in records.values()}
    decided = decisions(layout.folder, calls)
    intents = IntentReader(layout).read().file
    checks = _newest_checks(layout, intents, {record.intent_id for record in records.values()})
    return {
        id: _why(record, decided.get((record.task_id, record.tool_use_id)), intents, checks)
        for id, record in records.items()
    }


def _newest_checks(
    layout: Layout, intents: IntentFile, named: set[str]
) -> Mapping[Check, TracedRecord]:
    """The last run of every command by which a criterion of these intents is checked."""
    left = {
        (intent.id, each.verify.command)
        for intent in filter(None, map(intents.find, named))
        for each in intent.acceptance_criteria
        if each.verify
    }
    found: dict[Check, TracedRecord] = {}
    lines = newest_first(layout.folder)
    while left and (line := next(lines, None)) is not None:
        if f'"{CHECK_TOOL}"'.encode() in line:
            for record in records_on(line):
                check = (record.intent_id, record.command)
                if is_check(record) and check in left:
                    found[check] = record
                    left.remove(check)
    return found


def _why(
    record: TracedRecord,
    decision: TracedRecord | None,
    intents: IntentFile,
    checks: Mapping[Check, TracedRecord],
) -> Why:
    approved, by = approval_words(record, decision), approver(record, decision)
    intent = intents.find(record.intent_id) if record.intent_id else None
    if intent is None:
        return Why(approved=approved, approver=by, changed="it is not among the intents now")
    criteria = tuple(
        NamedCriterion(
            id=each.id,
            text=each.text,
            checked_by=each.verify.command if each.verify else "",
            held=held_words(checks.get((intent.id, each.verify.command))) if each.verify else "",
        )
        for each in intent.acceptance_criteria
    )
    return Why(
        intent_name=intent.name,
        criteria=criteria,
        changed=_changed(record, intent, intents),
        approved=approved,
        approver=by,
    )


def _changed(record: TracedRecord, intent: Intent, intents: IntentFile) -> str:
    if record.intent_rev is not None and record.intent_rev != intent.revision:
        return f"it was revision {record.intent_rev}, and is {intent.revision} now"
    now = digest(intent, intents.policy)
    if record.intent_digest and not now.startswith(record.intent_digest.removeprefix("sha256:")):
        return "its wording has changed since"
    return ""
