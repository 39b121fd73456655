"""Dispatches requests to their handlers: from the page, `rookery sessions` and programs. As JSON a
request is an object whose `kind` is the name of its class.

`LOOKING` names the requests that change nothing; a read-only manager refuses all others.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, cast, get_args

import msgspec

from rookery.core.queries import Asking
from rookery.errors import CommandRejected
from rookery.manager import requests as asked
from rookery.manager import worktree_requests as trees
from rookery.manager.requests import (
    REQUESTS,
)
from rookery.protocol.codec import answer_to_json, kind_of, read_request, said_in

T = TypeVar("T")

KINDS: dict[str, type[Any]] = {kind_of(cls): cls for cls in REQUESTS}


def kind_of_request(request: Asking[Any]) -> str:
    return kind_of(type(request))


def request_to_json(request: Asking[Any]) -> bytes:
    return answer_to_json({"kind": kind_of_request(request), **said_in(request)})


def request_from_json(fields: dict[str, Any]) -> Asking[Any]:
    """Refused with the reason if it is none."""
    if "kind" not in fields:
        raise CommandRejected('A request needs a "kind", such as list_sessions. Nothing was done.')
    cls = KINDS.get(str(fields["kind"]))
    if cls is None:
        raise CommandRejected(f"No such request: {str(fields['kind'])[:80]!r}.")
    return cast(Asking[Any], read_request(fields, cls, "request"))


def reply_to_json(reply: object) -> bytes:
    return answer_to_json(reply)


def reply_from_json(request: Asking[T], said: object) -> T:
    """What a request was answered with, out of decoded JSON. Raises `ValueError`."""
    (asking,) = type(request).__orig_bases__  # type: ignore[attr-defined]
    try:
        return cast(T, msgspec.convert(said, get_args(asking)[0]))
    except msgspec.ValidationError as error:
        raise ValueError(
            f"The answer to {kind_of_request(request)} is malformed: {error}"
        ) from error


Handlers: TypeAlias = Mapping[type[Any], Callable[[Any], Awaitable[Any]]]
LOOKING: frozenset[type[Any]] = frozenset(
    (
        asked.ListSessions,
        asked.ListQuestions,
        asked.ExportSession,
        asked.ListModels,
        asked.ListModes,
        asked.ListBranches,
        asked.FindPaths,
        trees.ListWorktrees,
        trees.ReadStats,
        trees.ListImportable,
        trees.ListKept,
        trees.ListScripts,
        trees.ReviewChanges,
        trees.ReadDiff,
        trees.CompareVersions,
        asked.ListIntents,
        asked.ReadTrace,
        asked.BlameFile,
        asked.ReadSettings,
        asked.ListDevices,
    )
)
"""What needs neither the sessions' processes nor a place to write to."""


class Handler(Protocol):
    """Some requests that belong together, and what carries each out."""

    @property
    def handlers(self) -> Handlers: ...


class Router:
    def __init__(
        self,
        handlers: Iterable[Handler],
        take_over: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        """`take_over` makes sure that a session can be acted on."""
        self._take_over = take_over
        self._handlers: dict[type[Any], Callable[[Any], Awaitable[Any]]] = {}
        for handler in handlers:
            self._handlers.update(handler.handlers)

    @property
    def requests(self) -> frozenset[type[Any]]:
        return frozenset(self._handlers)

    async def do(self, request: Asking[T]) -> T:
        """Raises `RookeryError`, and then nothing was changed."""
        handler = self._handlers.get(type(request))
        if handler is None:
            raise CommandRejected(f"{kind_of_request(request)} is not available here.")
        if self._take_over and (session_id := getattr(request, "session_id", "")):
            await self._take_over(session_id)
        return cast(T, await handler(request))


class LookingOnly:
    """Instead of some handlers, with the reason why nothing can be changed."""

    def __init__(self, handlers: Iterable[Handler], why: str) -> None:
        self._wrapped = tuple(handlers)
        self._why = why

    @property
    def handlers(self) -> Handlers:
        known = {kind: do for each in self._wrapped for kind, do in each.handlers.items()}
        return {kind: do if kind in LOOKING else self._refuse for kind, do in known.items()}

    async def _refuse(self, request: Any) -> NoReturn:
        raise CommandRejected(self._why)
