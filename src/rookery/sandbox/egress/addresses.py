"""Where names lead, and whether a command may be led there."""

import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TypeAlias

import anyio

from rookery.core.hosts import Host, is_public
from rookery.platform.http_proxy import OutOfReach

Find: TypeAlias = Callable[[Host, bool], Awaitable[list[str]]]
"""From a host, and whether it may lie in a private network, to the addresses to connect to."""

LOOPBACK_ADDRESSES = {"localhost": ["127.0.0.1", "::1"]}


async def find_addresses(wanted: Host, private: bool) -> list[str]:
    """Raises `OutOfReach` if a name leads where it should not, `OSError` if it leads nowhere."""
    if wanted.is_address:
        return [wanted.name]
    if wanted.is_loopback:
        return LOOPBACK_ADDRESSES[wanted.name]
    found = await anyio.getaddrinfo(wanted.name, wanted.port, type=socket.SOCK_STREAM)
    addresses = [str(where[0]).partition("%")[0] for *_, where in found]
    check_addresses(wanted, addresses, private=private)
    return addresses


def check_addresses(wanted: Host, addresses: list[str], *, private: bool) -> None:
    """A name that is in your own configuration may lead to your own network, and no name to this
    machine."""
    for address in addresses:
        if is_public(address):
            continue
        if not private:
            raise OutOfReach(
                f"{wanted.name} resolves to a private address. If that is intended, add {wanted} "
                "to sandbox.hosts in your settings."
            )
        if _never_by_name(address):
            raise OutOfReach(f"{wanted.name} resolves to {address}, which is always blocked.")


def _never_by_name(address: str) -> bool:
    found = ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None) or found
    return bool(
        mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified or mapped.is_multicast
    )
