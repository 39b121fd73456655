"""Vim's keys for the input area: the common motions and operators, as pure functions on a text.

Undo, and `j` and `k` (which also walk through the input history), are left to the input area.
"""

import re
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

_WORD = re.compile(r"\w+|[^\w\s]+|^$", re.MULTILINE)
OPERATORS = ("d", "c", "y")
_INSERTS = ("i", "a", "A", "I", "o", "O")
_SHORT = {"D": "d$", "C": "c$", "x": "dl", "s": "cl", "Y": "yy", "S": "cc", "X": "dh"}
"""Commands that are short for an operator with a motion."""


class VimMode(Enum):
    INSERT = "INSERT"
    NORMAL = "NORMAL"


class VimState(Struct, frozen=True, kw_only=True):
    """A text, the cursor's index in it, and what was typed so far."""

    text: str = ""
    at: int = 0
    mode: VimMode = VimMode.INSERT
    pending: str = ""
    """An operator or `g` that waits for the next key."""
    register: str = ""
    """What was deleted or copied last; whole lines end with a line break."""


def press(state: VimState, key: str) -> VimState:
    """The state after a key in normal mode. Unknown keys do nothing."""
    keys, state = state.pending + key, replace(state, pending="")
    keys = _SHORT.get(keys, keys)
    if keys in OPERATORS or keys == "g" or (keys[0] in OPERATORS and keys[1:] == "g"):
        return replace(state, pending=keys)
    if keys[0] in OPERATORS:
        return _operate(state, keys[0], keys[1:])
    if keys in _INSERTS:
        return _insert(state, keys)
    if keys in ("p", "P"):
        return _put(state, after=keys == "p")
    target = _target(state, keys)
    return state if target is None else _settled(replace(state, at=target))


def leave_insert(state: VimState) -> VimState:
    """Esc: to normal mode, on the last character that was typed."""
    begin = _line(state.text, state.at)[0]
    at = max(begin, state.at - 1)
    return _settled(replace(state, mode=VimMode.NORMAL, at=at, pending=""))


def _settled(state: VimState) -> VimState:
    """The cursor of normal mode stands on a character, not behind the line."""
    begin, end = _line(state.text, state.at)
    return replace(state, at=max(begin, min(state.at, end - 1)))


def _line(text: str, at: int) -> tuple[int, int]:
    """Where the line begins and ends, without its line break."""
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _target(state: VimState, motion: str) -> int | None:
    """Where a motion leads; None if there is no such motion."""
    text, at = state.text, state.at
    begin, end = _line(text, at)
    match motion:
        case "h":
            return max(begin, at - 1)
        case "l":
            return min(end, at + 1)
        case "0":
            return begin
        case "^":
            return begin + len(text[begin:end]) - len(text[begin:end].lstrip())
        case "$":
            return end
        case "w":
            return next(
                (word.start() for word in _WORD.finditer(text, at) if word.start() > at), len(text)
            )
        case "e":
            ends = (word.end() - 1 for word in _WORD.finditer(text, at))
            return next((last for last in ends if last > at), len(text))
        case "b":
            return max(
                (word.start() for word in _WORD.finditer(text) if word.start() < at), default=0
            )
        case "gg":
            return 0
        case "G":
            return text.rfind("\n") + 1
        case _:
            return None


def _operate(state: VimState, operator: str, motion: str) -> VimState:
    """Delete, change or copy what the motion covers."""
    text, at = state.text, state.at
    if motion in (operator, "j", "k", "gg", "G"):
        return _operate_on_lines(state, operator, motion)
    if operator == "c" and motion == "w":
        motion = "e" if not text[at : at + 1].isspace() else "w"
    target = _target(state, motion)
    if target is None:
        return state
    if motion == "w":
        target = min(target, _line(text, at)[1])  # a word's deletion does not join lines
    begin, end = min(at, target), max(at, target) + (motion == "e")
    return _cut(state, operator, begin, end, register=text[begin:end])


def _operate_on_lines(state: VimState, operator: str, motion: str) -> VimState:
    text = state.text
    begin, end = _line(text, state.at)
    match motion:
        case "j":
            end = _line(text, min(len(text), end + 1))[1]
        case "k":
            begin = _line(text, max(0, begin - 1))[0]
        case "gg":
            begin = 0
        case "G":
            end = len(text)
        case _:
            pass
    register = text[begin:end] + "\n"
    if operator == "d":  # the lines go with one line break
        end, begin = (end + 1, begin) if end < len(text) else (end, max(0, begin - 1))
    return _cut(state, operator, begin, end, register=register)


def _cut(state: VimState, operator: str, begin: int, end: int, *, register: str) -> VimState:
    if operator == "y":
        return _settled(replace(state, at=begin, register=register))
    rest = state.text[:begin] + state.text[end:]
    after = replace(state, text=rest, at=min(begin, len(rest)), register=register)
    if operator == "c":
        return replace(after, mode=VimMode.INSERT)
    if register.endswith("\n") and begin and end == len(state.text):
        after = replace(after, at=_line(rest, len(rest))[0])
    return _settled(after)


def _insert(state: VimState, key: str) -> VimState:
    text, at = state.text, state.at
    begin, end = _line(text, at)
    if key in ("o", "O"):
        place = end if key == "o" else begin
        opened = text[:place] + "\n" + text[place:]
        at = place + 1 if key == "o" else place
        return replace(state, text=opened, at=at, mode=VimMode.INSERT)
    places = {"i": at, "a": min(end, at + 1), "A": end, "I": _target(state, "^") or begin}
    return replace(state, at=places[key], mode=VimMode.INSERT)


def _put(state: VimState, *, after: bool) -> VimState:
    text, at, put = state.text, state.at, state.register
    if not put:
        return state
    begin, end = _line(text, at)
    if not put.endswith("\n"):
        place = min(end, at + 1) if after else at
        whole = text[:place] + put + text[place:]
        return _settled(replace(state, text=whole, at=place + len(put) - 1))
    if after:
        whole = text[:end] + "\n" + put[:-1] + text[end:]
        return _settled(replace(state, text=whole, at=end + 1))
    return _settled(replace(state, text=text[:begin] + put + text[begin:], at=begin))
