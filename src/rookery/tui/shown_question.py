"""The question on the screen, and whether it was seen for long enough to be answered.

A letter answers only if it stands alone: it waits a moment for another one, with which it would be
a word.
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
from rookery.tui.ask_view import AskDrawing, AskStanding
from rookery.tui.question_page import APPROVALS, QuestionStep
from rookery.tui.theme import Theme

UNTOUCHABLE_SECONDS = 0.5
"""How long a question must have been on the screen before a key can answer it, and how long no
letter must have been typed."""
ALONE_SECONDS = 0.3
"""How long a key waits for another one, with which it would be a word."""


class LoneLetter:
    def __init__(self, start_timer: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._start_timer = start_timer
        self._letter = ""
        self._timer: Timer | None = None
        self._typed_at = 0.0

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    @property
    def untouchable_until(self) -> float:
        """Until nobody has typed for long enough."""
        return self._typed_at + UNTOUCHABLE_SECONDS

    def is_in_a_word(self, typed_at: float, *, live: bool) -> bool:
        """Whether the letter that is typed now goes with one that waits, or with one right before
        it, which the question, being `live`, did not take."""
        soon = typed_at < self.untouchable_until
        self._typed_at = typed_at
        return bool(self._letter) or (live and soon)

    def hold(self, letter: str, act: Callable[[], None]) -> None:
        """Act on it, if nothing comes behind it."""
        self._letter = letter
        self._timer = self._start_timer(ALONE_SECONDS, partial(self._act_alone, act))

    def _act_alone(self, act: Callable[[], None]) -> None:
        self.drop()
        act()

    def drop(self) -> str:
        """The letter that waited, which is no answer now."""
        if self._timer:
            self._timer.stop()
        letter, self._letter, self._timer = self._letter, "", None
        return letter


_LEAST_WIDTH = 20
"""Columns in which the keys can be told."""


class ShownQuestion(Vertical):
    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._drawing = AskDrawing(theme)
        self._gave_way = False
        self._wants_reason = False
        self._letter = LoneLetter(self.set_timer)
        self._asked: Asked | None = None
        self._task_id = ""
        self._step = QuestionStep.ANSWER
        self._at = 0
        self._live = False
        self._counting = ""
        self._turns = 0
        """How often it turned to something else."""
        self._is_read = False
        """The end of what is asked about was in sight."""

    def compose(self) -> ComposeResult:
        yield from self._drawing.parts

    @property
    def asked(self) -> Asked | None:
        return self._asked

    @property
    def live(self) -> bool:
        """It can be answered: it has been seen for long enough, and is in sight."""
        return self._live and self.is_in_sight

    @property
    def is_in_sight(self) -> bool:
        """Its title, something of its text and its keys are on the screen."""
        return self.size.width >= _LEAST_WIDTH and all(map(_is_on_screen, self.children))

    @property
    def is_typed_to(self) -> bool:
        """It handed the keys to the input area, for an answer in words."""
        return self._asked is not None and self._gave_way

    @property
    def wants_reason(self) -> bool:
        """What is typed now is why it is refused, even if that is a yes."""
        return self.is_typed_to and self._wants_reason

    @property
    def unread(self) -> int:
        """Lines of an action that nobody can have read yet; it is not approved before."""
        if self._asked is None or self._asked.ask not in APPROVALS:
            return 0
        _, last, count = self._drawing.scroll_view.position
        self._is_read = self._is_read or (self._live and last >= count)
        return 0 if self._is_read else count - last

    @property
    def is_seen_whole(self) -> bool:
        return self._drawing.scroll_view.is_seen_whole

    @property
    def has_waiting_letter(self) -> bool:
        """A letter was typed that is an answer if none comes behind it."""
        return self._letter.is_waiting

    def put(self, task_id: str, asked: Asked) -> None:
        """Show a question that nobody has seen yet."""
        self._task_id, self._asked = task_id, asked
        self._step = QuestionStep.CHOICE if asked.ask is AskKind.FOLLOWUP else QuestionStep.ANSWER
        self._at, self._live, self._counting, self._gave_way = 0, False, "", False
        self._is_read = self._wants_reason = False
        self._letter.drop()
        self.display = True
        self._draw(whole=True)

    def close(self) -> None:
        self._asked = None
        self._live = False
        self._letter.drop()
        self.display = False

    def come_alive(self) -> None:
        self._live = self._asked is not None
        self._draw_keys()

    def fall_asleep(self) -> None:
        """Nobody sees it any more."""
        self._live = False
        self._letter.drop()
        self._draw_keys()

    def count_down(self, words: str) -> None:
        """What is told beside the keys while a suggestion is about to be taken by itself."""
        if words != self._counting:
            self._counting = words
            self._draw_keys()

    def set_theme(self, theme: Theme) -> None:
        self._drawing.theme = theme
        if self._asked:
            self._draw(whole=True)

    def refit(self) -> None:
        """The screen has another size, and what is seen of the question now was not seen before."""
        if self._asked:
            self._fit()
            if self._live:
                self.fall_asleep()
                self._wake_later()

    def on_resize(self, event: events.Resize) -> None:
        if self._asked:
            self._fit()

    # being seen

    def _turn_to(self, step: QuestionStep) -> None:
        """Show something else of the question, which has to be seen first as well."""
        self._step, self._live, self._is_read = step, False, False
        self._draw(whole=True)
        self._wake_later()

    def _wake_later(self) -> None:
        self._turns += 1
        self.set_timer(UNTOUCHABLE_SECONDS, partial(self._wake_turn, self._asked, self._turns))

    def _wake_turn(self, asked: Asked | None, turns: int) -> None:
        if self._asked is not asked or self._turns != turns:
            return
        if (wait := self._letter.untouchable_until - time.monotonic()) > 0:
            self.set_timer(wait + 0.01, partial(self._wake_turn, asked, turns))
        else:
            self.come_alive()

    # drawing

    def _draw(self, *, whole: bool) -> None:
        assert self._asked
        scroll_view = self._drawing.scroll_view
        where = scroll_view.scroll_y
        self._drawing.write(self._asked, self._step, self._at)
        if not whole:
            scroll_view.scroll_to(0, where, animate=False)
        self._fit()

    def _fit(self) -> None:
        assert self._asked
        self._drawing.fit(self._asked, self._step, self._at, self.app.size)
        self.call_after_refresh(self._draw_keys)
        self._draw_keys()

    def _draw_keys(self) -> None:
        if self._asked is None or not self.is_mounted:
            return
        standing = self._standing
        self._drawing.tell(
            self._asked,
            self._step,
            standing,
            unread=self.unread if standing is AskStanding.READY else 0,
            counting=self._counting,
            width=max(16, self.size.width - 4),
        )

    @property
    def _standing(self) -> AskStanding:
        if not self._live:
            return AskStanding.UNSEEN
        if not self.is_in_sight:
            return AskStanding.OUT_OF_SIGHT
        if self.is_typed_to:
            return AskStanding.TYPED_TO
        return AskStanding.READY if self.has_focus else AskStanding.ELSEWHERE

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._gave_way = self._gave_way and not has_focus
        self._wants_reason = self._wants_reason and not has_focus
        self._letter.drop()
        self._draw_keys()


def _is_on_screen(part: Widget) -> bool:
    if not part.display:
        return True
    try:
        place = part.screen.find_widget(part)
    except NoWidget:
        return False
    return place.region.height > 0 and place.visible_region == place.region
