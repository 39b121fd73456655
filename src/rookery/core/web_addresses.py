"""Addresses of web pages: which are understood, and which are never opened.

Only addresses are taken that cannot be read in two ways, so that what a person is shown is where
a browser goes.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from msgspec import Struct

LONGEST_ADDRESS = 4000
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
"""The names by which this machine may be meant. Names that merely lead to it are not among them."""

_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z][a-z0-9-]{0,62}")
_WITHHELD_NAMES = ("metadata.google.internal", "metadata.goog", "metadata")
_EMBEDDING = ip_network("64:ff9b::/96")
"""Where translators put IPv4 addresses."""
_WITHHELD = (
    ip_network("168.63.129.16/32"),  # where machines of a data centre are told about themselves
    ip_network("::/96"),  # how IPv4 addresses were once written
    ip_network("64:ff9b:1::/48"),  # translators of a network's own
    ip_network("fec0::/10"),  # what networks once called their own
)


class WebAddress(Struct, frozen=True):
    """`host` is in lower case, and without brackets if it is an IPv6 address."""

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
    """Raises `ValueError` with a sentence if this is no address of a web page."""
    if not said.isascii() or not said.isprintable() or set(said) & set(' \\"<>^`{|}'):
        raise ValueError("An address holds no blanks, backslashes or letters beyond ASCII.")
    if len(said) > LONGEST_ADDRESS:
        raise ValueError(f"An address has at most {LONGEST_ADDRESS} characters.")
    try:
        parts = urlsplit(said)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"This is no address ({error}).") from error
    if parts.scheme not in _PORTS or not said[len(parts.scheme) :].startswith("://"):
        raise ValueError("Only addresses that begin with http:// or https:// are opened.")
    if "@" in parts.netloc:
        raise ValueError("An address with a user name or password is not opened.")
    host = parts.hostname or ""
    if not is_plain_host(host):
        raise ValueError("The host is no name and no IP address as they are usually written.")
    return WebAddress(said, parts.scheme, host, port or _PORTS[parts.scheme])


def origin_of(url: str) -> str:
    """The origin of a page; nothing if it is no web page that we would open."""
    try:
        return web_address(url).origin
    except ValueError:
        return ""


def is_plain_host(host: str) -> bool:
    """A name whose last part begins with a letter, or an IP address in its usual form."""
    try:
        return str(ip_address(host)) == host and "%" not in host
    except ValueError:
        return _NAME.fullmatch(host) is not None


def is_withheld_name(host: str) -> bool:
    """Names by which machines in a data centre are told their own keys."""
    return host in _WITHHELD_NAMES


def is_private_literal(host: str) -> bool:
    try:
        return not is_public(host)
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet's, however it is written or wrapped."""
    found = ip_address(address)
    inner = None if isinstance(found, IPv4Address) else _embedded(found)
    return _is_global(found if inner is None else inner)


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    withheld = any(address in network for network in _WITHHELD)
    return address.is_global and not address.is_multicast and not withheld


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address in _EMBEDDING:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo
