"""What is answered when nobody is there to ask. Nobody's silence is never a yes to a change."""

from collections import Counter

from rookery.clients.attendant import Leave, Response, Say
from rookery.clients.questions import ceiling, suggestions
from rookery.core.asks import AskKind
from rookery.core.facts import Asked

DECIDE_YOURSELF = "Nobody is there to answer. Decide yourself and go on."
NOBODY_TO_ASK = "Nobody is there to allow this. Do without it, or finish."
PATIENCE = 3
"""How often a model that is stuck may go on trying."""


class Unattended:
    """Answers by rule. `opening` is what a resumed task is told first, if anything."""

    def __init__(self, opening: str = "") -> None:
        self._opening = opening
        self._given: Counter[AskKind] = Counter()

    async def __call__(self, asked: Asked) -> Response:
        self._given[asked.ask] += 1
        match asked.ask:
            case AskKind.COMPLETION_RESULT:
                return Say("yes", by="policy")
            case AskKind.FOLLOWUP:
                choices = suggestions(asked.text)
                return Say("message", choices[0] if choices else DECIDE_YOURSELF, by="policy")
            case (
                AskKind.TOOL
                | AskKind.COMMAND
                | AskKind.USE_MCP_SERVER
                | AskKind.BROWSER_ACTION_LAUNCH
            ):
                return Say("no", NOBODY_TO_ASK, by="policy")
            case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK if self._opening:
                opening, self._opening = self._opening, ""
                return Say("message", opening)
            case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
                return Say("yes", by="policy")
            case AskKind.MISTAKE_LIMIT_REACHED if self._given[asked.ask] <= PATIENCE:
                return Say("yes", by="policy")
            case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
                return Leave(
                    f"{ceiling(asked.text)} Raise it, then go on with --continue.",
                    code="limit_reached",
                )
            case _:
                return Leave(asked.text or f"The task stopped with {asked.ask}.")
