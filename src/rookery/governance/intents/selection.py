"""Choosing the intent to work under: what a model asked for, and what comes of it."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from rookery.core.refusals import Refusal
from rookery.governance.intents.intent import Intent, IntentFile, Status, selectable
from rookery.governance.intents.lifecycle import first_step, move

MOST_NAMED = 20
_MAKE = "The user can make one with: rookery intents init"
_MEND = "What is wrong with it is told by: rookery intents validate"


class Selected(Struct, frozen=True, kw_only=True):
    """`notes` are for the model and the user: what to watch out for."""

    intent: Intent
    notes: tuple[str, ...] = ()


def wanted_id(arguments: Any) -> str:
    """The id a model gave, also if its arguments came as text, or it gave nothing but the id."""
    if isinstance(arguments, str):
        try:
            return wanted_id(json.loads(arguments))
        except (ValueError, RecursionError):
            return arguments.strip()
    if isinstance(arguments, Mapping):
        said = arguments.get("intent_id")
        return wanted_id(said) if isinstance(said, str | Mapping) else ""
    return ""


def select(
    file: IntentFile | None,
    wanted: str,
    *,
    now: datetime,
    overlapping: Sequence[str] = (),
    auto_single: bool = False,
) -> Selected | Refusal:
    """`file` is None if there is none; `overlapping` are the intents of other tasks that share
    something with the wanted one. The first objection counts."""
    if file is None:
        return Refusal(code="REQ-011", message=f"There is no intent file here. {_MAKE}")
    if not file.usable:
        return _invalid(file, f"The intent file has errors, so nothing can be selected. {_MEND}")
    choices = file.selectable(now)
    if not wanted and auto_single and len(choices) == 1:
        wanted = choices[0].id
    if not wanted:
        return Refusal(
            code="HOOK-INT-001",
            message=f"select_active_intent needs an intent_id. {_choices(choices)}",
        )
    intent = file.find(wanted)
    if intent is None:
        return Refusal(
            code="REQ-006", message=f"There is no intent {wanted[:64]}. {_choices(choices)}"
        )
    if intent.id in file.broken:
        return _invalid(file, f"{intent.id} has errors in the intent file. {_MEND}", intent.id)
    return _objection(file, intent, now, choices, overlapping) or Selected(
        intent=intent, notes=_notes(file, intent, wanted, overlapping)
    )


def _objection(
    file: IntentFile,
    intent: Intent,
    now: datetime,
    choices: Sequence[Intent],
    overlapping: Sequence[str],
) -> Refusal | None:
    if not selectable(intent, now):
        reason = "expired" if intent.status is Status.IN_PROGRESS else "status"
        what = "has expired" if reason == "expired" else f"is {intent.status}"
        return Refusal(
            code="REQ-010",
            message=f"{intent.id} {what}. {_choices(choices)} {_remedy(intent)}",
            intent_id=intent.id,
            reason=reason,
            details=(("status", str(intent.status)),),
        )
    unmet = file.unmet(intent)
    if unmet and file.policy.dependencies == "block":
        return Refusal(
            code="REQ-017",
            message=f"{intent.id} depends on {', '.join(unmet)}, which is not completed.",
            intent_id=intent.id,
            details=(("depends_on", list(unmet)),),
        )
    if overlapping and file.policy.overlap == "block":
        return Refusal(
            code="REQ-018",
            message=f"Another task works on {', '.join(overlapping)}, whose scope overlaps.",
            intent_id=intent.id,
            details=(("conflicts", list(overlapping)),),
        )
    return None


def _remedy(intent: Intent) -> str:
    if intent.status is Status.IN_PROGRESS:
        return "The user can give it more time in budget.expires_at."
    step = move("start", intent.status) or first_step("start", intent.status)
    word = step.command if step else "show"
    return f"The user can run: rookery intents {word} {intent.id}"


def _invalid(file: IntentFile, message: str, intent_id: str = "") -> Refusal:
    faults = tuple(each for each in file.errors if not intent_id or each.intent_id == intent_id)
    return Refusal(code="REQ-013", message=message, intent_id=intent_id, faults=faults)


def _notes(
    file: IntentFile, intent: Intent, wanted: str, overlapping: Sequence[str]
) -> tuple[str, ...]:
    notes: list[str] = []
    if wanted != intent.id:
        notes.append(f"{wanted[:64]} was read as {intent.id}.")
    if unmet := file.unmet(intent):
        notes.append(f"{intent.id} depends on {', '.join(unmet)}, which is not completed.")
    if overlapping:
        notes.append(f"Another task works on {', '.join(overlapping)}, whose scope overlaps.")
    return tuple(notes)


def _choices(choices: Sequence[Intent]) -> str:
    if not choices:
        return "No intent can be selected."
    named = ", ".join(each.id for each in choices[:MOST_NAMED])
    more = len(choices) - MOST_NAMED
    return f"Selectable: {named}{f' and {more} more' if more > 0 else ''}."
