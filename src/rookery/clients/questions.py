"""What a question says, read from its text."""

import json


def followup(text: str) -> tuple[str, list[str]]:
    """A follow-up's question and its suggestions. Plain text is a question without any."""
    try:
        said = json.loads(text)
        offered = [s["answer"] if isinstance(s, dict) else s for s in said.get("suggest", [])]
        return str(said["question"]), [str(answer) for answer in offered]
    except (ValueError, KeyError, TypeError, AttributeError):
        return text, []


def suggestions(text: str) -> list[str]:
    return followup(text)[1]


def chosen(answer: str, offered: list[str]) -> str:
    """The suggestion a bare number picks; any other answer is an answer."""
    answer = answer.strip()
    if answer.isdecimal() and 1 <= int(answer) <= len(offered):
        return offered[int(answer) - 1]
    return answer


_CEILINGS = {
    "requests": "This task has made {count:.0f} requests, which is its limit (max_requests).",
    "cost": "This task has come to its limit of ${count:.2f} (max_cost).",
    "tokens": "This task has come to its limit of {count:,.0f} tokens (max_tokens).",
    "seconds": "This task has come to its limit of {minutes:.3g} minutes of work (max_minutes).",
}


def ceiling(text: str) -> str:
    """Which limit a task has come to, as a sentence."""
    try:
        said = json.loads(text)
        count = float(said["count"])
        return _CEILINGS[said["type"]].format(count=count, minutes=count / 60)
    except (ValueError, KeyError, TypeError):
        return "The limit for this task is reached."
