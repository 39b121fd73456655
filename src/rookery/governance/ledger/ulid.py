"""Names that sort by the time they were made."""

import secrets
import time

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_ulid() -> str:
    number = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(26)))
