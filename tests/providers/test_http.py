"""The reader of HTTP responses: the same answer, however the network cuts it; and what is sent."""

import gzip
import select
import socket
import ssl
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_server import LlmServer, say
from rookery.core.blocks import Text
from rookery.core.folds.history import Turn
from rookery.core.limits import MIB
from rookery.engine.ports.model import ModelRequest, TextChunk
from rookery.errors import SettingsError
from rookery.providers import http_client
from rookery.providers.http_client import DirectClient, HttpFailure, Item, Tls
from rookery.providers.http_response import (
    LARGEST_HEAD,
    LARGEST_UNPACKED,
    LONGEST_LINE,
    ResponseReader,
)
from rookery.providers.registry import OpenProvider, open_provider
from support.each_row import each_row
from support.self_signed import self_signed

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def read(response: bytes, cuts: tuple[int, ...] = ()) -> tuple[bytes, ResponseReader]:
    reader = ResponseReader()
    edges = [0, *sorted(cut % (len(response) + 1) for cut in cuts), len(response)]
    pieces = [response[a:b] for a, b in pairwise(edges)]
    return b"".join(reader.feed(piece) for piece in pieces), reader


def chunked(pieces: list[bytes], end: bytes = b"\r\n", extension: bytes = b"") -> bytes:
    chunks = [b"%x%s%s%s%s" % (len(each), extension, end, each, end) for each in pieces if each]
    return b"".join([*chunks, b"0", end, end])


@settings(deadline=None)
@given(
    pieces=st.lists(st.binary(max_size=40), max_size=8),
    cuts=st.tuples(*[st.integers(0, 600)] * 9),
    end=st.sampled_from([b"\r\n", b"\n"]),
    extension=st.sampled_from([b"", b";name=value", b" "]),
)
def test_a_chunked_body_is_the_same_however_it_is_cut(
    pieces: list[bytes], cuts: tuple[int, ...], end: bytes, extension: bytes
):
    response = CHUNKED.replace(b"\r\n", end) + chunked(pieces, end, extension)
    for places in (cuts, tuple(range(len(response)))):
        body, reader = read(response, places)
        assert body == b"".join(pieces)
        assert reader.complete
        assert reader.reusable


BODIES = {
    "counted": (OK + b"content-length: 2\r\n\r\nhi", True),
    "counted twice": (OK + b"content-length: 2\r\nContent-Length: 2\r\n\r\nhi", True),
    "closed after it": (OK + b"connection: close\r\ncontent-length: 2\r\n\r\nhi", False),
    "old version": (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", False),
    "more than it says": (OK + b"content-length: 2\r\n\r\nhi and more", False),
    "more after the last chunk": (CHUNKED + chunked([b"hi"]) + b"HTTP/1.1", False),
    "with trailers": (CHUNKED + b"2\r\nhi\r\n0\r\nx-sum: 7\r\n\r\n", True),
    "after an interim response": (
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK + b"content-length: 2\r\n\r\nhi",
        True,
    ),
    "compressed": (
        OK + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"hi"),
        False,
    ),
    "deflated": (OK + b"content-encoding: deflate\r\n\r\n" + zlib.compress(b"hi"), False),
}


@pytest.mark.parametrize(("response", "reusable"), BODIES.values(), ids=BODIES.keys())
def test_a_body_ends_where_its_head_says(response: bytes, reusable: bool):
    for cuts in ((), tuple(range(len(response)))):
        body, reader = read(response, cuts)
        assert body == b"hi"
        assert reader.end()
        assert reader.reusable is reusable


def test_a_body_without_a_length_ends_with_the_connection_and_others_do_not():
    assert read(OK + b"\r\nhalf")[1].end()
    for cut_off in (OK, OK + b"content-length: 5\r\n\r\nhalf", CHUNKED + b"5\r\nhalf"):
        assert not read(cut_off)[1].end()


def test_responses_without_a_body_are_complete_at_once():
    for status in (b"204 No Content", b"304 Not Modified"):
        for coding in (b"", b"transfer-encoding: chunked\r\n"):
            assert read(b"HTTP/1.1 " + status + b"\r\n" + coding + b"\r\n")[1].complete


def test_header_names_have_no_case_and_repeated_fields_are_one():
    lines = b"X-Two: a\r\nx-two:  b \r\nx-folded: c\r\n d\r\ncontent-length: 0\r\n\r\n"
    head = read(OK + lines)[1].head
    assert head
    assert (head.headers["x-two"], head.headers["x-folded"]) == ("a, b", "c d")


def test_a_head_takes_no_longer_than_its_length():
    """These took minutes: both times grew with the square of the length."""
    blanks = b"x: a" + b" " * (2 * LARGEST_HEAD) + b"b\r\n\r\n"
    assert read(OK + blanks)[1].head
    dripping = OK + b"x: " + b"x" * (LARGEST_HEAD - 100) + b"\r\n\r\n"
    assert read(dripping, tuple(range(len(dripping))))[1].head


def test_data_after_a_compressed_body_is_dropped():
    _, reader = read(OK + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"hi"))
    rest = bytes(MIB)
    tracemalloc.start()
    for _ in range(32):
        assert reader.feed(rest) == b""
    collected, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert collected < 2 * MIB


@each_row(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"a name: x\r\n\r\n",
        OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\n",
        OK + b"content-length: -2\r\n\r\n",
        OK + b"content-length: 9999999999999999999999\r\n\r\n",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n",
        OK + b"x: " + b"x" * LARGEST_HEAD,
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"+2\r\nhi\r\n",
        CHUNKED + b"2\r\nhi!\r\n",
        CHUNKED + b"1" * (LONGEST_LINE + 1),
        b"\x15\x03\x01\x00\x02\x02\x46",  # a TLS server, asked without TLS
        b"HTTP/1.1 100 Continue\r\n\r\n" * 5000,
    ],
)
def test_responses_that_are_not_http_are_refused(response: bytes):
    with pytest.raises(ValueError):  # noqa: PT011 (the reason is for people)
        read(response)


def test_a_body_that_unpacks_to_too_much_is_refused():
    packed = gzip.compress(bytes(LARGEST_UNPACKED + 1))
    with pytest.raises(ValueError):  # noqa: PT011 (the reason is for people)
        read(OK + b"content-encoding: gzip\r\n\r\n" + packed)


@settings(deadline=None)
@given(data=st.binary(max_size=80), start=st.sampled_from([b"", OK, CHUNKED]))
def test_any_bytes_fail_cleanly(data: bytes, start: bytes):
    try:
        read(start + data)
    except ValueError:
        return


async def said(base_url: str, times: int = 1) -> list[str]:
    return await said_by(open_provider("openai", model="m", base_url=base_url, api_key="k"), times)


async def said_by(provider: OpenProvider, times: int = 1) -> list[str]:
    request = ModelRequest(system="", turns=[Turn("user", (Text(text="Hello"),))])
    answers: list[str] = []
    for _ in range(times):
        async with provider.stream(request) as chunks:
            words = [chunk.text async for chunk in chunks if isinstance(chunk, TextChunk)]
            answers.append("".join(words))
    await provider.aclose()
    return answers


async def test_a_user_in_the_address_is_sent_as_basic_credentials():
    with LlmServer([say("Hello.")]) as server:
        assert await said(server.url.replace("//", "//me:p%40ss@") + "/v1") == ["Hello."]
    sent = server.requests[0].headers
    assert sent["authorization"] == "Basic bWU6cEBzcw=="
    assert sent["host"] == server.url.removeprefix("http://")


async def test_a_connection_that_takes_too_long_is_reported_with_the_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        tls: Tls = Future()
        tls.set_result(ssl.create_default_context())
        client = DirectClient(url, tls, keeps=False, connect_seconds=0.1)
        with pytest.raises(HttpFailure, match="no connection within"):
            async with client.post(f"{url}/v1", b"{}", {}):
                pass


async def test_a_slow_listener_gets_everything_in_order():
    words = [f"{number} " for number in range(20_000)]
    with LlmServer([say(*words)]) as server:
        client = DirectClient(server.url, None, keeps=False, connect_seconds=60)
        send, receive = anyio.create_memory_object_stream[Item](0)
        url = f"{server.url}/v1/chat/completions"
        pieces: list[bytes] = []
        async with (
            client.post(url, b'{"model": "m"}', {}) as response,
            anyio.create_task_group() as group,
            receive,
        ):

            async def pass_on() -> None:
                with send:
                    await response.pass_to(send)

            group.start_soon(pass_on)
            async for item in receive:
                assert isinstance(item, bytes)
                pieces.append(item)
                await anyio.wait_all_tasks_blocked()
        await client.aclose()
    events = b"".join(pieces).split(b"\n\n")
    parts = (event.partition(b'"content":"')[2].partition(b'"')[0] for event in events)
    assert b"".join(parts).decode() == "".join(words)


@contextmanager
def behind_tls(server: LlmServer, folder: Path) -> Iterator[tuple[str, str]]:
    """The address of a server in front of this one, and the certificate it has."""
    context, certificate = self_signed(folder, "0.0.0.0")
    behind = int(server.url.rpartition(":")[2])

    def serve() -> None:
        peer, _ = listener.accept()
        with (
            context.wrap_socket(peer, server_side=True) as outer,
            socket.create_connection(("127.0.0.1", behind)) as inner,
            suppress(OSError),
        ):
            _connect(outer, inner)

    with socket.create_server(("0.0.0.0", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://0.0.0.0:{listener.getsockname()[1]}", certificate
        thread.join()


def _connect(outer: ssl.SSLSocket, inner: socket.socket) -> None:
    """Copy in both directions until one side ends."""
    while True:
        ready = [outer] if outer.pending() else select.select([outer, inner], [], [])[0]
        source, target = (outer, inner) if outer in ready else (inner, outer)
        data = source.recv(65536)
        if not data:
            return
        target.sendall(data)


@pytest.mark.parametrize("text", [None, "not a certificate"])
def test_a_certificate_file_that_cannot_be_used_is_named(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "authorities.pem"
    if text:
        path.write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(SettingsError, match=r"SSL_CERT_FILE names .*authorities\.pem"):
        open_provider("openai", model="m", base_url="https://model.example/v1", api_key="k")


async def test_requests_to_a_trusted_server_share_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    server = LlmServer([say("One.")], [say(*["Two."] * 9000)])
    with server, behind_tls(server, tmp_path) as (url, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        assert await said(f"{url}/v1", times=2) == ["One.", "Two." * 9000]
    assert len({request.connection for request in server.requests}) == 1


async def test_certificates_are_read_while_the_provider_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    opened = threading.Event()

    def read_certificates() -> ssl.SSLContext:
        opened.wait()
        return ssl.create_default_context(cafile=certificate)

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setattr(http_client, "tls_context", read_certificates)
    server = LlmServer([say("Hello.")])
    with server, behind_tls(server, tmp_path) as (url, certificate):
        provider = open_provider("openai", model="m", base_url=f"{url}/v1", api_key="k")
        opened.set()
        assert await said_by(provider) == ["Hello."]
