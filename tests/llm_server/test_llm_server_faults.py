"""What the scripted model does to a connection, seen from bare sockets."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import Struct

from llm_server import (
    BROKEN_HISTORIES,
    CUT_OFF,
    EACH_BYTE,
    ERROR_EVENTS,
    MISPLACED,
    NO_CREDIT,
    ODD_ANSWERS,
    ODD_CALLS,
    OVERFLOWS,
    OVERSIZED,
    SILENT,
    STATUSES,
    TEXT,
    TOLERATED,
    LlmServer,
    Status,
    keepalives,
    nobody_home,
    redirect,
    say,
)
from llm_server.chat_wire import CHAT
from llm_server.composed import compose, text_of
from llm_server.reply import Reply

ROUTES = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
}
ON_EACH_ROUTE = pytest.mark.parametrize("route", ROUTES)
LAST_CHUNK = b"\r\n0\r\n\r\n"


def request(route: str = "chat", **body: Any) -> bytes:
    asked = json.dumps({"model": "m", "stream": True, **body}).encode()
    head = f"POST {ROUTES[route]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(asked)}\r\n\r\n"
    return head.encode() + asked


@contextmanager
def connected(server: LlmServer) -> Iterator[socket.socket]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as peer:
        yield peer


def read_until(peer: socket.socket, ending: bytes) -> bytes:
    """What comes until `ending`, or until the server closes the connection."""
    got = bytearray()
    while not got.endswith(ending) and (data := peer.recv(1 << 20)):
        got += data
    return bytes(got)


class Fetched(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


def fetch(server: LlmServer, route: str = "chat", **body: Any) -> Fetched:
    """One answer, freed from its HTTP framing by the standard library."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    try:
        asked = {"model": "m", "stream": True, **body}
        connection.request("POST", ROUTES[route], json.dumps(asked))
        got = connection.getresponse()
        headers = {name.lower(): text for name, text in got.getheaders()}
        return Fetched(got.status, headers, got.read())
    finally:
        connection.close()


def stream(server: LlmServer, route: str = "chat") -> bytes:
    return fetch(server, route).body


def sse(body: bytes) -> list[tuple[str, str]]:
    """Events by the rules of the HTML standard, written here a second time on purpose."""
    events = []
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    for block in text.split("\n\n"):
        fields = [line.partition(":") for line in block.split("\n") if line and line[0] != ":"]
        data = [value.removeprefix(" ") for name, _, value in fields if name == "data"]
        names = [value.removeprefix(" ") for name, _, value in fields if name == "event"]
        if data:
            events.append((names[-1] if names else "message", "\n".join(data)))
    return events


IS_END: dict[str, Callable[[str, str], bool]] = {
    "messages": lambda name, data: name == "message_stop",
    "chat": lambda name, data: data == "[DONE]",
    "responses": lambda name, data: name in {"response.completed", "response.incomplete"},
}


def deltas(route: str, events: list[tuple[str, str]]) -> tuple[str, str]:
    """All text and all arguments that came before the end event."""
    text = arguments = ""
    for name, data in events:
        if IS_END[route](name, data):
            return text, arguments
        match json.loads(data):
            case {"delta": {"text": str(piece)}}:
                text += piece
            case {"choices": [{"delta": {"content": str(piece)}}]}:
                text += piece
            case {"type": "response.output_text.delta", "delta": str(piece)}:
                text += piece
            case {"delta": {"partial_json": str(piece)}}:
                arguments += piece
            case {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": piece}}]}}]}:
                arguments += piece
            case {"type": "response.function_call_arguments.delta", "delta": str(piece)}:
                arguments += piece
            case _:
                pass
    raise AssertionError("The stream has no end event.")


@ON_EACH_ROUTE
@pytest.mark.parametrize("name", TOLERATED)
def test_what_clients_must_tolerate_still_says_the_same(name: str, route: str):
    with LlmServer(TOLERATED[name]) as server:
        assert deltas(route, sse(stream(server, route))) == (TEXT, "")


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("comments", rb": still here\n\n"),
        ("keepalives", rb"\Aevent: ping\n"),
        ("unknown-events", rb"event: future\.thing\n"),
        ("crlf", rb"\A([^\r\n]*\r\n)+\Z"),
        ("several-data-lines", rb"data: \{\ndata: "),
        ("no-last-blank-line", rb'"message_stop"\}\n\Z'),
        ("byte-order-mark", rb"\A\xef\xbb\xbf"),
        ("text-after-end", rb'"message_stop"\}\n\n.*\n.*You should not see this'),
    ],
)
def test_the_oddity_is_really_on_the_wire(name: str, sign: bytes):
    with LlmServer(TOLERATED[name]) as server:
        assert re.search(sign, stream(server, "messages"))


def test_each_byte_can_have_its_own_write_so_that_characters_are_split():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        reply = Reply(ours, CHAT, {"stream": True}, threading.Event())
        answer = compose([EACH_BYTE, say("🐦")], 0)
        speaker = threading.Thread(target=reply.answer, args=(answer, 0))
        speaker.start()
        writes: list[bytes] = []
        while not b"".join(writes[-7:]).endswith(LAST_CHUNK):
            writes.append(theirs.recv(1 << 16))
        speaker.join()
    assert {len(write) for write in writes} == {1}
    assert "🐦".encode() in b"".join(writes)


@ON_EACH_ROUTE
@pytest.mark.parametrize("name", CUT_OFF)
def test_a_cut_off_answer_never_reaches_its_end_event(name: str, route: str):
    with LlmServer(CUT_OFF[name]) as server, connected(server) as peer:
        peer.sendall(request(route))
        if name.startswith("reset"):
            with pytest.raises(ConnectionResetError):
                read_until(peer, LAST_CHUNK)
            return
        got = read_until(peer, LAST_CHUNK)
        assert got.endswith(LAST_CHUNK) == name.startswith("ended-early")
        assert (b"200 OK" in got) == ("first-byte" not in name)
        assert not re.search(rb"message_stop|\[DONE\]|response\.completed", got)
        assert server.departures == 0


@ON_EACH_ROUTE
@pytest.mark.parametrize("name", SILENT)
def test_a_silent_answer_lasts_until_the_client_leaves(name: str, route: str):
    beginnings = {"no-first-byte": b"", "no-byte-after-headers": b"\r\n\r\n"}
    with LlmServer(SILENT[name]) as server:
        with connected(server) as peer:
            peer.sendall(request(route))
            read_until(peer, beginnings.get(name, b"\n\n\r\n"))
            assert server.departures == 0
        server.wait_for_departure()


def test_keepalives_are_what_the_vendor_sends():
    script = [[keepalives(2), say("x")]] * 3
    with LlmServer(*script) as server:
        assert stream(server, "messages").startswith(b'event: ping\ndata: {"type":"ping"}\n\n' * 2)
        assert stream(server, "chat").startswith(b": keep-alive\n\n" * 2)
        assert stream(server, "responses").startswith(b": keep-alive\n\n" * 2)


@ON_EACH_ROUTE
@pytest.mark.parametrize("name", ERROR_EVENTS)
def test_an_error_event_is_the_last_one(name: str, route: str):
    with LlmServer(ERROR_EVENTS[name]) as server:
        event, data = sse(stream(server, route))[-1]
    named = {"messages": "error", "chat": "message", "responses": "error"}
    assert event == (
        "response.failed" if (name, route) == ("failed", "responses") else named[route]
    )
    assert '"error":{' in data or route == "responses"


@ON_EACH_ROUTE
@pytest.mark.parametrize("name", OVERSIZED)
def test_an_oversized_event_has_more_than_16_mib_on_one_line(name: str, route: str):
    with LlmServer(OVERSIZED[name]()) as server:
        body = stream(server, route)
    assert max(map(len, body.split(b"\n"))) > 16 * 1024 * 1024


@ON_EACH_ROUTE
def test_invalid_bytes_and_lone_surrogates_come_as_they_are(route: str):
    with LlmServer(ODD_ANSWERS["invalid-utf8"], ODD_ANSWERS["lone-surrogate"]) as server:
        assert b'caf\xe9 \xf0\x9f\x90"' in stream(server, route)
        assert b"\\ud83d " in stream(server, route)


@pytest.mark.parametrize(
    ("name", "messages", "chat", "responses"),
    [
        ("usage-missing", 0, 0, 0),
        ("usage-negative", 2, 1, 1),
        ("usage-twice", 3, 2, 2),
    ],
)
def test_usage_comes_as_often_as_scripted(name: str, messages: int, chat: int, responses: int):
    expected = {"messages": messages, "chat": chat, "responses": responses}
    with LlmServer(*[ODD_ANSWERS[name]] * 3) as server:
        for route, times in expected.items():
            body = fetch(server, route, stream_options={"include_usage": True}).body
            assert len(re.findall(rb'"usage":\{', body)) == times, route


@ON_EACH_ROUTE
@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_an_odd_answer_is_a_complete_stream_all_the_same(name: str, route: str):
    with LlmServer(ODD_ANSWERS[name]) as server:
        deltas(route, sse(stream(server, route)))


@ON_EACH_ROUTE
@pytest.mark.parametrize("name", [name for name in ODD_CALLS if name != "interleaved"])
def test_the_arguments_of_an_odd_call_come_unchanged(name: str, route: str):
    answer = ODD_CALLS[name]
    assert isinstance(answer, Sequence)
    with LlmServer(answer) as server:
        _, arguments = deltas(route, sse(stream(server, route)))
    assert arguments == "".join(map(text_of, compose(answer, 0).blocks))


@pytest.mark.parametrize(
    ("name", "messages", "chat", "responses"),
    [
        ("missing-id", r'"tool_use","name"', r'0,"type":"function"', r'"arguments":"","name"'),
        ("empty-id", r'"id":""', r'"id":""', r'"call_id":""'),
        ("duplicate-ids", r'"id":"same"', r'"id":"same"', r'"call_id":"same"'),
        ("missing-name", r'"call_0_0","input"', r'\{"arguments":""\}', r'"call_id":"call_0_0"\}'),
        ("empty-name", r'"name":""', r'"name":""', r'"name":""'),
    ],
)
def test_names_and_ids_are_as_odd_as_scripted(name: str, messages: str, chat: str, responses: str):
    with LlmServer(*[ODD_CALLS[name]] * 3) as server:
        assert re.search(messages, stream(server, "messages").decode())
        assert re.search(chat, stream(server, "chat").decode().replace("call_1_0", "call_0_0"))
        assert re.search(
            responses, stream(server, "responses").decode().replace("call_2_0", "call_0_0")
        )


@pytest.mark.parametrize("name", [*STATUSES, *OVERFLOWS, *NO_CREDIT, *BROKEN_HISTORIES])
def test_a_status_is_sent_with_its_body_and_headers(name: str):
    wanted: Status = {**BROKEN_HISTORIES, **NO_CREDIT, **OVERFLOWS, **STATUSES}[name]
    with LlmServer(wanted) as server:
        got = fetch(server)
    assert got.status == wanted.code
    assert wanted.headers.items() <= got.headers.items()
    match wanted.body:
        case bytes() as data:
            assert got.body == data
        case str() as text:
            assert got.body == text.encode()
        case None:
            assert json.loads(got.body)["error"]["message"]
        case mapping:
            assert json.loads(got.body) == mapping


@pytest.mark.parametrize("name", MISPLACED)
def test_what_is_no_provider_answers_200_without_an_event_stream(name: str):
    with LlmServer(MISPLACED[name]) as server:
        got = fetch(server)
    assert got.status == 200
    assert "event-stream" not in got.headers["content-type"]


def test_a_redirect_leads_to_a_path_here_or_to_another_origin():
    import httpx2

    with LlmServer([say("Moved.")]) as other:
        away = redirect(f"{other.url}/v1/messages")
        with LlmServer(redirect("/moved/v1/messages"), [say("Here.")], away) as server:
            asked = {"stream": True, "messages": []}
            with httpx2.Client(base_url=server.url, follow_redirects=True) as client:
                assert "Here." in client.post("/v1/messages", json=asked).text
                assert "Moved." in client.post("/v1/messages", json=asked).text
        assert [seen.path for seen in server.requests] == [
            "/v1/messages",
            "/moved/v1/messages",
            "/v1/messages",
        ]
        assert len(other.requests) == 1


def test_where_nobody_is_home_connections_are_refused():
    with nobody_home() as url:
        host, _, port = url.removeprefix("http://").partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


def test_bytes_can_follow_the_end_of_the_message():
    with LlmServer(ODD_ANSWERS["trailing-bytes"]) as server, connected(server) as peer:
        peer.sendall(request())
        assert LAST_CHUNK + b"HTTP/1.1 200 OK" in read_until(peer, b"\r\n\r\nhi")
