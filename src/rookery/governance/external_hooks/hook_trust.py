"""Which hooks of a project the user has looked at, kept in a file outside of the workspace.

A hook is known by its content: the same command with another script behind it is another hook.
"""

import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.errors import StorageError
from rookery.governance.external_hooks.fingerprints import (
    Covered,
    covered,
    differences,
    from_json,
    named_paths,
    to_json,
)
from rookery.governance.external_hooks.known_hooks import HookSource, KnownHook, TrustStatus
from rookery.platform.locks import file_lock

LARGEST = 4 * MIB
LONGEST_CHANGES = 500
UNREADABLE = "unreadable"
_CHUNK = 1 * MIB


class _Accepted(Struct, frozen=True):
    """Which hook it was by name, and what was looked at."""

    file: str
    event: str
    name: str
    what: Covered

    def is_of(self, known: KnownHook) -> bool:
        mine = (self.file, self.event, self.name)
        return mine == (known.file, str(known.hook.event), known.hook.name)


class HookTrust:
    """`workspace_trusted` says whether the user trusts the folder at all: nothing of it runs
    before that. Several processes may use the file at once."""

    def __init__(self, file: Path, workspace: Path, *, workspace_trusted: bool) -> None:
        self._file = file
        self._workspace = workspace
        self._workspace_trusted = workspace_trusted

    @property
    def problem(self) -> str:
        """Why no hook of the project is trusted, in a sentence; usually nothing."""
        try:
            self._read()
        except StorageError as error:
            return str(error)
        return ""

    def status(self, known: KnownHook) -> TrustStatus:
        if known.source is HookSource.MANAGED:
            return TrustStatus.MANAGED
        if known.source is HookSource.USER:
            return TrustStatus.TRUSTED
        if self.accepts(known):
            return TrustStatus.TRUSTED if self._workspace_trusted else TrustStatus.UNTRUSTED
        seen = any(each.is_of(known) for each in self._believed())
        return TrustStatus.MODIFIED if seen else TrustStatus.UNTRUSTED

    def accepts(self, known: KnownHook) -> bool:
        """Whether it needs no looking at, whatever is thought of the folder."""
        if not known.source.is_of_project:
            return True
        now = self.covered(known)
        return any(each.what == now for each in self._believed())

    def why_not(self, known: KnownHook, status: TrustStatus) -> str:
        """Why it does not run, for whoever is told."""
        if not self._workspace_trusted:
            return "the folder is not trusted"
        if status is TrustStatus.MODIFIED:
            changes = ", ".join(self.difference(known, self.covered(known)))[:LONGEST_CHANGES]
            return f"it has changed since it was trusted ({changes})"
        return "nobody has trusted it yet"

    def difference(self, known: KnownHook, now: Covered) -> tuple[str, ...]:
        """What changed since it was trusted; all there is to look at if it never was."""
        before = [each.what for each in self._believed() if each.is_of(known)]
        return differences(before[-1] if before else None, now)

    def covered(self, known: KnownHook) -> Covered:
        """The hook as it is now."""
        return covered(known.hook, dict(self._files(known)))

    def accept(self, known: KnownHook, what: Covered, among: Iterable[KnownHook] = ()) -> None:
        """Trust what was looked at, and no longer what it was before, unless that is now another
        hook `among` those that there are. Raises `StorageError`."""
        still_there = [self.covered(each) for each in among]
        new = _Accepted(known.file, str(known.hook.event), known.hook.name, what)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file_lock(self._file.with_name(f"{self._file.name}.lock")):
                kept = [
                    each
                    for each in self._read()
                    if each.what != what and (not each.is_of(known) or each.what in still_there)
                ]
                self._write([*kept, new])
        except OSError as error:
            raise StorageError(f"{self._file} could not be written ({error.strerror}).") from error

    def _files(self, known: KnownHook) -> Iterator[tuple[str, str]]:
        spellings = dict.fromkeys((str(self._workspace), str(self._workspace.resolve())))
        for root in spellings:
            for path in named_paths(known.hook, root):
                if digest := file_digest(self._workspace / path):
                    yield path, digest

    def _believed(self) -> list[_Accepted]:
        with suppress(StorageError):
            return self._read()
        return []

    def _read(self) -> list[_Accepted]:
        try:
            handle = os.open(self._file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        with open(handle, "rb") as opened:
            there = os.fstat(handle)
            if not stat.S_ISREG(there.st_mode) or there.st_uid != os.geteuid():
                raise self._unusable("it is no file of yours")
            if there.st_mode & 0o022:
                raise self._unusable("others can write it")
            data = opened.read(LARGEST)
        try:
            return [_accepted(each) for each in json.loads(data)["accepted"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._unusable("it is damaged") from error

    def _unusable(self, why: str) -> StorageError:
        return StorageError(
            f"{self._file} cannot be used ({why}), so no hook of the project is trusted. Move it "
            "away and trust them anew."
        )

    def _write(self, accepted: list[_Accepted]) -> None:
        said = {"version": 1, "accepted": [_said(each) for each in accepted]}
        handle, made = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.name}.")
        try:
            with open(handle, "w", encoding="ascii") as opened:
                json.dump(said, opened, indent=1)
                opened.flush()
                os.fsync(handle)
            os.replace(made, self._file)
        except BaseException:
            os.unlink(made)
            raise


def _accepted(said: Any) -> _Accepted:
    names = said["file"], said["event"], said["name"]
    if not all(isinstance(each, str) for each in names):
        raise ValueError("a name is no text")
    return _Accepted(*names, from_json(said))


def _said(accepted: _Accepted) -> dict[str, Any]:
    return {
        "file": accepted.file,
        "event": accepted.event,
        "name": accepted.name,
        "fingerprint": accepted.what.fingerprint,
        **to_json(accepted.what),
    }


def file_digest(path: Path) -> str:
    """Of a file's content; empty if there is no file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return UNREADABLE
    except OSError:
        return ""
    whole = sha256()
    with open(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        while data := opened.read(_CHUNK):
            whole.update(data)
    return whole.hexdigest()
