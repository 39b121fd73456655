"""Serves clients: each may call methods and follow tasks. The manager passes its own methods.

A client is accepted if it speaks the protocol and has the token, if one is required. Each follow
has its own pace, and one that fails does not end the others.
"""

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeAlias, cast

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery import NAME, VERSION
from rookery.core.commands import unknown_field
from rookery.core.queries import Asking
from rookery.errors import RookeryError
from rookery.protocol.channels import Channel
from rookery.protocol.codec import (
    COMMANDS,
    LARGEST_NUMBER,
    PROTOCOL,
    Host,
    answer_to_json,
    command_from_json,
    queries,
    query_from_json,
)
from rookery.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_INITIALIZED,
    REFUSED,
    UNAUTHORIZED,
    Params,
    Peer,
    RpcError,
    code_of,
)
from rookery.protocol.relay import Outlet, relay_events, relay_view

_BYTES = 32

SECONDS_TO_INTRODUCE_ONESELF = 10.0


def new_token() -> str:
    return secrets.token_hex(_BYTES)


def same_token(token: str, given: object) -> bool:
    """Constant-time comparison."""
    return isinstance(given, str) and hmac.compare_digest(
        token.encode(), given.encode("utf-8", "replace")
    )


def everybody() -> bool:
    return True


class Introduction:
    """The `initialize` of one client. `admit` is called when it is valid, and returns whether
    there is room for another client."""

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

    def check(self) -> None:
        """Raises `RpcError` if the client has not initialized."""
        if not self.is_done:
            raise RpcError(NOT_INITIALIZED, "Send initialize first.")

    def initialize(self, fields: Mapping[str, Any]) -> dict[str, object]:
        """Handle `initialize` and return the answer. Raises `RpcError`."""
        self._said.set()
        if self._token is not None and not same_token(self._token, fields.get("token")):
            raise RpcError(UNAUTHORIZED, "The token is missing or wrong.")
        protocol = fields.get("protocol")
        if type(protocol) is not int or protocol != PROTOCOL:
            raise RpcError(REFUSED, f"This host speaks protocol {PROTOCOL}; set `protocol` to it.")
        if not self.is_done and not self._admit():
            raise RpcError(REFUSED, "Too many clients are connected.")
        self.is_done = True
        return {"protocol": PROTOCOL, "host": {"name": NAME, "version": VERSION}}

    async def disconnect_stranger(self, peer: Peer, connection: anyio.CancelScope) -> None:
        """Disconnect a client that sends a wrong token, or none in time."""
        with anyio.move_on_after(self._within):
            await self._said.wait()
        if not self.is_done:
            with anyio.move_on_after(self._within):
                await peer.flush()
            connection.cancel()


AS_EVENTS, AS_VIEW = "events", "view"
CAPABILITIES = {
    "follow": [AS_EVENTS, AS_VIEW],
    "send": list(COMMANDS),
    "query": list(queries()),
}
_debug = logging.getLogger(__name__)

AT_ONCE = 64
"""Follows per client."""
VIEWS_AT_ONCE = 16
"""Views among them: each holds all rows of its task."""
Relay: TypeAlias = Callable[[Outlet], Awaitable[None]]


class Method(Struct, frozen=True):
    answer: Callable[[dict[str, Any]], Awaitable[object]]
    takes: tuple[str, ...] | None = None
    """The allowed fields. None if the request is checked by its reader."""


class ServedMethods(Struct, frozen=True):
    """The methods for one client, and the answer to `initialize`."""

    greeting: Mapping[str, object]
    methods: Mapping[str, Method]


async def serve(
    host: Host,
    channel: Channel,
    *,
    token: str | None = None,
    admit: Callable[[], bool] = everybody,
) -> None:
    """Serve a host to a client until it disconnects."""
    await serve_client(partial(_host_offer, host), channel, token=token, admit=admit)


async def serve_client(
    offer: Callable[["Follows"], ServedMethods],
    channel: Channel,
    *,
    token: str | None = None,
    admit: Callable[[], bool] = everybody,
    within: float = SECONDS_TO_INTRODUCE_ONESELF,
) -> None:
    """Serve a client until it disconnects. With a `token`, it must send that first. `admit` is
    then called and returns whether there is room for another client."""
    async with anyio.create_task_group() as group:
        introduction = Introduction(token, admit, within=within)
        follows = Follows(group)
        peer = follows.peer = Peer(channel, _Connection(introduction, offer(follows), follows))
        if token is not None:
            group.start_soon(introduction.disconnect_stranger, peer, group.cancel_scope)
        await peer.run()
        group.cancel_scope.cancel()


class _Connection:
    def __init__(
        self, introduction: Introduction, offer: ServedMethods, follows: "Follows"
    ) -> None:
        self._introduction = introduction
        self._greeting = offer.greeting
        self._methods = {**offer.methods, "unfollow": Method(follows.unfollow, ("follow_id",))}

    async def answer(self, method: str, params: Params) -> object:
        if isinstance(params, list):
            raise RpcError(INVALID_PARAMS, "Give parameters by name, in an object.")
        fields = params or {}
        if method == "initialize":  # a later client may say more, which is no request
            return {**self._introduction.initialize(fields), **self._greeting}
        self._introduction.check()
        if not (called := self._methods.get(method)):
            raise RpcError(METHOD_NOT_FOUND, f"No such method: {method!r}.")
        if called.takes is not None and (unknown := unknown_field(fields, called.takes)):
            raise RpcError(INVALID_PARAMS, f"{method} {unknown} Nothing was done.")
        try:
            return await called.answer(fields)
        except RpcError:
            raise
        except RookeryError as error:
            raise RpcError(code_of(error), str(error)) from error

    async def on_notification(self, method: str, params: Params) -> None:
        """A client that does not need the answer may leave out the id."""
        await self.answer(method, params)


def _host_offer(host: Host, follows: "Follows") -> ServedMethods:
    async def send(fields: dict[str, Any]) -> None:
        await host.send(command_from_json(fields))

    async def query(fields: dict[str, Any]) -> object:
        asked = cast(Asking[Any], query_from_json(fields))
        return msgspec.Raw(answer_to_json(await host.query(asked)))

    async def follow(fields: dict[str, Any]) -> object:
        return _follow(host, follows, fields)

    return ServedMethods(
        {"capabilities": CAPABILITIES},
        {
            "send": Method(send),
            "query": Method(query),
            "follow": Method(follow, ("task_id", "after", "as")),
        },
    )


def _follow(host: Host, follows: "Follows", fields: Mapping[str, Any]) -> object:
    task_id, after = fields.get("task_id"), fields.get("after", 0)
    manner = fields.get("as", AS_EVENTS)
    if not isinstance(task_id, str) or manner not in (AS_EVENTS, AS_VIEW):
        raise RpcError(INVALID_PARAMS, 'follow needs a task_id, and "events" or "view" in as.')
    if type(after) is not int or not 0 <= after <= LARGEST_NUMBER:
        raise RpcError(INVALID_PARAMS, "after must be the number of an event, or 0.")
    view = manner if manner == AS_VIEW else None
    follows.check_room(view)
    resume = partial(host.follow, task_id)
    events = resume(0 if view else after)
    relay = (
        partial(relay_view, events=events)
        if view
        else partial(relay_events, resume=resume, events=events, after=after)
    )
    return follows.begin(relay, view)


class Follows:
    """The follows of one client. A view is kept while it is followed."""

    peer: Peer

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._outlets: dict[int, Outlet] = {}
        self._views: dict[int, object] = {}
        self._numbers = count(1)

    def check_room(self, view: object = None) -> None:
        """Raises `RpcError`."""
        if len(self._outlets) >= AT_ONCE:
            raise RpcError(REFUSED, f"That is more than {AT_ONCE} follows; end some first.")
        if view is not None and len(self._views) >= VIEWS_AT_ONCE:
            raise RpcError(REFUSED, f"That is more than {VIEWS_AT_ONCE} views; end some first.")

    def begin(self, relay: Relay, view: object = None) -> object:
        """Start `relay` as a follow; the answer has its id."""
        follow_id = next(self._numbers)
        outlet = self._outlets[follow_id] = Outlet(self.peer, follow_id)
        if view is not None:
            self._views[follow_id] = view
        self._group.start_soon(self._run, follow_id, outlet, relay)
        return {"follow_id": follow_id}

    def view(self, fields: Mapping[str, Any]) -> object:
        """The view of a follow; None if it has none."""
        return self._views.get(_follow_id(fields))

    async def unfollow(self, fields: Mapping[str, Any]) -> None:
        if outlet := self._forget(_follow_id(fields)):
            outlet.stop()

    def _forget(self, follow_id: int) -> Outlet | None:
        self._views.pop(follow_id, None)
        return self._outlets.pop(follow_id, None)

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
            self._forget(follow_id)


def _follow_id(fields: Mapping[str, Any]) -> int:
    follow_id = fields.get("follow_id")
    if type(follow_id) is not int:
        raise RpcError(INVALID_PARAMS, "Give a follow_id.")
    return follow_id
