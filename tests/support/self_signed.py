"""A self-signed certificate for a test's server."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

_MAKE = [
    "openssl",
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-days",
    "1",
]


def self_signed(folder: Path, address: str) -> tuple[ssl.SSLContext, str]:
    """The server side of TLS for this address, and the file of its certificate."""
    if not shutil.which("openssl"):
        pytest.skip("the certificate is made with openssl")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    names = ["-subj", f"/CN={address}", "-addext", f"subjectAltName=IP:{address}"]
    command = [*_MAKE, *names, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate
