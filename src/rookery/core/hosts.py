"""Web addresses and hosts: parsing, addresses that are never opened, and entries of allow lists.

Addresses that could be read in two ways are rejected, so that a browser opens what the user was
shown. An entry is `example.com` (ports 80 and 443), `example.com:8443`, `*.example.com` (all
subdomains) or an address with its port, such as `localhost:5432`.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from msgspec import Struct

from rookery.first_use import lazy_pattern

LONGEST_ADDRESS = 4000
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
"""Names of this machine. Names that merely resolve to it are not included."""

_PORTS = {"http": 80, "https": 443}
_NAME = lazy_pattern(
    r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z][a-z0-9-]{0,62}"
)
_WITHHELD_NAMES = (
    *("metadata.google.internal", "metadata.goog", "metadata"),
    *("instance-data", "instance-data.ec2.internal"),
)
_EMBEDDING = ip_network("64:ff9b::/96")
"""IPv6 prefix with embedded IPv4 addresses (NAT64)."""
_WITHHELD = (
    ip_network("168.63.129.16/32"),  # the metadata service of Azure
    ip_network("::/96"),  # how IPv4 addresses were once written
    ip_network("64:ff9b:1::/48"),  # translators of a network's own
    ip_network("fec0::/10"),  # what networks once called their own
    ip_network("::ffff:0:0:0/96"),  # IPv4 addresses for translators that keep no state
    ip_network("192.0.0.0/24"),  # protocols of the network
    ip_network("192.88.99.0/24"),  # relays to IPv6
    ip_network("3fff::/20"),  # documentation
    ip_network("5f00::/16"),  # routes inside a network
)

WEB_PORTS = (80, 443)
_ENTRY = lazy_pattern(r"(\*\.)?(\[[0-9a-f:.]+\]|[^\[\]:/@\s*]+)(?::(\d{1,5}))?")


class WebAddress(Struct, frozen=True):
    """`host` is in lower case, and without brackets for IPv6."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{name}{port}"

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK


def web_address(said: str) -> WebAddress:
    """Parse the address of a web page. Raises `ValueError` with a sentence."""
    if not said.isascii() or not said.isprintable() or set(said) & set(' \\"<>^`{|}'):
        raise ValueError(
            "An address must not contain blanks, backslashes or characters beyond ASCII."
        )
    if len(said) > LONGEST_ADDRESS:
        raise ValueError(f"An address can have at most {LONGEST_ADDRESS} characters.")
    try:
        parts = urlsplit(said)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"This is not an address ({error}).") from error
    if parts.scheme not in _PORTS or not said[len(parts.scheme) :].startswith("://"):
        raise ValueError("Only http:// and https:// addresses can be opened.")
    if "@" in parts.netloc:
        raise ValueError("Addresses with a user name or password cannot be opened.")
    host = parts.hostname or ""
    if not is_plain_host(host):
        raise ValueError("The host is not a usual name or IP address.")
    if port == 0:
        raise ValueError("Port 0 cannot be opened.")
    return WebAddress(said, parts.scheme, host, port or _PORTS[parts.scheme])


def origin_of(url: str) -> str:
    """The origin of a page; empty if it is not a web page that can be opened."""
    try:
        return web_address(url).origin
    except ValueError:
        return ""


def is_plain_host(host: str) -> bool:
    """Whether it is a name whose last label starts with a letter, or an IP address in its usual
    form."""
    try:
        return str(ip_address(host)) == host and "%" not in host
    except ValueError:
        return _NAME.fullmatch(host) is not None


def is_withheld_name(host: str) -> bool:
    """Names of cloud metadata services, which hand out keys."""
    return host in _WITHHELD_NAMES


def is_private_literal(host: str) -> bool:
    try:
        return not is_public(host)
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether an IP address is public, also if it is embedded in another."""
    found = ip_address(address)
    inner = None if isinstance(found, IPv4Address) else _embedded(found)
    return _is_global(found if inner is None else inner)


def is_always_blocked(address: str) -> bool:
    """Whether no name may resolve to this address, not even one that the user listed."""
    found = ip_address(address)
    inner = found if isinstance(found, IPv4Address) else _embedded(found) or found
    return inner.is_loopback or inner.is_link_local or inner.is_unspecified or inner.is_multicast


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    withheld = any(address in network for network in _WITHHELD)
    return address.is_global and not address.is_multicast and not withheld


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address in _EMBEDDING:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo


class HostPort(Struct, frozen=True):
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
        """Whether it is this machine or a non-public address."""
        return self.is_loopback or is_private_literal(self.name)

    @property
    def is_address(self) -> bool:
        try:
            ip_address(self.name)
        except ValueError:
            return False
        return True


class Entry(Struct, frozen=True):
    """What one entry of an allow list matches. `below`: subdomains only."""

    name: str
    ports: tuple[int, ...]
    below: bool = False

    def covers(self, host: HostPort) -> bool:
        if host.port not in self.ports:
            return False
        return host.name.endswith(f".{self.name}") if self.below else host.name == self.name


def host(name: str, port: int) -> HostPort | None:
    """None if it is neither a plain name nor an address. A trailing dot is ignored."""
    plain = name.lower().removesuffix(".").removeprefix("[").removesuffix("]")
    known = is_plain_host(plain) and 0 < port < 65536
    return HostPort(plain, port) if known else None


def entry(text: str) -> Entry | None:
    """None if it is not a valid entry. This machine and IP addresses need a port."""
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


def faulty_entries(texts: Iterable[str], setting: str = "sandbox.hosts") -> list[str]:
    """A sentence for each invalid entry."""
    return [
        f"'{text}' in {setting} is not a host. Write example.com, *.example.com or localhost:8080."
        for text in texts
        if entry(text) is None
    ]


def covered(wanted: HostPort, among: Iterable[Entry]) -> bool:
    return any(each.covers(wanted) for each in among)
