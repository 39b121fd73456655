"""Merges settings from files, environment and flags, and remembers the source of each value.

Flag, environment, project, user, default: the first that has a setting decides it. A project was
written by strangers, so callers leave it out unless the folder is trusted, and it may only tighten
settings (`PROJECT_MAY`); anything else is refused and reported. So is an unknown variable with our
prefix, which may be a typo.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery import ENV_PREFIX, PROJECT_FOLDER
from rookery.core.limits import KIB
from rookery.core.settings import Settings
from rookery.core.settings_reference import (
    ANY,
    PROJECT_MAY,
    Key,
    all_settings,
    checked,
    checked_text,
    general,
    loosens,
    no_such,
    settings_from,
    shown,
    spelled,
    tightened,
    values_in,
    variable_of,
)
from rookery.errors import SettingsError
from rookery.platform.disk import reason
from rookery.platform.user_folders import HOME_VARIABLE

# A megabyte of dotted keys makes the TOML parser take gigabytes, and so does one long line.
LARGEST_FILE = 64 * KIB
LONGEST_LINE = 1000
DEFAULT = "default"
OTHER_VARIABLES = frozenset(
    ENV_PREFIX + name
    for name in (
        "HOME",
        "FLEET_DATABASE",
        "KILLPOINT",
        "KILLPOINT_LOG",
        "TORTURE",
        "NOTHING_LEFT_OUT",
    )
)
"""Our variables that are not settings: the home folder, the fleet, and what tests set."""


class FoundSettings(Struct, frozen=True, kw_only=True):
    """The settings, where each given value came from, and notices about ignored values."""

    settings: Settings
    origins: Mapping[Key, str]
    refused: tuple[str, ...] = ()


class _Layers:
    """The values of the layers so far. A later layer is stronger."""

    def __init__(self, home: str) -> None:
        self._home = home
        self.values: dict[Key, Any] = {}
        self.origins: dict[Key, str] = {}
        self.problems: list[str] = []
        self.refused: list[str] = []

    def take_user(self, file: Path) -> None:
        for key, value in self._values_of(file):
            with self._noting(f"{self._shown_path(file)}: "):
                self._take(key, checked(key, value, name=spelled(key)), str(file))

    def take_project(self, file: Path, settings_file: Path) -> None:
        if file == settings_file:
            return
        for key, value in self._values_of(file):
            if key not in PROJECT_MAY:
                self.refused.append(
                    f"{self._shown_path(file)}: {self._foreign(key, settings_file)}"
                )
                continue
            with self._noting(f"{self._shown_path(file)}: "):
                self._tighten(key, checked(key, value, name=spelled(key)), file)

    def take_environment(self, environ: Mapping[str, str]) -> None:
        for key in all_settings():
            variable = variable_of(key)
            if ANY not in key and (text := environ.get(variable)):
                with self._noting():
                    self._take(key, checked_text(key, text, name=variable), variable)
        self.refused += _unknown_variables(environ)

    def take_flags(self, flags: Mapping[str, Any]) -> None:
        for name, value in flags.items():
            if value is None:
                continue
            key, flag = tuple(name.split(".")), "--" + re.sub(r"[._]", "-", name)
            read = checked_text if isinstance(value, str) else checked
            with self._noting():
                self._take(key, read(key, value, name=flag), "flag")

    def _take(self, key: Key, value: Any, origin: str) -> None:
        self.values[key] = value
        self.origins[key] = origin

    def _tighten(self, key: Key, wanted: Any, file: Path) -> None:
        present = self.values.get(key, all_settings()[key].default)
        if not loosens(key, wanted, present):
            if (strict := tightened(key, wanted, present)) != present:
                self._take(key, strict, str(file))
        elif key not in self.origins:
            self.refused.append(
                f"{self._shown_path(file)}: a project can only {PROJECT_MAY[key]}, so "
                f"{spelled(key)} = {shown(wanted)} was ignored; remove it."
            )

    def _foreign(self, key: Key, settings_file: Path) -> str:
        if general(key) not in all_settings():
            return no_such(key)
        return (
            f"{spelled(key)} cannot be set by a project; set it in "
            f"{self._shown_path(settings_file)} if you want it."
        )

    def _values_of(self, file: Path) -> list[tuple[Key, Any]]:
        values: list[tuple[Key, Any]] = []
        with self._noting():
            called = self._shown_path(file)
            values += values_in(_table_in(text_of(file, called), called))
        return values

    @contextmanager
    def _noting(self, where: str = "") -> Iterator[None]:
        """Collect errors, so that all of them can be reported at once."""
        try:
            yield
        except SettingsError as error:
            self.problems.append(f"{where}{error}")

    def _shown_path(self, file: Path) -> str:
        """The file's path for messages."""
        inside = bool(self._home) and file.is_relative_to(self._home)
        return str("~" / file.relative_to(self._home)) if inside else str(file)


class Held(Struct, frozen=True, kw_only=True):
    """The value in effect and its source."""

    value: Any
    origin: str


def find_settings(
    settings_file: Path,
    workspace: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
) -> FoundSettings:
    """The settings in effect and their sources. Raises `SettingsError` that lists every problem.

    `flags` has the settings from the command line by key (`"ui.colour"`); None means not given.
    Without a workspace no project is read.
    """
    layers = _Layers(home=environ.get("HOME", ""))
    layers.take_user(settings_file)
    if workspace is not None:
        layers.take_project(workspace / PROJECT_FOLDER / "settings.toml", settings_file)
    layers.take_environment(environ)
    layers.take_flags(flags)
    if layers.problems:
        raise SettingsError("\n".join(layers.problems))
    return FoundSettings(
        settings=settings_from(layers.values),
        origins=layers.origins,
        refused=tuple(layers.refused),
    )


def keys_of(found: FoundSettings) -> list[Key]:
    """Every setting, including descriptions of models."""
    plain = [key for key in all_settings() if ANY not in key]
    return [*plain, *(key for key in found.origins if key not in plain)]


def held_in(found: FoundSettings, key: Key) -> Held:
    at: Any = found.settings
    for name in key:
        at = at.get(name) if isinstance(at, Mapping) else getattr(at, name, None)
    return Held(value=at, origin=found.origins.get(key, DEFAULT))


def overriding_source(found: FoundSettings, key: Key, file: Path) -> str:
    """A sentence if a setting is decided by something other than this file; usually empty."""
    held = held_in(found, key)
    if held.origin in (str(file), DEFAULT):
        return ""
    return f"{held.origin} overrides it here: {spoken(held.value)}"


def spoken(said: Any) -> str:
    return shown(tuple(said) if isinstance(said, list) else said)


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each unknown variable with our prefix. Names that no shell can set are
    skipped."""
    from difflib import get_close_matches

    known = [variable_of(key) for key in all_settings() if ANY not in key]
    for name in sorted(environ):
        mine = name.startswith(ENV_PREFIX) and name.isascii() and name.isidentifier()
        if not mine or not environ[name] or name in OTHER_VARIABLES or name in known:
            continue
        near = get_close_matches(name, [*known, HOME_VARIABLE], cutoff=0.75)
        near.sort(key=lambda other: sorted(other) != sorted(name))
        hint = f"did you mean {near[0]}?" if near else "unset it."
        yield f"{name} is not a setting; {hint}"


def _table_in(text: str, called: str) -> dict[str, Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > LONGEST_LINE:
            raise SettingsError(
                f"{called}: line {number} is longer than {LONGEST_LINE} characters; shorten it."
            )
    return table_of(text, called)


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
