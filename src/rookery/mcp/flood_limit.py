"""How much a server may send before it is more than anybody would."""

import anyio

from rookery.core.limits import MIB
from rookery.mcp.failure import Failure

FLOOD_SECONDS = 10.0
FLOOD_MESSAGES = 10_000
FLOOD_BYTES = 64 * MIB


class Flood:
    """Raises `Failure` when a server sends too much within a while."""

    def __init__(self) -> None:
        self._since = anyio.current_time()
        self._messages = self._bytes = 0

    def add(self, size: int) -> None:
        """One more message."""
        self._begin_anew()
        self._messages += 1
        self._bytes += size
        if self._messages > FLOOD_MESSAGES:
            raise Failure(f"It sent {self._messages} lines in less than {FLOOD_SECONDS:g} s.")
        self._insist_on_size()

    def add_bytes(self, size: int) -> None:
        """More of what will be a message."""
        self._begin_anew()
        self._bytes += size
        self._insist_on_size()

    def _begin_anew(self) -> None:
        now = anyio.current_time()
        if now - self._since > FLOOD_SECONDS:
            self._since, self._messages, self._bytes = now, 0, 0

    def _insist_on_size(self) -> None:
        if self._bytes > FLOOD_BYTES:
            size = f"{FLOOD_BYTES // MIB} MiB"
            raise Failure(f"It sent more than {size} in less than {FLOOD_SECONDS:g} s.")
