"""Calls whoever has turned away: a bell, and a notification where the terminal has them."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.core.text.terminal_text import harmless_line

Notify: TypeAlias = Literal["auto", "bell", "off"]

AWAY_SECONDS = 30.0
"""Without a key for so long, somebody has turned away even if the terminal does not say so."""
LONGEST = 120
BELL = "\a"


def notification(title: str, words: str) -> str:
    """OSC 9 and OSC 777; a terminal that knows neither shows nothing."""
    words = harmless_line(words).replace(";", ",")[:LONGEST]
    return f"\x1b]9;{title}: {words}\x1b\\\x1b]777;notify;{title};{words}\x1b\\"


class Caller(Struct, frozen=True, kw_only=True):
    """What is written, and with what."""

    write: Callable[[str], None]
    notify: Notify = "auto"


class Attention:
    def __init__(self, caller: Caller, title: str, now: Callable[[], float]) -> None:
        self._caller = caller
        self._title = title
        self._now = now
        self._looking = True
        self._key_at = now()
        self._called: set[str] = set()

    @property
    def key_at(self) -> float:
        """When a key was pressed last."""
        return self._key_at

    def key(self) -> None:
        self._key_at = self._now()
        self._looking = True

    def focus_changed(self, looking: bool) -> None:
        """The terminal's window got or lost the focus."""
        self._looking = looking

    @property
    def is_away(self) -> bool:
        return not self._looking or self._now() - self._key_at > AWAY_SECONDS

    def call(self, about: str, words: str) -> bool:
        """Call somebody who is away, once about each thing. Whether that was needed."""
        if about in self._called:
            return False
        self._called.add(about)
        if self._caller.notify == "off" or not self.is_away:
            return False
        news = notification(self._title, words) if self._caller.notify == "auto" else ""
        self._caller.write(BELL + news)
        return True
