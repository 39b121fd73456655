"""What the scripted model does to a connection, seen from bare sockets."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from llm_server import (
    ODD_ANSWERS,
    ODD_CALLS,
    TOLERATED,
    WHOLE,
    Answer,
    LlmServer,
    gate,
    hang,
    keepalives,
    raw,
    say,
    stall,
)
from llm_server.chat_wire import CHAT
from llm_server.composed import compose, text_of
from llm_server.parts import each_byte
from llm_server.reply import Reply
from support.each_row import each_row

PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
ASK = {"model": "m", "stream": True}
BODY = json.dumps(ASK)
REQUEST = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(BODY)}\r\n\r\n{BODY}"
LAST_CHUNK = b"\r\n0\r\n\r\n"
PATIENCE = 60


@contextmanager
def asked(server: LlmServer) -> Iterator[socket.socket]:
    """A connection on which the chat route was asked."""
    with socket.create_connection(_address(server), timeout=PATIENCE) as peer:
        peer.sendall(REQUEST.encode())
        yield peer


def _address(server: LlmServer) -> tuple[str, int]:
    return "127.0.0.1", int(server.url.rpartition(":")[2])


def read_until(peer: socket.socket, ending: bytes) -> bytes:
    """What comes until `ending`, or until the server closes the connection."""
    got = bytearray()
    while not got.endswith(ending) and (data := peer.recv(1 << 20)):
        got += data
    return bytes(got)


@contextmanager
def client(server: LlmServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(*_address(server), timeout=PATIENCE)
    try:
        yield connection
    finally:
        connection.close()


def streams(route: str, *answers: Answer) -> list[str]:
    """The bodies of the answers, freed from their HTTP framing by the standard library."""
    bodies = []
    with LlmServer(*answers) as server, client(server) as connection:
        for _ in answers:
            connection.request("POST", PATHS[route], BODY)
            data = connection.getresponse().read()
            bodies.append(data.decode("utf-8", "surrogateescape"))
    return bodies


def test_scripted_oddities_are_sent_on_the_wire():
    signs = {
        "comments": r": still here\n\n",
        "keepalives": r"\Aevent: ping\n",
        "unknown-events": r"event: future\.thing\n",
        "crlf": r"\A([^\r\n]*\r\n)+\Z",
        "several-data-lines": r"data: \{\ndata: ",
        "no-last-blank-line": r'"message_stop"\}\n\Z',
        "byte-order-mark": "\\A\ufeff",
        "text-after-end": r'"message_stop"\}\n\n.*\n.*You should not see this',
    }
    bodies = streams("messages", *(TOLERATED[name] for name in signs))
    for name, body in zip(signs, bodies, strict=True):
        assert re.search(signs[name], body), name
    odd = [ODD_ANSWERS["invalid-utf8"], ODD_ANSWERS["lone-surrogate"]]
    for route in PATHS:
        invalid, lone = streams(route, *odd)
        assert 'caf\udce9 \udcf0\udc9f\udc90"' in invalid, route
        assert "\\ud83d " in lone, route


def test_keepalives_match_the_vendors_format():
    ping, comment = 'event: ping\ndata: {"type":"ping"}\n\n', ": keep-alive\n\n"
    alives = {"messages": ping, "chat": comment, "responses": comment, "gemini": comment}
    for route, alive in alives.items():
        assert streams(route, [keepalives(2), say("x")])[0].startswith(alive * 2), route


def test_an_answer_can_be_sent_byte_by_byte():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        reply = Reply(ours, CHAT, ASK, threading.Event())
        answer = compose([each_byte(), say("🐦")], 0)
        speaker = threading.Thread(target=reply.answer, args=(answer, 0))
        speaker.start()
        writes: list[bytes] = []
        while not b"".join(writes[-7:]).endswith(LAST_CHUNK):
            writes.append(theirs.recv(1 << 16))
        speaker.join()
    assert {len(write) for write in writes} == {1}
    assert "🐦".encode() in b"".join(writes)


ARGUMENTS = {
    "messages": r'"partial_json":("(?:[^"\\]|\\.)*")',
    "chat": r'"arguments":("(?:[^"\\]|\\.)*")',
    "responses": r'arguments\.delta\n.*"delta":("(?:[^"\\]|\\.)*")',
}


@each_row("route", ARGUMENTS)
def test_the_arguments_of_an_odd_call_are_sent_unchanged(route: str):
    skipped = ("interleaved", "giant-argument")
    calls = {name: parts for name, parts in ODD_CALLS.items() if name not in skipped}
    for name, body in zip(calls, streams(route, *calls.values()), strict=True):
        parts = calls[name]
        assert isinstance(parts, Sequence)
        pieces = map(json.loads, re.findall(ARGUMENTS[route], body))
        assert "".join(pieces) == "".join(map(text_of, compose(parts, 0).blocks)), name


def test_requests_are_recorded_and_an_unknown_path_uses_no_answer():
    with LlmServer([say("One.")]) as server, client(server) as connection:
        connection.request("POST", "/v1/embeddings", BODY)
        missing = connection.getresponse()
        missing.read()
        words = json.dumps({**ASK, "model": "ü"}, ensure_ascii=False).encode()
        connection.request("POST", PATHS["chat"], words, {"Authorization": "Bearer k"})
        assert b"One." in connection.getresponse().read()
        connection.request("GET", "/v1/models")
        listed = json.loads(connection.getresponse().read())
    (first, second), (third,) = server.requests, server.lookups
    assert missing.status == 404
    assert (first.method, first.path, first.body) == ("POST", "/v1/embeddings", ASK)
    assert (second.raw, second.body["model"]) == (words, "ü")
    assert second.headers["authorization"] == "Bearer k"
    assert (third.method, third.path, third.body) == ("GET", "/v1/models", {})
    assert [model["id"] for model in listed["data"]] == ["scripted-1"]
    assert first.at <= second.at <= third.at
    assert first.connection == second.connection == third.connection


def test_gates_hold_answers_back_until_each_is_opened():
    """Clients are served side by side. A gate at the start holds back even the status line."""
    first, middle, unopened = gate(), gate(), gate()
    answers = [first, say("Late.")], [say("before ", middle, "after")], [say("x", unopened, "y")]
    with LlmServer(*answers) as server:
        peers = []
        for at, held in enumerate((first, middle, unopened)):
            peer = socket.create_connection(_address(server), timeout=PATIENCE)
            peer.sendall(REQUEST.encode())
            server.wait_for_request(at + 1)
            held.wait_until_reached()
            peers.append(peer)
        early, begun, _ = peers
        early.setblocking(False)
        with pytest.raises(BlockingIOError):
            early.recv(1)
        early.settimeout(PATIENCE)
        first.open()
        assert b"Late." in read_until(early, LAST_CHUNK)
        middle.open()
        assert re.search(rb'"before ".*"after"', read_until(begun, LAST_CHUNK), re.DOTALL)
    with peers[-1].makefile("rb") as rest:
        got = rest.read()
    for peer in peers:
        peer.close()
    assert b'"x"' in got
    assert b'"y"' not in got


@pytest.mark.parametrize(
    "answer",
    [
        hang(),
        [raw(b""), stall()],
        [say("x", gate())],
        [gate(), say("x")],
        [keepalives(every=3600)],
        [WHOLE, say("x" * 8_000_000)],
    ],
    ids=["hang", "stall", "gate", "gate-first", "keepalives", "unread"],
)
def test_closing_ends_every_connection_and_every_thread(answer: Answer):
    with socket.socket() as silent, socket.socket() as idle:
        with LlmServer(answer) as server:
            idle.connect(_address(server))
            silent.connect(_address(server))
            silent.sendall(REQUEST.encode())
            server.wait_for_request()
        assert not [t for t in threading.enumerate() if t.name.startswith("llm-server")]
        assert idle.recv(1) == b""
    assert server.departures == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(_address(server))
