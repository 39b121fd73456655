"""The lines of a question's panel that stay in sight: its title, and the keys that work now."""

from enum import Enum

from rich.text import Text

from rookery.core.facts import Asked
from rookery.tui.plurals import counted
from rookery.tui.question_page import Step, page_of
from rookery.tui.rows.lines import wrapped
from rookery.tui.theme import Look

TITLE_LINES = 2
_WHILE_TYPED_TO = (("enter", "sends"), ("esc", "back"))


class Standing(Enum):
    """What becomes of a key."""

    UNSEEN = "it was not in sight for long enough"
    OUT_OF_SIGHT = "the window is too small to show it"
    TYPED_TO = "it is part of an answer in words"
    ELSEWHERE = "it goes to something else"
    READY = "it can be an answer"


def short_title(asked: Asked, step: Step, width: int) -> str:
    title = page_of(asked, step).title
    return title if _is_short(title, width) else "Allow this?"


def long_title(asked: Asked, step: Step, width: int) -> list[Text]:
    """A title that is too long to stay in sight is read with the rest."""
    title = page_of(asked, step).title
    return [] if _is_short(title, width) else [*wrapped(Text(title), width), Text()]


def _is_short(title: str, width: int) -> bool:
    return len(wrapped(Text(title), width)) <= TITLE_LINES


def title_line(words: str, position: tuple[int, int, int], look: Look) -> Text:
    """`position` is the first and the last line that are seen of the text, and how many it has."""
    title = Text(words, look.ink(look.accent, bold=True))
    first, last, count = position
    if count > last or first > 1:
        title.append(f"  ↑↓ {first}-{last} of {count}", look.ink(look.careful))
    return title


def keys_line(
    keys: tuple[tuple[str, str], ...], standing: Standing, *, unread: int, counting: str, look: Look
) -> Text:
    """`unread` lines are to be read first; `counting` tells what happens by itself."""
    line, quiet, careful = Text(), look.ink(look.quiet), look.ink(look.careful)
    ink = look.ink(look.accent, bold=True)
    match standing:
        case Standing.UNSEEN:
            line.append("…   ", quiet)
            keys = ()
        case Standing.OUT_OF_SIGHT:
            line.append("too small a window to answer   ", careful)
            keys = ()
        case Standing.TYPED_TO:
            keys = _WHILE_TYPED_TO
        case Standing.ELSEWHERE:
            line.append("tab", ink).append(" to answer   ")
            ink = look.ink(look.quiet, bold=True)
        case Standing.READY if unread:
            line.append(f"↓ {counted(unread, 'more line')}, then ", careful)
        case Standing.READY:
            pass
    for key, what in keys:
        line.append(key, ink).append(f" {what}   ", quiet)
    return line.append(counting, careful)
