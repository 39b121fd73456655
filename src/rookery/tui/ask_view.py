"""What the panel of a question draws: its title, its body, its keys, and how high it is.

The title and the keys always stay in sight; only the body is scrolled.
"""

from enum import Enum

from msgspec import Struct
from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from rookery.core.facts import Asked
from rookery.tui.question_page import APPROVALS, QuestionStep, body_of, footing_of, page_of
from rookery.tui.rows.lines import Piece, cut, wrapped
from rookery.tui.screens.side_screen import TextScrollView
from rookery.tui.short_texts import counted
from rookery.tui.theme import Theme

TITLE_LINES = 2
_WHILE_TYPED_TO = (("enter", "sends"), ("esc", "back"))


class AskStanding(Enum):
    """What becomes of a key."""

    UNSEEN = "it was not visible for long enough"
    OUT_OF_SIGHT = "the window is too small to show it"
    TYPED_TO = "it is part of an answer in words"
    ELSEWHERE = "it goes to something else"
    READY = "it can be an answer"


def short_title(asked: Asked, step: QuestionStep, width: int) -> str:
    title = page_of(asked, step).title
    return title if _is_short(title, width) else "Allow this?"


def long_title(asked: Asked, step: QuestionStep, width: int) -> list[Text]:
    """A title that is too long to stay in sight is read with the rest."""
    title = page_of(asked, step).title
    return [] if _is_short(title, width) else [*wrapped(Text(title), width), Text()]


def _is_short(title: str, width: int) -> bool:
    return len(wrapped(Text(title), width)) <= TITLE_LINES


def title_line(words: str, position: tuple[int, int, int], theme: Theme) -> Text:
    """`position` is the first and the last line that are seen of the text, and how many it has."""
    title = Text(words, theme.ink(theme.accent, bold=True))
    first, last, count = position
    if count > last or first > 1:
        title.append(f"  ↑↓ {first}-{last} of {count}", theme.ink(theme.careful))
    return title


def keys_line(
    keys: tuple[tuple[str, str], ...],
    standing: AskStanding,
    *,
    unread: int,
    counting: str,
    theme: Theme,
) -> Text:
    """`unread` lines are to be read first; `counting` tells what happens by itself."""
    line, quiet, careful = Text(), theme.ink(theme.quiet), theme.ink(theme.careful)
    ink = theme.ink(theme.accent, bold=True)
    match standing:
        case AskStanding.UNSEEN:
            line.append("…   ", quiet)
            keys = ()
        case AskStanding.OUT_OF_SIGHT:
            line.append("the window is too small to answer   ", careful)
            keys = ()
        case AskStanding.TYPED_TO:
            keys = _WHILE_TYPED_TO
        case AskStanding.ELSEWHERE:
            line.append("tab", ink).append(" to answer   ")
            ink = theme.ink(theme.quiet, bold=True)
        case AskStanding.READY if unread:
            line.append(f"↓ {counted(unread, 'more line')}, then ", careful)
        case AskStanding.READY:
            pass
    for key, what in keys:
        line.append(key, ink).append(f" {what}   ", quiet)
    return line.append(counting, careful)


class AskDrawing:
    """Title, text, notes and keys. What is drawn is kept until something else is turned to."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.scroll_view = TextScrollView(id="ask-body")
        self._title = Static(id="ask-title")
        self._notes = Static(id="ask-footing")
        self._keys = Static(id="ask-keys")
        self._is_cramped = False

    @property
    def parts(self) -> tuple[Widget, ...]:
        return self._title, self.scroll_view, self._notes, self._keys

    def write(self, asked: Asked, step: QuestionStep, at: int) -> None:
        """The text, from its beginning."""
        theme, cramped = self.theme, self._is_cramped

        def lines(width: int) -> list[Text | Piece]:
            title, body = long_title(asked, step, width), body_of(asked, step, at, width, theme)
            footing = footing_of(asked, step, width, theme) if cramped else []
            return [*title, *body, *footing]

        self.scroll_view.show(lines)

    def fit(self, asked: Asked, step: QuestionStep, at: int, screen: Size) -> None:
        """Be as high as there is room."""
        scroll_view = self.scroll_view
        width = scroll_view.room if scroll_view.size.width else max(16, screen.width - 6)
        notes = footing_of(asked, step, width, self.theme)
        room = room_for(asked, step, notes=len(notes), width=width, height=screen.height)
        if room.cramped != self._is_cramped:
            self._is_cramped = room.cramped
            self.write(asked, step, at)
        scroll_view.styles.height = max(1, min(room.body, scroll_view.lines_at(width)))
        self._notes.update(Text("\n").join(notes))
        self._notes.display = bool(notes) and not room.cramped

    def tell(
        self,
        asked: Asked,
        step: QuestionStep,
        standing: AskStanding,
        *,
        unread: int,
        counting: str,
        width: int,
    ) -> None:
        """The lines that change: what is scrolled to, and the keys that work now."""
        words = short_title(asked, step, self.scroll_view.room)
        self._title.update(title_line(words, self.scroll_view.position, self.theme))
        keys = page_of(asked, step).keys
        line = keys_line(keys, standing, unread=unread, counting=counting, theme=self.theme)
        line.rstrip()  # what is behind the last key must not be what does not fit
        self._keys.update(cut(line, width))


LEAST_BODY = 3
FRAME = 3
"""Lines of a panel beside title, text and notes: its rule, an empty one, and the keys."""
AROUND = 5
"""Lines of the screen that a panel must leave: header, input area, status."""
_LONGEST_PLACE = "  ↑↓ 100-100 of 1000"


class AskRoom(Struct, frozen=True, kw_only=True):
    cramped: bool
    """There is no room for both, so that the notes scroll with the text."""
    body: int
    """Lines that the text may have."""


def room_for(asked: Asked, step: QuestionStep, *, notes: int, width: int, height: int) -> AskRoom:
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
    return AskRoom(cramped=cramped, body=min(room, max(LEAST_BODY + below, enough)) - below)
