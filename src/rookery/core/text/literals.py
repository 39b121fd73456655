"""Values as models print them: JSON, and common small deviations from it.

Read without guessing: trailing commas, raw line ends in strings, Python's quotes and constants,
bare keys, and closing brackets that are missing at the very end. Everything else is unreadable.
"""

import re
from collections.abc import Mapping
from typing import Any

from rookery.first_use import lazy_pattern

DEEPEST = 32

_SPACE = lazy_pattern(r"\s*+")
_NUMBER = lazy_pattern(r"-?\d{1,20}+(?:\.\d{1,40}+)?(?:[eE][+-]?\d{1,3})?(?![\w.])")
_WORD = lazy_pattern(r"[A-Za-z_][\w.-]*+")
_ESCAPE = lazy_pattern(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_CONSTANTS = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_ESCAPED |= {mark: mark for mark in "\"'/\\"}
_STRINGS = (
    ('"""', lazy_pattern(r'"""((?:[^"\\]++|\\.|"(?!""))*+)"""', re.DOTALL)),
    ("'''", lazy_pattern(r"'''((?:[^'\\]++|\\.|'(?!''))*+)'''", re.DOTALL)),
    ('"', lazy_pattern(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)),
    ("'", lazy_pattern(r"'((?:[^'\\\n]++|\\.)*+)'", re.DOTALL)),
    ('<|"|>', lazy_pattern(r'<\|"\|>((?:[^<]++|<(?!\|"\|>))*+)<\|"\|>')),  # Gemma 4
    ("<escape>", lazy_pattern(r"<escape>((?:[^<]++|<(?!escape>))*+)<escape>")),  # FunctionGemma
)
_VERBATIM = ('<|"|>', "<escape>")


class NoValue(ValueError):
    """There is no value here. `reached` is how far it was read."""

    def __init__(self, reached: int) -> None:
        super().__init__(f"no value at character {reached}")
        self.reached = reached


def read_value(
    text: str, start: int = 0, end: int | None = None, *, closing: bool = False
) -> tuple[Any, int]:
    """The value at `start` and where it ends. `closing` adds brackets that are missing at `end`.

    Raises `NoValue`.
    """
    reader = _ValueReader(text, len(text) if end is None else end, closing)
    value = reader.value(start, 0)
    return value, reader.at


def read_whole(text: str) -> Any:
    """The value that is all of the text. Raises `NoValue`."""
    value, end = read_value(text)
    if text[end:].strip():
        raise NoValue(end)
    return value


def read_arguments_in_brackets(text: str, start: int) -> tuple[list[Any], Mapping[str, Any], int]:
    """The arguments of `f(…)` from after the opening bracket: positional, named, and the end.

    Raises `NoValue`.
    """
    reader = _ValueReader(text, len(text), closing=False)
    return *reader.call(start), reader.at


class _ValueReader:
    def __init__(self, text: str, end: int, closing: bool) -> None:
        self._text = text
        self._end = end
        self._closing = closing
        self.at = 0

    def value(self, start: int, depth: int) -> Any:
        at = self._skip(start)
        mark = self._text[at : at + 1] if at < self._end else ""
        if depth > DEEPEST or not mark:
            raise NoValue(at)
        if mark == "{":
            return self._table(at + 1, depth)
        if mark == "[":
            return self._list(at + 1, depth)
        if mark in "\"'<":
            return self._string(at)
        return self._plain(at)

    def call(self, start: int) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        at = self._skip(start)
        while not self._text.startswith(")", at):
            name = _WORD.match(self._text, at, self._end)
            behind = self._skip(name.end()) if name else at
            if name and self._text.startswith("=", behind):
                if name[0] in named:
                    raise NoValue(at)
                named[name[0]] = self.value(behind + 1, 1)
            elif named:
                raise NoValue(at)
            else:
                positional.append(self.value(at, 1))
            at = self._separated(")")
        self.at = at + 1
        return positional, named

    def _table(self, at: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        at = self._skip(at)
        while not self._closed("}", at):
            key = self._key(at)
            at = self._skip(self.at)
            if key in found or not self._text.startswith(":", at, self._end):
                raise NoValue(at)
            found[key] = self.value(at + 1, depth + 1)
            at = self._separated("}")
        return found

    def _list(self, at: int, depth: int) -> list[Any]:
        found: list[Any] = []
        at = self._skip(at)
        while not self._closed("]", at):
            found.append(self.value(at, depth + 1))
            at = self._separated("]")
        return found

    def _closed(self, bracket: str, at: int) -> bool:
        if self._text.startswith(bracket, at, self._end):
            self.at = at + 1
            return True
        if at < self._end:
            return False
        if not self._closing:
            raise NoValue(at)
        self.at = self._end
        return True

    def _separated(self, bracket: str) -> int:
        """After the comma, or at the closing bracket."""
        at = self._skip(self.at)
        if self._text.startswith(",", at, self._end):
            return self._skip(at + 1)
        if at < self._end and not self._text.startswith(bracket, at):
            raise NoValue(at)
        if at >= self._end and not self._closing:
            raise NoValue(at)
        return at

    def _key(self, at: int) -> str:
        if self._text[at] in "\"'<":
            return self._string(at)
        if not (word := _WORD.match(self._text, at, self._end)):
            raise NoValue(at)
        self.at = word.end()
        return word[0]

    def _string(self, at: int) -> str:
        for mark, pattern in _STRINGS:
            if not self._text.startswith(mark, at):
                continue
            if not (found := pattern.match(self._text, at, self._end)):
                raise NoValue(self._end)
            self.at = found.end()
            return found[1] if mark in _VERBATIM else _unescaped(found[1], at)
        raise NoValue(at)

    def _plain(self, at: int) -> Any:
        if number := _NUMBER.match(self._text, at, self._end):
            self.at = number.end()
            return float(number[0]) if set(number[0]) & set(".eE") else int(number[0])
        word = _WORD.match(self._text, at, self._end)
        if word is None or word[0] not in _CONSTANTS:
            raise NoValue(at)
        self.at = word.end()
        return _CONSTANTS[word[0]]

    def _skip(self, at: int) -> int:
        space = _SPACE.match(self._text, at, self._end)
        return space.end() if space else at


def _unescaped(text: str, at: int) -> str:
    """An escape that JSON and Python do not share is unreadable: it may mean two things."""
    if "\\" not in text:
        return text

    def meant(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        if escape not in _ESCAPED:
            raise NoValue(at)
        return _ESCAPED[escape]

    plain = _ESCAPE.sub(meant, text)
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise NoValue(at) from error
