"""Why a session failed: the kind, which decides what is offered, and the text that is shown.

The session and its messages are kept after every failure. The text is never raw JSON.
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
"""Failures after which the process is ended: it would fail again, at a cost. A new one reads the
settings and keys again."""


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
"""Exit code of a process that has no key for its model."""
_ERROR = re.compile(r"^Error: ", re.M)
_STATUS = re.compile(r"(?:^|[:(])\s*(40[123])\b")
_NO_MODEL = re.compile(r"(?:^|:)\s*404\b.*\bmodel\b|\bmodel\b[^.]{0,80}\bnot found\b", re.I | re.S)


def failure_of_ask(ask: str, text: str) -> Failure:
    """The failure that an ask reports."""
    kind = _ASK_KINDS.get(AskKind(ask)) or _kind_of_text(text)
    return Failure(kind=kind, text=_sentence(text) or _GENERIC[kind])


def failure_of_timeout(log_tail: str) -> Failure:
    message = log_tail.strip()
    text = "The agent did not announce the session in time. Retry to start it again."
    return Failure(
        kind=ErrorKind.CREATION_TIMEOUT, text=f"{text} It said: {message}" if message else text
    )


def failure_of_process(text: str) -> Failure:
    message = text.strip() or "The agent's process failed."
    return Failure(kind=ErrorKind.PROCESS, text=message)


def failure_of_start(code: int | None, log: str) -> Failure:
    """The failure of a process that ended before it opened its task, from its own log."""
    message = _last_error(log)
    kind = _kind_of_text(message)
    if message.startswith((NO_MODEL_CHOSEN, CHOOSE_A_MODEL)):
        kind = ErrorKind.MODEL
    elif code == NO_KEY:
        kind = ErrorKind.AUTH
    return Failure(kind=ErrorKind.EARLY_EXIT if kind is ErrorKind.API else kind, text=message)


def failure_of_exit(code: int | None, signal: int | None) -> Failure:
    return Failure(
        kind=ErrorKind.CRASH,
        text=f"The agent {_exit_text(code, signal)}. Its work is kept. Resume it, or read the log.",
    )


def _last_error(log: str) -> str:
    """The last error in a log, or else its last line."""
    if errors := list(_ERROR.finditer(log)):
        return log[errors[-1].end() :].strip()
    return log.strip().splitlines()[-1].strip()


def _exit_text(code: int | None, signal: int | None) -> str:
    """The exit status of a process that another manager started is unknown."""
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
    """The text, or the message inside its JSON; empty if the JSON has none."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return text.strip()
    try:
        data = json.loads(text[start:])
    except (ValueError, RecursionError):
        return text.strip()
    return _message_in(data) if isinstance(data, dict) else ""


def _message_in(data: dict[str, object]) -> str:
    inner = data.get("error")
    data = inner if isinstance(inner, dict) else data
    parts = [part for key in ("title", "message") if isinstance(part := data.get(key), str)]
    return ": ".join(part.strip() for part in parts if part.strip())
