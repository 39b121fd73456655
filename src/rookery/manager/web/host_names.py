"""The names under which the server is reached. A request that uses any other name was sent here
by somebody who made their own name point to this machine."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

_USUAL_PORTS = {"http": 80, "https": 443}


class Door(Struct, frozen=True):
    """One name, as browsers put it into `Host`, and the origin of the pages it shows."""

    host: str
    origin: str
    outside: bool = False
    """Whoever comes through it is on another machine, and needs to be a paired device."""


class Doors:
    """Those of one listening socket."""

    def __init__(self, doors: Iterable[Door]) -> None:
        self._by_host = {door.host: door for door in doors}

    def __iter__(self) -> Iterator[Door]:
        return iter(self._by_host.values())

    def named(self, host: str) -> Door | None:
        return self._by_host.get(host.lower())

    @property
    def outside(self) -> Door | None:
        return next((door for door in self if door.outside), None)

    def of_page(self, origin: str) -> Door | None:
        """The one whose page says that it sends the request."""
        return next((door for door in self if door.origin == origin), None)


def doors_at(scheme: str, names: Iterable[str], port: int, *, outside: bool = False) -> list[Door]:
    """Browsers leave out the usual port of a scheme."""
    usual = port == _USUAL_PORTS[scheme]
    doors = []
    for name in map(bracketed, names):
        host = f"{name}:{port}".lower()
        origin = f"{scheme}://{name.lower() if usual else host}"
        doors.append(Door(host, origin, outside))
        if usual:
            doors.append(Door(name.lower(), origin, outside))
    return doors


def bracketed(name: str) -> str:
    """An address as it stands in a URL."""
    return f"[{name}]" if ":" in name else name
