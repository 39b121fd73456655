"""The sockets that the server listens at: this machine's own addresses, and one more if the user
names one."""

import errno
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from rookery.errors import SettingsError

LOOPBACK, LOOPBACK_6 = "127.0.0.1", "::1"
_TRIES = 20
_BACKLOG = 1024
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)


class Address(Struct, frozen=True):
    """One of this machine, by the name that the user gave it."""

    name: str
    address: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.name, self.address)))


class Sockets(Struct, frozen=True):
    port: int
    inside: tuple[socket.socket, ...]
    outside: socket.socket | None = None


def address_of(name: str) -> Address | None:
    """The address that is meant by `--host`; None if it is this machine's own, where the server
    is anyway. Raises `SettingsError`."""
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"--host: nobody knows the address of {name}.") from error
    address = ipaddress.ip_address(str(found[0][4][0]).partition("%")[0])
    if address.is_unspecified:
        raise SettingsError(
            f"--host {name} would open the manager to every network that this machine is in. Name "
            "the one address to use, such as 192.168.1.5."
        )
    return None if address.is_loopback else Address(name.lower(), str(address))


@contextmanager
def sockets_at(port: int, outside: Address | None) -> Iterator[Sockets]:
    """All at the same port; 0 takes any that is free everywhere."""
    for _ in range(_TRIES):
        opened = _opened(port, outside)
        if opened:
            break
    else:
        raise SettingsError("No port is free at all addresses. Name one with --port.")
    try:
        yield opened
    finally:
        for each in (*opened.inside, opened.outside):
            if each:
                each.close()


def _opened(port: int, outside: Address | None) -> Sockets | None:
    """None if another port should be tried."""
    there: list[socket.socket] = []
    try:
        there.append(_listener(LOOPBACK, port))
        found = int(there[0].getsockname()[1])
        with suppress(_NotHere):
            there.append(_listener(LOOPBACK_6, found))
        inside = tuple(there)
        if outside:
            there.append(_listener(outside.address, found))
        return Sockets(found, inside, there[-1] if outside else None)
    except _NotHere as error:
        _close(there)
        raise SettingsError(f"--host: {error} is no address of this machine.") from error
    except OSError as error:
        _close(there)
        if port == 0 and error.errno == errno.EADDRINUSE:
            return None
        raise SettingsError(
            f"Nobody can listen at port {port} ({error.strerror or error}). Name another with "
            "--port, or 0 for any that is free."
        ) from error


class _NotHere(Exception):
    """The machine has no such address."""


def _listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        # only of a socket that says so is it known that small pieces need not wait for others
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _NotHere(address) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno in _NO_SUCH_ADDRESS:
            raise _NotHere(address) from error
        raise
    return listener


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()
