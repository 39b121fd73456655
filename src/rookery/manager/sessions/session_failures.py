"""Why a session failed: the kind that says what to offer, and the sentence that is shown.

Whatever failed, the session and its messages are kept; the sentence need not say so each time,
but it never is raw JSON.
"""

import json
import re
from enum import StrEnum

from msgspec import Struct

from rookery.core.asks import AskKind
from rookery.core.limits import CHOOSE_A_MODEL, MEANS_BAD_KEY, NO_MODEL_CHOSEN


class ErrorKind(StrEnum):
    API = "api"
    AUTH = "auth"
    PAYMENT = "payment"
    MODEL = "model"
    MISTAKES = "mistakes"
    CREATION_TIMEOUT = "creation_timeout"
    CREATION_INTERRUPTED = "creation_interrupted"
    EARLY_EXIT = "early_exit"
    PROCESS = "process"
    CRASH = "crash"


ENDS_PROCESS = frozenset((ErrorKind.AUTH, ErrorKind.PAYMENT, ErrorKind.MODEL))
"""A process that failed so would only fail in the same way again, at a price. A new one reads the
key again."""


class Failure(Struct, frozen=True, kw_only=True):
    kind: ErrorKind
    text: str


CREATION_INTERRUPTED = Failure(
    kind=ErrorKind.CREATION_INTERRUPTED,
    text="The session was interrupted while it was being created. Retry to start it again.",
)
EARLY_EXIT = Failure(
    kind=ErrorKind.EARLY_EXIT,
    text="The agent ended before the session was created. Retry to start it again.",
)

_STATUS_KINDS = {"401": ErrorKind.AUTH, "402": ErrorKind.PAYMENT, "403": ErrorKind.AUTH}
_ASK_KINDS = {
    AskKind.INVALID_MODEL: ErrorKind.MODEL,
    AskKind.PAYMENT_REQUIRED_PROMPT: ErrorKind.PAYMENT,
    AskKind.MISTAKE_LIMIT_REACHED: ErrorKind.MISTAKES,
}
_GENERIC = {
    ErrorKind.API: "The request to the model failed. Retry, or cancel the session.",
    ErrorKind.AUTH: "The provider refused the key. Sign in, then retry.",
    ErrorKind.PAYMENT: "The provider requires payment. Add credit or change the model, then retry.",
    ErrorKind.MODEL: "The provider does not have this model. Choose another, then retry.",
    ErrorKind.MISTAKES: "The agent made too many mistakes in a row. Guide it, or retry.",
}
NO_KEY = 3
"""How a process ends that has no key for its model."""
_ERROR = re.compile(r"^Error: ", re.M)
_STATUS = re.compile(r"(?:^|[:(])\s*(40[123])\b")
_NO_MODEL = re.compile(r"(?:^|:)\s*404\b.*\bmodel\b|\bmodel\b[^.]{0,80}\bnot found\b", re.I | re.S)


def failure_of_ask(ask: str, text: str) -> Failure:
    """What an ask that tells of a failure means."""
    kind = _ASK_KINDS.get(AskKind(ask)) or _kind_of_text(text)
    return Failure(kind=kind, text=_sentence(text) or _GENERIC[kind])


def failure_of_timeout(complaints: str) -> Failure:
    said = complaints.strip()
    text = "The agent did not announce the session in time. Retry to start it again."
    return Failure(
        kind=ErrorKind.CREATION_TIMEOUT, text=f"{text} It said: {said}" if said else text
    )


def failure_of_process(text: str) -> Failure:
    said = text.strip() or "The agent's process failed."
    return Failure(kind=ErrorKind.PROCESS, text=said)


def failure_of_beginning(code: int | None, log: str) -> Failure:
    """Of a process that ended before it began, told in its own words."""
    said = _last_words(log)
    kind = _kind_of_text(said)
    if said.startswith((NO_MODEL_CHOSEN, CHOOSE_A_MODEL)):
        kind = ErrorKind.MODEL
    elif code == NO_KEY:
        kind = ErrorKind.AUTH
    return Failure(kind=ErrorKind.EARLY_EXIT if kind is ErrorKind.API else kind, text=said)


def failure_of_exit(code: int | None, signal: int | None) -> Failure:
    return Failure(
        kind=ErrorKind.CRASH,
        text=f"The agent {_how(code, signal)}. Its work is kept. Resume it, or read the log.",
    )


def _last_words(log: str) -> str:
    """The error that a log ends with, or else its last line."""
    if errors := list(_ERROR.finditer(log)):
        return log[errors[-1].end() :].strip()
    return log.strip().splitlines()[-1].strip()


def _how(code: int | None, signal: int | None) -> str:
    """Of a process that another manager had started, only that it ended is known."""
    if signal is not None:
        return f"was ended by signal {signal}"
    return "ended with an unknown status" if code is None else f"ended with code {code}"


def _kind_of_text(text: str) -> ErrorKind:
    if any(words in text for words in MEANS_BAD_KEY):
        return ErrorKind.AUTH
    if found := _STATUS.search(text):
        return _STATUS_KINDS[found[1]]
    return ErrorKind.MODEL if _NO_MODEL.search(text) else ErrorKind.API


def _sentence(text: str) -> str:
    """The text, or the message in it if it holds JSON; nothing if there is none to show."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return text.strip()
    try:
        held = json.loads(text[start:])
    except (ValueError, RecursionError):
        return text.strip()
    return _message_in(held) if isinstance(held, dict) else ""


def _message_in(held: dict[str, object]) -> str:
    inner = held.get("error")
    held = inner if isinstance(inner, dict) else held
    said = [part for key in ("title", "message") if isinstance(part := held.get(key), str)]
    return ": ".join(part.strip() for part in said if part.strip())
