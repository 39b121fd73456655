"""The words a script is written in.

A script is a list of answers. An answer is a list of parts; a single `status`, or a single
inline such as `reset()`, may stand in place of the list.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from llm_server.parts import (
    Auto,
    Call,
    ContentType,
    Drop,
    EndEarly,
    Failed,
    Framing,
    Gate,
    Keepalives,
    NoUsage,
    Piece,
    Postscript,
    Problem,
    Raw,
    Redacted,
    Refuse,
    Reset,
    Say,
    Split,
    SseEvent,
    Stall,
    Status,
    Stop,
    Think,
    Together,
    Trailing,
    Usage,
    Writes,
)

MIB: Final = 1024 * 1024

EACH_EVENT = Writes.EACH_EVENT
EACH_BYTE = Writes.EACH_BYTE
PACKED = Writes.PACKED

content_type = ContentType
drop = Drop
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


def chunks(text_len: int, count: int) -> list[str]:
    """`count` pieces that are `text_len` characters long all together."""
    size, longer = divmod(text_len, count)
    return ["x" * (size + 1)] * longer + ["x" * size] * (count - longer)


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
    body: Problem | Mapping[str, Any] | str | bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Status:
    """Without a body, the error is in the shape and words of the vendor whose route it is."""
    return Status(code, body, headers or {})


def redirect(location: str, code: int = 307) -> Status:
    """A path stays at this origin; a whole URL leads to another one."""
    return Status(code, b"", {"location": location})


def html(text: str = "<!doctype html><title>Sign in to the network</title>") -> Status:
    return Status(200, text, {"content-type": "text/html; charset=utf-8"})
