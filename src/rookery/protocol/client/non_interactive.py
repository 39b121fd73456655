"""Runs that are not interactive: how questions are answered, and how they end.

Changes that need approval are refused. Some runs end with the first request that failed; nothing
is shown after it.
"""

from collections import Counter

import anyio

from rookery.core.asks import ASKED_AGAIN, AskKind
from rookery.core.facts import Asked, Event, RequestFailed
from rookery.core.replies import sentence_in
from rookery.protocol.client.attend import Display, Leave, Response, Say
from rookery.protocol.client.outcomes import (
    SETTLED_BY_THE_ENGINE,
    Troubles,
    code_of_failure,
    code_of_request,
)
from rookery.protocol.client.question_text import Suggestion, ceiling, followup, suggestions

DECIDE_YOURSELF = "Not interactive: the user cannot answer. Decide yourself and go on."
NOT_APPROVED = (
    "Not interactive: this needs approval, so it was skipped. Do without it, or finish. "
    "Do not claim that it was done."
)
PATIENCE = 3
"""How often a model that is stuck may go on trying."""


class Unattended:
    """Answers by rule. `opening` is what a resumed task is told first, if anything; a question
    waits `seconds` for somebody else to answer it. A run that is not `automatic` was to ask a
    person, so that a question of the model ends it. One that `keeps_mode` was begun in a mode
    that the user has chosen, which no suggestion of a model changes: it can ask for another with
    its own tool, like for anything else.

    It is shown the task as well, so that it can say why it leaves.
    """

    def __init__(
        self,
        opening: str = "",
        *,
        automatic: bool = True,
        seconds: float = 0.0,
        keeps_mode: bool = False,
    ) -> None:
        self._opening = opening
        self._automatic = automatic
        self._seconds = seconds
        self._keeps_mode = keeps_mode
        self._given: Counter[AskKind] = Counter()
        self._troubles = Troubles()

    def show(self, event: Event) -> None:
        self._troubles.see(event)

    def show_of_child(self, task_id: str, event: Event) -> None:
        self._troubles.see(event)

    async def __call__(self, asked: Asked) -> Response:
        self._given[asked.ask] += 1
        match asked.ask:
            case ask if ask in ASKED_AGAIN and self._troubles.prompt_refused:
                reason = f"A hook refused the message: {self._troubles.prompt_refused}"
                return Leave(reason, "governance_refused")
            case AskKind.COMPLETION_RESULT:
                return Say("yes", by="policy")
            case AskKind.FOLLOWUP:
                return await self._choose(asked)
            case (
                AskKind.TOOL
                | AskKind.COMMAND
                | AskKind.USE_MCP_SERVER
                | AskKind.BROWSER_ACTION_LAUNCH
            ):
                return Say("no", NOT_APPROVED, by="policy")
            case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK if self._opening:
                opening, self._opening = self._opening, ""
                return Say("message", opening)
            case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
                return Say("yes", by="policy")
            case AskKind.MISTAKE_LIMIT_REACHED if self._may_try_again(asked.ask):
                return Say("yes", by="policy")
            case _:
                return Leave(self._reason(asked), self._troubles.code_of(asked.ask))

    async def _choose(self, asked: Asked) -> Response:
        question, _ = followup(asked.text)
        offered = suggestions(asked.text)
        if not self._automatic:
            return Leave(f"Not interactive, and the model asked: {question}", "needs_human")
        await anyio.sleep(self._seconds)
        first = offered[0] if offered else Suggestion(DECIDE_YOURSELF)
        mode = "" if self._keeps_mode else first.mode
        return Say("message", first.answer, by="policy", mode=mode)

    def _may_try_again(self, ask: AskKind) -> bool:
        """What insists on what nobody allows will not get it next time either."""
        return self._given[ask] <= PATIENCE and not self._troubles.refusals

    def _reason(self, asked: Asked) -> str:
        match asked.ask:
            case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
                return f"{ceiling(asked.text)} Raise it, then go on with --continue."
            case AskKind.MISTAKE_LIMIT_REACHED if self._troubles.refusals:
                return f"{asked.text} It was refused: {sentence_in(self._troubles.refused)}"
            case _:
                return asked.text or f"The task stopped with {asked.ask}."


def first_failure(event: Event) -> Leave | None:
    """What ends a run that is to end with the first failed request."""
    match event.fact:
        case RequestFailed(error=error, message=message) if error not in SETTLED_BY_THE_ENGINE:
            return Leave(message, code_of_failure(error))
        case _:
            return None


class UntilFirstFailure:
    """A display that is told nothing more after it: another try may be announced before the run
    has come to its end, and then there is none."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._over = False

    def show(self, event: Event) -> None:
        if not self._over:
            self._display.show(event)
        self._over = self._over or leave_at_failure(event) is not None

    def show_of_child(self, task_id: str, event: Event) -> None:
        if not self._over:
            self._display.show_of_child(task_id, event)
        self._over = self._over or leave_at_failure(event) is not None


def leave_at_failure(event: Event) -> Leave | None:
    leave = first_failure(event)
    if leave and isinstance(event.fact, RequestFailed):
        return Leave(leave.reason, code_of_request(event.fact))
    return None
