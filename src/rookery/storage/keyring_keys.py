"""API keys in the keyring of the operating system, where there is one that works.

To ask a keyring takes a tenth of a second, and for ever while it waits to be unlocked. So it is
asked only for a key that was put there by us, which a small file beside the file of keys says,
and only for so long. No text this module makes has a key in it.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rookery import NAME
from rookery.errors import SettingsError
from rookery.platform.disk import private_folder, put, reason

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

PATIENCE = 3.0
"""Seconds until a keyring that does not answer is done without."""
PATIENCE_WITH_PEOPLE = 60.0
"""The same when somebody has just asked for it, and may be typing its password."""
SERVICE = NAME
LEAST_PRIORITY = 1
"""Backends below it are no place for a key, or none at all."""

T = TypeVar("T")


class NoKeyring(Exception):
    """There is no keyring to be had here; its text says why."""


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
            f"The key for {provider} is in the system's keyring, which cannot be used now: "
            f"{answer}. Unlock it, or keep the key in a file: {NAME} auth {provider} --file"
        )
    return answer


def keys_heard() -> Sequence[str]:
    """The keys that the keyring has given so far; what it was not asked for, nobody can show."""
    return [answer for answer in _answers.values() if isinstance(answer, str)]


_answers: dict[str, str | NoKeyring | None] = {}


def _password_for(provider: str) -> str | None:
    return _backend().get_password(SERVICE, provider)


def keep_in_keyring(keys_file: Path, provider: str, key: str) -> str:
    """Keep a key there, and remember that it is there. Gives the name of the keyring. Raises
    `NoKeyring` if there is none, or it does not take the key."""

    def put_and_look() -> str:
        backend = _backend()
        backend.set_password(SERVICE, provider, key)
        if backend.get_password(SERVICE, provider) != key:
            raise NoKeyring("it does not give back what it is given")
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


def _patiently(ask: Callable[[], T], patience: float) -> T:
    """Ask beside everything else: what never answers is left behind, and ends with us."""
    from queue import Empty, SimpleQueue
    from threading import Thread

    if find_spec("keyring") is None:
        raise NoKeyring("it takes the package keyring (pip install keyring)")
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
        raise NoKeyring("this system has none that keeps keys safely")
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
