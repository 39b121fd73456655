"""What a question says, read from its text."""

import json
from typing import Any

from msgspec import Struct


class OfferedAnswer(Struct, frozen=True):
    """An answer that a model offers, and the mode it would like to go on in with it."""

    answer: str
    mode: str = ""


def followup(text: str) -> tuple[str, list[str]]:
    """A follow-up's question and the answers it offers. Plain text is a question without any."""
    question, offered = _read(text)
    return question, [each.answer for each in offered]


def suggestions(text: str) -> list[OfferedAnswer]:
    return _read(text)[1]


def _read(text: str) -> tuple[str, list[OfferedAnswer]]:
    try:
        said = json.loads(text)
        return str(said["question"]), [_suggestion(each) for each in said.get("suggest", [])]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text, []


def _suggestion(said: Any) -> OfferedAnswer:
    if isinstance(said, dict):
        return OfferedAnswer(str(said["answer"]), str(said.get("mode") or ""))
    return OfferedAnswer(str(said))


def chosen(answer: str, offered: list[OfferedAnswer]) -> OfferedAnswer:
    """The suggestion a bare number picks; any other answer is an answer."""
    answer = answer.strip()
    if answer.isdecimal() and 1 <= int(answer) <= len(offered):
        return offered[int(answer) - 1]
    return OfferedAnswer(answer)


_CEILINGS = {
    "requests": "This session has made {count:.0f} requests, which is its limit (max_requests).",
    "cost": "This session has reached its limit of ${count:.2f} (max_cost).",
    "tokens": "This session has reached its limit of {count:,.0f} tokens (max_tokens).",
    "seconds": "This session has reached its limit of {minutes:.3g} minutes of work (max_minutes).",
}


def ceiling(text: str) -> str:
    """Which limit a session has reached, as a sentence."""
    try:
        said = json.loads(text)
        count = float(said["count"])
        return _CEILINGS[said["type"]].format(count=count, minutes=count / 60)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "This session has reached its limit."
