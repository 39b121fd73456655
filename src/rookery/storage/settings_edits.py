"""One value changed in a settings file, and everything else left as its owner wrote it.

TOML can be written in many ways, and this knows only the usual ones. So whatever it makes of a
file is read again, and is taken only if it says what it said before, but for the one value.
"""

import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery import NAME
from rookery.core.settings import Key
from rookery.errors import SettingsError
from rookery.platform.attributes import attributes_at
from rookery.platform.disk import put, reason
from rookery.storage.settings_files import LARGEST_FILE, LONGEST_LINE
from rookery.storage.settings_values import spelled

_OPEN_TO_READERS = 0o644


class _Statement(Struct, frozen=True):
    """A line that gives a key its value, with those that belong to it; `[first, after)`."""

    first: int
    after: int
    section: Key
    says: Mapping[str, Any]


class _Section(Struct, frozen=True):
    """A line that opens a section."""

    line: int
    key: Key


def text_of(file: Path) -> str:
    """What a settings file says; nothing if there is none."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise SettingsError(f"{file} is no regular file; move it away.")
        with file.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise SettingsError(f"{file} is larger than {LARGEST_FILE} bytes; shorten it.")
        return data.decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {reason(error)}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} is not UTF-8 text; save it as UTF-8.") from error


def table_of(text: str, file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file} is no valid TOML ({error}).") from error


def with_value(text: str, key: Key, value: Any, file: Path) -> str:
    """The text of the file with a setting set."""
    wanted = _changed(table_of(text, file), key, value)
    return _first_that_says(wanted, _ways_to_set(_lines(text), key, toml(value)), text, key, file)


def without(text: str, key: Key, file: Path) -> str:
    """The text of the file without a setting; the same text if it is not set there."""
    before = table_of(text, file)
    if not _says(before, key):
        return text
    lines = _lines(text)
    ways = (
        [*lines[: found.first], *lines[found.after :]]
        for found in _statements(lines)
        if _is_about(found, key)
    )
    return _first_that_says(_removed(before, key), ways, text, key, file)


def change_settings(file: Path, change: Callable[[str], str], *, shared: bool) -> bool:
    """Replace a settings file by what `change` makes of its text, whoever else changes it at the
    same time; whether that is anything new. What is `shared` with others in a project stays
    readable for them, and must not lead elsewhere."""
    before = text_of(file)
    if change(before) == before:
        return False
    target = _target(file, shared=shared)
    with _alone(target.parent, shared=shared):
        before = text_of(file)
        after = change(before)
        if after != before:
            _insist_that_it_can_be_read(before, after, file)
            _write(target, after, shared=shared)
    return after != before


def _insist_that_it_can_be_read(before: str, after: str, file: Path) -> None:
    """A file that is too long is not read at all, and then nothing starts any more. Who has made
    it so themselves may still change it."""
    if _is_too_long(after) and not _is_too_long(before):
        raise SettingsError(
            f"{file} would be too long to be read: it may have {LARGEST_FILE} bytes, and "
            f"{LONGEST_LINE} characters a line. Nothing was changed; shorten the value."
        )


def _is_too_long(text: str) -> bool:
    longest = max(map(len, text.split("\n")))
    return longest > LONGEST_LINE or len(text.encode()) > LARGEST_FILE


def _target(file: Path, *, shared: bool) -> Path:
    if shared and (file.is_symlink() or file.parent.is_symlink()):
        raise SettingsError(
            f"{file} is a link, so nothing is written through it; edit it yourself."
        )
    return file if shared else file.resolve()


@contextmanager
def _alone(folder: Path, *, shared: bool) -> Iterator[None]:
    """Nobody else changes settings in the folder meanwhile. It is locked itself, so that no file
    is left behind in it."""
    try:
        folder.mkdir(mode=0o755 if shared else 0o700, parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SettingsError(f"Nothing could be written in {folder}: {reason(error)}.") from error
    try:
        _lock(fd, folder)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, folder: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as error:
        raise SettingsError(f"{folder} could not be locked: {reason(error)}.") from error


def _write(target: Path, text: str, *, shared: bool) -> None:
    try:
        like = attributes_at(target)
        put(target, [text.encode()], like=like)
        if like is None and shared:
            os.chmod(target, _OPEN_TO_READERS)
    except OSError as error:
        raise SettingsError(f"{target} could not be written: {reason(error)}.") from error


def toml(value: Any) -> str:
    """A value as TOML spells it, whole."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple() | list():
            return f"[{', '.join(map(toml, value))}]"
        case _:
            return repr(value)


def _first_that_says(
    wanted: Mapping[str, Any], ways: Iterator[Sequence[str]], before: str, key: Key, file: Path
) -> str:
    import tomllib

    ends = "\r\n" if "\r\n" in before else "\n"
    for lines in ways:
        with suppress(ValueError):
            text = "\n".join(lines)
            text = f"{text}\n" if text and not text.endswith("\n") else text
            if _pruned(tomllib.loads(text)) == _pruned(wanted):
                return text.replace("\n", ends)
    raise SettingsError(
        f"{spelled(key)} stands in {file} in a way that only you can change: {NAME} config edit"
    )


def _ways_to_set(lines: list[str], key: Key, spelling: str) -> Iterator[list[str]]:
    """First where it stands already, then where one would look for it."""
    known = list(_statements(lines))
    for found in known:
        if _is_about(found, key):
            line = lines[found.first]
            kept = line[: line.index("=")] + "= " if "=" in line else f"{spelled(key)} = "
            before = lines[found.first : found.after]
            whole = kept + spelling + _comment(before)
            inside = _comments(before) if len(before) > 1 else []
            yield [*lines[: found.first], *inside, whole, *lines[found.after :]]
    section, name = key[:-1], spelled(key[-1:])
    for header in _sections(lines):
        if header.key == section:
            below = [each for each in known if each.section == section]
            at = max((each.after for each in below), default=header.line + 1)
            yield [*lines[:at], f"{name} = {spelling}", *lines[at:]]
    if section:
        gap = [""] if any(line.strip() for line in lines) and lines[-1].strip() else []
        yield [*lines, *gap, f"[{spelled(section)}]", f"{name} = {spelling}"]
    yield from _at_the_top(lines, known, f"{spelled(key)} = {spelling}")


def _at_the_top(
    lines: list[str], known: Sequence[_Statement], statement: str
) -> Iterator[list[str]]:
    """Behind the last of those without a section, or before everything else."""
    above = [each.after for each in known if not each.section]
    headers = [header.line for header in _sections(lines)]
    if above:
        at = above[-1]
        yield [*lines[:at], statement, *lines[at:]]
    elif headers:
        yield [*lines[: headers[0]], statement, "", *lines[headers[0] :]]
    else:
        yield [*lines, statement]


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _statements(lines: Sequence[str]) -> Iterator[_Statement]:
    section: Key = ()
    at = 0
    while at < len(lines):
        opened = _opened(lines[at])
        if opened is not None:
            section = opened
        elif lines[at].strip() and not lines[at].lstrip().startswith("#"):
            after, says = _whole(lines, at)
            yield _Statement(at, after, section, says)
            at = after
            continue
        at += 1


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    inside = {
        line for each in _statements(lines) for line in range(each.first, each.after)
    }  # a text over several lines may look like anything
    for number, line in enumerate(lines):
        if number not in inside and (opened := _opened(line)) is not None:
            yield _Section(number, opened)


def _whole(lines: Sequence[str], first: int) -> tuple[int, Mapping[str, Any]]:
    """Where a statement ends that begins at a line, and what it says."""
    import tomllib

    for after in range(first + 1, len(lines) + 1):
        with suppress(ValueError):
            return after, tomllib.loads("\n".join(lines[first:after]))
    return len(lines), {}


def _opened(line: str) -> Key | None:
    """The section that a line opens."""
    import tomllib

    if not line.lstrip().startswith("["):
        return None
    try:
        says: Any = tomllib.loads(line)
    except ValueError:
        return None
    names: list[str] = []
    while isinstance(says, dict) and says:
        [(name, says)] = says.items()
        names.append(name)
    return tuple(names)


def _is_about(found: _Statement, key: Key) -> bool:
    inside = key[len(found.section) :]
    return key[: len(found.section)] == found.section and _says(found.says, inside)


def _comment(lines: Sequence[str]) -> str:
    """What stands behind a value, for people."""
    import tomllib

    if len(lines) != 1:
        return ""
    says = tomllib.loads(lines[0])
    for at, char in enumerate(lines[0]):
        with suppress(ValueError):
            if char == "#" and tomllib.loads(lines[0][:at]) == says:
                return f"  {lines[0][at:]}"
    return ""


_STRINGS_AND_COMMENTS = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|(#[^\n]*)', re.DOTALL
)


def _comments(lines: Sequence[str]) -> list[str]:
    """What stands for people inside a value of several lines, which becomes one line."""
    found = _STRINGS_AND_COMMENTS.finditer("\n".join(lines))
    return [each[1].rstrip() for each in found if each[1]]


def _says(table: Mapping[str, Any], key: Key) -> bool:
    at: Any = table
    for name in key:
        if not isinstance(at, Mapping) or name not in at:
            return False
        at = at[name]
    return bool(key)


def _changed(table: Mapping[str, Any], key: Key, value: Any) -> dict[str, Any]:
    first, *rest = key
    inner = table.get(first, {})
    if rest and not isinstance(inner, Mapping):
        inner = {}
    new = _changed(inner, tuple(rest), value) if rest else _plain(value)
    return {**table, first: new}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _removed(table: Mapping[str, Any], key: Key) -> dict[str, Any]:
    first, *rest = key
    if not rest:
        return {name: each for name, each in table.items() if name != first}
    return {**table, first: _removed(table[first], tuple(rest))}


def _pruned(value: Any) -> Any:
    """Without sections that say nothing."""
    if not isinstance(value, Mapping):
        return value
    inner = {name: _pruned(each) for name, each in value.items()}
    return {name: each for name, each in inner.items() if each != {}}
