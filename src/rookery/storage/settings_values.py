"""Validates one value for a setting.

Files, the environment and flags all go through `checked`, so that errors read the same everywhere.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from rookery import NAME
from rookery.core.settings import Settings
from rookery.core.settings_reference import ANY, Key, all_settings, shown
from rookery.errors import SettingsError

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
    """The closest setting: in the same section, or else in any."""
    from difflib import get_close_matches

    known = [known for known in (*all_settings(), *sorted(_sections())) if known[-1] != ANY]
    beside = [other for other in known if other[:-1] == general(key)[:-1]]
    for group in (beside, [other for other in known if ANY not in other]):
        by_name = {other[-1]: other for other in group}
        if close := get_close_matches(key[-1].lower(), by_name):
            swapped = [name for name in close if sorted(name) == sorted(key[-1])]
            found = by_name[(swapped or close)[0]]
            return (*key[:-1], found[-1]) if ANY in found else found
    return None
