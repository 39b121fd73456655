"""Secrets that let a client in."""

import hmac
import secrets

_BYTES = 32


def new_token() -> str:
    return secrets.token_hex(_BYTES)


def same_token(token: str, given: object) -> bool:
    """Compared in a time that tells nothing about where they differ."""
    return isinstance(given, str) and hmac.compare_digest(
        token.encode(), given.encode("utf-8", "replace")
    )
