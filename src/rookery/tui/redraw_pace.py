"""When the next picture of what has come is due: not more of them than one can see."""

import time
from collections.abc import Callable
from typing import Any

from textual.app import App

from rookery.tui.attention import Attention

PICTURE_SECONDS = 1 / 15
"""Between two pictures of a stream."""
PICTURE_SECONDS_WHILE_TYPING = 0.15
"""What is typed is looked at first."""
TYPING_SECONDS = 0.5
BREATH_SECONDS = 0.02
"""For the keyboard and the screen, while a long past is being folded."""


def wait_for_picture(now: float, *, last_at: float, key_at: float) -> float:
    """Seconds until there may be another picture than the last; none are left if it is negative."""
    typing = now - key_at < TYPING_SECONDS
    pause = PICTURE_SECONDS_WHILE_TYPING if typing else PICTURE_SECONDS
    return last_at + pause - now


class Pacing:
    def __init__(
        self,
        app: App[Any],
        attention: Attention,
        *,
        draw: Callable[[], bool],
        drawn: Callable[[], None],
    ) -> None:
        """`draw` shows what has come and says whether there is more, for which there was no
        time; `drawn` comes after a picture that shows all."""
        self._app = app
        self._attention = attention
        self._draw = draw
        self._drawn = drawn
        self._is_due = False
        self._last_at = 0.0

    @property
    def is_due(self) -> bool:
        return self._is_due

    def news(self) -> None:
        """Something came."""
        if self._is_due:
            return
        self._is_due = True
        wait = wait_for_picture(
            time.monotonic(), last_at=self._last_at, key_at=self._attention.key_at
        )
        if wait <= 0:
            self._app.call_later(self._take)
        else:
            self._app.set_timer(wait, self._take)

    def _take(self) -> None:
        self._is_due = False
        if self._draw():
            self._is_due = True
            self._app.set_timer(BREATH_SECONDS, self._take)
            return
        self._last_at = time.monotonic()
        self._drawn()
