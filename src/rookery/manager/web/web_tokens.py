"""What lets somebody in: a token per start, codes that are exchanged for one, and the tokens of
paired devices. None of it is ever written down, except the digests of the devices' tokens."""

from collections.abc import Callable
from time import monotonic

from msgspec import Struct

from rookery.manager.web.devices import Devices
from rookery.manager.web.web_limits import CODES, LAUNCH_CODE, PAIRING_CODE
from rookery.protocol.handshake import new_token, same_token


class Guest(Struct, frozen=True):
    """Somebody who is known: the user at this machine, or one of their devices."""

    token: str
    device_id: str = ""


class OneTimeCodes:
    """Each is good once, and for a while."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._open: dict[str, float] = {}

    def new(self) -> str:
        code = new_token()
        self._open[code] = self._clock() + self._seconds
        while len(self._open) > CODES:
            del self._open[next(iter(self._open))]
        return code

    def redeem(self, given: object) -> bool:
        """Whether it was one; from now on it is none."""
        now = self._clock()
        # all are compared, so that the time it takes tells nothing
        fitting = [code for code in self._open if same_token(code, given)]
        return any([self._open.pop(code) > now for code in fitting])


class Keys:
    def __init__(self, devices: Devices, clock: Callable[[], float] = monotonic) -> None:
        self.token = new_token()
        self.launch_codes = OneTimeCodes(LAUNCH_CODE, clock)
        self.pairing_codes = OneTimeCodes(PAIRING_CODE, clock)
        self.devices = devices

    def guest(self, given: object, *, outside: bool) -> Guest | None:
        """Who has this token. From outside only that of a device counts."""
        if same_token(self.token, given):
            return None if outside else Guest(self.token)
        if isinstance(given, str) and (device_id := self.devices.whose(given)):
            return Guest(given, device_id)
        return None
