"""Draws the question panel: title, body, notes and keys.

The title and the keys are always visible; only the body scrolls.
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
from rookery.tui.short_texts import plural
from rookery.tui.theme import Theme

TITLE_LINES = 2
_TYPING_KEYS = (("enter", "sends"), ("esc", "back"))


class KeyState(Enum):
    """What happens to a key."""

    TOO_NEW = "it was not visible for long enough"
    NOT_VISIBLE = "the window is too small to show it"
    TYPING = "it is part of an answer in words"
    UNFOCUSED = "it goes to something else"
    READY = "it can be an answer"


def short_title(asked: Asked, step: QuestionStep, width: int) -> str:
    title = page_of(asked, step).title
    return title if _is_short(title, width) else "Allow this?"


def long_title(asked: Asked, step: QuestionStep, width: int) -> list[Text]:
    """A title that is too long for its lines moves into the scrolling body."""
    title = page_of(asked, step).title
    return [] if _is_short(title, width) else [*wrapped(Text(title), width), Text()]


def _is_short(title: str, width: int) -> bool:
    return len(wrapped(Text(title), width)) <= TITLE_LINES


def title_line(words: str, position: tuple[int, int, int], theme: Theme) -> Text:
    """`position` is the first visible line, the last one, and their total number."""
    title = Text(words, theme.fg(theme.accent, bold=True))
    first, last, count = position
    if count > last or first > 1:
        title.append(f"  ↑↓ {first}-{last} of {count}", theme.fg(theme.warning))
    return title


def keys_line(
    keys: tuple[tuple[str, str], ...],
    state: KeyState,
    *,
    unread: int,
    counting: str,
    theme: Theme,
) -> Text:
    """`unread` lines have to be read first; `counting` announces an automatic answer."""
    line, muted, careful = Text(), theme.fg(theme.muted), theme.fg(theme.warning)
    ink = theme.fg(theme.accent, bold=True)
    match state:
        case KeyState.TOO_NEW:
            line.append("…   ", muted)
            keys = ()
        case KeyState.NOT_VISIBLE:
            line.append("the window is too small to answer   ", careful)
            keys = ()
        case KeyState.TYPING:
            keys = _TYPING_KEYS
        case KeyState.UNFOCUSED:
            line.append("tab", ink).append(" to answer   ")
            ink = theme.fg(theme.muted, bold=True)
        case KeyState.READY if unread:
            line.append(f"↓ {plural(unread, 'more line')}, then ", careful)
        case KeyState.READY:
            pass
    for key, what in keys:
        line.append(key, ink).append(f" {what}   ", muted)
    return line.append(counting, careful)


class AskView:
    """The widgets of the panel. The body is kept until another question or step is shown."""

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
        """Replace the body, scrolled to its start."""
        theme, cramped = self.theme, self._is_cramped

        def lines(width: int) -> list[Text | Piece]:
            title, body = long_title(asked, step, width), body_of(asked, step, at, width, theme)
            footing = footing_of(asked, step, width, theme) if cramped else []
            return [*title, *body, *footing]

        self.scroll_view.show(lines)

    def fit(self, asked: Asked, step: QuestionStep, at: int, screen: Size) -> None:
        """Adjust the panel's height to the available room."""
        scroll_view = self.scroll_view
        width = scroll_view.room if scroll_view.size.width else max(16, screen.width - 6)
        notes = footing_of(asked, step, width, self.theme)
        room = panel_size(asked, step, notes=len(notes), width=width, height=screen.height)
        if room.cramped != self._is_cramped:
            self._is_cramped = room.cramped
            self.write(asked, step, at)
        scroll_view.styles.height = max(1, min(room.body, scroll_view.lines_at(width)))
        self._notes.update(Text("\n").join(notes))
        self._notes.display = bool(notes) and not room.cramped

    def update_keys(
        self,
        asked: Asked,
        step: QuestionStep,
        state: KeyState,
        *,
        unread: int,
        counting: str,
        width: int,
    ) -> None:
        """Update the scroll position and the keys that work now."""
        words = short_title(asked, step, self.scroll_view.room)
        self._title.update(title_line(words, self.scroll_view.position, self.theme))
        keys = page_of(asked, step).keys
        line = keys_line(keys, state, unread=unread, counting=counting, theme=self.theme)
        line.rstrip()  # trailing blanks must not cause truncation
        self._keys.update(cut(line, width))


MIN_BODY_LINES = 3
FRAME_LINES = 3
"""Lines of a panel besides title, text and notes: the rule, a blank line and the keys."""
OUTSIDE_LINES = 5
"""Lines of the screen that a panel leaves free: header, input area, status."""
_LONGEST_POSITION = "  ↑↓ 100-100 of 1000"


class PanelSize(Struct, frozen=True, kw_only=True):
    cramped: bool
    """Whether there is too little room, so that the notes scroll with the text."""
    body: int
    """Maximum lines of the body."""


def panel_size(
    asked: Asked, step: QuestionStep, *, notes: int, width: int, height: int
) -> PanelSize:
    """The size of the panel: at most 3/5 of the screen, but as much as possible for an approval.
    `notes` is the number of lines below the body, `height` the height of the screen."""
    title = short_title(asked, step, width)
    fixed = FRAME_LINES + len(wrapped(Text(f"{title}{_LONGEST_POSITION}"), width))
    room = height - OUTSIDE_LINES - fixed
    below = notes + 1 if notes else 0
    cramped = below + MIN_BODY_LINES > room
    below = 0 if cramped else below
    enough = room if asked.ask in APPROVALS else height * 3 // 5 - fixed
    return PanelSize(cramped=cramped, body=min(room, max(MIN_BODY_LINES + below, enough)) - below)
