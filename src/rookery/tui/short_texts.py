"""Times, amounts, states and pictures in a word or two."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from rich.text import Text

from rookery.core.blocks import Image
from rookery.core.limits import KIB, MIB
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.theme import Theme

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


def state_mark(status: Status, theme: Theme) -> Text:
    mark, ink = _STATES[status]
    return Text(mark, theme.ink(getattr(theme, ink)))


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


def counted(count: int, noun: str) -> str:
    """One line, two lines."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


MARK = "▣"


def byte_count(image: Image) -> int:
    """Of the picture itself, which is kept as base64."""
    return len(image.data) * 3 // 4 - image.data[-2:].count("=")


def size_in_words(size: int) -> str:
    return f"{size / MIB:.1f} MB" if size >= MIB else f"{-(-size // KIB)} KB"


def labels(pictures: Iterable[tuple[str, Image]]) -> list[str]:
    """One for each picture, given its name."""
    return [
        f"{MARK} {number} {name} {size_in_words(byte_count(image))}"
        for number, (name, image) in enumerate(pictures, 1)
    ]


def nameless(images: Iterable[Image]) -> str:
    """Pictures of which nobody knows any longer what they were called."""
    return "  ".join(labels((harmless_line(_kind(image)), image) for image in images))


def _kind(image: Image) -> str:
    return image.media_type.rpartition("/")[2].upper()
