"""What servers are started in, and how long they are waited for."""

import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

LIST_SECONDS = 5.0
A_TICK = 20_000_000
"""Nanoseconds by which a file's time may lag behind the clock."""


class Patience(Struct, frozen=True, kw_only=True):
    """How long is waited, in seconds."""

    start: float = 30.0
    listing: float = LIST_SECONDS


class Surroundings(Struct, frozen=True, kw_only=True):
    workspace: Path
    empty: Path
    """A folder with nothing in it, nor anything of a stranger's above it."""
    environ: Mapping[str, str]
    patience: Patience = Patience()
    since: int = 0
    """When the product began to work here, in nanoseconds since the epoch."""


def now() -> int:
    return time.time_ns() - A_TICK
