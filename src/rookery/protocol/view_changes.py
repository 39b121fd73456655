"""Changes of a view as JSON, for clients that only draw.

A row is an object without what it does not have. A row that changed is told by its `ts` and
what is new about it; a text that grew by what was appended to it, after dropping what the new
text no longer ends with.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import fields

from rookery.core.folds.view import View, changes
from rookery.core.message import Message
from rookery.protocol.codec import answer_to_json

PIECE = 2**18
"""Bytes of rows after which the rest comes in another message."""
WORTH_KEEPING = 32
"""Characters of an old text below which the new one is simply sent whole."""
_TOP_OF_BASIC_PLANE = "\uffff"

PARTS: dict[str, Callable[[View], object]] = {
    "agent": lambda view: {
        "state": view.agent.state,
        "current_ask": view.agent.current_ask,
        "required_action": view.agent.required_action,
    },
    "mode": lambda view: view.mode,
    "model": lambda view: view.model,
    "automatic": lambda view: view.automatic,
    "intent": lambda view: view.intent,
    "usage": lambda view: view.usage,
    "todos": lambda view: view.todos,
    "queue": lambda view: view.queue,
    "open_ask": lambda view: view.open_ask.ts if view.open_ask else None,
    "closed": lambda view: view.closed,
    "silence": lambda view: view.silence,
}
_DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in fields(Message) if field.name != "content"
}


def changes_in_pieces(before: View, after: View) -> Iterator[bytes]:
    """What a client that shows `before` must do to show `after`, if anything."""
    change = changes(before, after)
    if not change:
        return
    piece = _Piece()
    for ts in change.removed:
        piece.add("removed", answer_to_json(ts))
    for row in change.changed:
        if new := _news_about(_row_at(before, row.ts), row):
            piece.add("changed", answer_to_json({"ts": row.ts, **new}))
        if piece.full:
            yield piece.take()
    for row in change.added:
        piece.add("added", answer_to_json(row_of(row)))
        if piece.full:
            yield piece.take()
    parts = {name: PARTS[name](after) for name in sorted(change.parts)}
    if parts or not piece.empty:
        yield piece.take(parts)


class _Piece:
    def __init__(self) -> None:
        self._lists: dict[str, list[msgspec.Raw]] = {}
        self._size = 0

    @property
    def empty(self) -> bool:
        return not self._lists

    @property
    def full(self) -> bool:
        return self._size > PIECE

    def add(self, name: str, item: bytes) -> None:
        self._lists.setdefault(name, []).append(msgspec.Raw(item))
        self._size += len(item)

    def take(self, parts: dict[str, object] | None = None) -> bytes:
        lists, self._lists, self._size = self._lists, {}, 0
        told = {"parts": msgspec.Raw(answer_to_json(parts))} if parts else {}
        return answer_to_json({**lists, **told})


def row_of(row: Message) -> dict[str, object]:
    told = {name: getattr(row, name) for name in _DEFAULTS}
    text = {} if row.text is None else {"text": row.text}
    return {name: told[name] for name in told if told[name] != _DEFAULTS[name]} | text


def _news_about(old: Message, new: Message) -> dict[str, object]:
    told = {
        name: getattr(new, name) for name in _DEFAULTS if getattr(new, name) != getattr(old, name)
    }
    return {**told, **_text_change(old.text, new.text)}


def _text_change(old: str | None, new: str | None) -> dict[str, object]:
    if old == new:
        return {}
    if not old or not new:
        return {"text": new}
    kept = _alike(old, new)
    dropped = old[kept:]
    # beyond the basic plane a character counts twice for some clients, so no such is counted
    if dropped and (kept < WORTH_KEEPING or max(dropped) > _TOP_OF_BASIC_PLANE):
        return {"text": new}
    return {**({"drop": len(dropped)} if dropped else {}), "append": new[kept:]}


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    if other.startswith(one):
        return len(one)
    lengths = range(1, min(len(one), len(other)) + 1)
    return bisect_left(lengths, True, key=lambda length: one[:length] != other[:length])


def _row_at(view: View, ts: int) -> Message:
    position = view.messages.find(ts)
    assert position is not None
    return view.messages[position]


assert _DEFAULTS["ts"] is NODEFAULT  # so that it is told whatever it is
