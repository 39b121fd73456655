"""Hosts that commands may reach, as people write them and as a proxy is asked for them.

An entry is `example.com` (ports 80 and 443), `example.com:8443`, `*.example.com` (all names below
it) or an address with its port, such as `localhost:5432`.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from msgspec import Struct

from rookery.core.web_addresses import LOOPBACK, is_plain_host, is_private_literal

WEB_PORTS = (80, 443)
_ENTRY = re.compile(r"(\*\.)?(\[[0-9a-f:.]+\]|[^\[\]:/@\s*]+)(?::(\d{1,5}))?")


class Host(Struct, frozen=True):
    """A host and a port. `name` is in lower case and has no brackets."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.name in LOOPBACK

    @property
    def is_private(self) -> bool:
        """This machine, or an address that is not one of the internet's."""
        return self.is_loopback or is_private_literal(self.name)

    @property
    def is_address(self) -> bool:
        try:
            ip_address(self.name)
        except ValueError:
            return False
        return True


class Entry(Struct, frozen=True):
    """What one entry of a list allows. `below`: the names below this one, and not itself."""

    name: str
    ports: tuple[int, ...]
    below: bool = False

    def covers(self, host: Host) -> bool:
        if host.port not in self.ports:
            return False
        return host.name.endswith(f".{self.name}") if self.below else host.name == self.name


def host(name: str, port: int) -> Host | None:
    """None for what is no plain name and no address. A dot at the end means nothing."""
    plain = name.lower().removesuffix(".").removeprefix("[").removesuffix("]")
    known = is_plain_host(plain) and 0 < port < 65536
    return Host(plain, port) if known else None


def entry(text: str) -> Entry | None:
    """None for what is no entry. This machine and addresses need a port."""
    found = _ENTRY.fullmatch(text.strip().lower())
    if not found:
        return None
    below, name, port = found.groups()
    ports = (int(port),) if port else WEB_PORTS
    plain = host(name, ports[0])
    if plain is None or (not port and plain.is_private) or (below and plain.is_address):
        return None
    return Entry(plain.name, ports, below=bool(below))


def entries(texts: Iterable[str]) -> tuple[Entry, ...]:
    return tuple(found for text in texts if (found := entry(text)))


def faulty_entries(texts: Iterable[str]) -> list[str]:
    """A sentence for each text that is no entry."""
    return [
        f"'{text}' in sandbox.hosts is not a host. Write example.com, *.example.com or "
        "localhost:8080."
        for text in texts
        if entry(text) is None
    ]


def covered(wanted: Host, among: Iterable[Entry]) -> bool:
    return any(each.covers(wanted) for each in among)
