"""Where the server listens: command line options, sockets and certificates.

Other machines can connect only if the user chose how to protect the connections: with their own
certificate, with a generated one, or unencrypted in a network they trust.
"""

import errno
import hashlib
import ipaddress
import os
import re
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.errors import SettingsError
from rookery.platform.disk import private_folder, put
from rookery.platform.own_programs import run_program

_DAYS = 397
"""Validity of a generated certificate; some phones reject longer ones."""
_DAYS_USED = 300
LOOPBACK, LOOPBACK_6 = "127.0.0.1", "::1"
_TRIES = 20
_BACKLOG = 1024
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
_TUNNEL = re.compile(r"https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?")
_PROTECTIONS = "--tls, or --tls-cert and --tls-key"


class Certificate(Struct, frozen=True):
    certificate: Path
    key: Path
    self_signed: bool = False

    @property
    def fingerprint(self) -> str:
        """SHA-256 fingerprint, as browsers show it."""
        digest = hashlib.sha256(_first_certificate(self.certificate)).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))

    def context(self) -> ssl.SSLContext:
        """Load the certificate. Raises `SettingsError` if it cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{self.certificate} and {self.key} are not a certificate and its key ({error})."
            ) from error
        return context


class Address(Struct, frozen=True):
    """An address of this machine, with the name the user gave for it."""

    name: str
    address: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.name, self.address)))


class ListenPlan(Struct, frozen=True, kw_only=True):
    """Where the server can be reached: without `address` or `tunnel` only from this machine."""

    port: int = 0
    """0 for any free one."""
    may_move: bool = False
    """Whether to use one of the next ports if it is taken."""
    address: Address | None = None
    certificate: Certificate | None = None
    """Without one, traffic to `address` is not encrypted."""
    tunnel: str = ""
    """Origin of pages served through the tunnel, such as https://name."""

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"


class ListenOptions(Struct, frozen=True, kw_only=True):
    """Command line options."""

    port: int | None = None
    """None for the user's own port."""
    host: str = ""
    tls: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_tunnel: str = ""
    plain_text: bool = False

    @property
    def is_special(self) -> bool:
        """Whether it names an address, which a running server cannot change."""
        return bool(self.host or self.behind_tunnel) or self.port is not None

    @property
    def _protections(self) -> int:
        return sum((self.tls, bool(self.tls_cert or self.tls_key), self.plain_text))

    def plan(self, certificates: Path, own_port: int = 0) -> ListenPlan:
        """Check the options and build the plan. Raises `SettingsError` if they do not name
        exactly one protection. Generated certificates are stored in the folder `certificates`."""
        self._check()
        plan = ListenPlan(port=own_port, may_move=bool(own_port))
        if self.port is not None:
            plan = ListenPlan(port=self.port)
        if self.behind_tunnel:
            return replace(plan, tunnel=_origin(self.behind_tunnel))
        address = address_of(self.host) if self.host else None
        if not address:
            return plan
        if not self._protections:
            raise SettingsError(
                f"--host {self.host} lets other machines reach the manager. Without encryption, "
                f"anyone in the network could take it over. Add {_PROTECTIONS}, or use "
                "--behind-tunnel. In a network you trust, use --plain-text."
            )
        certificate = None if self.plain_text else self._certificate(certificates, address)
        return replace(plan, address=address, certificate=certificate)

    def _check(self) -> None:
        if self._protections > 1:
            raise SettingsError(f"Give one of {_PROTECTIONS}, or --plain-text.")
        if self._protections and not self.host:
            raise SettingsError(
                "Encryption options need --host: this machine's own address needs none."
            )
        if self.host and self.behind_tunnel:
            raise SettingsError(
                "A tunnel uses this machine's address. Give --host or --behind-tunnel, not both."
            )

    def _certificate(self, certificates: Path, address: Address) -> Certificate:
        if self.tls:
            return self_signed(certificates, address)
        if not (self.tls_cert and self.tls_key):
            raise SettingsError("Give both --tls-cert and --tls-key.")
        return Certificate(self.tls_cert, self.tls_key)


class Sockets(Struct, frozen=True):
    port: int
    inside: tuple[socket.socket, ...]
    outside: socket.socket | None
    all: ExitStack


class _NoSuchAddress(Exception):
    """The machine has no such address."""


@contextmanager
def sockets_at(plan: ListenPlan) -> Iterator[Sockets]:
    """Listen on all addresses at one port, which is free on all of them."""
    moves = plan.may_move or not plan.port
    for more in range(_TRIES):
        opened = _open(plan.port + more if plan.port else 0, plan.address, moves=moves)
        if opened:
            break
    else:
        raise SettingsError("No port is free at all addresses. Give one with --port.")
    try:
        yield opened
    finally:
        opened.all.close()


def address_of(name: str) -> Address | None:
    """Resolve `--host`; None for a loopback address, where the server listens anyway. Raises
    `SettingsError`."""
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"--host: cannot resolve {name}.") from error
    address = ipaddress.ip_address(str(found[0][4][0]).partition("%")[0])
    if address.is_unspecified:
        raise SettingsError(
            f"--host {name} would open the manager to every network of this machine. "
            "Give one address, such as 192.168.1.5."
        )
    return None if address.is_loopback else Address(name.lower(), str(address))


def self_signed(folder: Path, address: Address) -> Certificate:
    """The generated certificate for this address, in a private file; created or renewed if
    needed."""
    name = hashlib.sha256(" ".join(address.names).encode()).hexdigest()[:16]
    path = private_folder(folder) / f"{name}.pem"
    if not _is_recent(path):
        put(path, [_created_certificate(folder, address)])
    return Certificate(path, path, self_signed=True)


def _is_recent(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < _DAYS_USED * 24 * 3600
    except OSError:
        return False


def _first_certificate(path: Path) -> bytes:
    text = path.read_text(encoding="ascii", errors="replace")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    body = text[text.index(begin) :]
    return ssl.PEM_cert_to_DER_cert(body[: body.index(end) + len(end)])


def _no_password() -> str:
    raise ValueError("the key has a password; use a key without one")


def _created_certificate(folder: Path, address: Address) -> bytes:
    kinds = [f"{'IP' if _is_address(each) else 'DNS'}:{each}" for each in address.names]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        key, certificate = Path(place) / "key", Path(place) / "certificate"
        command = [
            *("openssl", "req", "-x509", "-nodes", "-days", str(_DAYS), "-subj", f"/CN={NAME}"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", f"subjectAltName={','.join(kinds)}"),
            *("-addext", "extendedKeyUsage=serverAuth"),
            *("-keyout", str(key), "-out", str(certificate)),
        ]
        try:
            path = {"PATH": os.environ.get("PATH", "")}
            if run_program(command, cwd=place, environment=path, seconds=60).status:
                raise OSError("openssl failed")
        except OSError as error:
            raise SettingsError(
                "Cannot make a certificate. Install the program openssl, or give --tls-cert and "
                "--tls-key."
            ) from error
        return key.read_bytes() + certificate.read_bytes()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _open(port: int, outside: Address | None, *, moves: bool) -> Sockets | None:
    """Open the sockets; None if another port should be tried."""
    with ExitStack() as stack:
        try:
            first = stack.enter_context(_listener(LOOPBACK, port))
            found, inside = int(first.getsockname()[1]), [first]
            with suppress(_NoSuchAddress):
                inside.append(stack.enter_context(_listener(LOOPBACK_6, found)))
            other = stack.enter_context(_listener(outside.address, found)) if outside else None
        except _NoSuchAddress as error:
            raise SettingsError(f"--host: {error} is not an address of this machine.") from error
        except OSError as error:
            if moves and error.errno == errno.EADDRINUSE:
                return None
            raise SettingsError(
                f"Cannot listen on port {port} ({error.strerror or error}). Give another "
                "with --port, or 0 for any free one."
            ) from error
        return Sockets(found, tuple(inside), other, stack.pop_all())


def _listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        # asyncio sets TCP_NODELAY only if the protocol is IPPROTO_TCP
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _NoSuchAddress(address) from error
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
            raise _NoSuchAddress(address) from error
        raise
    return listener


def _origin(said: str) -> str:
    origin = said.lower().rstrip("/")
    if not _TUNNEL.fullmatch(origin):
        raise SettingsError(
            "--behind-tunnel needs the address of the tunnel, such as "
            "https://name.example, without a path. It must begin with https."
        )
    return origin.removesuffix(":443")
