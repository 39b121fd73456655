"""A turn, and why it ended in the words of the protocol."""

import anyio

from rookery.compat.acp.questions import question_text
from rookery.core.asks import FAILED_REQUESTS, AskKind
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    Fact,
    PromptRefused,
    RequestFailed,
    StepCancelled,
    StopReason,
    TaskFailed,
)
from rookery.core.limits import FailureKind
from rookery.protocol.codec import ceiling
from rookery.protocol.jsonrpc import INTERNAL_ERROR, RpcError

AUTH_REQUIRED = -32000


class PromptTurn:
    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.stop = "end_turn"
        self.error: RpcError | None = None
        self.begun = anyio.Event()
        """The task knows of it."""
        self.cancelled = False
        self._model_stop = StopReason.END
        self._refused = False
        self._failure: RequestFailed | None = None
        self._crash = ""

    @property
    def takes_messages(self) -> bool:
        return self.begun.is_set() and not self.cancelled

    def see(self, fact: Fact) -> None:
        match fact:
            case AssistantSpoke(stop=stop):
                self._model_stop, self._failure = stop, None
            case RequestFailed():
                self._failure = fact
            case PromptRefused():
                self._refused = True
            case StepCancelled():
                self.cancelled = True
            case TaskFailed(message=message):
                self._crash = message
            case _:
                pass

    def end(self, asked: Asked | None, error: RpcError | None = None) -> None:
        """End with an error, or with the question that the task asks now."""
        self.stop = self._stop(asked)
        self.error = error or (None if self.cancelled else self._error(asked))
        self.begun.set()
        self.ended.set()

    def _stop(self, asked: Asked | None) -> str:
        declined = self._failure and self._failure.error is FailureKind.REFUSED
        if self.cancelled:
            return "cancelled"
        if self._refused or declined or self._model_stop is StopReason.REFUSED:
            return "refusal"
        if asked and asked.ask is AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return "max_turn_requests"
        return "max_tokens" if self._model_stop is StopReason.LENGTH else "end_turn"

    def _error(self, asked: Asked | None) -> RpcError | None:
        if asked is None:
            return RpcError(INTERNAL_ERROR, self._crash or "The session has ended. Load it again.")
        if asked.ask not in FAILED_REQUESTS or self.stop == "refusal":
            return None
        kind = self._failure.error if self._failure else None
        code = AUTH_REQUIRED if kind is FailureKind.BAD_KEY else INTERNAL_ERROR
        reason = asked.text or (self._failure.message if self._failure else "The request failed.")
        return RpcError(code, f"{reason} The session is kept; send a message to try again.")


def early_words(asked: Asked) -> str:
    """What to tell the user when a question ends the turn; the next prompt answers it."""
    match asked.ask:
        case AskKind.FOLLOWUP:
            return question_text(asked)
        case AskKind.MISTAKE_LIMIT_REACHED:
            return asked.text
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return f"{ceiling(asked.text)} Send a message to continue."
        case _:
            return ""
