"""How much of the screen the panel of a question takes."""

from msgspec import Struct
from rich.text import Text

from rookery.core.facts import Asked
from rookery.tui.ask_lines import short_title
from rookery.tui.question_page import APPROVALS, Step
from rookery.tui.rows.lines import wrapped

LEAST_BODY = 3
FRAME = 3
"""Lines of a panel beside title, text and notes: its rule, an empty one, and the keys."""
AROUND = 5
"""Lines of the screen that a panel must leave: header, input area, status."""
_LONGEST_PLACE = "  ↑↓ 100-100 of 1000"


class Room(Struct, frozen=True, kw_only=True):
    cramped: bool
    """There is no room for both, so that the notes scroll with the text."""
    body: int
    """Lines that the text may have."""


def room_for(asked: Asked, step: Step, *, notes: int, width: int, height: int) -> Room:
    """As high as it needs to be, but never so high that nothing else is seen, unless it is an
    action, of which as much as can be is to be read at once. All of it can be read in any case.
    `notes` are the lines of what stays in sight below the text, `height` is the screen's."""
    title = short_title(asked, step, width)
    fixed = FRAME + len(wrapped(Text(f"{title}{_LONGEST_PLACE}"), width))
    room = height - AROUND - fixed
    below = notes + 1 if notes else 0
    cramped = below + LEAST_BODY > room
    below = 0 if cramped else below
    enough = room if asked.ask in APPROVALS else height * 3 // 5 - fixed
    return Room(cramped=cramped, body=min(room, max(LEAST_BODY + below, enough)) - below)
