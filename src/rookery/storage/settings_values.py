"""Reads settings files, validates one value for a setting, and changes one in a file.

Files, the environment and flags all go through `checked`, so that errors read the same everywhere.

tomlkit edits the text of a file and keeps the rest as it is. The result is parsed again with the
parser that reads settings, and accepted only if it has the old values and the changed one.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rookery import NAME
from rookery.core.limits import KIB
from rookery.core.settings import Settings
from rookery.core.settings_reference import ANY, Key, all_settings, shown
from rookery.errors import SettingsError
from rookery.platform.descriptors import attributes_at
from rookery.platform.disk import PRIVATE_FILE, put, reason
from rookery.platform.locks import lock

# A megabyte of dotted keys makes the TOML parser take gigabytes, and so does one long line.
LARGEST_FILE = 64 * KIB
LONGEST_LINE = 1000
NAMED_BY_USER = ("models", "modes")
"""Sections whose subsections are named by the user."""


@cache
def _sections() -> frozenset[Key]:
    return frozenset(key[:depth] for key in all_settings() for depth in range(1, len(key)))


def general(key: Key) -> Key:
    """The key under which a setting is declared, with a placeholder for the user's name."""
    return (key[0], ANY, *key[2:]) if key[0] in NAMED_BY_USER and len(key) > 1 else key


def values_in(table: Mapping[str, Any], at: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Every value of a table and its sections, unchecked."""
    for name, value in table.items():
        key = (*at, name)
        if isinstance(value, Mapping) and general(key) in _sections():
            yield from values_in(value, key)
        else:
            yield key, value


def checked(key: Key, value: Any, *, name: str) -> Any:
    """The value converted to its setting's type. `name` is what the user calls the setting."""
    setting = all_settings().get(general(key))
    if setting is None:
        raise SettingsError(no_such(key))
    try:
        taken = msgspec.convert(value, setting.type)
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise _unfit(name, setting.expected, value) from None
    if not _can_be_passed_on(taken):
        raise _unfit(name, setting.expected, value)
    return taken


def checked_text(key: Key, text: str, *, name: str) -> Any:
    """As `checked`, for sources that contain only text: a number in digits, a list with commas
    or in TOML or JSON."""
    for read in (str, int, float, _switch):
        try:
            return checked(key, read(text), name=name)
        except (ValueError, SettingsError):
            continue
    if is_list(key):
        return checked(key, _texts(text), name=name)
    return checked(key, text, name=name)


def is_list(key: Key) -> bool:
    """Whether a setting takes several values."""
    setting = all_settings().get(general(key))
    try:
        return setting is not None and msgspec.convert([], setting.type) == ()
    except msgspec.ValidationError:
        return False


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _texts(text: str) -> Any:
    if text.lstrip().startswith("["):
        return _array(text)
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _array(text: str) -> Any:
    """A list in TOML, which is also valid for JSON."""
    import tomllib

    try:
        table = tomllib.loads(f"list = {text}")
    except (ValueError, RecursionError):
        raise SettingsError(_NO_LIST.format(text=text)) from None
    if len(table) != 1:
        raise SettingsError(_NO_LIST.format(text=text))
    return table["list"]


_NO_LIST = """{text} is not a list. Write ["one", "two"], or one,two."""


def settings_from(values: Mapping[Key, Any]) -> Settings:
    """Settings with these checked values, and the defaults for the rest."""
    table: dict[str, Any] = {}
    for key, value in values.items():
        section = table
        for name in key[:-1]:
            section = section.setdefault(name, {})
        section[key[-1]] = value
    return msgspec.convert(table, Settings)


def spelled(key: Key) -> str:
    """A key in TOML."""
    return ".".join(name if re.fullmatch(r"[\w-]+", name, re.A) else shown(name) for name in key)


def no_such(key: Key) -> str:
    if general(key) in _sections():
        return f"`{spelled(key)}` is a section; write its settings below [{spelled(key)}]."
    if key[-1].replace("_", "").lower().endswith("key"):
        return (
            f"no such setting: `{spelled(key)}`. Keys are stored elsewhere: remove it "
            f"and run {NAME} auth, or set the provider's environment variable."
        )
    near = _nearest(key)
    hint = f"did you mean `{spelled(near)}`?" if near else "remove it."
    return f"no such setting: `{spelled(key)}`; {hint}"


def _can_be_passed_on(value: Any) -> bool:
    """Whether files and sockets can hold it: a variable may contain bytes that are not text, and
    numbers may exceed TOML's range."""
    match value:
        case str():
            return not any("\ud800" <= char <= "\udfff" for char in value)
        case int() | float():
            return abs(value) < 2**63
        case tuple():
            return all(map(_can_be_passed_on, value))
        case _:
            return True


def _unfit(name: str, expected: str, value: Any) -> SettingsError:
    # an address may have been refused for the very password in it
    instead = "" if "password" in expected else f", not {shown(value)}"
    return SettingsError(f"{name} must be {expected}{instead}.")


def _nearest(key: Key) -> Key | None:
    """The closest setting: in the same section, or else a very similar one in any."""
    from difflib import get_close_matches

    known = [known for known in (*all_settings(), *sorted(_sections())) if known[-1] != ANY]
    beside = [other for other in known if other[:-1] == general(key)[:-1]]
    anywhere = [other for other in known if ANY not in other]
    for group, similarity in ((beside, 0.6), (anywhere, 0.8)):
        by_name = {other[-1]: other for other in group}
        if close := get_close_matches(key[-1].lower(), by_name, cutoff=similarity):
            swapped = [name for name in close if sorted(name) == sorted(key[-1])]
            found = by_name[(swapped or close)[0]]
            return (*key[:-1], found[-1]) if ANY in found else found
    return None


def text_of(file: Path, called: str = "") -> str:
    """The text of a settings file; empty if it does not exist."""
    called = called or str(file)
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise SettingsError(f"{called} is not a regular file; move it away.")
        with file.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise SettingsError(f"{called} cannot be read: {reason(error)}.") from error
    if len(data) > LARGEST_FILE:
        raise SettingsError(f"{called} is larger than {LARGEST_FILE} bytes; shorten it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{called} is not UTF-8 text (byte {error.start}); save it as UTF-8."
        ) from error


def table_of(text: str, called: str) -> dict[str, Any]:
    if not text:
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SettingsError(f"{called} is nested too deeply; use at most two levels.") from None
    except ValueError as error:
        raise SettingsError(f"{called}: {_where(str(error))}.") from error


def _where(complaint: str) -> str:
    """The parser's message, with the position first."""
    match = re.fullmatch(r"(.*) \(at (?:(line \d+, column \d+)|(end of document))\)", complaint)
    if match is None:
        return f"this is not valid TOML ({complaint})"
    what, place, _ = match.groups()
    return f"{place or 'the end'} is not valid TOML ({what[:1].lower()}{what[1:]})"


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
