"""What an answer is made of, and the words a script is written in.

An answer is a list of parts: blocks that the model says, inlines that happen between or inside
them, and settings that hold for the whole answer. A single `status`, or a single inline such as
`reset()`, may stand in place of the list. Nothing here knows a vendor.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from msgspec import Struct, field

MIB = 1024 * 1024

# What happens between, or in the middle of, blocks.


class Gate:
    """Holds the answer back until the test opens it. Closing the server opens it too."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def wait_until_reached(self, timeout: float = 60) -> None:
        """Return once everything scripted before the gate has been sent."""
        if not self._reached.wait(timeout):
            raise TimeoutError(f"No answer reached this gate within {timeout} s.")

    def pass_through(self) -> None:
        self._reached.set()
        self._open.wait()


class Stall(Struct, frozen=True):
    """Nothing more is sent, and the connection stays open until the client leaves."""


class Keepalives(Struct, frozen=True):
    """What the vendor sends to keep a connection open; for ever when `count` is None."""

    count: int | None = None
    every: float = 0.02


class Reset(Struct, frozen=True):
    """The connection is reset: the client sees ECONNRESET."""


class Drop(Struct, frozen=True):
    """The connection is closed in the middle of the HTTP message."""


class EndEarly(Struct, frozen=True):
    """The HTTP message ends properly, but the vendor's end event never came."""


class Raw(Struct, frozen=True):
    """These bytes, as they are, in the body of the stream. Empty: just the headers."""

    data: bytes


class SseEvent(Struct, frozen=True):
    """An event of any name; `data` is sent as it is."""

    name: str | None
    data: str


class Problem(Struct, frozen=True):
    """An error in the vendor's own shape: as an event inside a stream, or as a status's body."""

    message: str
    type: str | None = None
    code: str | int | None = None


class Failed(Struct, frozen=True):
    """As `Problem`, but on the Responses route it comes as `response.failed`."""

    problem: Problem


Inline: TypeAlias = (
    Gate | Stall | Keepalives | Reset | Drop | EndEarly | Raw | SseEvent | Problem | Failed
)
Piece: TypeAlias = str | Inline


# What a model says.


class Say(Struct, frozen=True):
    pieces: tuple[Piece, ...]


class Think(Struct, frozen=True):
    pieces: tuple[Piece, ...]
    signature: str = ""


class Redacted(Struct, frozen=True):
    """Reasoning the client may carry but not read."""

    data: str


class Refuse(Struct, frozen=True):
    pieces: tuple[Piece, ...]


class Auto(Enum):
    ID = "an id made from the place of the call in the script"


class Call(Struct, frozen=True):
    """A tool call. `pieces` are the text of its arguments. None means that the field is absent."""

    name: str | None
    pieces: tuple[Piece, ...]
    id: str | Auto | None = Auto.ID


class Together(Struct, frozen=True):
    """Calls whose argument deltas come interleaved."""

    calls: tuple[Call, ...]


Block: TypeAlias = Say | Think | Redacted | Refuse | Call


# What holds for a whole answer.


class Usage(Struct, frozen=True):
    """`tokens_in` is all input, cached or not."""

    tokens_in: int = 100
    tokens_out: int = 20
    cache_reads: int = 0
    cache_writes: int = 0
    reasoning: int = 0


class NoUsage(Struct, frozen=True):
    pass


class Stop(Struct, frozen=True):
    """Why the answer ended: end, calls, length, paused, refused, overflow, or a vendor's own
    word, sent as it is. None: the vendor never says."""

    reason: str | None
    detail: str = ""


class Split(Struct, frozen=True):
    """How the texts of the blocks that follow are cut into deltas."""

    cut: Callable[[str], Sequence[str]]


class EachByte(Struct, frozen=True):
    """Each byte has its own TCP write, so that characters are split."""


class Framing(Struct, frozen=True):
    """The shape of the event stream: all of these mean the same events."""

    newline: str = "\n"
    byte_order_mark: bool = False
    several_data_lines: bool = False
    last_blank_line: bool = True


class ContentType(Struct, frozen=True):
    value: str


class Postscript(Struct, frozen=True):
    """Text that comes in a proper delta after the vendor's end event."""

    text: str


class Trailing(Struct, frozen=True):
    """Bytes that follow the complete HTTP message on the same connection."""

    data: bytes


Setting: TypeAlias = (
    Usage | NoUsage | Stop | Split | EachByte | Framing | ContentType | Postscript | Trailing
)
Part: TypeAlias = Block | Together | Inline | Setting


class Status(Struct, frozen=True):
    """A whole HTTP response instead of an answer."""

    code: int
    body: Problem | Mapping[str, Any] | list[Any] | str | bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


Answer: TypeAlias = Sequence[Part] | Status | Inline


def gates_in(answers: Iterable[Answer]) -> list[Gate]:
    return [part for answer in answers for part in _all_inlines(answer) if isinstance(part, Gate)]


def _all_inlines(answer: Answer) -> Iterable[object]:
    if not isinstance(answer, Sequence):
        yield answer
        return
    for part in answer:
        yield part
        for block in part.calls if isinstance(part, Together) else (part,):
            yield from getattr(block, "pieces", ())


# The words a script is written in.

content_type = ContentType
drop = Drop
each_byte = EachByte
end_early = EndEarly
framed = Framing
gate = Gate
keepalives = Keepalives
no_usage = NoUsage
postscript = Postscript
problem = Problem
raw = Raw
redacted = Redacted
reset = Reset
stall = Stall
stop = Stop
trailing = Trailing
usage = Usage


def say(*pieces: Piece) -> Say:
    """One text is cut as the answer's `Split` says; several are the deltas themselves."""
    return Say(pieces)


def think(*pieces: Piece, signature: str = "") -> Think:
    return Think(pieces, signature)


def refuse(*pieces: Piece) -> Refuse:
    return Refuse(pieces)


def call(name: str, /, *, id: str | Auto | None = Auto.ID, **arguments: Any) -> Call:
    return Call(name, (json.dumps(arguments, ensure_ascii=False),), id)


def raw_call(name: str | None, /, *pieces: Piece, id: str | Auto | None = Auto.ID) -> Call:
    """A call whose arguments are the text given, valid or not."""
    return Call(name, pieces, id)


def finish(result: str = "Done.") -> Call:
    return call("attempt_completion", result=result)


def interleaved(*calls: Call) -> Together:
    return Together(calls)


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


WORDS = Split(_words)
WHOLE = Split(lambda text: [text] if text else [])


def letters(count: int) -> Split:
    return Split(lambda text: [text[at : at + count] for at in range(0, len(text), count)])


def hang() -> Stall:
    """In place of an answer: the request is read, and not one byte comes back."""
    return Stall()


def comment(text: str = "still here") -> Raw:
    return Raw(f": {text}\n\n".encode())


def event(name: str | None, data: Mapping[str, Any] | str) -> SseEvent:
    return SseEvent(name, data if isinstance(data, str) else json.dumps(data))


def oversized_line(size: int = 17 * MIB) -> Raw:
    """The start of an event whose line does not end within `size` bytes."""
    return Raw(b"data: " + b"x" * size)


def failed(message: str, type: str | None = None, code: str | int | None = None) -> Failed:
    return Failed(Problem(message, type, code))


def invalid_utf8(data: bytes) -> str:
    """A text that puts exactly these bytes on the wire."""
    return data.decode("utf-8", "surrogateescape")


def status(
    code: int,
    body: Problem | Mapping[str, Any] | list[Any] | str | bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Status:
    """Without a body, the error is in the shape and words of the vendor whose route it is."""
    return Status(code, body, headers or {})


def redirect(location: str, code: int = 307) -> Status:
    """A path stays at this origin; a whole URL leads to another one."""
    return Status(code, b"", {"location": location})


def html(text: str = "<!doctype html><title>Sign in to the network</title>") -> Status:
    return Status(200, text, {"content-type": "text/html; charset=utf-8"})
