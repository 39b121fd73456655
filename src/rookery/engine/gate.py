"""The one way from a tool call to its effect.

Every hook is heard, the strictest ruling holds, and all that needs asking is asked in one
question. What comes out is a permit for exactly this action, or a refusal.
"""

import json
from collections.abc import Sequence

from rookery.core.blocks import ToolCall
from rookery.core.replies import denied
from rookery.core.rulings import Decision, strictest
from rookery.engine.dialogue import Dialogue
from rookery.engine.ports import Action, Hook, Outcome, Permit
from rookery.errors import Denied


class Gate:
    def __init__(self, hooks: Sequence[Hook], dialogue: Dialogue) -> None:
        self._hooks = hooks
        self._dialogue = dialogue

    async def pass_through(self, call: ToolCall, action: Action) -> tuple[Permit, str]:
        """A permit for the action, and what the user said with their yes.

        Raises `Denied` if a hook or the user says no.
        """
        ruling = strictest([await hook.before(call, action) for hook in self._hooks])
        if ruling.decision is Decision.DENY:
            raise Denied(denied(" ".join(ruling.reasons)))
        said = await self._ask(call, action) if ruling.decision is Decision.ASK else ""
        permit = Permit(
            digest=action.digest,
            reads=frozenset(action.reads),
            changes=frozenset(action.changes),
            command=action.command,
            cwd=action.cwd,
        )
        return permit, said

    async def report(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        for hook in self._hooks:
            await hook.after(call, action, outcome)

    async def _ask(self, call: ToolCall, action: Action) -> str:
        answer = await self._dialogue.ask(
            action.ask,
            shown_text(action),
            title=action.title,
            diff=action.diff,
            cwd=action.cwd,
            call_id=call.id,
            digest=action.digest,
        )
        if answer.reply != "yes":
            raise Denied(denied(answer.text))
        return answer.text


def shown_text(action: Action) -> str:
    """What clients are told of an action: a command's own line, or the payload of a tool."""
    return action.command or json.dumps(dict(action.payload), ensure_ascii=False)
