"""What an answer is made of: blocks the model says, inlines that happen between or inside them,
and settings that hold for the whole answer. Nothing here knows a vendor.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from msgspec import Struct, field

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


class Writes(Enum):
    """What goes into one TCP write."""

    EACH_EVENT = "each event"
    EACH_BYTE = "each byte"
    PACKED = "as many events as fit into 64 KiB"


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
    Usage | NoUsage | Stop | Split | Writes | Framing | ContentType | Postscript | Trailing
)
Part: TypeAlias = Block | Together | Inline | Setting


class Status(Struct, frozen=True):
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
