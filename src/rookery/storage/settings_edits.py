"""Changes one setting in a settings file.

tomlkit edits the text of the file and keeps the rest as it is. The result is parsed again with the
parser that reads settings, and accepted only if it has the old values and the changed one.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rookery import NAME
from rookery.core.settings_reference import Key, spelled
from rookery.errors import SettingsError
from rookery.platform.descriptors import attributes_at
from rookery.platform.disk import PRIVATE_FILE, put, reason
from rookery.platform.locks import lock
from rookery.storage.settings_files import LARGEST_FILE, LONGEST_LINE, table_of, text_of

_OPEN_TO_READERS = 0o644


def with_value(text: str, key: Key, value: Any, file: Path) -> str:
    """The text of the file with a setting set."""
    plain = list(value) if isinstance(value, tuple) else value
    return _edited(text, lambda document: _set(document, key, plain), key, file)


def without(text: str, key: Key, file: Path) -> str:
    """The text of the file without a setting; the same text if it is not set there."""
    if not _says(table_of(text, str(file)), key):
        return text
    return _edited(text, lambda document: _remove(document, key), key, file)


def change_settings(file: Path, change: Callable[[str], str], *, shared: bool) -> bool:
    """Replace a settings file with the result of `change`, under a lock. Returns whether it
    changed. A file `shared` in a project stays readable by others and must not be a link."""
    before = text_of(file)
    if change(before) == before:
        return False
    target = _target(file, shared=shared)
    with _locked(target.parent, shared=shared):
        before = text_of(file)
        after = change(before)
        if after != before:
            _check_length(before, after, file)
            _write(target, after, shared=shared)
    return after != before


def _check_length(before: str, after: str, file: Path) -> None:
    """Refuse to make a file longer than the limit, since nothing would start any more. A file
    that is too long already may still be changed."""
    if _is_too_long(after) and not _is_too_long(before):
        raise SettingsError(
            f"{file} would be too long: the limit is {LARGEST_FILE} bytes, and "
            f"{LONGEST_LINE} characters per line. Nothing was changed; shorten the value."
        )


def _is_too_long(text: str) -> bool:
    longest = max(map(len, text.split("\n")))
    return longest > LONGEST_LINE or len(text.encode()) > LARGEST_FILE


def _target(file: Path, *, shared: bool) -> Path:
    if shared and (file.is_symlink() or file.parent.is_symlink()):
        raise SettingsError(f"{file} is a symbolic link and was not changed; edit it yourself.")
    return file if shared else file.resolve()


@contextmanager
def _locked(folder: Path, *, shared: bool) -> Iterator[None]:
    """Lock the folder itself, so that no lock file is left in it."""
    try:
        folder.mkdir(mode=0o755 if shared else 0o700, parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SettingsError(f"Cannot write to {folder}: {reason(error)}.") from error
    try:
        _lock(fd, folder)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, folder: Path) -> None:
    try:
        lock(fd)
    except OSError as error:
        raise SettingsError(f"{folder} could not be locked: {reason(error)}.") from error


def _write(target: Path, text: str, *, shared: bool) -> None:
    mode = _OPEN_TO_READERS if shared else PRIVATE_FILE
    try:
        put(target, [text.encode()], like=attributes_at(target), mode=mode)
    except OSError as error:
        raise SettingsError(f"{target} could not be written: {reason(error)}.") from error


def _edited(text: str, edit: Callable[[Any], None], key: Key, file: Path) -> str:
    """The text after the edit, if it then has the values that the edit gives its table."""
    import tomllib

    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    wanted = table_of(text, str(file))
    with suppress(TOMLKitError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        document = tomlkit.parse(text)
        edit(document)
        edit(wanted)
        after = _with_line_ends_of(text, tomlkit.dumps(document))
        if _pruned(tomllib.loads(after)) == _pruned(wanted):
            return after
    raise SettingsError(
        f"{spelled(key)} is written in {file} in a way that only you can change: {NAME} config edit"
    )


def _with_line_ends_of(before: str, after: str) -> str:
    if after and not after.endswith("\n"):
        after += "\n"
    return after.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in before else after


def _set(document: Any, key: Key, value: Any) -> None:
    import tomlkit

    section = document
    for name in key[:-1]:
        section = section.setdefault(name, tomlkit.table())
    present = section.get(key[-1])
    if isinstance(value, list) and isinstance(present, list):
        _change_items(present, value)
    if present is None or present != value:
        section[key[-1]] = value


def _change_items(present: list[Any], wanted: list[Any]) -> None:
    """Change one entry at a time, so that the others keep their lines and comments."""
    before = len(present)
    for item in wanted:
        if item not in present:
            present.append(item)  # first, to be indented like the others
    for at in reversed(range(before)):
        if present[at] not in wanted:
            del present[at]


def _remove(document: Any, key: Key) -> None:
    section = document
    for name in key[:-1]:
        section = section[name]
    del section[key[-1]]


def _says(table: Mapping[str, Any], key: Key) -> bool:
    at: Any = table
    for name in key:
        if not isinstance(at, Mapping) or name not in at:
            return False
        at = at[name]
    return True


def _pruned(value: Any) -> Any:
    """Without empty sections."""
    if not isinstance(value, Mapping):
        return value
    inner = {name: _pruned(each) for name, each in value.items()}
    return {name: each for name, each in inner.items() if each != {}}
