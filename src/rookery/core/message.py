"""One row of a transcript, with text that may still be streaming.

Streaming texts are immutable: adding a piece returns a new text that shares the old one, so adding
costs only the piece. Reading joins the pieces.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from rookery.core.asks import AskKind, IntentQuestion
from rookery.core.blocks import Image
from rookery.core.folds.argument_reader import ArgumentReader
from rookery.core.tool_traits import COMPLETION, FOLLOWUP

COMMAND_TOOL = "execute_command"
SPOKEN: dict[str, tuple[Literal["say", "ask"], str, str]] = {
    COMMAND_TOOL: ("ask", AskKind.COMMAND, "command"),
    FOLLOWUP: ("ask", AskKind.FOLLOWUP, "question"),
    COMPLETION: ("say", "completion_result", "result"),
}
"""Calls shown by a single argument: the row's type and kind, and the argument."""
_SHOWN_WHEN_WHOLE = frozenset(("path", "file_path", "cwd", "mode"))

Outcome: TypeAlias = Literal["", "denied", "failed"]


class Pieces:
    """Text in pieces."""

    __slots__ = ("_count", "_shared")

    def __init__(self, first: str = "") -> None:
        self._shared = _Shared([first] if first else [])
        self._count = len(self._shared.pieces)

    @property
    def text(self) -> str:
        shared, count = self._shared, self._count
        if shared.joined_count > count:
            return "".join(shared.pieces[:count])
        if shared.joined_count < count:
            shared.joined += "".join(shared.pieces[shared.joined_count : count])
            shared.joined_count = count
        return shared.joined

    @property
    def count(self) -> int:
        return self._count

    def add(self, piece: str) -> "Pieces":
        more = Pieces()
        more._shared = self._shared
        if len(self._shared.pieces) > self._count:  # another version has gone on from here
            more._shared = _Shared(self._shared.pieces[: self._count])
        more._shared.pieces.append(piece)
        more._count = self._count + 1
        return more

    def since(self, count: int) -> list[str]:
        return self._shared.pieces[count : self._count]

    def __eq__(self, other: object) -> bool:
        return self.text == (other.text if isinstance(other, Pieces) else other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return repr(self.text)


class _Shared(Struct):
    pieces: list[str]
    joined: str = ""
    joined_count: int = 0


class CallText:
    """The text of a call while its arguments stream."""

    __slots__ = ("_name", "_pieces", "_reading")

    def __init__(self, name: str = "", arguments: str = "") -> None:
        self._name = name
        self._pieces = Pieces(arguments)
        self._reading = _Reading()

    @property
    def text(self) -> str:
        reader = self._reading.upto(self._pieces)
        known = reader.known()
        if reader.growing_key in _SHOWN_WHEN_WHOLE:
            known.pop(reader.growing_key, None)
        return call_text(self._name, known)

    @property
    def scanned(self) -> int:
        """The number of argument characters read."""
        return self._reading.reader.scanned

    def add(self, piece: str, name: str) -> "CallText":
        more = CallText(name or self._name)
        more._pieces = self._pieces.add(piece)
        more._reading = self._reading
        return more

    def __eq__(self, other: object) -> bool:
        return self.text == (other.text if isinstance(other, CallText) else other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return repr(self.text)


class _Reading(Struct):
    """How far the newest reader of a call has read; an older text is read again."""

    reader: ArgumentReader = field(default_factory=ArgumentReader)
    count: int = 0

    def upto(self, pieces: Pieces) -> ArgumentReader:
        if pieces.count < self.count:
            return _Reading().upto(pieces)
        for piece in pieces.since(self.count):
            self.reader.feed(piece)
        self.count = pieces.count
        return self.reader


def call_kind(name: str) -> tuple[Literal["say", "ask"], str]:
    """The row type and kind of a call."""
    type, kind, _ = SPOKEN.get(name, ("ask", AskKind.TOOL, ""))
    return type, kind


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """The text of a call's row: its main argument, or all arguments as JSON."""
    if name in SPOKEN:
        return str(arguments.get(SPOKEN[name][2], ""))
    said = {"tool": name, **arguments} | {"tool": name}  # an argument may have that name too
    return json.dumps(said, ensure_ascii=False)


def diff_in(payload: Mapping[str, Any]) -> str | None:
    """The file changes in a call's row; None if it edits no file. `diff` is the model's text,
    which may not be a diff; `content` is one."""
    if "diffStats" not in payload:
        return None
    return str(payload.get("content") or payload.get("diff") or "")


Content: TypeAlias = str | Pieces | CallText | None


class Message(Struct, frozen=True, kw_only=True):
    """One row, identified by its `ts`. `text` is joined when read.

    `answered` marks an ask that was answered or withdrawn. `seq` is that of the event that made the
    row. `outcome` says that a call was refused or failed.
    """

    ts: int
    type: Literal["say", "ask"]
    say: str | None = None
    ask: str | None = None
    content: Content = None
    images: tuple[Image, ...] = ()
    partial: bool = False
    answered: bool = False
    outcome: Outcome = ""
    seq: int = 0
    ask_id: str = ""
    call_id: str = ""
    digest: str = ""
    title: str = ""
    diff: str = ""
    where: str = ""
    notes: tuple[str, ...] = ()
    rule: str = ""
    governance: IntentQuestion | None = None

    @property
    def text(self) -> str | None:
        return self.content.text if isinstance(self.content, Pieces | CallText) else self.content

    @property
    def open(self) -> bool:
        """Whether it is still streaming or waits for an answer."""
        return self.partial or (self.type == "ask" and not self.answered)
