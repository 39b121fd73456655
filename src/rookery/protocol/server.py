"""Serves a host to one client: its commands, its queries, and whatever tasks it follows.

Each follow has its own pace, and a follow that fails ends no other.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeAlias, cast

import anyio
import msgspec
from anyio.abc import TaskGroup

from rookery.core.queries import Asking
from rookery.core.unknown_fields import unknown_field
from rookery.errors import RookeryError
from rookery.protocol.channels import Channel
from rookery.protocol.codec import (
    COMMANDS,
    LARGEST_NUMBER,
    QUERIES,
    answer_to_json,
    command_from_json,
    query_from_json,
)
from rookery.protocol.handshake import Introduction, everybody
from rookery.protocol.host_interface import Host
from rookery.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REFUSED,
    Params,
    Peer,
    RpcError,
    code_of,
)
from rookery.protocol.relay import Outlet, relay_events, relay_view

AS_EVENTS, AS_VIEW = "events", "view"
CAPABILITIES = {
    "follow": [AS_EVENTS, AS_VIEW],
    "send": list(COMMANDS),
    "query": list(QUERIES),
}
_TAKES = {"follow": ("task_id", "after", "as"), "unfollow": ("follow_id",)}
"""The parameters of methods. A later client may introduce itself with more, which is no request."""
_debug = logging.getLogger(__name__)

AT_ONCE = 64
"""Of one client."""
VIEWS_AT_ONCE = 16
"""Of these, such as are folded for it: each holds all rows of its task."""
Relay: TypeAlias = Callable[[Outlet], Awaitable[None]]


async def serve(
    host: Host,
    channel: Channel,
    *,
    token: str | None = None,
    admit: Callable[[], bool] = everybody,
) -> None:
    """Serve a client until it is gone. With a `token` it must say that one first; `admit` is
    called when it has, and says whether there is room for one more."""
    async with anyio.create_task_group() as group:
        introduction = Introduction(token, admit)
        connection = Connection(host, group, introduction)
        connection.peer = Peer(channel, connection)
        if introduction.is_wanted_soon:
            group.start_soon(introduction.expel_stranger, connection.peer, group.cancel_scope)
        await connection.peer.run()
        group.cancel_scope.cancel()


class Connection:
    """What one client may call."""

    peer: Peer

    def __init__(self, host: Host, group: TaskGroup, introduction: Introduction) -> None:
        self._host = host
        self._introduction = introduction
        self._follows = Follows(group)
        self._views: set[int] = set()

    async def answer(self, method: str, params: Params) -> object:
        fields = named(params)
        if method == "initialize":
            return {**self._introduction.hear(fields), "capabilities": CAPABILITIES}
        self._introduction.check()
        check_fields(method, fields, _TAKES)
        try:
            match method:
                case "send":
                    await self._host.send(command_from_json(fields))
                    return None
                case "query":
                    query = cast(Asking[Any], query_from_json(fields))
                    return msgspec.Raw(answer_to_json(await self._host.query(query)))
                case "follow":
                    return self._follow(fields)
                case "unfollow":
                    self._unfollow(fields)
                    return None
                case _:
                    raise RpcError(METHOD_NOT_FOUND, f"There is no method {method!r}.")
        except RpcError:
            raise
        except RookeryError as error:
            raise RpcError(code_of(error), str(error)) from error

    async def hear(self, method: str, params: Params) -> None:
        """Whoever does not care about the answer may leave out the number."""
        await self.answer(method, params)

    def _follow(self, fields: Mapping[str, Any]) -> object:
        task_id, after = fields.get("task_id"), fields.get("after", 0)
        manner = fields.get("as", AS_EVENTS)
        if not isinstance(task_id, str) or manner not in (AS_EVENTS, AS_VIEW):
            raise RpcError(INVALID_PARAMS, 'follow takes a task_id, and as "events" or "view".')
        if type(after) is not int or not 0 <= after <= LARGEST_NUMBER:
            raise RpcError(INVALID_PARAMS, "after is the number of an event, or 0.")
        self._check_number(manner)
        resume = partial(self._host.follow, task_id)
        events = resume(0 if manner == AS_VIEW else after)
        relay = (
            partial(relay_view, events=events)
            if manner == AS_VIEW
            else partial(relay_events, resume=resume, events=events, after=after)
        )
        follow_id = self._follows.begin(self.peer, relay)
        if manner == AS_VIEW:
            self._views.add(follow_id)
        return {"follow_id": follow_id}

    def _check_number(self, manner: str) -> None:
        self._follows.check_room()
        self._views = {each for each in self._views if each in self._follows}
        if manner == AS_VIEW and len(self._views) >= VIEWS_AT_ONCE:
            raise RpcError(REFUSED, f"That is more than {VIEWS_AT_ONCE} views; end some first.")

    def _unfollow(self, fields: Mapping[str, Any]) -> None:
        follow_id = fields.get("follow_id")
        if type(follow_id) is not int:
            raise RpcError(INVALID_PARAMS, "unfollow takes a follow_id.")
        self._follows.end(follow_id)


def check_fields(
    method: str, fields: Mapping[str, Any], takes: Mapping[str, Sequence[str]]
) -> None:
    """Refused if a method is given a field that it does not take."""
    if method in takes and (unknown := unknown_field(fields, takes[method])):
        raise RpcError(INVALID_PARAMS, f"{method} {unknown} Nothing was done.")


def named(params: Params) -> dict[str, Any]:
    if isinstance(params, list):
        raise RpcError(INVALID_PARAMS, "Parameters are given by name, in an object.")
    return params or {}


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
