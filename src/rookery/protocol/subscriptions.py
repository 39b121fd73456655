"""All that one client follows: each is told at its own pace, and none ends another."""

import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeAlias

from anyio.abc import TaskGroup

from rookery.errors import RookeryError
from rookery.protocol.jsonrpc import Peer, RpcError
from rookery.protocol.relay import Outlet
from rookery.protocol.rpc_errors import REFUSED

AT_ONCE = 64
"""Of one client."""
VIEWS_AT_ONCE = 16
"""Of these, such as are folded for it: each holds all rows of its task."""
Relay: TypeAlias = Callable[[Outlet], Awaitable[None]]
_debug = logging.getLogger(__name__)


class Follows:
    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._outlets: dict[int, Outlet] = {}
        self._numbers = count(1)

    def __contains__(self, follow_id: int) -> bool:
        return follow_id in self._outlets

    def check_room(self) -> None:
        """Raises `RpcError`."""
        if len(self._outlets) >= AT_ONCE:
            raise RpcError(REFUSED, f"That is more than {AT_ONCE} follows; end some first.")

    def begin(self, peer: Peer, relay: Relay) -> int:
        """The number of the follow that tells what `relay` does, until that ends."""
        follow_id = next(self._numbers)
        outlet = self._outlets[follow_id] = Outlet(peer, follow_id)
        self._group.start_soon(self._run, follow_id, outlet, relay)
        return follow_id

    def end(self, follow_id: int) -> None:
        if outlet := self._outlets.pop(follow_id, None):
            outlet.stop()

    async def _run(self, follow_id: int, outlet: Outlet, relay: Relay) -> None:
        try:
            with outlet.scope:
                await relay(outlet)
        except Exception as error:
            # one client's trouble is neither the followed one's nor the other clients'
            if not isinstance(error, RookeryError):
                _debug.exception("follow %d failed", follow_id)
            outlet.end(error)
        finally:
            self._outlets.pop(follow_id, None)
