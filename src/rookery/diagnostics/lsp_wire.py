"""JSON-RPC with the framing of the language server protocol, over the pipes of a process.

Everything that a server sends is bounded: a header, a message, the requests that wait.
"""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec

from rookery.core.limits import KIB, MIB
from rookery.platform.piped_process import PipedProcess

LARGEST_HEADER = 8 * KIB
LARGEST_MESSAGE = 64 * MIB
WRITE_SECONDS = 30.0
"""How long a server may leave a message unread."""
END_SECONDS = 1.0
"""How long to wait for the end of a server that does not read."""
NO_SUCH_METHOD = -32601
NOT_READ = "It no longer reads its input."
_END = b"\r\n\r\n"


class ServerGone(Exception):
    """The server has ended, or says something that is not the protocol."""


class MessageReader:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = -1

    def add(self, data: bytes) -> list[Any]:
        """The messages that are complete by now. Raises `ServerGone` if it is no protocol."""
        self._data += data
        found: list[Any] = []
        while (body := self._next()) is not None:
            try:
                found.append(msgspec.json.decode(body))
            except (msgspec.DecodeError, RecursionError) as error:
                raise ServerGone(f"It sent a message that is not JSON ({error}).") from error
        return found

    def _next(self) -> bytes | None:
        if self._size < 0:
            head, end, rest = self._data.partition(_END)
            if not end:
                if len(self._data) > LARGEST_HEADER:
                    raise ServerGone("It sent something other than messages.")
                return None
            self._size, self._data = _content_length(bytes(head)), rest
        if len(self._data) < self._size:
            return None
        body = bytes(self._data[: self._size])
        del self._data[: self._size]
        self._size = -1
        return body


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            size = int(value)
            if size <= LARGEST_MESSAGE:
                return size
            raise ServerGone(f"It sent a message of {size} bytes.")
    raise ServerGone("It sent something other than messages.")


def framed(message: Mapping[str, Any]) -> bytes:
    body = msgspec.json.encode({"jsonrpc": "2.0", **message})
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class LspConnection:
    """A connection to a server. `answer` answers its requests, or raises `LookupError` for a
    method that is not known; `notified` takes its notifications."""

    def __init__(
        self,
        process: PipedProcess,
        *,
        answer: Callable[[str, Any], Any],
        notified: Callable[[str, Any], None],
    ) -> None:
        self._process = process
        self._answer = answer
        self._notified = notified
        self._writing = anyio.Lock()
        self._ids = 0
        self._waiting: dict[int, _ServerReply] = {}
        self.ended = False
        self._listening = anyio.CancelScope()

    async def listen(self) -> None:
        """Take what the server sends, until it ends. Raises `ServerGone` if it is no protocol."""
        reader = MessageReader()
        try:
            with self._listening:
                while data := await self._process.read():
                    for message in reader.add(data):
                        await self._take(message)
            if self._listening.cancel_called and not await self._has_ended():
                raise ServerGone(NOT_READ)
        finally:
            self.ended = True
            for reply in self._waiting.values():
                reply.arrived.set()

    async def _has_ended(self) -> bool:
        """Whether the server ended: a write can fail before the end of its output is read."""
        with anyio.move_on_after(END_SECONDS):
            await self._process.watch()
        return self._process.ended is not None

    async def request(self, method: str, params: Any) -> Any:
        """The result of a request; None if the server reports an error. Raises `ServerGone`."""
        self._ids += 1
        reply = self._waiting[self._ids] = _ServerReply()
        try:
            await self._send({"id": self._ids, "method": method, "params": params})
            await reply.arrived.wait()
        finally:
            del self._waiting[self._ids]
        if not reply.answered:
            raise ServerGone("It ended before it answered.")
        return reply.result

    async def notify(self, method: str, params: Any) -> None:
        """Raises `ServerGone`."""
        await self._send({"method": method, "params": params})

    async def _send(self, message: Mapping[str, Any]) -> None:
        async with self._writing:
            if self.ended:
                raise ServerGone("It has ended.")
            try:
                with anyio.fail_after(WRITE_SECONDS):
                    await self._process.write(framed(message))
            except OSError as error:  # also if it takes too long
                self.ended = True
                self._listening.cancel()
                raise ServerGone(NOT_READ) from error

    async def _take(self, message: Any) -> None:
        match message:
            case {"method": str(method), "id": asked}:
                await self._send({"id": asked, **self._reply_to(method, message.get("params"))})
            case {"method": str(method)}:
                self._notify_us(method, message.get("params"))
            case {"id": int(answered)} if answered in self._waiting:
                reply = self._waiting[answered]
                reply.result, reply.answered = message.get("result"), True
                reply.arrived.set()

    def _notify_us(self, method: str, params: Any) -> None:
        try:
            self._notified(method, params)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ServerGone(f"It sent a {method} that cannot be read.") from error

    def _reply_to(self, method: str, params: Any) -> dict[str, Any]:
        try:
            return {"result": self._answer(method, params)}
        except LookupError:
            return {"error": {"code": NO_SUCH_METHOD, "message": f"No such method: {method}"}}


class _ServerReply:
    def __init__(self) -> None:
        self.arrived = anyio.Event()
        self.answered = False
        self.result: Any = None
