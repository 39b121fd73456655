"""Tokens of MCP servers: in the system keyring, or in a private file.

Each entry is one text, written as a whole. It is read again for every use, because another process
may have refreshed it. No text made here contains a token.
"""

from pathlib import Path

import msgspec

from rookery.core.limits import MIB
from rookery.errors import SettingsError
from rookery.platform.disk import private_folder, put, reason
from rookery.platform.locks import file_lock
from rookery.storage.keys import (
    NoKeyring,
    forget_in_keyring,
    keep_in_keyring,
    key_in_keyring,
    providers_in_keyring,
    read_private,
)

LARGEST_FILE = MIB


class TokenStore:
    """All methods raise `SettingsError` with a sentence."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, name: str) -> str:
        """The entry; empty if there is none."""
        if name in providers_in_keyring(self._file):
            try:
                return key_in_keyring(name, again=True) or ""
            except SettingsError as error:
                raise SettingsError(
                    "The tokens are in the system keyring, which cannot be used now. Unlock it."
                ) from error
        return self._read().get(name, "")

    def put(self, name: str, text: str) -> str:
        """Store an entry in one place only, and return the name of the place."""
        try:
            keyring = keep_in_keyring(self._file, name, text)
        except NoKeyring:
            self._change(name, text)
            return str(self._file)
        self._change(name, "")
        return f"the system keyring ({keyring})"

    def forget(self, name: str) -> bool:
        """Remove an entry. Returns whether there was one."""
        try:
            in_keyring = forget_in_keyring(self._file, name)
        except NoKeyring as error:
            raise SettingsError(
                f"The tokens are in the system keyring and cannot be removed: {error}. Unlock it."
            ) from error
        return self._change(name, "") or in_keyring

    def _change(self, name: str, text: str) -> bool:
        """Replace or remove an entry of the file. Returns whether there was one."""
        if not text and not self._file.exists():
            return False
        private_folder(self._file.parent)
        try:
            with file_lock(self._file.with_name(f"{self._file.name}.lock")):
                entries = self._read()
                known = entries.pop(name, None) is not None
                if text:
                    entries[name] = text
                put(self._file, [msgspec.json.encode(entries)])
        except OSError as error:
            raise SettingsError(f"{self._file} could not be written: {reason(error)}.") from error
        return known

    def _read(self) -> dict[str, str]:
        data = read_private(self._file, LARGEST_FILE)
        if data is None:
            return {}
        try:
            return msgspec.json.decode(data, type=dict[str, str])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            # the parser's message may quote a token
            raise SettingsError(
                f"{self._file} is damaged. Remove it, and sign in to your MCP servers again."
            ) from None
