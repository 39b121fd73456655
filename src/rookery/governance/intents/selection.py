"""Selection of the active intent, with its context and the fact for the journal.

`select` decides from the file alone; `choose` also considers other tasks. Neither has effects.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from rookery.core.facts import IntentSelected
from rookery.core.refusals import Refusal
from rookery.core.settings import Settings
from rookery.errors import IntentNotSelectable
from rookery.governance.intents.intent import (
    Intent,
    IntentFile,
    IntentStatus,
    digest,
    first_step,
    move,
    selectable,
    timestamp,
)
from rookery.governance.intents.intent_changes import IntentDefinition
from rookery.governance.intents.intent_context import ContextTooLarge, intent_context
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.layout import find_layout
from rookery.governance.project import GovernedProject

MOST_NAMED = 20
_SETUP = "The user can create one with: rookery intents init"
_DETAILS = "For details: rookery intents validate"


class Chosen(Struct, frozen=True, kw_only=True):
    """A selection that is not in force yet, and the context for the model."""

    fact: IntentSelected
    definition: IntentDefinition
    context: str
    notes: tuple[str, ...] = ()


async def choose(
    project: GovernedProject,
    task_id: str,
    wanted: str,
    *,
    by: Literal["model", "user", "parent"],
) -> Chosen | Refusal:
    """Return the selection, or the reason why it is not possible."""
    text = await project.intents()
    file = text.file if text.exists else None
    overlapping = _overlapping(project, task_id, file, wanted)
    found = select(
        file,
        wanted,
        now=project.now(),
        overlapping=overlapping,
        auto_single=project.settings.governance.auto_select_single,
    )
    if isinstance(found, Refusal):
        return found
    assert file
    intent, notes = found
    definition = IntentDefinition(intent, file.policy)
    try:
        context = await context_of(project, task_id, definition)
    except ContextTooLarge as error:
        return Refusal(code="REQ-013", message=str(error), intent_id=intent.id)
    return Chosen(
        fact=fact_of(definition, by=by), definition=definition, context=context, notes=notes
    )


def fact_of(
    definition: IntentDefinition, *, by: Literal["model", "user", "parent"]
) -> IntentSelected:
    intent = definition.intent
    return IntentSelected(
        intent_id=intent.id,
        name=intent.name,
        revision=intent.revision,
        digest=digest(intent, definition.policy),
        scope=intent.owned_scope,
        by=by,
    )


async def context_of(project: GovernedProject, task_id: str, definition: IntentDefinition) -> str:
    """Raises `ContextTooLarge`."""
    intent = definition.intent
    return intent_context(
        intent,
        digest=digest(intent, definition.policy),
        generated=timestamp(project.now()),
        background=await project.background_of(task_id, intent),
        budget=project.settings.governance.context_chars,
    )


def is_descendant(file: IntentFile, intent: Intent, ancestor: str) -> bool:
    """Whether `ancestor` is the intent itself or one of its parents at any level."""
    seen: set[str] = set()
    at: Intent | None = intent
    while at and at.id not in seen:
        if at.id == ancestor:
            return True
        seen.add(at.id)
        at = file.find(at.parent) if at.parent else None
    return False


def wanted_id(arguments: Any) -> str:
    """The id from a tool call's arguments, which may be an object, JSON text, or just the id."""
    if isinstance(arguments, str):
        try:
            return wanted_id(json.loads(arguments))
        except (ValueError, RecursionError):
            return arguments.strip()
    if isinstance(arguments, Mapping):
        given = arguments.get("intent_id")
        return wanted_id(given) if isinstance(given, str | Mapping) else ""
    return ""


def select(
    file: IntentFile | None,
    wanted: str,
    *,
    now: datetime,
    overlapping: Sequence[str] = (),
    auto_single: bool = False,
) -> tuple[Intent, tuple[str, ...]] | Refusal:
    """Select an intent, with warnings for the model and the user, or return the first objection.
    `file` is None if there is none; `overlapping` are intents of other tasks whose scope
    overlaps."""
    if file is None:
        return Refusal(code="REQ-011", message=f"There is no intent file here. {_SETUP}")
    if not file.usable:
        return _invalid(file, f"The intent file has errors, so nothing can be selected. {_DETAILS}")
    choices = file.selectable(now)
    if not wanted and auto_single and len(choices) == 1:
        wanted = choices[0].id
    if not wanted:
        return Refusal(
            code="HOOK-INT-001",
            message=f"select_active_intent needs an intent_id. {choices_text(choices)}",
        )
    intent = file.find(wanted)
    if intent is None:
        return Refusal(
            code="REQ-006", message=f"No such intent: {wanted[:64]}. {choices_text(choices)}"
        )
    if intent.id in file.broken:
        return _invalid(file, f"{intent.id} has errors in the intent file. {_DETAILS}", intent.id)
    return _objection(file, intent, now, choices, overlapping) or (
        intent,
        _notes(file, intent, wanted, overlapping),
    )


def _overlapping(
    project: GovernedProject, task_id: str, file: IntentFile | None, wanted: str
) -> tuple[str, ...]:
    intent = file.find(wanted) if file else None
    if intent is None:
        return ()
    near = dict.fromkeys(each.intent_id for each in project.neighbours(task_id, intent))
    return tuple(each for each in near if each != intent.id)


def _objection(
    file: IntentFile,
    intent: Intent,
    now: datetime,
    choices: Sequence[Intent],
    overlapping: Sequence[str],
) -> Refusal | None:
    if not selectable(intent, now):
        reason = "expired" if intent.status is IntentStatus.IN_PROGRESS else "status"
        what = "has expired" if reason == "expired" else f"is {intent.status}"
        return Refusal(
            code="REQ-010",
            message=f"{intent.id} {what}. {choices_text(choices)} {_remedy(intent)}",
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
    if intent.status is IntentStatus.IN_PROGRESS:
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


def choices_text(choices: Sequence[Intent]) -> str:
    if not choices:
        return "No intent can be selected."
    named = ", ".join(each.id for each in choices[:MOST_NAMED])
    more = len(choices) - MOST_NAMED
    return f"Selectable: {named}{f' and {more} more' if more > 0 else ''}."


def check_selectable(settings: Settings, workspace: Path, intent_id: str) -> None:
    """Raises `IntentNotSelectable` if a run cannot work under the intent."""
    if settings.governance.mode == "off":
        raise IntentNotSelectable("Governance is turned off, so no intent can be selected.")
    layout = find_layout(workspace, workspace).layout
    if layout is None:
        raise IntentNotSelectable(
            f"This project has no intents, so {intent_id} cannot be selected. Create "
            "some with: rookery intents init"
        )
    now = datetime.now(UTC)
    found = select(IntentReader(layout).read().file, intent_id, now=now)
    if isinstance(found, Refusal):
        raise IntentNotSelectable(found.message)
