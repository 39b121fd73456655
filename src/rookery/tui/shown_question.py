"""The question on the screen, and whether it was visible long enough to be answered.

A letter answers only if it stands alone: it is held for a moment, in case another one follows.
"""

import time
from collections.abc import Callable
from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.errors import NoWidget
from textual.timer import Timer
from textual.widget import Widget

from rookery.core.asks import AskKind
from rookery.core.facts import Asked
from rookery.tui.ask_view import AskView, KeyState
from rookery.tui.question_page import APPROVALS, QuestionStep
from rookery.tui.theme import Theme

ANSWER_DELAY_SECONDS = 0.5
"""Seconds a question must be visible, and no letter typed, before a key can answer it."""
LETTER_HOLD_SECONDS = 0.3
"""Seconds a letter is held to see whether another one follows."""


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


_MIN_WIDTH = 20
"""Minimum width to show the keys."""


class ShownQuestion(Vertical):
    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._view = AskView(theme)
        self._handed_over = False
        self._wants_reason = False
        self._held_letter = HeldLetter(self.set_timer)
        self._asked: Asked | None = None
        self._task_id = ""
        self._step = QuestionStep.ANSWER
        self._at = 0
        self._live = False
        self._counting = ""
        self._steps = 0
        """Number of changes of what is shown; outdated timers compare it."""
        self._is_read = False
        """Whether the end of the body was visible."""

    def compose(self) -> ComposeResult:
        yield from self._view.parts

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
        return self.size.width >= _MIN_WIDTH and all(map(_is_on_screen, self.children))

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
        """Lines of an action that were not visible yet; it cannot be approved before."""
        if self._asked is None or self._asked.ask not in APPROVALS:
            return 0
        _, last, count = self._view.scroll_view.position
        self._is_read = self._is_read or (self._live and last >= count)
        return 0 if self._is_read else count - last

    @property
    def fits_view(self) -> bool:
        return self._view.scroll_view.fits_view

    def put(self, task_id: str, asked: Asked) -> None:
        """Show another question."""
        self._task_id, self._asked = task_id, asked
        self._step = QuestionStep.CHOICE if asked.ask is AskKind.FOLLOWUP else QuestionStep.ANSWER
        self._at, self._live, self._counting, self._handed_over = 0, False, "", False
        self._is_read = self._wants_reason = False
        self._held_letter.drop()
        self.display = True
        self._draw(whole=True)

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

    def count_down(self, words: str) -> None:
        """Text beside the keys that announces an automatic answer."""
        if words != self._counting:
            self._counting = words
            self._draw_keys()

    def set_theme(self, theme: Theme) -> None:
        self._view.theme = theme
        if self._asked:
            self._draw(whole=True)

    def refit(self) -> None:
        """Fit the new screen size; the question has to be visible for a while again."""
        if self._asked:
            self._fit()
            if self._live:
                self.deactivate()
                self._activate_later()

    def on_resize(self, event: events.Resize) -> None:
        if self._asked:
            self._fit()

    def _show_step(self, step: QuestionStep) -> None:
        """Show another step of the question, which has to be visible for a while first."""
        self._step, self._live, self._is_read = step, False, False
        self._draw(whole=True)
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

    def _draw(self, *, whole: bool) -> None:
        assert self._asked
        scroll_view = self._view.scroll_view
        where = scroll_view.scroll_y
        self._view.write(self._asked, self._step, self._at)
        if not whole:
            scroll_view.scroll_to(0, where, animate=False)
        self._fit()

    def _fit(self) -> None:
        assert self._asked
        self._view.fit(self._asked, self._step, self._at, self.app.size)
        self.call_after_refresh(self._draw_keys)
        self._draw_keys()

    def _draw_keys(self) -> None:
        if self._asked is None or not self.is_mounted:
            return
        state = self._key_state
        self._view.update_keys(
            self._asked,
            self._step,
            state,
            unread=self.unread if state is KeyState.READY else 0,
            counting=self._counting,
            width=max(16, self.size.width - 4),
        )

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
