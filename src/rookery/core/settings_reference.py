"""The description of every setting: its values, its default, what a project may change.

Values from files, the environment and flags all go through `checked`, so that errors read the same
everywhere.
"""

import math
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from rookery import ENV_PREFIX, NAME
from rookery.core.settings import Settings
from rookery.core.settings_sections import LimitSettings, Network, SettingsSection
from rookery.errors import SettingsError
from rookery.first_use import prepared

Key: TypeAlias = tuple[str, ...]
"""The path of a setting: `("ui", "colour")` is `colour` in the section `[ui]`."""


class ProjectMay(StrEnum):
    """What a project's file may do with a setting: tighten it, or nothing."""

    LOWER = "lower it"
    LOWER_CEILING = "lower it (0 means no limit)"
    ADD = "add to it"
    MAKE_IT_ASK = 'set it to "ask"'
    REQUIRE = 'set it to "required"'
    CLOSE = 'narrow it to "known" or "off"'
    REFUSE = "set it to false"


PROJECT_MAY: dict[Key, ProjectMay] = {
    ("approval",): ProjectMay.MAKE_IT_ASK,
    ("max_requests",): ProjectMay.LOWER_CEILING,
    ("max_cost",): ProjectMay.LOWER_CEILING,
    ("max_tokens",): ProjectMay.LOWER_CEILING,
    ("max_minutes",): ProjectMay.LOWER_CEILING,
    ("mistake_limit",): ProjectMay.LOWER_CEILING,
    ("approve_edits",): ProjectMay.REFUSE,
    ("approve_modes",): ProjectMay.REFUSE,
    ("approve_subtasks",): ProjectMay.REFUSE,
    ("approve_in_scope",): ProjectMay.REFUSE,
    ("context", "other_agents"): ProjectMay.REFUSE,
    ("checks",): ProjectMay.ADD,
    ("formatters",): ProjectMay.ADD,
    ("check_seconds",): ProjectMay.LOWER,
    ("commands", "timeout"): ProjectMay.LOWER,
    ("commands", "deny"): ProjectMay.ADD,
    ("sandbox", "use"): ProjectMay.REQUIRE,
    ("sandbox", "network"): ProjectMay.CLOSE,
    ("sandbox", "hidden"): ProjectMay.ADD,
    ("web", "use"): ProjectMay.REFUSE,
    ("manager", "running_limit"): ProjectMay.LOWER,
    ("manager", "auto_approve"): ProjectMay.REFUSE,
    **{("limits", name): ProjectMay.LOWER for name in LimitSettings.__struct_fields__},
}


_STRICTEST: dict[ProjectMay, Any] = {
    ProjectMay.MAKE_IT_ASK: "ask",
    ProjectMay.REQUIRE: "required",
    ProjectMay.REFUSE: False,
}


_NARROWING: tuple[Network, ...] = ("on", "known", "off")


def loosens(key: Key, wanted: Any, present: Any) -> bool:
    """Whether a project's value would loosen the current one."""
    match PROJECT_MAY[key]:
        case ProjectMay.ADD:
            return False
        case ProjectMay.LOWER:
            return bool(wanted > present)
        case ProjectMay.LOWER_CEILING:
            return bool((wanted or math.inf) > (present or math.inf))
        case ProjectMay.CLOSE:
            return _NARROWING.index(wanted) < _NARROWING.index(present)
        case ProjectMay.MAKE_IT_ASK if present == "plan":
            return True
        case way:
            return bool(wanted != _STRICTEST[way])


def tightened(key: Key, wanted: Any, present: Any) -> Any:
    """The value after applying a project's value that does not loosen it."""
    if PROJECT_MAY[key] is ProjectMay.ADD:
        return (*present, *(text for text in wanted if text not in present))
    return wanted


ANY = "<id>"
"""Placeholder in a key for a name the user gives."""


class Setting(Struct, frozen=True):
    """One setting as its field declares it. `default` is None if there is none."""

    type: Any
    default: Any
    sentence: str
    expected: str
    """What values are allowed, to be read after "must be"."""


@cache
def all_settings() -> dict[Key, Setting]:
    """Every setting, in the order of `settings.py`."""
    return dict(_declared_in(Settings, ()))


def _declared_in(section: type[Any], at: Key) -> Iterator[tuple[Key, Setting]]:
    sentences = _sentences_of(section)
    for name, kind in get_type_hints(section, include_extras=True).items():
        key = (*at, name)
        if get_origin(kind) is dict:
            yield from _declared_in(get_args(kind)[1], (*key, ANY))
        elif isinstance(kind, type) and issubclass(kind, SettingsSection):
            yield from _declared_in(kind, key)
        else:
            default, expected = getattr(section(), name, None), _expected(*_unwrapped(kind))
            yield key, Setting(kind, default, sentences.get(name, ""), expected)


def _sentences_of(section: type[Any]) -> dict[str, str]:
    """Parse `name: sentence` from the docstring; continuation lines are indented further."""
    text = re.sub(r"\n {8,}", " ", section.__doc__ or "")
    return dict(re.findall(r"^ {4}(\w+): (.+)$", text, re.MULTILINE))


def _unwrapped(kind: Any) -> tuple[Any, list[Meta]]:
    """A type without its annotations, and the annotations, innermost first."""
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        base, inside = _unwrapped(inner)
        return base, [*inside, *metas]
    if NoneType in get_args(kind):
        return _unwrapped(get_args(kind)[0])
    return kind, []


def _expected(base: Any, metas: list[Meta]) -> str:
    if get_origin(base) is Literal:
        *others, last = map(shown, get_args(base))
        return f"{', '.join(others)} or {last}"
    if base is bool:
        return "true or false"
    if get_origin(base) is tuple:
        return "a list of non-empty texts"
    rule = metas[0]
    if base is str:
        return str((rule.extra or {}).get("expected", "a non-empty text"))
    number = "a whole number" if base is int else "a number"
    if rule.le is None:
        return f"{number} of at least {shown(rule.ge)}"
    return f"{number} from {shown(rule.ge)} to {shown(rule.le)}"


def variable_of(key: Key) -> str:
    return ENV_PREFIX + "_".join(key).upper()


def shown(value: Any) -> str:
    """A value in TOML, on one line and safe for a terminal."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return "a number so large" if abs(value) >= 10**15 else f"{value:.15g}"
        case str():
            text = value if len(value) <= 60 else value[:59] + "…"
            return '"' + "".join(map(_harmless, text)) + '"'
        case tuple():
            texts = [shown(text) for text in value]
            return f"[{', '.join(texts)}]" if len(texts) <= 10 else f"a list of {len(texts)}"
        case list():
            return "a list"
        case Mapping():
            return "a table"
        case _:
            return "a date or time"


def _harmless(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() else f"\\u{ord(char):04x}"


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
        taken = msgspec.convert(value, prepared(setting.type))
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
        return setting is not None and msgspec.convert([], prepared(setting.type)) == ()
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
    return msgspec.convert(table, prepared(Settings))


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
