"""What an answer is made of: blocks the model says, inlines that happen between or inside them,
and settings that hold for the whole answer. Nothing here knows a vendor.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    return dataclass(frozen=True, slots=True)(cls)


# What happens between, or in the middle of, blocks.


class Gate:
    """Holds the answer back until the test opens it. Closing the server opens it too."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def wait_until_reached(self, timeout: float = 10) -> None:
        """Return once everything scripted before the gate has been sent."""
        if not self._reached.wait(timeout):
            raise TimeoutError(f"No answer reached this gate within {timeout} s.")

    def pass_through(self) -> None:
        self._reached.set()
        self._open.wait()


@value
class Stall:
    """Nothing more is sent, and the connection stays open until the client leaves."""


@value
class Keepalives:
    """What the vendor sends to keep a connection open; for ever when `count` is None."""

    count: int | None = None
    every: float = 0.02


@value
class Reset:
    """The connection is reset: the client sees ECONNRESET."""


@value
class Drop:
    """The connection is closed in the middle of the HTTP message."""


@value
class EndEarly:
    """The HTTP message ends properly, but the vendor's end event never came."""


@value
class Raw:
    """These bytes, as they are, in the body of the stream. Empty: just the headers."""

    data: bytes


@value
class SseEvent:
    """An event of any name; `data` is sent as it is."""

    name: str | None
    data: str


@value
class Problem:
    """An error in the vendor's own shape: as an event inside a stream, or as a status's body."""

    message: str
    type: str | None = None
    code: str | int | None = None


@value
class Failed:
    """As `Problem`, but on the Responses route it comes as `response.failed`."""

    problem: Problem


Inline: TypeAlias = (
    Gate | Stall | Keepalives | Reset | Drop | EndEarly | Raw | SseEvent | Problem | Failed
)
Piece: TypeAlias = str | Inline


# What a model says.


@value
class Say:
    pieces: tuple[Piece, ...]


@value
class Think:
    pieces: tuple[Piece, ...]
    signature: str = ""


@value
class Redacted:
    """Reasoning the client may carry but not read."""

    data: str


@value
class Refuse:
    pieces: tuple[Piece, ...]


class Auto(Enum):
    ID = "an id made from the place of the call in the script"


@value
class Call:
    """A tool call. `pieces` are the text of its arguments. None means that the field is absent."""

    name: str | None
    pieces: tuple[Piece, ...]
    id: str | Auto | None = Auto.ID


@value
class Together:
    """Calls whose argument deltas come interleaved."""

    calls: tuple[Call, ...]


Block: TypeAlias = Say | Think | Redacted | Refuse | Call


# What holds for a whole answer.


@value
class Usage:
    """`tokens_in` is all input, cached or not."""

    tokens_in: int = 100
    tokens_out: int = 20
    cache_reads: int = 0
    cache_writes: int = 0
    reasoning: int = 0


@value
class NoUsage:
    pass


@value
class Stop:
    """Why the answer ended: end, calls, length, paused, refused, overflow, or a vendor's own
    word, sent as it is. None: the vendor never says."""

    reason: str | None
    detail: str = ""


@value
class Split:
    """How the texts of the blocks that follow are cut into deltas."""

    cut: Callable[[str], Sequence[str]]


class Writes(Enum):
    """What goes into one TCP write."""

    EACH_EVENT = "each event"
    EACH_BYTE = "each byte"
    PACKED = "as many events as fit into 64 KiB"


@value
class Framing:
    """The shape of the event stream: all of these mean the same events."""

    newline: str = "\n"
    byte_order_mark: bool = False
    several_data_lines: bool = False
    last_blank_line: bool = True


@value
class ContentType:
    value: str


@value
class Postscript:
    """Text that comes in a proper delta after the vendor's end event."""

    text: str


@value
class Trailing:
    """Bytes that follow the complete HTTP message on the same connection."""

    data: bytes


Setting: TypeAlias = (
    Usage | NoUsage | Stop | Split | Writes | Framing | ContentType | Postscript | Trailing
)
Part: TypeAlias = Block | Together | Inline | Setting


@value
class Status:
    """A whole HTTP response instead of an answer."""

    code: int
    body: Problem | Mapping[str, Any] | str | bytes | None = None
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
