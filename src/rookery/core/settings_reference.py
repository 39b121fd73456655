"""The description of every setting: its values, its default, what a project may change.

`python -m rookery.core.settings_reference` prints `docs/settings.md`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct

from rookery import ENV_PREFIX, NAME, PROJECT_FOLDER
from rookery.core.settings import Settings
from rookery.core.settings_sections import LimitSettings, Network, SettingsSection

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


def document() -> str:
    """`docs/settings.md`."""
    lines = [
        "# Settings",
        "",
        f"<!-- Made by `python -m {NAME}.core.settings_reference`; "
        f"edit src/{NAME}/core/settings.py instead. -->",
        "",
        "The first of these that has a setting decides:",
        "",
        "1. a flag of the command line;",
        f"2. an environment variable: the key in capitals after `{ENV_PREFIX}`, with `_` between",
        f"   section and name, as in `{variable_of(('model',))}` and "
        f"`{variable_of(('ui', 'colour'))}`; an empty one counts as absent;",
        f"3. the project's `{PROJECT_FOLDER}/settings.toml`, which can only tighten, and only",
        "   where the tables below say so;",
        f"4. your own file, `~/.config/{NAME}/settings.toml` on Linux and",
        f"   `~/Library/Application Support/{NAME}/settings.toml` on macOS, or",
        f"   `${ENV_PREFIX}HOME/config/settings.toml`; `{NAME} settings` prints where it is;",
        "5. the default.",
        "",
        "Both files are TOML. A setting of a section is written below its `[section]`. Models",
        "that are not known by themselves, or are known wrongly, are described one by one below",
        '`[models."<id>"]`, and what you change about a mode stands below `[modes.<slug>]`; both',
        "in your own file only.",
    ]
    section: Key | None = None
    for key, setting in all_settings().items():
        if key[:-1] != section:
            section = key[:-1]
            lines += ["", f"## [{'.'.join(section)}]" if section else "## Without a section", ""]
            lines += ["| setting | may be | default | a project may | meaning |"]
            lines += ["| --- | --- | --- | --- | --- |"]
        default = "" if setting.default is None else f"`{shown(setting.default)}`"
        cells = (setting.expected, default, PROJECT_MAY.get(key, ""), setting.sentence)
        lines += [f"| `{key[-1]}` | {' | '.join(cells)} |"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
