"""Time in a task: the clock, the least time between requests, and how long the task has worked."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio
import anyio.lowlevel


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        """Until the event is set, and at most so long."""
        ...


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


class WorkTime:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._worked = 0
        self._since: int | None = now()

    @property
    def seconds(self) -> float:
        """Of work since the last lap."""
        worked = self._worked + (self._now() - self._since if self._since is not None else 0)
        return max(worked, 0) / 1000

    def lap(self) -> float:
        """The same, from now on counted anew."""
        seconds = self.seconds
        self._worked = 0
        self._since = None if self._since is None else self._now()
        return seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        if self._since is None:
            yield
            return
        self._worked += max(self._now() - self._since, 0)
        self._since = None
        try:
            yield
        finally:
            self._since = self._now()
