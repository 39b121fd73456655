"""Choosing an intent, and what comes with it: the context, the lease, the record."""

from datetime import UTC
from typing import Literal

from msgspec import Struct

from rookery.core.facts import IntentSelected
from rookery.core.refusals import Refusal
from rookery.governance.intents.intent import Intent, IntentFile, digest
from rookery.governance.intents.intent_changes import Definition
from rookery.governance.intents.intent_context import ContextTooLarge, intent_context
from rookery.governance.intents.selection import select
from rookery.governance.project import GovernedProject


class Chosen(Struct, frozen=True, kw_only=True):
    """What would be in force, and what the model would be told of it."""

    fact: IntentSelected
    definition: Definition
    context: str
    notes: tuple[str, ...] = ()


async def choose(
    project: GovernedProject,
    task_id: str,
    wanted: str,
    *,
    by: Literal["model", "user", "parent"],
    ancestors: frozenset[str] = frozenset(),
) -> Chosen | Refusal:
    """Nothing is changed by this. Tasks that wait for this one are no neighbours of it."""
    text = await project.intents()
    file = text.file if text.there else None
    overlapping = _overlapping(project, task_id, file, wanted, ancestors)
    found = select(
        file,
        wanted,
        now=project.now(),
        overlapping=overlapping,
        auto_single=project.wishes.auto_single,
    )
    if isinstance(found, Refusal):
        return found
    assert file
    definition = Definition(found.intent, file.policy)
    try:
        context = await context_of(project, task_id, definition)
    except ContextTooLarge as error:
        return Refusal(code="REQ-013", message=str(error), intent_id=found.intent.id)
    return Chosen(
        fact=fact_of(definition, by=by), definition=definition, context=context, notes=found.notes
    )


def _overlapping(
    project: GovernedProject,
    task_id: str,
    file: IntentFile | None,
    wanted: str,
    ancestors: frozenset[str],
) -> tuple[str, ...]:
    intent = file.find(wanted) if file else None
    if intent is None:
        return ()
    near = project.neighbours(task_id, intent).overlapping
    return tuple(dict.fromkeys(each.intent_id for each in near if each.task not in ancestors))


def fact_of(definition: Definition, *, by: Literal["model", "user", "parent"]) -> IntentSelected:
    intent = definition.intent
    return IntentSelected(
        intent_id=intent.id,
        name=intent.name,
        revision=intent.revision,
        digest=digest(intent, definition.policy),
        scope=intent.owned_scope,
        by=by,
    )


async def context_of(project: GovernedProject, task_id: str, definition: Definition) -> str:
    """Raises `ContextTooLarge`."""
    intent = definition.intent
    return intent_context(
        intent,
        digest=digest(intent, definition.policy),
        generated=project.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        around=await project.surroundings(task_id, intent),
        budget=project.wishes.context_chars,
    )


def is_descendant(file: IntentFile, intent: Intent, ancestor: str) -> bool:
    """Whether an intent is part of another, over however many steps."""
    seen: set[str] = set()
    at: Intent | None = intent
    while at and at.id not in seen:
        if at.id == ancestor:
            return True
        seen.add(at.id)
        at = file.find(at.parent) if at.parent else None
    return False
