"""A letter answers a question only if it stands alone: it waits for another one, with which it
would be a word (GATE-4)."""

from collections.abc import Callable
from functools import partial

from textual.timer import Timer

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
