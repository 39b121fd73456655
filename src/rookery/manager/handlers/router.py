"""Where all requests arrive, from the page, from `rookery sessions` and from programs."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from rookery.core.queries import Asking
from rookery.errors import CommandRejected
from rookery.manager.request_json import kind_of_request

T = TypeVar("T")

Handlers: TypeAlias = Mapping[type[Any], Callable[[Any], Awaitable[Any]]]


class Family(Protocol):
    """Some requests that belong together, and what carries each out."""

    @property
    def handlers(self) -> Handlers: ...


class Desk:
    def __init__(self, families: Iterable[Family]) -> None:
        self._handlers: dict[type[Any], Callable[[Any], Awaitable[Any]]] = {}
        for family in families:
            self._handlers.update(family.handlers)

    @property
    def requests(self) -> frozenset[type[Any]]:
        return frozenset(self._handlers)

    async def do(self, request: Asking[T]) -> T:
        """Raises `RookeryError`, and then nothing was changed."""
        handler = self._handlers.get(type(request))
        if handler is None:
            raise CommandRejected(f"{kind_of_request(request)} cannot be done here.")
        return cast(T, await handler(request))
