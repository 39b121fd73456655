"""Ed25519 signatures. They need the package `cryptography`, which is not part of the product."""

from hashlib import sha256
from pathlib import Path

from rookery.errors import StorageError


class Signer:
    """Signs with a private key in a PEM file."""

    def __init__(self, key: Path) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import (
                Encoding,
                PublicFormat,
                load_pem_private_key,
            )
        except ImportError as error:
            raise StorageError(
                "Nothing was signed, because the package cryptography is not installed. Install "
                "it, or export without a key."
            ) from error
        try:
            loaded = load_pem_private_key(key.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise StorageError(f"Nothing was signed: {key} cannot be used ({error}).") from error
        if not isinstance(loaded, Ed25519PrivateKey):
            raise StorageError(f"Nothing was signed: {key} is no Ed25519 key.")
        self._key = loaded
        public = loaded.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.key_id = sha256(public).hexdigest()

    def __call__(self, message: bytes) -> bytes:
        return self._key.sign(message)
