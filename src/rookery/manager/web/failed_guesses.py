"""How often somebody was wrong lately, by address."""

from collections import deque
from collections.abc import Callable
from time import monotonic

from rookery.manager.web.web_limits import ADDRESSES_REMEMBERED, WRONG_PER_MINUTE

_MINUTE = 60.0


class WrongGuesses:
    """Of tokens, or of codes. Of each address no more is remembered than it takes to say no."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._by_address: dict[str, deque[float]] = {}

    def note(self, address: str) -> None:
        times = self._by_address.pop(address, None) or deque(maxlen=WRONG_PER_MINUTE)
        times.append(self._clock())
        self._by_address[address] = times
        while len(self._by_address) > ADDRESSES_REMEMBERED:
            del self._by_address[next(iter(self._by_address))]

    def too_many(self, address: str) -> bool:
        times = self._by_address.get(address)
        if not times or len(times) < WRONG_PER_MINUTE:
            return False
        return self._clock() - times[0] < _MINUTE
