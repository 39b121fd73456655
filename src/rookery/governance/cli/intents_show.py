"""`rookery intents show`: everything about one intent on one screen."""

from collections.abc import Iterator, Sequence

import click
from msgspec import Struct

from rookery.core.text.terminal_text import cells_of, harmless_line
from rookery.governance.cli.intents_common import Desk, Wishes, common, counted, now, open_desk
from rookery.governance.cli.intents_coverage import coverage_of
from rookery.governance.criteria.criteria_standing import CriterionStanding
from rookery.governance.intents.activity import Activity, activity
from rookery.governance.intents.intent import Intent, digest, expired
from rookery.governance.intents.leases import Lease, Leases
from rookery.governance.ledger.brief_records import counted_records

LABEL = 13
WIDTH = 80
SHORT_DIGEST = 12


class _Shown(Struct, frozen=True, kw_only=True):
    intent: Intent
    digest: str
    done: Activity
    state: str
    criteria: tuple[CriterionStanding, ...]
    leases: tuple[Lease, ...]


@click.command("show")
@click.argument("intent_id", metavar="ID")
@common
def show_command(wishes: Wishes, intent_id: str) -> int:
    """Print an intent: its scope, how one can tell that it is done, and what was done under it."""
    desk = open_desk(wishes)
    shown = _looked_up(desk, desk.intent(intent_id))
    wishes.say(*_lines(shown))
    wishes.tell(_as_json(shown, desk))
    return 0


def _looked_up(desk: Desk, intent: Intent) -> _Shown:
    records = counted_records(desk.layout.folder)
    done = activity(each for each in records if each.intent_id == intent.id)
    proved = coverage_of(desk)
    states = {each.intent_id: each.state for each in proved.coverage.intents}
    living = Leases(desk.layout).living(now=now())
    return _Shown(
        intent=intent,
        digest=digest(intent, desk.file.policy),
        done=done.get(intent.id, Activity()),
        state=states.get(intent.id, ""),
        criteria=proved.standings[intent.id],
        leases=tuple(each for each in living if each.intent_id == intent.id),
    )


def _lines(shown: _Shown) -> list[str]:
    intent = shown.intent
    title = f"{intent.id}  {harmless_line(intent.name)}"
    status = f"{intent.status}, revision {intent.revision}"
    gap = " " * max(2, WIDTH - cells_of(title) - len(status))
    return [f"{title}{gap}{status}", *_facts(shown)]


def _facts(shown: _Shown) -> Iterator[str]:
    intent = shown.intent
    if intent.description:
        yield from _labelled("description", intent.description.splitlines())
    yield from _labelled("scope", ["   ".join(map(_pattern, intent.owned_scope)) or "none"])
    yield from _labelled("constraints", _numbered([each.text for each in intent.constraints]))
    yield from _labelled("criteria", [_criterion(intent, each) for each in shown.criteria])
    yield from _labelled("budget", _budget(shown))
    yield from _labelled("depends on", [", ".join(intent.depends_on)] if intent.depends_on else [])
    if shown.state:
        yield from _labelled("coverage", [f"{shown.state}{_how_far(shown.criteria)}"])
    yield from _labelled("changes", [_changes(shown.done)])
    yield from _labelled("running", [f"task {each.task}" for each in shown.leases])
    yield from _labelled("digest", [shown.digest[:SHORT_DIGEST]])


def _labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        yield f"{'' if place else label:{LABEL}}{harmless_line(line)}".rstrip()


def _numbered(lines: Sequence[str]) -> list[str]:
    return [f"{number} {line}" for number, line in enumerate(lines, start=1)]


def _pattern(said: str) -> str:
    return f"not {said[1:]}" if said.startswith("!") else said


def _criterion(intent: Intent, its: CriterionStanding) -> str:
    said = its.criterion.verify.command if its.criterion.verify else its.criterion.text
    return f"{its.id} [{_standing(intent, its)}] {said}"


def _standing(intent: Intent, its: CriterionStanding) -> str:
    match its.state:
        case "passed" | "failed":
            word = "ok" if its.state == "passed" else "failed"
            return f"{word} {its.at[5:10]} {its.at[11:16]}"
        case "not_run_again":
            return f"not run in revision {intent.revision}"
        case _:
            return its.state.replace("_", " ")


def _budget(shown: _Shown) -> list[str]:
    limits, done = shown.intent.budget, shown.done
    said = []
    if limits.max_files is not None:
        said.append(f"{len(done.files)} of {limits.max_files} files")
    if limits.max_changed_lines is not None:
        said.append(f"{done.lines} of {limits.max_changed_lines} lines")
    if limits.max_tool_calls is not None:
        said.append(f"{done.calls} of {limits.max_tool_calls} calls")
    if limits.expires_at is not None:
        word = "expired" if expired(shown.intent, now()) else "expires"
        said.append(f"{word} {limits.expires_at.date().isoformat()}")
    return [", ".join(said)] if said else []


def _how_far(criteria: Sequence[CriterionStanding]) -> str:
    good = sum(each.state == "passed" and bool(each.criterion.verify) for each in criteria)
    noun = "criterion" if len(criteria) == 1 else "criteria"
    return f" ({good} of {len(criteria)} {noun} checked)" if criteria else ""


def _changes(done: Activity) -> str:
    return (
        f"{counted(len(done.files), 'file')}, {counted(done.calls, 'call')}, "
        f"{done.refused} refused, {done.approved_outside} approved outside scope"
    )


def _as_json(shown: _Shown, desk: Desk) -> dict[str, object]:
    intent, done = shown.intent, shown.done
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
            for number, each in enumerate(shown.criteria, start=1)
        ],
        "depends_on": list(intent.depends_on),
        "coverage": shown.state or None,
        "files": sorted(done.files),
        "calls": done.calls,
        "refused": done.refused,
        "approved_outside_scope": done.approved_outside,
        "running_tasks": [each.task for each in shown.leases],
        "digest": shown.digest,
        "problems": [each.to_json() for each in desk.file.problems if each.intent_id == intent.id],
    }
