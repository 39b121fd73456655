"""API keys: where they are found, and how one is kept.

A key comes from a flag, from the provider's environment variable, from the system's keyring,
or from a file that only its owner can read; never from a project. No text this module makes has
a key in it.

A keyring takes a tenth of a second to answer, and for ever while it waits to be unlocked. So it
is asked only for keys that we put there, which a file beside the file of keys lists, and only
for a limited time.
"""

import json
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rookery import NAME
from rookery.core.limits import KIB
from rookery.errors import SettingsError
from rookery.platform.disk import private_folder, put, reason

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend


LARGEST_FILE = 64 * KIB
LONGEST_LINE = 1000
IN_KEYRING = "the system's keyring"
_NAME = re.compile(r"[A-Za-z0-9_-]+")

PATIENCE = 3.0
"""Seconds until a keyring that does not answer is done without."""

PATIENCE_WITH_PEOPLE = 60.0
"""The same when somebody has just asked for it, and may be typing its password."""

SERVICE = NAME
LEAST_PRIORITY = 1
"""Backends below it are no place for a key, or none at all."""

T = TypeVar("T")


class Key:
    """An API key that shows where it comes from and nothing else, unless it is told to."""

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
    """There is no keyring to be had here; its text says why."""


_answers: dict[str, str | NoKeyring | None] = {}


def find_key(
    provider: str,
    *,
    flag: str | None,
    environ: Mapping[str, str],
    variable: str | None,
    keys_file: Path,
) -> Key | None:
    """The key for a provider: from the flag, else its variable, else the keyring, else the file.
    None if there is none. Raises `SettingsError` for a key, a keyring or a file that cannot be
    used.
    """
    if flag:
        return Key(flag, source="--api-key")
    if variable and (text := environ.get(variable)):
        return Key(text, source=variable)
    if provider in providers_in_keyring(keys_file) and (text := key_in_keyring(provider)):
        return Key(text, source=IN_KEYRING)
    text = _read(keys_file).get(provider)
    return Key(text, source=str(keys_file)) if text else None


def source_of_key(
    provider: str, *, environ: Mapping[str, str], variable: str | None, keys_file: Path
) -> str | None:
    """Where a key would be found, without asking the keyring; None if there is none."""
    if variable and environ.get(variable):
        return variable
    if provider in providers_in_keyring(keys_file):
        return IN_KEYRING
    return str(keys_file) if _read(keys_file).get(provider) else None


def all_keys(
    environ: Mapping[str, str], variables: Iterable[str], keys_file: Path
) -> Iterator[str]:
    """Every key at hand, whether or not it is used, so that none of them is shown to anybody. A
    file that cannot be used gives none: whoever needs a key of it says so."""
    yield from (text.strip() for name in variables if (text := environ.get(name)))
    yield from keys_heard()
    with suppress(SettingsError):
        yield from _read(keys_file).values()


def save_key(keys_file: Path, provider: str, key: str) -> None:
    """Keep a key for a provider in place of the one before. The file is whole and private at
    every instant.
    """
    if not _NAME.fullmatch(provider):
        raise SettingsError("A provider's name has only letters, digits, - and _.")
    _write(keys_file, _read(keys_file) | {provider: usable_key(key)})


def forget_key(keys_file: Path, provider: str) -> bool:
    """Remove a key from the file, and say whether there was one."""
    keys = _read(keys_file)
    if keys.pop(provider, None) is None:
        return False
    _write(keys_file, keys)
    return True


def usable_key(text: str) -> str:
    """A key as it is kept. Raises `SettingsError` for what cannot be one."""
    return _usable(text, "The key that was given")


def providers_in_keyring(keys_file: Path) -> Sequence[str]:
    """Whose keys were put into the keyring. Nobody is asked for it."""
    try:
        names = json.loads(_marker(keys_file).read_bytes())["providers"]
        return [name for name in names if isinstance(name, str)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def key_in_keyring(provider: str) -> str | None:
    """The key that was put there; None if somebody has removed it. A keyring is asked once in
    the life of a process. Raises `SettingsError` if it does not give the key."""
    if provider not in _answers:
        try:
            ask = partial(_password_for, provider)
            _answers[provider] = _patiently(ask, PATIENCE)
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


def keys_heard() -> Sequence[str]:
    """The keys that the keyring has given so far; what it was not asked for, nobody can show."""
    return [answer for answer in _answers.values() if isinstance(answer, str)]


def keep_in_keyring(keys_file: Path, provider: str, key: str) -> str:
    """Keep a key there, and remember that it is there. Gives the name of the keyring. Raises
    `NoKeyring` if there is none, or it does not take the key."""

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
    """Remove a key, and say whether there was one. Raises `NoKeyring` if it may still be there."""
    known = providers_in_keyring(keys_file)
    if provider not in known:
        return False

    def remove() -> None:
        from keyring.errors import PasswordDeleteError

        with suppress(PasswordDeleteError):  # somebody was faster
            _backend().delete_password(SERVICE, provider)

    _patiently(remove, PATIENCE_WITH_PEOPLE)
    _mark(keys_file, {*known} - {provider})
    _answers.pop(provider, None)
    return True


def keyring_here() -> str:
    """The name of the keyring that would be used. Raises `NoKeyring` with what is lacking."""
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
    """The keys in the file, by provider; none if there is no file."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {reason(error)}.") from error
    try:
        _insist_on_privacy(file, os.fstat(fd))
        with open(fd, "rb", closefd=False) as stream:
            data = stream.read(LARGEST_FILE + 1)
    finally:
        os.close(fd)
    return {name: _text(file, name, value) for name, value in _table(file, data).items()}


def _insist_on_privacy(file: Path, status: os.stat_result) -> None:
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
    """What the file says. A parser's complaint may quote a key, so only its place is told."""
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


def _password_for(provider: str) -> str | None:
    return _backend().get_password(SERVICE, provider)


def _patiently(ask: Callable[[], T], patience: float) -> T:
    """Ask beside everything else: what never answers is left behind, and ends with us."""
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
    import keyring

    backend = keyring.get_keyring()
    if backend.priority < LEAST_PRIORITY:
        raise NoKeyring("this system has no secure keyring")
    return backend


def _name(backend: "KeyringBackend") -> str:
    return str(backend.name)


def _why(error: Exception) -> str:
    """A backend's own words may hold what it was given, so only its kind is told."""
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
