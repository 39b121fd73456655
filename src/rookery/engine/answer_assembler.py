"""Assembles a model's answer from its chunks, in the order in which they arrived.

Arguments are parsed once and strictly, when the answer is complete. A call whose arguments are not
a valid JSON object keeps a description of the problem and is never repaired by guessing.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection
from hashlib import sha256
from itertools import count
from typing import Any, TypeAlias

from rookery.core.blocks import Block, Text, Thinking, ToolCall
from rookery.core.limits import Limits
from rookery.core.text.characters import whole
from rookery.first_use import lazy_pattern

DEEPEST = 64
LONGEST_ID = 64
_SMALLEST_INT, _LARGEST_INT = -(2**63), 2**64 - 1  # what JSON readers keep without loss
_LONGEST_INT_TEXT = 20

_ODD_CHARACTER = lazy_pattern(r"[^A-Za-z0-9_-]")
_STRING_OR_BRACKET = r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]'


class _Words:
    def __init__(self) -> None:
        self.pieces: list[str] = []


class _Thought:
    def __init__(self, source: str) -> None:
        self.source = source
        self.pieces: list[str] = []
        self.signature = ""


class _Call:
    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.size = 0
        self.safe_id = ""


_Part: TypeAlias = _Words | _Thought | _Call


class Assembler:
    """One answer in progress.

    `used_ids` are the ids of the task's earlier calls. A call without an id gets one from `new_id`,
    or a number.
    """

    def __init__(
        self,
        *,
        used_ids: Collection[str] = (),
        new_id: Callable[[], str] | None = None,
        largest: int = Limits().arguments_bytes,
    ) -> None:
        counter = count(1)
        self._new_id = new_id or (lambda: f"call_{next(counter)}")
        self._used_ids = set(used_ids)
        self._largest = largest
        self._parts: list[_Part] = []
        self._by_index: dict[int, _Call] = {}
        self._calls = 0

    def add_text(self, text: str) -> None:
        if not text:
            return
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Words):
            last = _Words()
            self._parts.append(last)
        last.pieces.append(text)

    def add_thinking(self, text: str, signature: str = "", source: str = "") -> None:
        """A signature ends its block; later text starts a new one."""
        if not (text or signature):
            return
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Thought) or last.signature or last.source != source:
            last = _Thought(source)
            self._parts.append(last)
        last.pieces.append(text)
        last.signature = signature

    def add_call(
        self, index: int, arguments: str = "", id: str = "", name: str = ""
    ) -> tuple[int, str]:
        """Return the number of the call in this answer, and its name as far as it is known.

        Calls are told apart by index. Some providers give every call the same index: a start with a
        new id under a known index is a new call, a repeated start is not.
        """
        call = self._by_index.get(index)
        if call is None or (id and name and call.id and id != call.id):
            call = self._open_call(index)
        call.id = call.id or id
        call.name = name or call.name
        self._extend(call, arguments)
        return call.number, call.name

    def blocks(self) -> tuple[Block, ...]:
        """The complete answer."""
        return tuple(block for part in self._parts for block in self._finish(part))

    def said(self) -> tuple[Block, ...]:
        """The text of an interrupted answer, without its calls."""
        words = (part for part in self._parts if not isinstance(part, _Call))
        return tuple(block for part in words for block in self._finish(part))

    def _open_call(self, index: int) -> _Call:
        call = _Call(self._calls)
        self._calls += 1
        self._by_index[index] = call
        self._parts.append(call)
        return call

    def _extend(self, call: _Call, arguments: str) -> None:
        call.size += _bytes(arguments)
        if call.size <= self._largest:
            call.pieces.append(arguments)

    def _finish(self, part: _Part) -> tuple[Block, ...]:
        match part:
            case _Words():
                text = whole("".join(part.pieces))
                return (Text(text=text),) if text.strip() else ()  # providers refuse blank text
            case _Thought():
                text = whole("".join(part.pieces))
                said = bool(text.strip() or part.signature)
                thought = Thinking(text=text, signature=part.signature, source=part.source)
                return (thought,) if said else ()
            case _Call():
                return (self._finish_call(part),)

    def _finish_call(self, call: _Call) -> ToolCall:
        call.safe_id = call.safe_id or self._claim_id(call.id)
        if call.size > self._largest:
            problem = (
                f"The arguments have {call.size} bytes; at most {self._largest} are accepted. "
                "Do this in smaller steps."
            )
            return ToolCall(id=call.safe_id, name=call.name, problem=problem)
        try:
            arguments = read_arguments("".join(call.pieces))
        except ValueError as error:
            return ToolCall(id=call.safe_id, name=call.name, problem=str(error))
        return ToolCall(id=call.safe_id, name=call.name, arguments=arguments)

    def _claim_id(self, given: str) -> str:
        """Return an id that every provider accepts and no other call of the task has."""
        wanted = given or self._new_id()
        safe, times = safe_id(wanted), 1
        while safe in self._used_ids:
            times += 1
            safe = safe_id(f"{wanted}_{times}")
        self._used_ids.add(safe)
        return safe


def safe_id(id: str) -> str:
    """The id reduced to letters, digits, `_` and `-`, and to the length that providers allow."""
    plain = _ODD_CHARACTER.sub("_", id) or "_"
    if len(plain) <= LONGEST_ID:
        return plain
    mark = sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: LONGEST_ID - 9]}_{mark}"


def read_arguments(text: str) -> dict[str, Any]:
    """Parse the arguments of a call. Raises `ValueError` with the position of the problem."""
    if not text.strip():
        return {}
    _refuse_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_bounded_int,
            parse_float=_finite_float,
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"The arguments are not valid JSON: {error.msg}, at line {error.lineno}, "
            f"column {error.colno} (character {error.pos})."
        ) from error
    if not isinstance(value, dict):
        raise ValueError(
            f"The arguments are {_NAMES[type(value)]}, from character 0 on, not an object."
        )
    if "\\u" in text or not text.isascii():
        _refuse_halves(value)
    return value


_NAMES = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a truth value",
    type(None): "null",
}


def _refuse_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    depth = 0
    for found in re.finditer(_STRING_OR_BRACKET, text, re.DOTALL):
        mark = found[0]
        depth += (mark in "[{") - (mark in "]}")
        if depth > DEEPEST:
            raise ValueError(
                f"The arguments are nested more than {DEEPEST} deep at character {found.start()}."
            )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        times = Counter(key for key, _ in pairs)
        twice = next(key for key in times if times[key] > 1)
        raise ValueError(f"The arguments contain the key {json.dumps(twice)} twice in one object.")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"The arguments contain {name}, which is not a JSON number.")


def _bounded_int(text: str) -> int:
    if len(text) <= _LONGEST_INT_TEXT and _SMALLEST_INT <= (number := int(text)) <= _LARGEST_INT:
        return number
    raise ValueError(f"The arguments contain the number {text[:24]}…, which is too large.")


def _finite_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"The arguments contain the number {text[:24]}, which is too large.")
    return number


def _refuse_halves(value: dict[str, Any]) -> None:
    """Half a surrogate pair cannot be written to a file."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(
            f"The arguments contain {half}, half a character, near character {error.start}."
        ) from error


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
