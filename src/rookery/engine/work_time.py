"""How long a task has worked: not counted is what it waits for, be it a person or a child."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
