"""Why a run ended without success, in one word for programs."""

from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Ending,
    Event,
    PromptRefused,
    RequestFailed,
    RequestStarted,
    ToolFinished,
    ToolStarted,
)
from rookery.core.failures import FailureKind
from rookery.core.folds.run_tallies import Denials, GovernanceTally
from rookery.protocol.client.attend import Fate, RunEnd

BY_FAILURE = {
    FailureKind.BAD_KEY: "auth_failed",
    FailureKind.NO_CREDIT: "no_credit",
    FailureKind.BUSY: "rate_limited",
    FailureKind.DROPPED: "stalled",
    FailureKind.KEEPALIVE_ONLY: "stalled",
}
"""What the last failure of a request makes of a run that ends with it; others just fail it."""

SETTLED_BY_THE_ENGINE = (FailureKind.OVERFLOW, FailureKind.BROKEN_HISTORY)
"""Failures after which something else is sent, so that nothing is wrong yet."""

USE_YES = "Use -y to allow them."
ASK_ME = "Such actions always need approval: run it without -p to be asked."

ASK_TO_WAIT = (0, 429, 529)
"""HTTP statuses that say: too many requests, or too many of everybody. 0 stands for none."""


def code_of_failure(failure: FailureKind) -> str:
    return BY_FAILURE.get(failure, "task_failed")


def code_of_request(failed: RequestFailed) -> str:
    """The same for a request, whose provider may be busy for other reasons than too many of
    them: one that broke (500) and does not say when to come back has just failed."""
    broke = failed.status not in ASK_TO_WAIT and failed.retry_after is None
    if failed.error is FailureKind.BUSY and broke:
        return "task_failed"
    return code_of_failure(failed.error)


class Troubles:
    """Watches a task, so that it knows why the task stands where it stands."""

    def __init__(self) -> None:
        self.failure: RequestFailed | None = None
        """The failure of the last request, if it failed."""
        self.refusals = 0
        """Calls that were refused since one last changed something."""
        self.refused = ""
        """Why the last of them was."""
        self.prompt_refused = ""
        """Why a hook refused what the user said, if nothing was sent since."""
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
                self.prompt_refused = ""
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
        """The word for a run that ends because nobody can answer this question."""
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


class Verdict:
    """Watches a task, so that it knows whether a completed task is a success."""

    def __init__(self, *, automatic: bool) -> None:
        """What is refused in an `automatic` run needs approval whatever the flags say."""
        self._troubles = Troubles()
        self._how_to_allow = ASK_ME if automatic else USE_YES

    def show(self, event: Event) -> None:
        self._troubles.see(event)

    def show_of_child(self, task_id: str, event: Event) -> None:
        self._troubles.see(event)

    def judged(self, end: RunEnd) -> RunEnd:
        """How the run ended, now that it is known what was refused."""
        governance, denials = self._troubles.governance, self._troubles.denials
        if end.fate is not Fate.COMPLETED:
            return end
        if code := governance.code:
            return RunEnd(end.fate, governance.reason, code)
        told = denials.summary(self._how_to_allow)
        if denials.all_changes_refused:
            return RunEnd(end.fate, f"Nothing was changed: {told}", "policy_denied")
        return replace(end, note=told)
