"""The question on the screen: how it is drawn, and whether it was visible long enough.

The title and the keys are always visible; only the body scrolls. A letter answers only if it stands
alone: it is held for a moment, in case another one follows.
"""

import time
from collections.abc import Callable
from enum import Enum
from functools import partial

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.errors import NoWidget
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from rookery.core.asks import APPROVALS, AskKind
from rookery.core.facts import Asked
from rookery.core.text.terminal_text import counted
from rookery.tui.question_page import QuestionStep, body_of, footing_of, page_of
from rookery.tui.rows.lines import Piece, cut, wrapped
from rookery.tui.screens.side_screen import TextScrollView
from rookery.tui.theme import Theme, theme_of

ANSWER_DELAY_SECONDS = 0.5
"""Seconds a question must be visible, and no letter typed, before a key can answer it."""
LETTER_HOLD_SECONDS = 0.3
"""Seconds a letter is held to see whether another one follows."""
TITLE_LINES = 2
MIN_WIDTH = 20
"""Minimum width to show the keys."""
MIN_BODY_LINES = 3
FRAME_LINES = 3
"""Lines of a panel besides title, text and notes: the rule, a blank line and the keys."""
OUTSIDE_LINES = 5
"""Lines of the screen that a panel leaves free: header, input area, status."""
_LONGEST_POSITION = "  ↑↓ 100-100 of 1000"
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
            line.append(f"↓ or End: {counted(unread, 'more line')}, then ", careful)
        case KeyState.READY:
            pass
    for key, what in keys:
        line.append(key, ink).append(f" {what}   ", muted)
    return line.append(counting, careful)


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
    enough = room if asked.plan or asked.ask in APPROVALS else height * 3 // 5 - fixed
    return PanelSize(cramped=cramped, body=min(room, max(MIN_BODY_LINES + below, enough)) - below)


class HeldLetter:
    def __init__(self, start_timer: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._start_timer = start_timer
        self._held_letter = ""
        self._timer: Timer | None = None
        self._typed_at = 0.0

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    @property
    def locked_until(self) -> float:
        """Time until which keys are ignored after the last letter."""
        return self._typed_at + ANSWER_DELAY_SECONDS

    def is_part_of_word(self, typed_at: float, *, live: bool) -> bool:
        """Whether the letter follows a held one, or, on a `live` question, closely follows
        another."""
        soon = typed_at < self.locked_until
        self._typed_at = typed_at
        return bool(self._held_letter) or (live and soon)

    def unlock(self) -> None:
        """Take the next letter as the first of its word, however soon it comes."""
        self._typed_at = 0.0

    def hold(self, letter: str, act: Callable[[], None]) -> None:
        """Run `act` if no other key follows."""
        self._held_letter = letter
        self._timer = self._start_timer(LETTER_HOLD_SECONDS, partial(self._act, act))

    def _act(self, act: Callable[[], None]) -> None:
        self.drop()
        act()

    def drop(self) -> str:
        """Discard and return the held letter."""
        if self._timer:
            self._timer.stop()
        letter, self._held_letter, self._timer = self._held_letter, "", None
        return letter


class ShownQuestion(Vertical):
    def __init__(self) -> None:
        super().__init__()
        self.body = TextScrollView(id="ask-body")
        self._title = Static(id="ask-title")
        self._notes = Static(id="ask-footing")
        self._keys = Static(id="ask-keys")
        self._is_cramped = False
        self._handed_over = False
        self._wants_reason = False
        self._held_letter = HeldLetter(self.set_timer)
        self._asked: Asked | None = None
        self._step = QuestionStep.ANSWER
        self._at = 0
        self._live = False
        self._counting = ""
        self._steps = 0
        """Number of changes of what is shown; outdated timers compare it."""
        self._is_read = False
        """Whether the end of the body was visible."""

    def compose(self) -> ComposeResult:
        yield from (self._title, self.body, self._notes, self._keys)

    @property
    def asked(self) -> Asked | None:
        return self._asked

    @property
    def live(self) -> bool:
        """Whether it can be answered: it was visible long enough and still is."""
        return self._live and self.is_fully_visible

    @property
    def is_fully_visible(self) -> bool:
        """Whether title, body and keys are on the screen."""
        return self.size.width >= MIN_WIDTH and all(map(_is_on_screen, self.children))

    @property
    def takes_text(self) -> bool:
        """Whether the input area has the focus for an answer in words."""
        return self._asked is not None and self._handed_over

    @property
    def wants_reason(self) -> bool:
        """Whether the text being typed is a reason for a rejection, even if it is "yes"."""
        return self.takes_text and self._wants_reason

    @property
    def unread(self) -> int:
        """Lines of an action or a choice that were not visible yet; no key answers before."""
        chooses = self._step is QuestionStep.CHOICE
        if self._asked is None or not (chooses or self._asked.ask in APPROVALS):
            return 0
        if self._answers_at_once:
            return 0
        _, last, count = self.body.position
        self._is_read = self._is_read or (self._live and last >= count)
        return 0 if self._is_read else count - last

    @property
    def _answers_at_once(self) -> bool:
        """Whether one key answers without waiting: a wrong answer can be undone."""
        asked = self._asked
        return asked is not None and asked.harmless and self._step is QuestionStep.ANSWER

    def put(self, asked: Asked) -> None:
        """Show another question."""
        self._asked = asked
        chooses = asked.ask is AskKind.FOLLOWUP or asked.plan
        self._step = QuestionStep.CHOICE if chooses else QuestionStep.ANSWER
        self._at, self._live, self._counting, self._handed_over = 0, False, "", False
        self._is_read = self._wants_reason = False
        self._held_letter.drop()
        if asked.harmless:
            self._held_letter.unlock()
        self.display = True
        self.redraw()

    def close(self) -> None:
        self._asked = None
        self._live = False
        self._held_letter.drop()
        self.display = False

    def activate(self) -> None:
        self._live = self._asked is not None
        self._draw_keys()

    def deactivate(self) -> None:
        """Disable the question, as it is not visible."""
        self._live = False
        self._held_letter.drop()
        self._draw_keys()

    def take_keys(self) -> None:
        """Take the next letter as an answer: the text that was typed before is deleted."""
        self._held_letter.unlock()
        self.focus()

    def count_down(self, words: str) -> None:
        """Text beside the keys that announces an automatic answer."""
        if words != self._counting:
            self._counting = words
            self._draw_keys()

    def refit(self) -> None:
        """Fit the new screen size; the question has to be visible for a while again."""
        self.on_resize()
        if self._asked and self._live:
            self.deactivate()
            self._activate_later()

    def on_resize(self) -> None:
        if self._asked:
            self._fit(self._asked)

    def redraw(self, *, keeps_place: bool = False) -> None:
        """Draw all of it again, scrolled to its start unless `keeps_place`."""
        if self._asked:
            where = self.body.scroll_y
            self._write(self._asked)
            if keeps_place:
                self.body.scroll_to(0, where, animate=False)
            self._fit(self._asked)

    def _show_step(self, step: QuestionStep) -> None:
        """Show another step of the question, which has to be visible for a while first."""
        self._step, self._live, self._is_read = step, False, False
        self.redraw()
        self._activate_later()

    def _activate_later(self) -> None:
        self._steps += 1
        self.set_timer(ANSWER_DELAY_SECONDS, partial(self._activate_step, self._asked, self._steps))

    def _activate_step(self, asked: Asked | None, steps: int) -> None:
        if self._asked is not asked or self._steps != steps:
            return
        if (wait := self._held_letter.locked_until - time.monotonic()) > 0:
            self.set_timer(wait + 0.01, partial(self._activate_step, asked, steps))
        else:
            self.activate()

    def _write(self, asked: Asked) -> None:
        step, at, theme, cramped = self._step, self._at, theme_of(self), self._is_cramped

        def lines(width: int) -> list[Text | Piece]:
            title, body = long_title(asked, step, width), body_of(asked, step, at, width, theme)
            footing = footing_of(asked, step, width, theme) if cramped else []
            return [*title, *body, *footing]

        self.body.show(lines)

    def _fit(self, asked: Asked) -> None:
        """Adjust the panel's height to the available room."""
        screen, body = self.app.size, self.body
        width = body.room if body.size.width else max(16, screen.width - 6)
        notes = footing_of(asked, self._step, width, theme_of(self))
        room = panel_size(asked, self._step, notes=len(notes), width=width, height=screen.height)
        if room.cramped != self._is_cramped:
            self._is_cramped = room.cramped
            self._write(asked)
        body.styles.height = max(1, min(room.body, body.lines_at(width)))
        self._notes.update(Text("\n").join(notes))
        self._notes.display = bool(notes) and not room.cramped
        self.call_after_refresh(self._draw_keys)
        self._draw_keys()

    def _draw_keys(self) -> None:
        """Update the scroll position and the keys that work now."""
        if self._asked is None or not self.is_mounted:
            return
        state, theme = self._key_state, theme_of(self)
        words = short_title(self._asked, self._step, self.body.room)
        self._title.update(title_line(words, self.body.position, theme))
        unread = self.unread if state is KeyState.READY else 0
        keys = page_of(self._asked, self._step).keys
        line = keys_line(keys, state, unread=unread, counting=self._counting, theme=theme)
        line.rstrip()  # trailing blanks must not cause truncation
        self._keys.update(cut(line, max(16, self.size.width - 4)))

    @property
    def _key_state(self) -> KeyState:
        if not self._live:
            return KeyState.TOO_NEW
        if not self.is_fully_visible:
            return KeyState.NOT_VISIBLE
        if self.takes_text:
            return KeyState.TYPING
        return KeyState.READY if self.has_focus else KeyState.UNFOCUSED

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._handed_over = self._handed_over and not has_focus
        self._wants_reason = self._wants_reason and not has_focus
        self._held_letter.drop()
        self._draw_keys()


def _is_on_screen(part: Widget) -> bool:
    if not part.display:
        return True
    try:
        place = part.screen.find_widget(part)
    except NoWidget:
        return False
    return place.region.height > 0 and place.visible_region == place.region
