"""How a refusal travels: as a number for programs and a sentence for people."""

from rookery.errors import CommandRejected, RookeryError, StorageError
from rookery.protocol.jsonrpc import INTERNAL_ERROR, RpcError

FAILED = -32000
"""It did not work, for a reason that the sentence tells."""
REFUSED = -32001
"""What was asked for cannot be done now."""
NOT_INITIALIZED = -32002
UNAUTHORIZED = -32003
NOT_STORED = -32004
"""A task could not be read from disk or written to it."""

_CODES: dict[type[RookeryError], int] = {CommandRejected: REFUSED, StorageError: NOT_STORED}
_ERRORS = {code: cls for cls, code in _CODES.items()}


def code_of(error: Exception) -> int:
    if not isinstance(error, RookeryError):
        return INTERNAL_ERROR
    return next((code for cls, code in _CODES.items() if isinstance(error, cls)), FAILED)


def error_of(error: Exception) -> dict[str, object]:
    return {"code": code_of(error), "message": str(error)}


def raised_again(error: RpcError) -> RookeryError:
    """What the host raised, on the client's side of the wire."""
    return _ERRORS.get(error.code, RookeryError)(str(error))
