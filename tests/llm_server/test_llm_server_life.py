"""How the scripted model lives: what it remembers, waits for, bears, and how it ends."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from llm_server import (
    EACH_EVENT,
    PACKED,
    Answer,
    LlmServer,
    Part,
    chunks,
    gate,
    hang,
    keepalives,
    raw,
    raw_call,
    say,
    stall,
)

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))

CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {"model": "m", "stream": True, "messages": []}
RAW_ASK = (
    f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(json.dumps(ASK))}\r\n\r\n"
    f"{json.dumps(ASK)}"
).encode()


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=30) as client:
        yield client


def test_requests_are_recorded_in_the_order_they_came(client: httpx2.Client):
    with LlmServer([say("One.")], [say("Two.")]) as server:
        client.post(server.url + CHAT, json=ASK, headers={"Authorization": "Bearer k"})
        client.post(server.url + CHAT, json={**ASK, "model": "ü"})
        client.get(server.url + "/v1/models")
    first, second, third = server.requests
    assert (first.method, first.path, first.body) == ("POST", CHAT, ASK)
    assert first.headers["authorization"] == "Bearer k"
    assert json.loads(second.raw) == second.body == {**ASK, "model": "ü"}
    assert (third.method, third.path, third.body) == ("GET", "/v1/models", {})
    assert first.at <= second.at <= third.at
    assert first.connection == second.connection == third.connection


def test_a_request_body_may_come_in_pieces_of_unknown_number(client: httpx2.Client):
    pieces = iter([b'{"model": "m",', b' "messages": []}'])
    with LlmServer([say("x")]) as server:
        assert client.post(server.url + CHAT, content=pieces).status_code == 200
    assert server.requests[0].body == {"model": "m", "messages": []}


def test_a_path_nobody_serves_is_not_found_and_plays_nothing(client: httpx2.Client):
    with LlmServer([say("One.")]) as server:
        assert client.post(server.url + "/v1/embeddings", json=ASK).status_code == 404
        assert "One." in client.post(server.url + CHAT, json=ASK).text


def test_a_gate_holds_the_answer_until_it_is_opened(client: httpx2.Client):
    held = gate()
    with (
        LlmServer([say("before ", held, "after")]) as server,
        client.stream("POST", server.url + CHAT, json=ASK) as response,
    ):
        lines = (line for line in response.iter_lines() if '"content":"' in line)
        next(lines)
        assert '"before "' in next(lines)
        held.wait_until_reached()
        held.open()
        assert '"after"' in next(lines)


def test_nothing_passes_a_gate_that_is_never_opened(client: httpx2.Client):
    held = gate()
    with socket.socket() as peer:
        with LlmServer([say("before ", held, "after")]) as server:
            peer.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
            peer.sendall(RAW_ASK)
            held.wait_until_reached()
            for _ in range(3):
                client.get(server.url + "/v1/models")
        with peer.makefile("rb") as rest:
            got = rest.read()
    assert b"before" in got
    assert b"after" not in got


def test_a_gate_at_the_start_holds_back_even_the_status_line():
    held = gate()
    with LlmServer([held, say("Late.")]) as server, ThreadPoolExecutor(1) as elsewhere:
        asked = elsewhere.submit(httpx2.post, server.url + CHAT, json=ASK)
        held.wait_until_reached()
        assert not asked.done()
        held.open()
        assert "Late." in asked.result(30).text


def test_a_test_can_wait_for_a_request_and_for_a_departure():
    with LlmServer(hang()) as server, ThreadPoolExecutor(1) as elsewhere:
        waiting = elsewhere.submit(server.wait_for_request, 1)
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(server.url + CHAT, json=ASK, timeout=httpx2.Timeout(30, read=0.05))
        assert waiting.result(30) == server.requests[0]
        server.wait_for_departure(1)
        with pytest.raises(TimeoutError, match="1 requests and 1 departures came"):
            server.wait_for_request(2, timeout=0)


def test_clients_are_served_side_by_side():
    everybody = 12
    held = [gate() for _ in range(everybody)]
    with (
        LlmServer(*([say("x", each)] for each in held)) as server,
        ThreadPoolExecutor(everybody) as crowd,
    ):
        answers = [crowd.submit(httpx2.post, server.url + CHAT, json=ASK) for _ in range(everybody)]
        for each in held:
            each.wait_until_reached()
        for each in held:
            each.open()
        assert {answer.result(30).status_code for answer in answers} == {200}


@pytest.mark.parametrize(
    "answer",
    [
        hang(),
        [raw(b""), stall()],
        [say("x", gate())],
        [gate(), say("x")],
        [keepalives(every=3600)],
        [say(*chunks(20_000_000, 20))],
    ],
    ids=["hang", "stall", "gate", "gate-first", "keepalives", "unread"],
)
def test_closing_ends_every_connection_and_every_thread(answer: Answer):
    with socket.socket() as silent, socket.socket() as idle:
        with LlmServer(answer) as server:
            address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
            idle.connect(address)
            silent.connect(address)
            silent.sendall(RAW_ASK)
            server.wait_for_request()
        assert not [t for t in threading.enumerate() if t.name.startswith("llm-server")]
        assert idle.recv(1) == b""
    assert server.departures == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


@pytest.mark.parametrize("writes", [EACH_EVENT, PACKED])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses"])
def test_a_benchmark_gets_every_one_of_its_deltas(path: str, writes: Part, client: httpx2.Client):
    count = 10_000 if TORTURE else 2_000
    arguments = ['{"path": "a", "content": "', *chunks(100 * count, count), '"}']
    words = say(*chunks(200 * count, 2 * count))
    answer = [writes, words, raw_call("write_to_file", *arguments)]
    with LlmServer(answer) as server:
        body = client.post(server.url + path, json=ASK).text
    deltas = re.findall(r'"(?:content|text|delta|partial_json|arguments)":"x{100}"', body)
    assert len(deltas) == 3 * count


def test_chunks_are_as_many_and_as_long_as_asked():
    pieces = chunks(1003, 10)
    assert (len(pieces), len("".join(pieces))) == (10, 1003)
    assert {len(piece) for piece in pieces} == {100, 101}


SCRIPT = """
- - Looking.
  - think: [Hm., {keepalives: 1}]
  - call: {read_file: {path: a.py}}
  - usage: [50, 7]
  - PACKED
- status: {code: 529, headers: {retry-after: "7"}}
- - say: [{chunks: [1000, 10]}]
  - finish: All done.
"""


def test_as_a_program_it_serves_a_yaml_script_until_its_input_closes(
    tmp_path: Path, client: httpx2.Client
):
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    program = [sys.executable, str(Path(__file__).parent), str(script)]
    with subprocess.Popen(
        [*program, "--port", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        url = process.stdout.readline().strip()
        first, second, third = (client.post(url + CHAT, json=ASK) for _ in range(3))
        process.stdin.close()
        assert process.wait(30) == 0
    assert '"content":"Looking."' in first.text
    assert '"reasoning_content":"Hm."' in first.text
    assert '"name":"read_file"' in first.text
    assert (second.status_code, second.headers["retry-after"]) == (529, "7")
    assert third.text.count('"content":"' + "x" * 100 + '"') == 10
    assert '"name":"attempt_completion"' in third.text


def test_as_a_program_it_can_choose_answers_by_history(tmp_path: Path, client: httpx2.Client):
    script = tmp_path / "script.yaml"
    script.write_text("- One.\n- Two.\n", encoding="utf-8")
    program = [sys.executable, str(Path(__file__).parent), str(script)]
    with subprocess.Popen(
        [*program, "--by-history"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        said = [client.post(url + CHAT, json=ASK).text for _ in range(2)]
        process.communicate(timeout=30)
    assert all("One." in text for text in said)
