"""Where the server may be reached from, as the user asks for it. Other machines are let near only
when it is said how their connections are kept from others."""

import re
from pathlib import Path

from msgspec import Struct

from rookery.errors import SettingsError
from rookery.manager.web.certificates import Certificate, self_made
from rookery.manager.web.listen_sockets import Address, address_of
from rookery.manager.web.web_server import Plan, WebServer

_TUNNEL = re.compile(r"https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?")
_PROTECTIONS = "--tls, or --tls-cert and --tls-key"


class Reach(Struct, frozen=True, kw_only=True):
    """What the flags say."""

    port: int = 0
    host: str = ""
    tls: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_tunnel: str = ""
    plain_text: bool = False

    @property
    def _ways(self) -> int:
        return sum((self.tls, bool(self.tls_cert or self.tls_key), self.plain_text))

    def plan(self, certificates: Path) -> Plan:
        """Raises `SettingsError` if it is not said how, or in several ways. Certificates that are
        made here are kept in the folder."""
        self._check()
        if self.behind_tunnel:
            return Plan(port=self.port, tunnel=_origin(self.behind_tunnel))
        address = address_of(self.host) if self.host else None
        if not address:
            return Plan(port=self.port)
        if not self._ways:
            raise SettingsError(
                f"--host {self.host} lets other machines reach the manager, and without encryption "
                f"whoever is in the network could read along and take it over. Add {_PROTECTIONS}; "
                "or use --behind-tunnel instead. --plain-text does without, in a network you trust."
            )
        certificate = None if self.plain_text else self._certificate(certificates, address)
        return Plan(port=self.port, address=address, certificate=certificate)

    def _check(self) -> None:
        if self._ways > 1:
            raise SettingsError(f"Give one of {_PROTECTIONS}, or --plain-text.")
        if self._ways and not self.host:
            raise SettingsError(
                "How connections are encrypted counts only with --host: this machine's own address "
                "needs nothing of it."
            )
        if self.host and self.behind_tunnel:
            raise SettingsError(
                "A tunnel ends at this machine's own address. Leave out --host, or --behind-tunnel."
            )

    def _certificate(self, certificates: Path, address: Address) -> Certificate:
        if self.tls:
            return self_made(certificates, address)
        if not (self.tls_cert and self.tls_key):
            raise SettingsError("Give both --tls-cert and --tls-key.")
        return Certificate(self.tls_cert, self.tls_key)


def _origin(said: str) -> str:
    origin = said.lower().rstrip("/")
    if not _TUNNEL.fullmatch(origin):
        raise SettingsError(
            "--behind-tunnel takes the address that the tunnel is reached at, such as "
            "https://name.example, without a path. It has to begin with https."
        )
    return origin.removesuffix(":443")


def told_plainly(plan: Plan, server: WebServer) -> list[str]:
    """What it means that other machines reach the server, if they do."""
    if plan.tunnel:
        return [
            f"Paired devices reach it at {server.outside_url}, through a tunnel that forwards to "
            f"{server.url}. Whoever runs the tunnel can read everything that passes."
        ]
    if not plan.address:
        return []
    if not plan.certificate:
        return [
            f"Paired devices reach it at {server.outside_url}. WARNING: nothing is encrypted. "
            "Whoever is in that network can read everything, and with what they read do everything "
            "that the device can do: run commands here as you."
        ]
    lines = [f"Paired devices reach it at {server.outside_url}, encrypted."]
    if plan.certificate.self_made:
        lines += [
            "The certificate was made here, so a browser warns of it once. Go on only if it shows "
            "this SHA-256 fingerprint:",
            plan.certificate.fingerprint,
        ]
    return lines
