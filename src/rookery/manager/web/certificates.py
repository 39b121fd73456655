"""Certificates for connections from other machines: the user's own, or one that is made here."""

import hashlib
import ipaddress
import os
import ssl
import time
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from rookery import NAME
from rookery.errors import SettingsError
from rookery.manager.web.listen_sockets import Address
from rookery.platform.disk import private_folder, put

_DAYS = 397
"""Longer ones are not taken by all phones."""
_DAYS_USED = 300


class Certificate(Struct, frozen=True):
    certificate: Path
    key: Path
    self_made: bool = False

    @property
    def fingerprint(self) -> str:
        """As browsers show it."""
        digest = hashlib.sha256(_first_in(self.certificate)).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))

    def context(self) -> ssl.SSLContext:
        """Raises `SettingsError` if it cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{self.certificate} and {self.key} are no certificate and its key ({error})."
            ) from error
        return context


def self_made(folder: Path, address: Address) -> Certificate:
    """The one that was made for this address before, or a new one, in a file of its own that
    nobody else can read."""
    name = hashlib.sha256(" ".join(address.names).encode()).hexdigest()[:16]
    path = private_folder(folder) / f"{name}.pem"
    if not _is_young(path):
        make = _made_by_library if find_spec("cryptography") else _made_by_program
        put(path, [make(folder, address)])
    return Certificate(path, path, self_made=True)


def _is_young(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < _DAYS_USED * 24 * 3600
    except OSError:
        return False


def _first_in(path: Path) -> bytes:
    text = path.read_text(encoding="ascii", errors="replace")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    body = text[text.index(begin) :]
    return ssl.PEM_cert_to_DER_cert(body[: body.index(end) + len(end)])


def _no_password() -> str:
    raise ValueError("the key has a password; give one that has none")


def _made_by_library(folder: Path, address: Address) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    names = [
        x509.IPAddress(ipaddress.ip_address(each)) if _is_address(each) else x509.DNSName(each)
        for each in address.names
    ]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_DAYS - 1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ) + made.public_bytes(serialization.Encoding.PEM)


def _made_by_program(folder: Path, address: Address) -> bytes:
    import subprocess
    import tempfile

    kinds = [f"{'IP' if _is_address(each) else 'DNS'}:{each}" for each in address.names]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        key, made = Path(place) / "key", Path(place) / "certificate"
        command = [
            *("openssl", "req", "-x509", "-nodes", "-days", str(_DAYS), "-subj", f"/CN={NAME}"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", f"subjectAltName={','.join(kinds)}"),
            *("-addext", "extendedKeyUsage=serverAuth"),
            *("-keyout", str(key), "-out", str(made)),
        ]
        try:
            subprocess.run(
                command, check=True, capture_output=True, env={"PATH": os.environ.get("PATH", "")}
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise SettingsError(
                "No certificate can be made here: neither the Python package cryptography nor the "
                "program openssl does it. Install one of them, or give --tls-cert and --tls-key."
            ) from error
        return key.read_bytes() + made.read_bytes()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
