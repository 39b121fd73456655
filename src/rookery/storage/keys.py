"""Finds and stores API keys: in the keyring, or on disk in a private file.

A key comes from a flag, the provider's environment variable, the system keyring, or a file that
only its owner can read; never from a project. No text made here contains a key.

A keyring takes 0.1 s to answer, and never answers while it waits to be unlocked. So it is asked
only for keys that we stored there, which are listed in a separate file, and with a timeout.
"""

import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rookery import NAME
from rookery.core.limits import KIB
from rookery.errors import SettingsError
from rookery.first_use import lazy_pattern
from rookery.platform.disk import private_folder, put, reason

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend


LARGEST_FILE = 64 * KIB
LONGEST_LINE = 1000
IN_KEYRING = "the system's keyring"
FLAG = "--api-key"
_NAME = lazy_pattern(r"[A-Za-z0-9_-]+")

PATIENCE = 3.0
"""Seconds to wait for a keyring."""

PATIENCE_WITH_PEOPLE = 60.0
"""The same while the user may be typing the keyring's password."""

SERVICE = NAME
LEAST_PRIORITY = 1
"""Keyring backends with a lower priority are not used."""

T = TypeVar("T")


class Key:
    """An API key whose repr shows only where it comes from."""

    __slots__ = ("_text", "source")

    def __init__(self, text: str, *, source: str) -> None:
        self._text = _usable(text, f"The key from {source}")
        self.source = source

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f'Key(source="{self.source}")'

    def __reduce__(self) -> NoReturn:
        raise TypeError("Keys are written only to their own file.")


class NoKeyring(Exception):
    """No keyring can be used; the text says why."""


_answers: dict[str, str | NoKeyring | None] = {}


def find_key(
    provider: str,
    *,
    flag: str | None,
    environ: Mapping[str, str],
    variable: str | None,
    keys_file: Path,
) -> Key | None:
    """The key for a provider: from the flag, its variable, the keyring or the file, in this
    order. None if there is none. Raises `SettingsError` if a key, keyring or file cannot be
    used."""
    if flag:
        return Key(flag, source=FLAG)
    if variable and (text := environ.get(variable)):
        return Key(text, source=variable)
    if provider in providers_in_keyring(keys_file) and (text := key_in_keyring(provider)):
        return Key(text, source=IN_KEYRING)
    text = _read(keys_file).get(provider)
    return Key(text, source=str(keys_file)) if text else None


def source_of_key(
    provider: str, *, environ: Mapping[str, str], variable: str | None, keys_file: Path
) -> str | None:
    """Where a key would come from, without asking the keyring; None if there is none."""
    if variable and environ.get(variable):
        return variable
    if provider in providers_in_keyring(keys_file):
        return IN_KEYRING
    return str(keys_file) if _read(keys_file).get(provider) else None


def all_keys(
    environ: Mapping[str, str], variables: Iterable[str], keys_file: Path
) -> Iterator[str]:
    """Every available key, used or not, so that all of them can be hidden. A file that cannot be
    used gives none; the code that needs its key reports that."""
    yield from (text.strip() for name in variables if (text := environ.get(name)))
    yield from keys_from_keyring()
    with suppress(SettingsError):
        yield from _read(keys_file).values()


def stored_keys(keys_file: Path) -> Iterator[str]:
    """Every key that `rookery auth` stored. Raises `SettingsError` if one cannot be read."""
    yield from filter(None, map(key_in_keyring, providers_in_keyring(keys_file)))
    yield from _read(keys_file).values()


def save_key(keys_file: Path, provider: str, key: str) -> None:
    """Store or replace the key of a provider. The file is complete and private at all times."""
    if not _NAME.fullmatch(provider):
        raise SettingsError("A provider's name has only letters, digits, - and _.")
    _write(keys_file, _read(keys_file) | {provider: usable_key(key)})


def forget_key(keys_file: Path, provider: str) -> bool:
    """Remove a key from the file. Returns whether there was one."""
    keys = _read(keys_file)
    if keys.pop(provider, None) is None:
        return False
    _write(keys_file, keys)
    return True


def usable_key(text: str) -> str:
    """The key in the form in which it is stored. Raises `SettingsError` if it cannot be one."""
    return _usable(text, "The key that was given")


def providers_in_keyring(keys_file: Path) -> Sequence[str]:
    """The providers whose keys we stored in the keyring. Does not ask it."""
    try:
        names = json.loads(_marker(keys_file).read_bytes())["providers"]
        return [name for name in names if isinstance(name, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def key_in_keyring(provider: str, *, again: bool = False) -> str | None:
    """The key that was stored there; None if it was removed. Each process asks the keyring once,
    unless it should ask `again`. Raises `SettingsError` if it does not return the key."""
    if again or provider not in _answers:
        try:
            _answers[provider] = _patiently(
                lambda: _backend().get_password(SERVICE, provider), PATIENCE
            )
        except NoKeyring as error:
            _answers[provider] = error
    answer = _answers[provider]
    if isinstance(answer, NoKeyring):
        raise SettingsError(
            f"The key for {provider} is in the system keyring, which cannot be used "
            f"now: {answer}. Unlock it, or store the key in a file: {NAME} auth "
            f"{provider} --file"
        )
    return answer


def ask_keyring_again() -> None:
    """Forget what the keyring has returned: another process has stored a key."""
    _answers.clear()


def keys_version(keys_file: Path) -> tuple[int, ...]:
    """Differs after `rookery auth` has stored or removed a key."""
    version: list[int] = []
    for file in (keys_file, _marker(keys_file)):
        with suppress(OSError):
            found = file.stat()
            version += [found.st_mtime_ns, found.st_ino]
    return tuple(version)


def keys_from_keyring() -> Sequence[str]:
    """The keys that the keyring has returned so far."""
    return [answer for answer in _answers.values() if isinstance(answer, str)]


def keep_in_keyring(keys_file: Path, provider: str, key: str) -> str:
    """Store a key there and record that. Returns the name of the keyring. Raises `NoKeyring` if
    there is none or it refuses the key."""

    def put_and_look() -> str:
        backend = _backend()
        backend.set_password(SERVICE, provider, key)
        if backend.get_password(SERVICE, provider) != key:
            raise NoKeyring("it does not return what was stored")
        return _name(backend)

    name = _patiently(put_and_look, PATIENCE_WITH_PEOPLE)
    _mark(keys_file, {*providers_in_keyring(keys_file), provider})
    _answers.pop(provider, None)
    return name


def forget_in_keyring(keys_file: Path, provider: str) -> bool:
    """Remove a key. Returns whether there was one. Raises `NoKeyring` if it may still be there."""
    known = providers_in_keyring(keys_file)
    if provider not in known:
        return False

    def remove() -> None:
        from keyring.errors import PasswordDeleteError

        with suppress(PasswordDeleteError):  # another process was faster
            _backend().delete_password(SERVICE, provider)

    _patiently(remove, PATIENCE_WITH_PEOPLE)
    _mark(keys_file, {*known} - {provider})
    _answers.pop(provider, None)
    return True


def keyring_here() -> str:
    """The name of the available keyring. Raises `NoKeyring` with what is missing."""
    return _patiently(lambda: _name(_backend()), PATIENCE)


def _write(keys_file: Path, keys: Mapping[str, str]) -> None:
    text = "".join(f"{_spelled(name)} = {json.dumps(kept)}\n" for name, kept in keys.items())
    private_folder(keys_file.parent)
    try:
        put(keys_file, [text.encode()])
    except OSError as error:
        raise SettingsError(f"{keys_file} could not be written: {reason(error)}.") from error


def _usable(text: str, called: str) -> str:
    text = text.strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(
            f"{called} is empty or has characters that a key cannot have; copy it again."
        )
    return text


def _read(file: Path) -> dict[str, str]:
    """The keys in the file by provider; empty if there is no file."""
    data = read_private(file, LARGEST_FILE + 1)
    table = {} if data is None else _table(file, data)
    return {name: _text(file, name, value) for name, value in table.items()}


def read_private(file: Path, most: int) -> bytes | None:
    """The beginning of a file that only its owner can read; None if there is no file. Raises
    `SettingsError` if others can read it."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {reason(error)}.") from error
    try:
        _check_private(file, os.fstat(fd))
        with open(fd, "rb", closefd=False) as stream:
            return stream.read(most)
    finally:
        os.close(fd)


def _check_private(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SettingsError(f"{file} is not a regular file; move it away.")
    if status.st_uid != os.geteuid():
        raise SettingsError(
            f"{file} belongs to another user, so its keys are not used; move it away and save "
            "the keys again."
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise SettingsError(f"Other users can read {file}; run: chmod 600 {shlex.quote(str(file))}")


def _table(file: Path, data: bytes) -> dict[str, Any]:
    """Parse the file. A parser's message may quote a key, so only the position is reported."""
    import tomllib

    if len(data) > LARGEST_FILE or max(map(len, data.split(b"\n"))) > LONGEST_LINE:
        raise SettingsError(f"{file} is too large for a file of keys; shorten it.")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        place = "it is not UTF-8 text"
    except RecursionError:
        place = "it is nested too deeply"
    except ValueError as error:
        found = re.search(r"line \d+, column \d+(?=\)$)", str(error))
        place = f"see {found[0]}" if found else "it ends too early"
    raise SettingsError(f'{file} must have lines like provider = "key"; {place}.')


def _text(file: Path, name: str, value: Any) -> str:
    if not isinstance(value, str):
        shown = name if _NAME.fullmatch(name) else "one of its names"
        raise SettingsError(f"{file}: {shown} must be a key in quotes.")
    return value


def _spelled(name: str) -> str:
    return name if _NAME.fullmatch(name) else json.dumps(name)


def _patiently(ask: Callable[[], T], patience: float) -> T:
    """Run in a daemon thread with a timeout: a call that never returns is abandoned."""
    from queue import Empty, SimpleQueue
    from threading import Thread

    if find_spec("keyring") is None:
        raise NoKeyring("it needs the package keyring (pip install keyring)")
    answers: SimpleQueue[tuple[T, None] | tuple[None, Exception]] = SimpleQueue()

    def work() -> None:
        try:
            answers.put((ask(), None))
        except Exception as error:
            answers.put((None, error))

    Thread(target=work, daemon=True).start()
    try:
        answer, error = answers.get(timeout=patience)
    except Empty:
        raise NoKeyring(f"it did not answer within {patience:g} s and may be locked") from None
    if error is None:
        return answer  # type: ignore[return-value]
    raise error if isinstance(error, NoKeyring) else NoKeyring(_why(error)) from error


def _backend() -> "KeyringBackend":
    if sys.platform != "darwin":
        # keyring loads the backends of all systems, and this module looks for libraries with gcc
        sys.modules.setdefault("keyring.backends.macOS.api", None)  # type: ignore[arg-type]
    import keyring

    backend = keyring.get_keyring()
    if backend.priority < LEAST_PRIORITY:
        raise NoKeyring("this system has no secure keyring")
    return backend


def _name(backend: "KeyringBackend") -> str:
    return str(backend.name)


def _why(error: Exception) -> str:
    """The type of a backend's error. Its text may contain the key."""
    from keyring.errors import KeyringLocked

    return "it is locked" if isinstance(error, KeyringLocked) else type(error).__name__


def _marker(keys_file: Path) -> Path:
    return keys_file.with_name("keyring.json")


def _mark(keys_file: Path, providers: set[str]) -> None:
    file = _marker(keys_file)
    private_folder(file.parent)
    try:
        put(file, [json.dumps({"providers": sorted(providers)}).encode()])
    except OSError as error:
        raise SettingsError(f"{file} could not be written: {reason(error)}.") from error
