"""The phones and other machines that were paired with a project's manager. Their tokens are kept as
digests, which let nobody in."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.errors import CommandRejected, StorageError
from rookery.manager.shown_rows import Device
from rookery.manager.web.web_limits import DEVICES
from rookery.platform.disk import private_folder, put, reason
from rookery.protocol.handshake import new_token

_LARGEST_FILE = 2**20
_LONGEST_NAME = 60
_SEEN_AGAIN = 60_000
"""Milliseconds that have to pass before it is written down again that a device was there."""


class _Kept(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    token_digest: str
    paired: int
    seen: int


def now_in_milliseconds() -> int:
    return time.time_ns() // 1_000_000


class Devices:
    """Those in a file. Raises `StorageError` if it cannot be understood: to begin anew would let
    none of them in any more, and nobody would know why."""

    def __init__(self, file: Path, now: Callable[[], int] = now_in_milliseconds) -> None:
        self._file = file
        self._now = now
        self._kept = {kept.id: kept for kept in _read(file)}

    def all(self) -> tuple[Device, ...]:
        return tuple(
            Device(id=kept.id, name=kept.name, paired=kept.paired, seen=kept.seen)
            for kept in self._kept.values()
        )

    def pair(self, name: str) -> tuple[str, str]:
        """The id of a new device, and its token, which nobody else will ever be told."""
        if len(self._kept) >= DEVICES:
            raise CommandRejected(f"{DEVICES} devices are paired already. Revoke one of them.")
        device_id, token, now = secrets.token_hex(16), new_token(), self._now()
        self._put(
            _Kept(
                id=device_id,
                name=_as_a_name(name),
                token_digest=_digest(token),
                paired=now,
                seen=now,
            )
        )
        return device_id, token

    def whose(self, token: str) -> str | None:
        """The id of the device that has this token."""
        given = _digest(token)
        found = [
            kept for kept in self._kept.values() if hmac.compare_digest(kept.token_digest, given)
        ]
        for kept in found:
            self._note_visit(kept)
        return found[0].id if found else None

    def revoke(self, device_id: str) -> str:
        """The name of the device, which is let in no more."""
        if device_id not in self._kept:
            raise CommandRejected("There is no such device. See which there are.")
        rest = {each: kept for each, kept in self._kept.items() if each != device_id}
        self._write(rest)
        name = self._kept[device_id].name
        self._kept = rest
        return name

    def _note_visit(self, kept: _Kept) -> None:
        if self._now() - kept.seen > _SEEN_AGAIN:
            with suppress(StorageError):  # a full disk is no reason to keep a device out
                self._put(replace(kept, seen=self._now()))

    def _put(self, kept: _Kept) -> None:
        changed = {**self._kept, kept.id: kept}
        self._write(changed)
        self._kept = changed

    def _write(self, kept: dict[str, _Kept]) -> None:
        private_folder(self._file.parent)
        try:
            put(self._file, [msgspec.json.encode(list(kept.values()))])
        except OSError as error:
            raise StorageError(
                f"{self._file} cannot be written ({reason(error)}). The paired devices are as "
                "they were."
            ) from error


def _read(file: Path) -> list[_Kept]:
    try:
        with file.open("rb") as stream:
            return msgspec.json.decode(stream.read(_LARGEST_FILE), type=list[_Kept])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        raise StorageError(
            f"{file} cannot be read ({error}). Remove it, and pair your devices again."
        ) from error


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _as_a_name(said: str) -> str:
    shown = "".join(letter if letter.isprintable() else " " for letter in said)
    return " ".join(shown.split())[:_LONGEST_NAME] or "a device"
