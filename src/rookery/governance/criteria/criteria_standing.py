"""How each criterion of an intent stands: by the last closing, and by what tasks have run since.

A proof counts for the revision it was made under, and no other. Of several, the newest counts.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.intents.intent import Criterion, Intent, Policy, Status, digest
from rookery.governance.ledger.statistics import CountedRecord
from rookery.governance.ledger.traced import TracedRecord

CHECK_TOOL = "intent_check"
"""How the ledger calls the run of a criterion's command."""

State = Literal["passed", "failed", "manual", "not_run", "not_run_again"]
_OUTCOMES: Mapping[str, State] = {"success": "passed", "failure": "failed"}


class CriterionStanding(Struct, frozen=True, kw_only=True):
    """`not_run_again`: there is a proof, but of an earlier revision."""

    id: str
    criterion: Criterion
    state: State
    at: str = ""


def criterion_id(number: int, criterion: Criterion) -> str:
    """How a criterion is called: as its author did, or by its place, from 1."""
    return criterion.id or f"A{number}"


def check_call_id(intent_id: str, criterion: str) -> str:
    """How the ledger names the run of one criterion's command."""
    return f"check-{intent_id}-{criterion}"


def is_check(record: CountedRecord) -> bool:
    return record.tool_name == CHECK_TOOL and record.kind == "command"


def criteria_standing(
    intent: Intent, policy: Policy, checks: Iterable[TracedRecord]
) -> tuple[CriterionStanding, ...]:
    """`checks` are the runs that the ledger knows of, of this intent or of any, oldest first."""
    known = {each.id: each for each in checks if each.intent_id == intent.id}
    # a task works only under what is in progress, so it is compared as if it still were
    worded = digest(replace(intent, status=Status.IN_PROGRESS), policy)
    runs = {
        each.tool_use_id: each
        for each in known.values()
        if each.outcome in _OUTCOMES
        and each.intent_rev in (None, intent.revision)
        and each.intent_digest in ("", worded)
    }
    earlier = {
        each.tool_use_id
        for each in known.values()
        if each.outcome in _OUTCOMES and (each.intent_rev or intent.revision) < intent.revision
    }
    closing = _last_closing(intent, known)
    return tuple(
        _standing(intent, criterion_id(number, each), each, closing, runs, earlier)
        for number, each in enumerate(intent.acceptance_criteria, start=1)
    )


def to_the_second(time: str) -> str:
    """In which the intent file and the ledger can be compared."""
    return time[:19]


def _standing(
    intent: Intent,
    its_id: str,
    criterion: Criterion,
    closing: Mapping[str, State] | None,
    runs: Mapping[str, TracedRecord],
    earlier: set[str],
) -> CriterionStanding:
    last, call = intent.last_verification, check_call_id(intent.id, its_id)
    found: list[tuple[str, int, State, str]] = []
    if last and closing is not None and (state := _closed_as(its_id, criterion, closing)):
        found.append((to_the_second(last.at), 0, state, last.at))
    if criterion.verify and (run := runs.get(call)):
        found.append((to_the_second(run.time), 1, _OUTCOMES[run.outcome], run.time))
    if found:
        _, _, state, at = max(found)
        return CriterionStanding(id=its_id, criterion=criterion, state=state, at=at)
    if criterion.verify is None:
        return CriterionStanding(id=its_id, criterion=criterion, state="manual")
    proved = call in earlier or (last is not None and closing is None and its_id in last.criteria)
    state = "not_run_again" if proved and intent.revision > 1 else "not_run"
    return CriterionStanding(id=its_id, criterion=criterion, state=state)


def _closed_as(its_id: str, criterion: Criterion, closing: Mapping[str, State]) -> State | None:
    if its_id in closing:
        return closing[its_id]
    return closing.get("") if criterion.verify else None


def _last_closing(intent: Intent, known: Mapping[str, TracedRecord]) -> Mapping[str, State] | None:
    """What the last closing found, by criterion, and under "" of the checks it does not name; None
    if it was of an earlier revision, or there was none."""
    last = intent.last_verification
    if last is None:
        return None
    run = known.get(last.trace_id)
    if run and run.intent_rev is not None:
        current = run.intent_rev == intent.revision
    else:
        current = not any(at >= to_the_second(last.at) for at in _reopened(intent))
    if not current:
        return None
    held: dict[str, State] = dict.fromkeys(last.criteria, "passed")
    return held if last.ok else {**held, "": "failed"}


def _reopened(intent: Intent) -> list[str]:
    """When it was taken up again after it had been completed: each time the revision rose."""
    changes = intent.status_history
    return [
        to_the_second(after.at)
        for before, after in pairwise(changes)
        if before.status == Status.COMPLETED and after.status == Status.IN_PROGRESS
    ]
