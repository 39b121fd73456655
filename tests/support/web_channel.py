"""A WebSocket of a third-party library as a channel."""

from collections.abc import Sequence

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from rookery.protocol.channels import ChannelEnded

TOKEN = "5" * 64


class WebChannel:
    """A third-party WebSocket as a channel."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def receive(self) -> bytes:
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as error:
            raise ChannelEnded from error

    async def send(self, messages: Sequence[bytes]) -> None:
        for message in messages:
            await self._connection.send(message, text=True)

    async def aclose(self) -> None:
        await self._connection.close()


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
