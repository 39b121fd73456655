"""Dispatches requests to their handlers: from the page, `rookery sessions` and programs.

`LOOKING` names the requests that change nothing; a read-only manager refuses all others.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, cast

from rookery.core.queries import Asking
from rookery.errors import CommandRejected
from rookery.manager import requests as asked
from rookery.manager.request_json import kind_of_request

T = TypeVar("T")
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
        asked.ListWorktrees,
        asked.ReadStats,
        asked.ListImportable,
        asked.ListKept,
        asked.ListScripts,
        asked.ReviewChanges,
        asked.ReadDiff,
        asked.CompareVersions,
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
    def __init__(self, handlers: Iterable[Handler]) -> None:
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
            raise CommandRejected(f"{kind_of_request(request)} cannot be done here.")
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
