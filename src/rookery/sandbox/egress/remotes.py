"""The repository's own remotes, as they are when a session starts.

Git's configuration is read once: what a command writes into it later does not count.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from rookery.core.hosts import WEB_PORTS, Entry, host

_SECTION = re.compile(r'\s*\[\s*(remote|submodule)\s+"(.*)"\s*\]', re.IGNORECASE)
_ADDRESS = re.compile(r"\s*(?:url|pushurl)\s*=\s*(.+)", re.IGNORECASE)
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]+)", re.IGNORECASE)
_SCP = re.compile(r"(?:[^@/:]+@)?([^@/:\[\]]+|\[[0-9a-f:]+\]):(?!//)")
_PORTS = {"http": (80,), "https": (443,), "git": (9418,)}
_BY_SSH = (22, WEB_PORTS[1])
"""The same repository is often fetched by https, without keys."""


class Remotes(Struct, frozen=True, kw_only=True):
    names: tuple[str, ...] = ()
    hosts: tuple[Entry, ...] = ()


def remotes(config: str) -> Remotes:
    """What a repository's own configuration names."""
    found = list(_addresses(config))
    hosts = (each for _, address in found if (each := remote_host(address)))
    names = dict.fromkeys(name for name, _ in found)
    return Remotes(names=tuple(names), hosts=tuple(dict.fromkeys(hosts)))


def remote_host(address: str) -> Entry | None:
    """The host of an address as git knows them; None for a folder."""
    if url := _URL.match(address):
        name, _, port = url[2].rpartition("@")[2].partition(":")
        ports = (int(port),) if port.isdecimal() else _PORTS.get(url[1].lower(), _BY_SSH)
    elif found := _SCP.match(address):
        name, ports = found[1], _BY_SSH
    else:
        return None
    plain = host(name, ports[0])
    return Entry(plain.name, ports) if plain and not plain.is_loopback else None


def _addresses(text: str) -> Iterator[tuple[str, str]]:
    name = ""
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            section = _SECTION.match(line)
            name = section[2] if section else ""
        elif name and (found := _ADDRESS.match(line)):
            yield name, found[1].strip().strip('"')
