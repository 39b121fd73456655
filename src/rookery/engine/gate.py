"""The one way from a tool call to its effect.

Every hook is heard, the strictest ruling holds, and all that needs asking is asked in one
question. What comes out is a permit for exactly this action, or a refusal.
"""

import json
from collections.abc import Sequence

from rookery.core.blocks import ToolCall
from rookery.core.facts import Answered
from rookery.core.replies import denied
from rookery.core.rulings import Decision, Ruling, strictest
from rookery.core.shell.judgement import Judgement
from rookery.engine.dialogue import Dialogue
from rookery.engine.ports import Action, Hook, Outcome, Permit, RuleBook
from rookery.errors import CommandRejected, Denied, StorageError

REFUSED_BEFORE = "You have refused exactly this before."


class Gate:
    def __init__(self, hooks: Sequence[Hook], dialogue: Dialogue, rules: RuleBook) -> None:
        self._hooks = hooks
        self._dialogue = dialogue
        self._rules = rules
        self._refused: set[str] = set()

    async def pass_through(self, call: ToolCall, action: Action) -> tuple[Permit, str]:
        """A permit for the action, and what the user said with their yes.

        Raises `Denied` if a hook or the user says no.
        """
        ruling = strictest([await hook.before(call, action) for hook in self._hooks])
        if ruling.decision is Decision.DENY:
            raise Denied(denied(" ".join(ruling.reasons)))
        answer = None
        if ruling.decision is Decision.ASK:
            answer = await self._ask(call, action, ruling)
        by_hand = answer is not None and answer.by == "user"
        judged = action.judgement or Judgement()
        permit = Permit(
            digest=action.digest,
            reads=frozenset(action.reads),
            changes=frozenset(action.changes),
            command=action.command,
            cwd=action.cwd,
            # what no person has read is not given to a shell if it can be helped
            plain=judged.plain if by_hand else judged.plain or judged.spelled,
            confined=not (judged.needs_keys and by_hand),
        )
        return permit, answer.text if answer else ""

    async def report(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        for hook in self._hooks:
            await hook.after(call, action, outcome)

    async def _ask(self, call: ToolCall, action: Action, ruling: Ruling) -> Answered:
        refused = [REFUSED_BEFORE] if action.digest in self._refused else []
        answer = await self._dialogue.ask(
            action.ask,
            shown_text(action),
            title=action.title,
            diff=action.diff,
            cwd=action.cwd,
            call_id=call.id,
            digest=action.digest,
            where=action.where,
            notes=tuple(dict.fromkeys([*refused, *ruling.reasons, *ruling.notes, *action.notes])),
            rule=self._rules.rule_for(action),
        )
        if answer.reply != "yes":
            self._refused.add(action.digest)
            why = ruling.reasons if answer.by == "policy" else ()
            raise Denied(denied(" ".join([answer.text, *why])))
        if answer.always:
            self._remember(action)
        return answer

    def _remember(self, action: Action) -> None:
        """What cannot be kept for later is allowed this once all the same."""
        try:
            self._rules.add(action)
        except (StorageError, CommandRejected) as error:
            self._dialogue.note(f"It is allowed once, not always: {error}")


def shown_text(action: Action) -> str:
    """What clients are told of an action: a command's own line, or the payload of a tool."""
    return action.command or json.dumps(dict(action.payload), ensure_ascii=False)
