"""The reader of Amazon's frames: the same events, however the network cuts them."""

import json
import struct
from contextlib import suppress
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_server.converse_wire import frame
from rookery.providers.bedrock import FrameReader
from rookery.providers.wire_format import DamagedEvent, OversizedEvent, decode_event
from support.each_row import each_row

PLENTY = 1 << 20


def read(stream: bytes, cuts: list[int] | None = None, longest: int = PLENTY) -> list[Any]:
    reader = FrameReader(longest)
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts or []), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    return [decode_event(event) for piece in pieces for event in reader.feed(piece)]


def sealed(headers: bytes, payload: bytes = b"{}") -> bytes:
    """A frame with these bytes as its headers."""
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    content = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return content + struct.pack(">I", crc32(content))


names = st.sampled_from(["messageStart", "contentBlockDelta", "metadata", "ä\"'", ""])
payloads = st.dictionaries(st.text(max_size=4), st.text(max_size=12) | st.integers(), max_size=3)
events = st.lists(st.tuples(names, payloads), max_size=8)


@settings(deadline=None)
@given(said=events, cuts=st.lists(st.integers(0, 900), max_size=12))
def test_the_events_are_the_same_whatever_the_chunking(said: list[Any], cuts: list[int]):
    stream = b"".join(frame(name, json.dumps(payload).encode()) for name, payload in said)
    expected = [{name: payload} for name, payload in said]
    assert read(stream, cuts) == expected
    assert read(stream, list(range(len(stream)))) == expected


@settings(deadline=None)
@given(said=events.filter(len), at=st.integers(0), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed_and_the_events_before_it_are_unchanged(
    said: list[Any], at: int, bit: int
):
    frames = [frame(name, json.dumps(payload).encode()) for name, payload in said]
    stream = bytearray(b"".join(frames))
    at %= len(stream)
    stream[at] ^= 1 << bit
    reader = FrameReader(PLENTY)
    received: list[bytes] = []
    with pytest.raises((DamagedEvent, OversizedEvent)):
        _feed(reader, stream, received)
    whole = next(n for n in range(len(frames)) if at < sum(map(len, frames[: n + 1])))
    assert [decode_event(event) for event in received] == [
        {name: payload} for name, payload in said[:whole]
    ]


def _feed(reader: FrameReader, stream: bytearray, received: list[bytes]) -> None:
    for each in stream:
        received += reader.feed(bytes((each,)))


@settings(deadline=None)
@given(data=st.binary(max_size=200), headers=st.binary(max_size=60))
def test_any_bytes_fail_cleanly(data: bytes, headers: bytes):
    for stream in (data, sealed(headers, data)):
        with suppress(DamagedEvent, OversizedEvent):
            list(FrameReader(PLENTY).feed(stream))


def test_headers_of_every_type_are_passed_over():
    def header(name: bytes, kind: int, value: bytes) -> bytes:
        return bytes((len(name),)) + name + bytes((kind,)) + value

    others = {0: b"", 1: b"", 2: b"1", 3: b"12", 4: b"1234", 5: b"8" * 8, 8: b"8" * 8, 9: b"9" * 16}
    headers = b"".join(header(b"x", kind, value) for kind, value in others.items())
    headers += header(b"y", 6, b"\x00\x03abc") + header(b":event-type", 7, b"\x00\x04ping")
    assert read(sealed(headers)) == [{"ping": {}}]


@each_row(
    ("kind", "name", "payload", "event"),
    [
        ("event", "ping", b"", {"ping": {}}),
        (
            "exception",
            "throttlingException",
            b'{"message":"x"}',
            {"throttlingException": {"message": "x"}},
        ),
    ],
)
def test_a_frame_is_an_object_with_the_events_name(
    kind: str, name: str, payload: bytes, event: Any
):
    assert read(frame(name, payload, kind=kind)) == [event]


def test_an_error_of_the_framing_is_an_event():
    texts = {":message-type": "error", ":error-code": "Oops", ":error-message": "It broke"}
    headers = b"".join(
        bytes((len(name),)) + name.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
        for name, text in texts.items()
    )
    assert read(sealed(headers, b"")) == [{"error": {"code": "Oops", "message": "It broke"}}]


@each_row(
    "headers",
    [b"\x05", b"\x01a", b"\x01a\x07", b"\x01a\x07\x00\x09abc", b"\x01a\x63", b"\x01a\x09short"],
)
def test_unreadable_headers_are_damage(headers: bytes):
    with pytest.raises(DamagedEvent, match="unreadable headers"):
        read(sealed(headers))


def test_lengths_that_contradict_each_other_are_damage():
    prelude = struct.pack(">II", 20, 30)
    with pytest.raises(DamagedEvent, match="shorter than its headers"):
        read(prelude + struct.pack(">I", crc32(prelude)))


def test_an_oversized_frame_is_refused_at_its_beginning():
    whole = frame("ping", b'"' + b"x" * 1000 + b'"')
    assert len(read(whole, longest=len(whole))) == 1
    with pytest.raises(OversizedEvent):
        read(whole[:12], longest=len(whole) - 1)
