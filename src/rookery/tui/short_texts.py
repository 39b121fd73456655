"""Short texts for times, amounts, states and images."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import PurePath
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
    "waiting": ("?", "warning"),
    "open": ("○", "warning"),
    "completed": ("✔", "good"),
    "closed": ("·", "muted"),
    "failed": ("✗", "bad"),
}


def state_mark(status: Status, theme: Theme) -> Text:
    mark, ink = _STATES[status]
    return Text(mark, theme.fg(getattr(theme, ink)))


def ago(ts: int, now: int) -> str:
    """A relative time, or the date if older than a week. Both in milliseconds."""
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
    """Dollars and cents; empty if unknown."""
    return "" if cost is None else f"${cost:.2f}"


def precise_money(cost: float | None) -> str:
    """With four decimals, as a request often costs less than a cent."""
    return "" if cost is None else f"${cost:.4f}"


def short_number(count: int) -> str:
    if count < 1_000:
        return str(count)
    if count < 999_950:
        return f"{count / 1_000:.1f}K"
    return f"{count / 1_000_000:.1f}M"


def short_path(path: str, home: str) -> str:
    """Abbreviate the home folder as `~`."""
    if home and PurePath(path).is_relative_to(home):
        return str(PurePath("~") / PurePath(path).relative_to(home))
    return path


def one_line(text: str) -> str:
    """Collapse white space to single blanks."""
    return " ".join(text.split())


MARK = "▣"


def byte_count(image: Image) -> int:
    """Size of the decoded image."""
    return len(image.data) * 3 // 4 - image.data[-2:].count("=")


def size_text(size: int) -> str:
    return f"{size / MIB:.1f} MB" if size >= MIB else f"{-(-size // KIB)} KB"


def labels(pictures: Iterable[tuple[str, Image]]) -> list[str]:
    """A label for each image."""
    return [
        f"{MARK} {number} {name} {size_text(byte_count(image))}"
        for number, (name, image) in enumerate(pictures, 1)
    ]


def image_labels(images: Iterable[Image]) -> str:
    """Labels for images without a name."""
    return "  ".join(labels((harmless_line(_kind(image)), image) for image in images))


def _kind(image: Image) -> str:
    return image.media_type.rpartition("/")[2].upper()
