"""The secret that tells entries of the call journal from what a clone brought along.

The journal lies in the workspace, and what it says ends up in the ledger: for which intent
something was done, and that somebody allowed it. The key lies outside.
"""

import json
import secrets
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from hmac import compare_digest, digest
from pathlib import Path
from typing import Any

from rookery.core.limits import MIB
from rookery.governance.ledger.made_once import made_once
from rookery.platform.small_files import whole_file

MARK = "mark"
LARGEST_ENTRY = 16 * MIB
_LENGTH = 32


class JournalKey:
    """Made when it is first needed. Without a place it lasts as long as the process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def marked(self, said: Mapping[str, Any]) -> bytes:
        """An entry as it is written. Raises OSError."""
        return json.dumps({**said, MARK: self._mark(said)}).encode()

    def read(self, path: Path) -> dict[str, Any]:
        """An entry that was written with this key. Raises ValueError for any other, and OSError."""
        said = json.loads(whole_file(path, largest=LARGEST_ENTRY))
        if not isinstance(said, dict) or not compare_digest(
            self._mark(said).encode(), str(said.get(MARK)).encode("utf-8", "replace")
        ):
            raise ValueError("it was not written here")
        return said

    def _mark(self, said: Mapping[str, Any]) -> str:
        told = {name: held for name, held in said.items() if name != MARK}
        return digest(self._key, json.dumps(told, sort_keys=True).encode(), sha256).hex()

    @cached_property
    def _key(self) -> bytes:
        try:
            return kept_key(self._path) if self._path else secrets.token_bytes(_LENGTH)
        except OSError:  # work goes on: only what a crash leaves behind will not be believed
            return secrets.token_bytes(_LENGTH)


def key_at(path: Path) -> bytes:
    """The key that lies there; empty if there is none that can be read."""
    try:
        return path.read_bytes() if _fits(path) else b""
    except OSError:
        return b""


def kept_key(path: Path) -> bytes:
    """The key that lies there, or a new one."""
    if not _fits(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made_once(path, secrets.token_bytes(_LENGTH), fits=_fits, mode=0o600)
    return path.read_bytes()


def _fits(path: Path) -> bool:
    try:
        return path.stat().st_size == _LENGTH
    except FileNotFoundError:
        return False
