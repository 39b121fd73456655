"""More scope for an intent, on a person's order: written into the file, and adopted."""

from datetime import UTC
from functools import partial

import anyio.to_thread

from rookery.core.asks import AskedReason, IntentQuestion
from rookery.core.refusals import DECLINED, Refusal
from rookery.core.rulings import Decision, Ruling
from rookery.engine.ports.actions import Action
from rookery.errors import RookeryError
from rookery.governance.active_intent import InForce
from rookery.governance.intents.intent import IntentFile, digest
from rookery.governance.intents.intent_changes import Definition
from rookery.governance.intents.intent_edits import AddScope, EditOf, SetField
from rookery.governance.intents.selection import fact_of


async def about_expansion(at: InForce, action: Action) -> Ruling:
    """A request for more scope is always a person's to decide."""
    definition = at.definition
    if definition is None:
        refusal = Refusal(code="REQ-003", message="There is no active intent to extend.")
        return Ruling(Decision.DENY, (refusal.message,), refusals=(refusal,))
    intent = definition.intent
    pattern = str(action.payload.get("pattern", ""))
    why = f"{intent.id} would own {pattern} from now on."
    question = IntentQuestion(
        intent_id=intent.id,
        intent_name=intent.name,
        revision=intent.revision,
        scope=intent.owned_scope,
        reasons=(AskedReason(code="REQ-001", error_type="scope_violation", text=why),),
        pattern=pattern,
        choices=("halt",),
    )
    refusal = Refusal(
        code="REQ-001",
        message=f"The scope of {intent.id} stays as it is.",
        intent_id=intent.id,
        reason=DECLINED,
        steps=("do the work inside the scope, or finish and say what is left",),
    )
    return Ruling(Decision.ASK, (why,), refusals=(refusal,), question=question)


async def expand(at: InForce, intent_id: str, pattern: str, call_id: str) -> Definition:
    """Raises `RookeryError`; then the file is as it was."""
    seen = await at.project.intents()
    stamp = at.project.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def decide(file: IntentFile) -> list[EditOf]:
        intent = file.find(intent_id)
        if intent is None:
            raise RookeryError(f"There is no intent {intent_id} any more.")
        dated = [EditOf(intent_id, SetField("updated_at", stamp))] if intent.updated_at else []
        return [EditOf(intent_id, AddScope(pattern)), *dated]

    written = await anyio.to_thread.run_sync(
        partial(at.project.writer.change, seen, decide(seen.file), decide)
    )
    intent = written.file.find(intent_id)
    assert intent
    definition = Definition(intent, written.file.policy)
    before = at.definition
    old = digest(before.intent, before.policy) if before else ""
    new = digest(intent, written.file.policy)
    more = {"change": "expand", "pattern": pattern, "digest_before": old, "digest_after": new}
    await at.note_change(call_id, more)
    await at.adopt(fact_of(definition, by="user"), definition, call_id)
    return definition
