"""How a client is let in: the protocol it speaks, and the token where one is wanted."""

import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from rookery import NAME, VERSION
from rookery.protocol.codec import PROTOCOL
from rookery.protocol.jsonrpc import NOT_INITIALIZED, REFUSED, UNAUTHORIZED, Peer, RpcError

_BYTES = 32

SECONDS_TO_INTRODUCE_ONESELF = 10.0


def new_token() -> str:
    return secrets.token_hex(_BYTES)


def same_token(token: str, given: object) -> bool:
    """Compared in a time that tells nothing about where they differ."""
    return isinstance(given, str) and hmac.compare_digest(
        token.encode(), given.encode("utf-8", "replace")
    )


def everybody() -> bool:
    return True


class Introduction:
    """Of one client. `admit` is called when it has said what it must, and says whether there is
    room for one more."""

    def __init__(
        self,
        token: str | None,
        admit: Callable[[], bool],
        *,
        within: float = SECONDS_TO_INTRODUCE_ONESELF,
    ) -> None:
        self._token = token
        self._admit = admit
        self._within = within
        self._said = anyio.Event()
        self.is_done = False

    @property
    def is_wanted_soon(self) -> bool:
        return self._token is not None

    def check(self) -> None:
        """Raises `RpcError` for whoever has not introduced themselves."""
        if not self.is_done:
            raise RpcError(NOT_INITIALIZED, "Say initialize first.")

    def hear(self, fields: Mapping[str, Any]) -> dict[str, object]:
        """Raises `RpcError`; otherwise what the client is told of us."""
        self._said.set()
        if self._token is not None and not same_token(self._token, fields.get("token")):
            raise RpcError(UNAUTHORIZED, "The token is missing or wrong.")
        protocol = fields.get("protocol")
        if type(protocol) is not int or protocol != PROTOCOL:
            raise RpcError(REFUSED, f"This host speaks protocol {PROTOCOL}; say so in `protocol`.")
        if not self.is_done and not self._admit():
            raise RpcError(REFUSED, "So many clients are here that there is no room for another.")
        self.is_done = True
        return {"protocol": PROTOCOL, "host": {"name": NAME, "version": VERSION}}

    async def expel_stranger(self, peer: Peer, connection: anyio.CancelScope) -> None:
        """Whoever has not said the token in time, or has said a wrong one, is not listened to."""
        with anyio.move_on_after(self._within):
            await self._said.wait()
        if not self.is_done:
            with anyio.move_on_after(self._within):
                await peer.flush()
            connection.cancel()
