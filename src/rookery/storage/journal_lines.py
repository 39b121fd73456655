"""An event as a line of a journal, and back.

A line is the event's JSON, a tab, the CRC-32 of that JSON in eight hex digits, and a line
feed. JSON written by our codec holds neither tabs nor line feeds, so a line can be found
without parsing. A line counts only if its checksum fits and its `seq` is the next one.
A tool's result too large for a line stands in a blob; the line then says which.
"""

from collections.abc import Iterator
from typing import BinaryIO
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.facts import Event, ToolFinished
from rookery.core.limits import MIB
from rookery.errors import StorageError
from rookery.protocol.codec import event_from_json, event_to_json
from rookery.storage.blobs import LARGEST_INLINE, Blobs

FORMAT = 1
LONGEST = 128 * MIB
SEAL = len(b"\t01234567\n")


class BlobReference(msgspec.Struct, frozen=True):
    sha256: str
    bytes: int


class _Referring(msgspec.Struct):
    text_blob: BlobReference | None = None


class Line(Struct, frozen=True):
    """An event as it was read: where in the file its line ends, and with which checksum."""

    event: Event
    end: int
    seal: bytes
    blob: BlobReference | None


def line_from(event: Event, blobs: Blobs) -> bytes:
    """The event's line. A text that is too large for it is durably in `blobs` by then."""
    json = event_to_json(event)
    if isinstance(event.fact, ToolFinished) and len(json) > LARGEST_INLINE:
        data = event.fact.text.encode()
        if len(data) > LARGEST_INLINE:
            json = _referring_json(event, event.fact, data, blobs)
    return b"%b\t%08x\n" % (json, crc32(json))


def counting_lines(
    file: BinaryIO, blobs: Blobs | None = None, *, start: int = 0, after: int = 0
) -> Iterator[Line]:
    """The lines that count, from byte `start` on, where event `after` ended.

    Stops before the first line that does not count. Without `blobs` large texts stay empty.
    Raises `StorageError` for an intact line that this version cannot understand.
    """
    file.seek(start)
    end, seq = start, after
    while raw := file.readline(LONGEST):
        json = _intact(raw)
        if json is None:
            return
        event, blob = _understood(json)
        if event.seq != seq + 1:
            return
        if blobs and blob and isinstance(event.fact, ToolFinished):
            event = replace(event, fact=replace(event.fact, text=_text_of(blob, blobs)))
        end, seq = end + len(raw), event.seq
        yield Line(event, end, raw[-SEAL:], blob)


def flaw(raw: bytes, expected: int) -> str:
    """Why the line that should hold event `expected` does not count."""
    if not raw.endswith(b"\n"):
        return "it is not complete"
    json = _intact(raw)
    if json is None:
        return "its checksum does not fit"
    return f"it holds event {event_from_json(json).seq} instead of {expected}"


def _referring_json(event: Event, fact: ToolFinished, data: bytes, blobs: Blobs) -> bytes:
    reference = BlobReference(sha256=blobs.keep(data), bytes=len(data))
    json = event_to_json(replace(event, fact=replace(fact, text="")))
    return b'%b,"text_blob":%b}' % (json[:-1], msgspec.json.encode(reference))


def _intact(raw: bytes) -> bytes | None:
    """The JSON of a line, if the line is whole."""
    json, checksum = raw[:-SEAL], raw[-SEAL:]
    return json if checksum == b"\t%08x\n" % crc32(json) else None


def _understood(json: bytes) -> tuple[Event, BlobReference | None]:
    try:
        event = event_from_json(json)
        if b'"text_blob"' not in json:
            return event, None
        return event, msgspec.json.decode(json, type=_Referring).text_blob
    except (ValueError, msgspec.MsgspecError) as error:
        raise StorageError(
            f"A line of the journal is intact but this version cannot read it ({error}). "
            "Open the task with the version that wrote it."
        ) from error


def _text_of(reference: BlobReference, blobs: Blobs) -> str:
    data = blobs.fetch(reference.sha256)
    if data is None:
        return (
            f"[This output of {reference.bytes:,} bytes is lost: the file blobs/{reference.sha256} "
            "beside the journal is missing or damaged.]"
        )
    return data.decode("utf-8", "replace")
