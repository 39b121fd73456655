"""The reader of event streams: the same events, however the network cuts them."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.providers.wire_format import EventReader, OversizedEvent, decode_event, encode_body
from support.each_row import each_row

PLENTY = 1 << 20


def read(stream: bytes, cuts: list[int] | None = None, longest: int = PLENTY) -> list[bytes]:
    reader = EventReader(longest)
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts or []), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    return [event for piece in pieces for event in reader.feed(piece)] + reader.end()


lines = st.one_of(
    st.text(alphabet="ab äß🐦{}:\\", max_size=8).map(lambda text: f"data: {text}"),
    st.sampled_from(["", "", ": comment", "event: x", "id: 3", "data", "nonsense", "data:tight"]),
)
streams = st.builds(
    lambda rows, end, bom: bom + end.join([*rows, ""]).encode(),
    st.lists(lines, max_size=20),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)


@settings(deadline=None)
@given(stream=streams, cuts=st.lists(st.integers(0, 500), max_size=12))
def test_the_events_are_the_same_whatever_the_chunking(stream: bytes, cuts: list[int]):
    assert read(stream, cuts) == read(stream)


@settings(deadline=None)
@given(stream=streams)
def test_the_events_are_the_same_byte_by_byte(stream: bytes):
    assert read(stream, list(range(len(stream)))) == read(stream)


@settings(deadline=None)
@given(texts=st.lists(st.text(), max_size=10), newline=st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_json_that_is_sent_arrives(texts: list[str], newline: str):
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    events = [f"data: {json.dumps(text)}{newline}{newline}" for text in clean]
    stream = "".join(events).encode()
    assert [decode_event(data) for data in read(stream)] == clean


@each_row(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"event: x\nid: 1\nretry: 3\n: note\ndata: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data: a", [b"a"]),
        (b"data: a\r", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": only a comment\n\n", []),
        (b"", []),
    ],
)
def test_a_stream_holds_these_events(stream: bytes, events: list[bytes]):
    assert read(stream) == events


@each_row("size", [101, 10_000])
def test_an_event_longer_than_the_limit_is_refused(size: int):
    with pytest.raises(OversizedEvent):
        read(b"data: " + b"x" * size + b"\n\n", longest=100)
    with pytest.raises(OversizedEvent):
        read(b"data: " + b"x" * size, longest=100)
    with pytest.raises(OversizedEvent):
        read(b"data: xxxxxxxx\n" * size, longest=100)


def test_an_event_as_long_as_the_limit_is_read():
    assert read(b"data: " + b"x" * 92 + b"\n\n", longest=100) == [b"x" * 92]


@each_row(
    ("data", "value"),
    [
        (b'{"a": "caf\xe9"}', {"a": "caf\ufffd"}),
        (b'{"a": "\\ud83d"}', {"a": "\ufffd"}),
        (b'{"a": "\\ud83d\\udc26"}', {"a": "🐦"}),
        (b'{"a": "x\\u0000y"}', {"a": "x\0y"}),
    ],
)
def test_invalid_utf8_is_replaced(data: bytes, value: object):
    assert decode_event(data) == value


@each_row("data", [b"<html>", b"{", b"[" * 100_000, b"{}{}"])
def test_invalid_json_is_a_value_error(data: bytes):
    with pytest.raises(ValueError, match=r".+"):
        decode_event(data)


def test_a_lone_surrogate_is_not_sent():
    body = {"a": ["x\ud83dy", {"k\udc26": "\ud83d\udc26"}], "n": 1}
    assert json.loads(encode_body(body)) == {"a": ["x\ufffdy", {"k\ufffd": "🐦"}], "n": 1}
