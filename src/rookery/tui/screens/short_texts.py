"""Times, amounts and states in a word or two."""

from datetime import datetime
from typing import Literal

from rich.text import Text

from rookery.tui.theme import Look

Status = Literal["working", "waiting", "open", "completed", "closed", "failed"]

MINUTE, HOUR, DAY = 60, 3600, 86400
_STATES: dict[Status, tuple[str, str]] = {
    "working": ("◐", "accent"),
    "waiting": ("?", "careful"),
    "open": ("○", "careful"),
    "completed": ("✔", "good"),
    "closed": ("·", "quiet"),
    "failed": ("✗", "bad"),
}


def state_mark(status: Status, look: Look) -> Text:
    mark, ink = _STATES[status]
    return Text(mark, look.ink(getattr(look, ink)))


def ago(ts: int, now: int) -> str:
    """How long ago something was, if it was lately, and else on which day. Both in milliseconds."""
    seconds = max(0, now - ts) // 1000
    if seconds < MINUTE:
        return "just now"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min ago"
    if seconds < DAY:
        return f"{seconds // HOUR} h ago"
    if seconds < 7 * DAY:
        return f"{seconds // DAY} d ago"
    return datetime.fromtimestamp(ts / 1000).strftime("%Y-%m-%d")


def clock(ts: int) -> str:
    return datetime.fromtimestamp(ts / 1000).strftime("%H:%M:%S")


def money(cost: float | None) -> str:
    """Dollars; nothing if nobody knows."""
    return "" if cost is None else f"${cost:.2f}"


def fine_money(cost: float | None) -> str:
    """What a single request cost is often less than a cent."""
    return "" if cost is None else f"${cost:.4f}"


def one_line(text: str) -> str:
    """A text's words, without its line ends."""
    return " ".join(text.split())
