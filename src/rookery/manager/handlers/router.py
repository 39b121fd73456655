"""Dispatches requests of the page, `rookery sessions` and programs to their handlers.

As JSON a request is an object whose `kind` is the name of its class. `READ_ONLY` lists the requests
that change nothing; a read-only manager refuses all others.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, cast, get_args

import msgspec

from rookery.core.queries import Asking
from rookery.errors import CommandRejected
from rookery.first_use import prepared
from rookery.manager import list_requests, requests, schedule_requests
from rookery.manager.requests import REQUESTS
from rookery.protocol.codec import answer_to_json, given_fields, kind_of, read_request

T = TypeVar("T")

KINDS: dict[str, type[Any]] = {kind_of(cls): cls for cls in REQUESTS}


def kind_of_request(request: Asking[Any]) -> str:
    return kind_of(type(request))


def request_to_json(request: Asking[Any]) -> bytes:
    return answer_to_json({"kind": kind_of_request(request), **given_fields(request)})


def request_from_json(fields: dict[str, Any]) -> Asking[Any]:
    """Raises `CommandRejected` if the fields are not a valid request."""
    if "kind" not in fields:
        raise CommandRejected('A request needs a "kind", such as list_sessions. Nothing was done.')
    cls = KINDS.get(str(fields["kind"]))
    if cls is None:
        raise CommandRejected(f"No such request: {str(fields['kind'])[:80]!r}.")
    return cast(Asking[Any], read_request(fields, cls, "request"))


def reply_to_json(reply: object) -> bytes:
    return answer_to_json(reply)


def reply_from_json(request: Asking[T], data: object) -> T:
    """Convert decoded JSON to the request's reply type. Raises `ValueError`."""
    (asking,) = type(request).__orig_bases__  # type: ignore[attr-defined]
    try:
        return cast(T, msgspec.convert(data, prepared(get_args(asking)[0])))
    except msgspec.ValidationError as error:
        raise ValueError(
            f"The answer to {kind_of_request(request)} is malformed: {error}"
        ) from error


Handlers: TypeAlias = Mapping[type[Any], Callable[[Any], Awaitable[Any]]]
READ_ONLY: frozenset[type[Any]] = frozenset(
    (
        requests.ListSessions,
        requests.ListQuestions,
        requests.ExportSession,
        requests.ListModels,
        requests.ListModes,
        requests.ListBranches,
        requests.FindPaths,
        requests.ListWorktrees,
        requests.ReadStats,
        requests.ListImportable,
        requests.ListKept,
        requests.ListScripts,
        requests.ReadScriptLog,
        requests.ListEditors,
        requests.ReadPullRequest,
        requests.ReviewChanges,
        requests.ReadDiff,
        requests.CompareVersions,
        requests.ListIntents,
        requests.ReadTrace,
        requests.BlameFile,
        requests.ReadSettings,
        requests.ListDevices,
        list_requests.SearchSessions,
        list_requests.ListCommands,
        list_requests.ListIssues,
        list_requests.ReadCosts,
        schedule_requests.ListSchedules,
        list_requests.ListFleet,
    )
)
"""Requests that need neither a session's process nor write access."""


class Handler(Protocol):
    """A group of related requests with the function that handles each."""

    @property
    def handlers(self) -> Handlers: ...


class Router:
    def __init__(
        self,
        handlers: Iterable[Handler],
        ensure_supervised: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        """`ensure_supervised` makes sure that the manager supervises the session of a request."""
        self._take_over = ensure_supervised
        self._handlers: dict[type[Any], Callable[[Any], Awaitable[Any]]] = {}
        for handler in handlers:
            self._handlers.update(handler.handlers)

    @property
    def requests(self) -> frozenset[type[Any]]:
        """Those that clients can send."""
        return frozenset(self._handlers) & frozenset(REQUESTS)

    async def do(self, request: Asking[T]) -> T:
        """Handle a request. Raises `RookeryError` if it fails; then nothing was changed."""
        handler = self._handlers.get(type(request))
        if handler is None:
            raise CommandRejected(f"{kind_of_request(request)} is not available here.")
        if self._take_over and (session_id := getattr(request, "session_id", "")):
            await self._take_over(session_id)
        return cast(T, await handler(request))


class ReadOnlyHandlers:
    """Wraps handlers so that requests that change something are refused, with the reason."""

    def __init__(self, handlers: Iterable[Handler], reason: str) -> None:
        self._wrapped = tuple(handlers)
        self._reason = reason

    @property
    def handlers(self) -> Handlers:
        known = {kind: do for each in self._wrapped for kind, do in each.handlers.items()}
        return {kind: do if kind in READ_ONLY else self._refuse for kind, do in known.items()}

    async def _refuse(self, request: Any) -> NoReturn:
        raise CommandRejected(self._reason)
