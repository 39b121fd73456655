"""JSON-RPC 2.0 between two peers: either side may call and notify the other.

Requests run concurrently, notifications one after the other. Malformed input is answered as the
standard says and ends nothing. Outgoing messages wait in a bounded outbox; a sender of much data
asks whether there is room. An error has a code for programs and a sentence for people.
"""

import logging
from collections import deque
from collections.abc import Callable
from itertools import count
from types import NoneType
from typing import Any, Protocol, TypeAlias

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.core.commands import repeated_field
from rookery.core.text.characters import whole_values
from rookery.errors import CommandRejected, RookeryError, SettingsError, StorageError
from rookery.protocol.channels import Channel, ChannelEnded, TooLong
from rookery.protocol.codec import answer_to_json

OUTBOX = 2**20
"""Bytes in the outbox above which there is no room."""
_AT_ONCE = 2**18

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800
"""The caller cancelled the request."""
REQUESTS_AT_ONCE = 64
"""Concurrent requests of the other side; more wait."""
_MESSAGES_PER_TURN = 50
_GRACE = 5.0
Params: TypeAlias = dict[str, Any] | list[Any] | None
Number: TypeAlias = int | float | str | None
_NUMBERS = (int, float, str, NoneType)
_PARAMS = (dict, list, NoneType)
_decode_strictly = msgspec.json.Decoder().decode
_debug = logging.getLogger(__name__)

FAILED = -32000
"""It failed; the sentence says why."""
REFUSED = -32001
"""It cannot be done now."""
NOT_INITIALIZED = -32002
UNAUTHORIZED = -32003
NOT_STORED = -32004
"""A task could not be read from disk or written to it."""
WRONG_SETTING = -32005
"""A setting or argument has an invalid value."""
_CODES: dict[type[RookeryError], int] = {
    CommandRejected: REFUSED,
    StorageError: NOT_STORED,
    SettingsError: WRONG_SETTING,
}
_ERRORS = {code: cls for cls, code in _CODES.items()}


class Disconnected(RookeryError):
    """The connection is lost; the result of a pending call is unknown."""


class Outbox:
    """Encoded messages that wait to be sent."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        """Bytes waiting and being sent."""
        self._under_way = 0
        self._changed = anyio.Event()
        self._awaited = False
        self._over = False

    @property
    def has_room(self) -> bool:
        return self._size < OUTBOX

    def put(self, message: bytes) -> None:
        if self._over:
            raise gone()
        self._waiting.append(message)
        self._size += len(message)
        self._change()

    async def take(self) -> list[bytes]:
        """Wait for messages and return a batch of them."""
        await self._until(lambda: bool(self._waiting))
        taken: list[bytes] = []
        while self._waiting and self._under_way < _AT_ONCE:
            taken.append(self._waiting.popleft())
            self._under_way += len(taken[-1])
        return taken

    def sent(self) -> None:
        self._size -= self._under_way
        self._under_way = 0
        self._change()

    async def room(self) -> None:
        if not self.has_room:
            await self._until(lambda: self._size <= OUTBOX // 2)
        if self._over:
            raise gone()

    async def emptied(self) -> None:
        await self._until(lambda: not self._size)

    def end(self) -> None:
        self._over = True
        self._waiting.clear()
        self._change()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not (self._over or holds()):
            self._awaited = True
            await self._changed.wait()

    def _change(self) -> None:
        if self._awaited:
            self._awaited = False
            self._changed.set()
            self._changed = anyio.Event()


def gone() -> Disconnected:
    return Disconnected("The connection was lost.")


class RpcError(RookeryError):
    """An error response, received or to be sent."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Service(Protocol):
    """What a peer offers to the other side."""

    async def answer(self, method: str, params: Params) -> object:
        """The JSON-serialisable result of a request. Raises `RpcError`."""
        ...

    async def on_notification(self, method: str, params: Params) -> None:
        """Handle a notification before anything else is received. Raises `RpcError`, which is
        not reported to the sender."""
        ...


class _Outcome(Struct, frozen=True):
    result: Any = None
    error: RpcError | Disconnected | None = None


class _OutgoingCall:
    """A pending call."""

    def __init__(self, at_once: Callable[[Any], None] | None) -> None:
        self.ended = anyio.Event()
        self.outcome = _Outcome()
        self._at_once = at_once

    def end(self, outcome: _Outcome) -> None:
        if self._at_once and not outcome.error:
            self._at_once(outcome.result)
        self.outcome = outcome
        self.ended.set()


class Peer:
    """This side of a connection. It works while `run` does."""

    def __init__(
        self, channel: Channel, service: Service, *, grace: float = _GRACE, refuse_above: int = 0
    ) -> None:
        """`grace` is the time to finish requests after the other side has closed. Above a limit,
        requests wait, and what follows them too. With `refuse_above` they are refused: then a
        request may wait for an answer of the other side that comes later."""
        self._channel = channel
        self._service = service
        self._grace = grace
        self._numbers = count(1)
        self._calls: dict[int, _OutgoingCall] = {}
        self._outbox = Outbox()
        self._requests = anyio.Semaphore(refuse_above or REQUESTS_AT_ONCE)
        self._refuses = refuse_above > 0
        self._running: dict[Number, anyio.CancelScope] = {}

    async def run(self) -> None:
        """Run until the other side is gone. Unanswered calls then fail."""
        try:
            async with anyio.create_task_group() as talking:
                talking.start_soon(self._write, talking.cancel_scope)
                async with anyio.create_task_group() as working:
                    await self._read(working)
                    working.cancel_scope.deadline = anyio.current_time() + self._grace
                with anyio.move_on_after(self._grace):
                    await self._outbox.emptied()
                talking.cancel_scope.cancel()
        finally:
            self._end()

    async def call(
        self, method: str, params: object = None, *, at_once: Callable[[Any], None] | None = None
    ) -> Any:
        """Call the other side. `at_once` gets the result before any later message is handled.
        Raises `RpcError` or `Disconnected`."""
        number = next(self._numbers)
        call = self._calls[number] = _OutgoingCall(at_once)
        try:
            self._post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await call.ended.wait()
        finally:
            self._calls.pop(number, None)
        if call.outcome.error:
            raise call.outcome.error
        return call.outcome.result

    def notify(self, method: str, params: object = None) -> None:
        """Queue a notification. Raises `Disconnected`."""
        self._post({"jsonrpc": "2.0", "method": method, "params": params})

    def cancel(self, number: Number) -> None:
        """Cancel a request of the other side, which then gets an error."""
        if scope := self._running.get(number):
            scope.cancel()

    @property
    def has_room(self) -> bool:
        """Whether more can be sent without growing the outbox beyond its limit."""
        return self._outbox.has_room

    async def room(self) -> None:
        """Wait until there is room in the outbox. Raises `Disconnected`."""
        await self._outbox.room()

    async def flush(self) -> None:
        """Wait until the outbox is empty."""
        await self._outbox.emptied()

    def _post(self, message: dict[str, object]) -> None:
        if message.get("params", message) is None:
            del message["params"]
        self._outbox.put(answer_to_json(message))

    async def _write(self, talking: anyio.CancelScope) -> None:
        try:
            while True:
                await self._channel.send(await self._outbox.take())
                self._outbox.sent()
        except ChannelEnded:
            talking.cancel()

    async def _read(self, working: TaskGroup) -> None:
        try:
            for number in count(1):
                try:
                    await self._take(await self._channel.receive(), working)
                except TooLong:
                    await self._complain(None, PARSE_ERROR, "That message is too long.")
                if number % _MESSAGES_PER_TURN == 0:
                    await anyio.lowlevel.checkpoint()
        except (ChannelEnded, Disconnected):
            return

    async def _take(self, data: bytes, working: TaskGroup) -> None:
        try:
            message = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            await self._complain(None, PARSE_ERROR, f"That is not JSON: {error}.")
        except RecursionError:
            await self._complain(None, PARSE_ERROR, "That is nested too deeply.")
        else:
            await self._sort(message, data, working)

    async def _sort(self, message: Any, data: bytes, working: TaskGroup) -> None:
        match message:
            case {"method": _, "id": str() | int() as number} if clause := repeated_field(data):
                said = f"The request {clause} Nothing was done."
                await self._complain(number, INVALID_REQUEST, said)
            case {"jsonrpc": "2.0", "method": str(method), **rest} if _is_sound(rest):
                await self._take_request(method, rest, working)
            case {"jsonrpc": "2.0", "id": int(number), **rest} if {"result", "error"} & {*rest}:
                # the first response counts, and True is no id
                if type(number) is int and (call := self._calls.pop(number, None)):
                    call.end(_outcome(rest))
            case {"jsonrpc": "2.0", "id": _, "error": _}:
                _debug.warning("the other side reports: %s", message["error"])
            case {"id": str() | int() | float() as number}:
                await self._complain(number, INVALID_REQUEST, "That is not a JSON-RPC 2.0 request.")
            case list():
                await self._complain(None, INVALID_REQUEST, "Send requests one by one.")
            case _:
                await self._complain(None, INVALID_REQUEST, "That is not a JSON-RPC 2.0 request.")

    async def _take_request(self, method: str, rest: dict[Any, Any], working: TaskGroup) -> None:
        params = rest.get("params")
        if "id" not in rest:
            try:
                await self._service.on_notification(method, params)
            except RpcError as error:
                _debug.warning("notification %s: %s", method, error)
            except Exception:
                # a bug that one message ran into must not stop the others
                _debug.exception("notification %s failed", method)
            return
        if self._refuses and not self._requests.value:
            said = "Too many requests at once. Nothing was done."
            await self._complain(rest["id"], REFUSED, said)
            return
        await self._requests.acquire()
        working.start_soon(self._carry_out, rest["id"], method, params)
        await anyio.lowlevel.checkpoint()  # a notification right behind it finds it begun

    async def _carry_out(self, number: Number, method: str, params: Params) -> None:
        try:
            with anyio.CancelScope() as scope:
                self._running[number] = scope
                result = await self._service.answer(method, params)
            if scope.cancelled_caught:
                raise RpcError(CANCELLED, "The request was cancelled.")
            self._post({"jsonrpc": "2.0", "id": number, "result": result})
            await self._outbox.room()
        except RpcError as error:
            await self._complain(number, error.code, str(error))
        except Disconnected:
            return
        except Exception as error:
            # a bug that one request ran into must not stop the others
            _debug.exception("request %s failed", method)
            await self._complain(number, INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        finally:
            self._running.pop(number, None)
            self._requests.release()

    async def _complain(self, number: Number, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._post({"jsonrpc": "2.0", "id": number, "error": error})
        await self._outbox.room()

    def _end(self) -> None:
        self._outbox.end()
        for call in self._calls.values():
            call.end(_Outcome(error=gone()))


def _is_sound(rest: dict[Any, Any]) -> bool:
    """Whether the id and the parameters of a request are valid."""
    return type(rest.get("id")) in _NUMBERS and isinstance(rest.get("params"), _PARAMS)


def _outcome(rest: dict[Any, Any]) -> _Outcome:
    match rest.get("error"):
        case None:
            return _Outcome(result=rest.get("result"))
        case {"code": int(code), "message": str(message)}:
            return _Outcome(error=RpcError(code, message))
        case error:
            return _Outcome(error=RpcError(INTERNAL_ERROR, f"It failed: {error}"))


def code_of(error: Exception) -> int:
    if not isinstance(error, RookeryError):
        return INTERNAL_ERROR
    return next((code for cls, code in _CODES.items() if isinstance(error, cls)), FAILED)


def error_of(error: Exception) -> dict[str, object]:
    return {"code": code_of(error), "message": str(error)}


def client_error(error: RpcError) -> RookeryError:
    """The host's exception, on the client's side."""
    return _ERRORS.get(error.code, RookeryError)(str(error))


def _decode(data: bytes) -> Any:
    """The JSON value. Halves of characters, which JavaScript writes where it cuts a text, become
    replacement characters."""
    try:
        return _decode_strictly(data)
    except msgspec.DecodeError:
        if b"\\ud" not in data.lower():
            raise
        import json

        try:
            return whole_values(json.loads(data))
        except ValueError:
            pass
        raise
