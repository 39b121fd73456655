"""Why a run ended without success, as a code for programs."""

from collections import Counter

import anyio
from msgspec.structs import replace

from rookery.core.asks import APPROVALS, ASKED_AGAIN, AskKind
from rookery.core.facts import (
    Asked,
    Ending,
    Event,
    Noted,
    PromptRefused,
    RequestFailed,
    RequestStarted,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.run_tallies import Denials, GovernanceTally
from rookery.core.limits import FailureKind
from rookery.core.replies import STOPPED_BY_HOOK, sentence_in
from rookery.protocol.attend import Display, Fate, Leave, Response, RunEnd, Say
from rookery.protocol.codec import OfferedAnswer, ceiling, followup, suggestions

DECIDE_YOURSELF = "Not interactive: the user cannot answer. Decide yourself and continue."
NOT_APPROVED = (
    "Not interactive: this needs approval, so it was skipped. Do without it, or finish. "
    "Do not claim that it was done."
)
PATIENCE = 3
"""How often a stuck model may continue."""


class Unattended:
    """Answers by rule. `opening` is the first message of a resumed task. A question waits `seconds`
    for someone else to answer it. If the run is not `automatic`, a question of the model ends it.
    With `keeps_mode`, the user chose the mode, and no suggested answer changes it: the model can
    ask for another with its own tool.

    It also sees the task's events, so that it can say why it leaves.
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

    def show(self, event: Event, child: str = "") -> None:
        self._troubles.see(event)

    async def __call__(self, asked: Asked) -> Response:
        self._given[asked.ask] += 1
        match asked.ask:
            case ask if ask in ASKED_AGAIN and self._troubles.prompt_refused:
                reason = f"A hook refused the message: {self._troubles.prompt_refused}"
                return Leave(reason, "governance_refused")
            case AskKind.RESUME_TASK if self._troubles.stopped:
                return Leave(self._troubles.stopped, "governance_refused")
            case AskKind.COMPLETION_RESULT:
                return Say("yes", by="policy")
            case AskKind.FOLLOWUP if asked.title:
                return Say("message", NOT_APPROVED, by="policy")
            case AskKind.FOLLOWUP:
                return await self._choose(asked)
            case ask if ask in APPROVALS:
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
        return first_answer(offered, keeps_mode=self._keeps_mode)

    def _may_try_again(self, ask: AskKind) -> bool:
        """A model that repeats a refused call will be refused again."""
        return self._given[ask] <= PATIENCE and not self._troubles.refusals

    def _reason(self, asked: Asked) -> str:
        match asked.ask:
            case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
                return f"{ceiling(asked.text)} Raise it, then run again with --continue."
            case AskKind.MISTAKE_LIMIT_REACHED if self._troubles.refusals:
                return f"{asked.text} It was refused: {sentence_in(self._troubles.refused)}"
            case _:
                return asked.text or f"The task stopped with {asked.ask}."


def first_answer(offered: list[OfferedAnswer], *, keeps_mode: bool) -> Say:
    """The answer if the run is not interactive: the first suggestion."""
    first = offered[0] if offered else OfferedAnswer(DECIDE_YOURSELF)
    return Say("message", first.answer, by="policy", mode="" if keeps_mode else first.mode)


class UntilFirstFailure:
    """A display that shows nothing after the first failure: a retry may be announced that will
    not happen."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._over = False

    def show(self, event: Event, child: str = "") -> None:
        if not self._over:
            self._display.show(event, child)
        self._over = self._over or leave_at_failure(event) is not None


def leave_at_failure(event: Event) -> Leave | None:
    """Leave at the first failed request."""
    match event.fact:
        case RequestFailed(error=error) as failed if error not in SETTLED_BY_THE_ENGINE:
            return Leave(failed.message, code_of_request(failed))
        case _:
            return None


BY_FAILURE = {
    FailureKind.BAD_KEY: "auth_failed",
    FailureKind.NO_CREDIT: "no_credit",
    FailureKind.BUSY: "rate_limited",
    FailureKind.DROPPED: "stalled",
    FailureKind.KEEPALIVE_ONLY: "stalled",
}
"""The code of a run that ends with such a failure; others just fail it."""

SETTLED_BY_THE_ENGINE = (FailureKind.OVERFLOW, FailureKind.BROKEN_HISTORY)
"""Failures that the engine handles by sending something else."""

CHOOSE_A_LEVEL = "To be asked, run it at a terminal without -p. To allow more: --permission-mode."
ASK_ME = "Such actions always need approval: run it at a terminal without -p to be asked."

ASK_TO_WAIT = (0, 429, 529)
"""HTTP statuses for too many requests or an overloaded server. 0 stands for none."""


def code_of_request(failed: RequestFailed) -> str:
    """The code of a run that ends with this failure. A provider that failed (500) and does not say
    when to retry is not rate limited."""
    broke = failed.status not in ASK_TO_WAIT and failed.retry_after is None
    if failed.error is FailureKind.BUSY and broke:
        return "task_failed"
    return BY_FAILURE.get(failed.error, "task_failed")


class Troubles:
    """Watches a task to know why it is stuck."""

    def __init__(self) -> None:
        self.failure: RequestFailed | None = None
        """The failure of the last request, if it failed."""
        self.refusals = 0
        """Calls refused since the last change."""
        self.refused = ""
        """Why the last one was refused."""
        self.prompt_refused = ""
        """Why a hook refused the user's message, if nothing was sent since."""
        self.stopped = ""
        """Why a hook stopped the task, if nothing was sent since."""
        self.governance = GovernanceTally()
        self.denials = Denials()
        self._changing: set[str] = set()

    def see(self, event: Event) -> None:
        self.governance.see(event.fact)
        self.denials.see(event.fact)
        match event.fact:
            case RequestFailed() as failure:
                self.failure = failure
            case RequestStarted():
                self.prompt_refused = self.stopped = ""
            case Noted(text=text) if text.startswith(STOPPED_BY_HOOK):
                self.stopped = text
            case PromptRefused(reason=reason):
                self.prompt_refused = reason
            case ToolStarted(call_id=call_id) as started if not started.harmless:
                self._changing.add(call_id)
            case ToolFinished(ending=ending, text=text, refusal=code) if (
                ending is Ending.DENIED or (code and ending is not Ending.DONE)
            ):
                self.refusals += 1
                self.refused = text
            case ToolFinished(ending=Ending.DONE, call_id=call_id) if call_id in self._changing:
                self.refusals = 0
            case _:
                pass

    def code_of(self, ask: AskKind) -> str:
        """The code of a run that ends because no one can answer this question."""
        match ask:
            case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
                return "limit_reached"
            case AskKind.PAYMENT_REQUIRED_PROMPT:
                return "no_credit"
            case AskKind.MISTAKE_LIMIT_REACHED if self.refusals:
                return self.governance.code or "policy_denied"
            case AskKind.MISTAKE_LIMIT_REACHED:
                return "stalled"
            case AskKind.API_REQ_FAILED if self.failure:
                return code_of_request(self.failure)
            case AskKind.API_REQ_FAILED | AskKind.INVALID_MODEL:
                return "task_failed"
            case _:
                return "needs_human"


class RunVerdict:
    """Watches a task to know whether its completion is a success."""

    def __init__(self, *, automatic: bool, planning: bool = False) -> None:
        """What an `automatic` run refuses needs approval whatever the flags say. A run that is
        `planning` changes nothing, so refusals say nothing about it."""
        self._planning = planning
        self._troubles = Troubles()
        self._how_to_allow = ASK_ME if automatic else CHOOSE_A_LEVEL

    def show(self, event: Event, child: str = "") -> None:
        self._troubles.see(event)

    def judged(self, end: RunEnd) -> RunEnd:
        """How the run ended, considering what was refused."""
        governance, denials = self._troubles.governance, self._troubles.denials
        if end.fate is not Fate.COMPLETED:
            return end
        if code := governance.code:
            return RunEnd(end.fate, governance.reason, code)
        summary = denials.summary(self._how_to_allow)
        if denials.all_changes_refused and not self._planning:
            return RunEnd(end.fate, f"Nothing was changed: {summary}", "policy_denied")
        return replace(end, note=summary)
