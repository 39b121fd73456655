"""A least time between requests to models, for all tasks of a process together."""

from collections.abc import Awaitable, Callable

import anyio.lowlevel


class Pace:
    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._sent: int | None = None

    def left(self, now: int) -> float:
        """Seconds until the next request may be sent."""
        if not self._seconds or self._sent is None:
            return 0.0
        return min(max(self._seconds - (now - self._sent) / 1000, 0.0), self._seconds)

    def sent(self, now: int) -> None:
        self._sent = now


class Turnstile:
    """Lets the requests of one task through: `wait` before each, then `sent`."""

    def __init__(
        self,
        wait: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
        sent: Callable[[], None] = lambda: None,
    ) -> None:
        self.wait = wait
        self.sent = sent
