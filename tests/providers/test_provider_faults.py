"""Every row of the fault tables that a provider decides, over real sockets, on each wire."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

import llm_server
from llm_server import LlmServer, html, keepalives, nobody_home, redirect, say, status, trailing
from llm_server.parts import event
from providers.conftest import HELLO, at
from rookery.core.limits import FailureKind, Limits
from rookery.engine.ports.model import SilenceChunk, StopChunk, TextChunk
from rookery.errors import ProviderError
from rookery.providers.registry import open_provider
from support.each_row import each_row

pytestmark = pytest.mark.anyio

WIRES = ("anthropic", "openai", "responses", "gemini", "bedrock")
KEY = "sk-secret-0123456789"
on_each_wire = pytest.mark.parametrize("wire", WIRES)
on_each_framing = pytest.mark.parametrize("wire", ["openai", "bedrock"])
"""For what the connection or the reader of its events decides; all but Amazon send lines."""

SHORT = Limits(first_byte_seconds=0.2, idle_seconds=0.2, progress_seconds=0.8)


NOT_IN_FRAMES = (
    *("comments", "blank-lines", "id-and-retry-lines", "crlf", "several-data-lines"),
    *("no-last-blank-line", "byte-order-mark", "split-characters-crlf", "line-without-end"),
    "no-credit",
)
"""Rows about the lines of a stream, and one that Amazon has no words for."""


def possible(table: dict[str, Any], wire: str) -> dict[str, Any]:
    """The rows that the wire can have."""
    unlike = NOT_IN_FRAMES if wire == "bedrock" else ()
    return {row: answer for row, answer in table.items() if row not in unlike}


KIND_OF_STATUS = {
    "400": "rejected",
    "401": "bad_key",
    "403": "rejected",
    "407": "rejected",
    "413": "overflow",
    "422": "rejected",
    "unknown-4xx": "rejected",
    "broken-json": "rejected",
    "json-no-object": "rejected",
}


WAITS = {"429-wait": 7, "503-wait": 7, "429-long": 7200}
NO_WAITS = ("429", "429-past", "429-negative", "429-nonsense")


@on_each_wire
async def test_a_status_has_one_kind_and_a_plausible_wait_is_passed_on(ask_each, wire: str):
    statuses = {row: each for row, each in llm_server.STATUSES.items() if row != "404"}
    for row, received in (await ask_each(wire, statuses)).items():
        assert received.error.kind == KIND_OF_STATUS.get(row, "busy"), row
        assert received.error.status == statuses[row].code, row
        assert len(received.requests) == 1, row
        assert len(str(received.error)) < 2400, row
        assert row not in WAITS or received.error.retry_after == WAITS[row], row
        assert row not in NO_WAITS or received.error.retry_after is None, row
        assert row != "429-date" or received.error.retry_after >= 3600


KINDS = {
    FailureKind.OVERFLOW: llm_server.OVERFLOWS,
    FailureKind.NO_CREDIT: llm_server.NO_CREDIT,
    FailureKind.BROKEN_HISTORY: llm_server.BROKEN_HISTORIES,
    FailureKind.MISPLACED: llm_server.MISPLACED,
}


@on_each_wire
@pytest.mark.parametrize("kind", KINDS)
async def test_a_failure_is_recognised_in_every_shape(ask_each, wire: str, kind: FailureKind):
    for row, received in (await ask_each(wire, KINDS[kind])).items():
        assert received.error.kind is kind, row


async def test_an_error_code_is_found_at_any_nesting(ask):
    inner = json.dumps({"error": {"message": "Sorry.", "code": "context_length_exceeded"}})
    outer = {"message": "Provider returned error", "metadata": {"raw": inner}}
    received = await ask("openai", status(400, {"error": outer}))
    assert received.error.kind is FailureKind.OVERFLOW
    assert "Sorry." in str(received.error)


async def test_a_model_that_the_provider_no_longer_has_is_not_suggested(ask):
    problem = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}
    received = await ask("anthropic", status(404, problem), model="claude-sonnet-5-5")
    assert "Did you mean " in str(received.error)
    assert "claude-sonnet-5-5" not in str(received.error).partition("Did you mean")[2]


async def test_an_unknown_model_is_named_with_its_nearest_neighbours(ask):
    problem = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}
    received = await ask("anthropic", status(404, problem), model="claude-sonet-5-5")
    assert received.error.kind is FailureKind.NO_MODEL
    assert "has no model claude-sonet-5-5" in str(received.error)
    assert "Did you mean claude-sonnet-5-5" in str(received.error)
    assert str(received.error).endswith("? Choose one with --model, or with /model in a session")


async def test_the_model_of_another_provider_is_recognised(ask):
    problem = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}
    heard = await ask("anthropic", status(404, problem), model="gpt-5.4")
    assert str(heard.error).endswith("It is a model of openai: use --provider openai")


async def test_a_model_without_neighbours_is_answered_with_the_command_that_lists_models(ask):
    problem = {"message": 'model "zzz" not found, try pulling it first'}
    heard = await ask("ollama", status(404, {"error": problem}), model="zzz")
    listing = str(heard.error).partition("first (request req_scripted). ")[2]
    assert listing.startswith("rookery models ollama --base-url http://127.0.0.1:")


async def test_a_wait_that_is_too_long_to_try_again_is_named(ask):
    heard = await ask("openai", llm_server.STATUSES["429-long"])
    assert str(heard.error).endswith(". Try again in 120 minutes")
    heard = await ask("openai", llm_server.STATUSES["429-wait"])
    assert "Try again" not in str(heard.error)


MISSING_MODELS: dict[str, dict[str, Any]] = {
    "openai": {"message": "The model `gtp-6` does not exist", "code": "model_not_found"},
    "ollama": {"message": 'model "gtp-6" not found, try pulling it first'},
    "openrouter": {"message": "gtp-6 is not a valid model ID", "code": 400},
}


async def test_a_missing_model_is_recognised_in_every_shape(ask_each):
    answers = {
        row: status(400 if problem.get("code") == 400 else 404, {"error": problem})
        for row, problem in MISSING_MODELS.items()
    }
    for row, received in (await ask_each("openai", answers, model="gtp-6")).items():
        assert received.error.kind is FailureKind.NO_MODEL, row


async def test_a_404_that_is_about_no_model_points_at_the_base_url(ask):
    received = await ask("openai", status(404, "404 page not found"))
    assert received.error.kind is FailureKind.REJECTED
    assert "Check the base URL" in str(received.error)


@on_each_wire
async def test_a_rejected_key_is_described_and_never_shown(ask, wire: str):
    key = "no-known-family-of-keys"
    answer = status(401, {"error": {"message": f"Incorrect API key provided: {key}."}})
    received = await ask(wire, answer, api_key=key, key_source="from SOME_API_KEY")
    assert received.error.kind is FailureKind.BAD_KEY
    assert key not in str(received.error)
    assert "the key from SOME_API_KEY" in str(received.error)


@pytest.mark.parametrize(
    ("source", "todo"),
    [
        ("from SOME_API_KEY", "Set another in SOME_API_KEY, or unset it and run: rookery auth"),
        ("from ~/keys.toml", "Store another with: rookery auth anthropic"),
    ],
)
async def test_a_rejected_key_says_how_to_use_another(ask, source: str, todo: str):
    received = await ask("anthropic", status(401), api_key="k" * 20, key_source=source)
    assert todo in str(received.error)


async def test_another_key_in_an_error_is_not_shown_either(ask):
    answer = status(400, {"error": {"message": "upstream said: Bearer sk-or-v1-abcdef0123456789"}})
    assert "abcdef0123456789" not in str((await ask("openai", answer)).error)


@on_each_wire
async def test_the_request_id_is_part_of_the_text(ask, wire: str):
    assert "req_scripted" in str((await ask(wire, status(400))).error)


async def test_a_page_is_quoted_with_its_type_and_without_control_characters(ask):
    received = await ask("openai", html("<h1>Sign in\x1b[31m</h1>" + "x" * 500))
    assert "text/html" in str(received.error)
    assert "<h1>Sign in\\x1b[31m</h1>" in str(received.error)
    assert "x" * 181 not in str(received.error)


async def test_an_error_object_with_status_200_is_classified_by_its_content(ask):
    answer = status(200, {"error": {"message": "Slow down", "code": 429}})
    assert (await ask("openai", answer)).error.kind is FailureKind.BUSY


@on_each_framing
async def test_a_redirect_to_the_same_origin_is_followed_once(wire: str):
    with LlmServer(redirect(_path(wire)), [say("Here.")]) as server:
        assert await _said(wire, server.url) == "Here."
    assert all(KEY in str(request.headers) for request in server.requests)
    further = _path(wire).replace("two", "three")
    with LlmServer(redirect(_path(wire)), redirect(further), [say("Never.")]) as server:
        error = await _failure(wire, server.url)
    assert error.kind is FailureKind.REJECTED
    assert len(server.requests) == 2


def _path(wire: str) -> str:
    return {
        "anthropic": "/two/v1/messages",
        "openai": "/two/v1/chat/completions",
        "responses": "/two/v1/responses",
        "gemini": "/two/v1/models/m:streamGenerateContent?alt=sse",
        "bedrock": "/two/model/m/converse-stream",
    }[wire]


@on_each_framing
async def test_a_redirect_to_another_origin_gets_neither_request_nor_key(wire: str):
    with LlmServer([say("Caught.")]) as elsewhere, LlmServer(redirect(elsewhere.url)) as server:
        error = await _failure(wire, server.url)
    assert error.kind is FailureKind.REJECTED
    assert "has moved to http://127.0.0.1" in str(error)
    assert elsewhere.requests == []


@on_each_framing
async def test_a_refused_connection_means_offline(wire: str):
    with nobody_home() as url:
        error = await _failure(wire, url)
    assert error.kind is FailureKind.OFFLINE
    assert url.removeprefix("http://") in str(error)


async def test_a_name_that_does_not_resolve_means_offline():
    error = await _failure("openai", "http://models.invalid")
    assert error.kind is FailureKind.OFFLINE
    assert "Are you offline? (" in str(error)


@each_row(
    ("provider", "question"),
    [
        ("ollama", "Is ollama running?"),
        ("lmstudio", "Is lmstudio running?"),
        ("openai", "Is the server running?"),
    ],
)
async def test_an_unreachable_local_server_asks_whether_it_is_running(provider: str, question: str):
    with nobody_home() as url:
        error = await _failure(provider, url)
    place = url.removeprefix("http://")
    assert str(error) == f"{place} cannot be reached. {question}"


@contextmanager
def _a_server_that_says(data: bytes) -> Iterator[str]:
    """A socket that answers every client with these bytes and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()


async def test_a_server_without_tls_is_not_retried():
    with _a_server_that_says(b"HTTP/1.1 400 Bad Request\r\n\r\n") as place:
        error = await _failure("openai", f"https://{place}")
    assert error.kind is FailureKind.REJECTED
    assert "No secure connection" in str(error)


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
async def test_an_untrusted_certificate_is_refused_with_the_reason(
    scheme: str, unvouched: ssl.SSLContext
):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_shake_hands, args=(listener, unvouched))
        thread.start()
        error = await _failure("openai", f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert error.kind is FailureKind.REJECTED
    assert "self-signed certificate" in str(error)


def _shake_hands(listener: socket.socket, context: ssl.SSLContext) -> None:
    peer, _ = listener.accept()
    with peer, pytest.raises(ssl.SSLError):
        context.wrap_socket(peer, server_side=True)


async def test_a_proxy_that_wants_credentials_is_named(monkeypatch: pytest.MonkeyPatch):
    reply = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
    with _a_server_that_says(reply) as proxy:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("https_proxy", f"http://{proxy}")
        error = await _failure("openai", "https://models.invalid")
    assert error.kind is FailureKind.REJECTED
    assert "The proxy 127.0.0.1" in str(error)


async def test_a_proxy_in_the_environment_is_used(monkeypatch: pytest.MonkeyPatch):
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with LlmServer([say("Here.")]) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert await _said("openai", "http://models.invalid") == "Here."
    assert proxy.requests[0].headers["host"] == "models.invalid"


async def test_a_server_that_does_not_speak_http_is_misplaced():
    with _a_server_that_says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as place:
        error = await _failure("openai", f"http://{place}")
    assert error.kind is FailureKind.MISPLACED


@on_each_framing
async def test_an_unrequested_response_is_not_used_for_the_next_request(wire: str):
    extra = trailing(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
    with LlmServer([say("One."), extra], [say("Two.")], [say("Three.")]) as server:
        provider = _provider(wire, _elsewhere(server.url))
        said = [await _words(provider) for _ in range(3)]
        await provider.aclose()
    assert said == ["One.", "Two.", "Three."]
    assert [request.connection for request in server.requests] == [0, 1, 1]


@on_each_framing
async def test_the_request_after_a_failure_goes_out_on_a_fresh_connection(wire: str):
    with LlmServer(status(503), [say("Two.")]) as server:
        provider = _provider(wire, server.url)
        with pytest.raises(ProviderError):
            await _words(provider)
        assert await _words(provider) == "Two."
        await provider.aclose()
    assert server.requests[0].connection != server.requests[1].connection


@on_each_wire
async def test_unusual_responses_are_tolerated(ask_each, wire: str):
    for row, received in (await ask_each(wire, possible(llm_server.TOLERATED, wire))).items():
        assert received.error is None, row
        assert received.text == llm_server.TEXT, row
        assert len(received.stops) == 1, row


@on_each_wire
async def test_an_answer_without_an_end_counts_as_dropped(ask_each, wire: str):
    for row, received in (await ask_each(wire, llm_server.CUT_OFF)).items():
        assert received.error.kind is FailureKind.DROPPED, row
        assert received.stops == [], row


KIND_OF_SILENCE = {"keepalives-only": "keepalive_only", "keepalives-in-text": "keepalive_only"}


@on_each_framing
async def test_silence_ends_at_the_first_timeout(ask, wire: str):
    patient = replace(SHORT, first_byte_seconds=60, idle_seconds=60)  # bytes may come late

    async def wait(row: str) -> None:
        limits = patient if row in KIND_OF_SILENCE else SHORT
        received = await ask(wire, llm_server.SILENT[row], limits=limits)
        assert received.error.kind == KIND_OF_SILENCE.get(row, "dropped"), row

    async with anyio.create_task_group() as group:
        for row in llm_server.SILENT:
            group.start_soon(wait, row)


async def test_keepalives_without_progress_are_named_as_such(ask):
    patient = Limits(first_byte_seconds=5, idle_seconds=5, progress_seconds=0.1)
    received = await ask("openai", [keepalives()], limits=patient)
    assert "keep-alives only" in str(received.error)


async def test_a_long_wait_for_the_first_byte_is_reported_meanwhile(ask):
    received = await ask("openai", llm_server.hang(), limits=Limits(first_byte_seconds=0.4))
    waits = [chunk.seconds for chunk in received.chunks if isinstance(chunk, SilenceChunk)]
    assert len(waits) >= 4
    assert waits == sorted(waits)
    assert "No answer came within 0.4 seconds" in str(received.error)


async def test_an_answer_after_a_silence_is_received(ask):
    gate = llm_server.gate()
    received: list[Any] = []
    with LlmServer([gate, say("Late.")]) as server:
        provider = _provider("openai", server.url, Limits(first_byte_seconds=8))
        async with provider.stream(HELLO) as chunks:
            async for chunk in chunks:
                received.append(chunk)
                if isinstance(chunk, SilenceChunk):
                    gate.open()
        await provider.aclose()
    assert isinstance(received[0], SilenceChunk)
    assert "".join(c.text for c in received if isinstance(c, TextChunk)) == "Late."
    assert isinstance(received[-1], StopChunk)


async def test_local_models_are_given_more_time(ask):
    limits = Limits(first_byte_seconds=0.1, first_byte_seconds_local=0.3)
    received = await ask("vllm", llm_server.hang(), limits=limits)
    assert "within 0.3 seconds" in str(received.error)


KIND_OF_EVENT = {"overflow": "overflow", "no-credit": "no_credit"}


@on_each_wire
async def test_an_error_event_is_classified_by_its_status(ask_each, wire: str):
    for row, received in (await ask_each(wire, possible(llm_server.ERROR_EVENTS, wire))).items():
        assert received.error.kind == KIND_OF_EVENT.get(row, "busy"), row
        assert received.stops == [], row


@on_each_framing
async def test_an_oversized_event_ends_the_connection(ask_each, wire: str):
    answers = {row: made() for row, made in possible(llm_server.OVERSIZED, wire).items()}
    for row, received in (await ask_each(wire, answers)).items():
        assert received.error.kind is FailureKind.MISPLACED, row
        assert "oversized" in str(received.error), row


@on_each_framing
async def test_a_response_longer_than_its_limit_ends_the_connection(ask, wire: str):
    answer = [say(*["x" * 1000] * 50)]
    assert (await ask(wire, answer, limits=Limits(response_bytes=500_000))).error is None
    received = await ask(wire, answer, limits=Limits(response_bytes=20_000))
    assert received.error.kind is FailureKind.MISPLACED


@on_each_framing
async def test_an_event_may_be_as_long_as_its_limit_and_no_longer(ask, wire: str):
    answer = [llm_server.WHOLE, say("x" * 10_000)]
    assert (await ask(wire, answer, limits=Limits(event_bytes=40_000))).text == "x" * 10_000
    received = await ask(wire, answer, limits=Limits(event_bytes=10_000))
    assert received.error.kind is FailureKind.MISPLACED


@on_each_framing
async def test_invalid_utf8_bytes_are_replaced(ask, wire: str):
    received = await ask(wire, llm_server.ODD_ANSWERS["invalid-utf8"])
    assert received.text == "caf\ufffd \ufffd and on"


@on_each_wire
async def test_a_lone_surrogate_is_replaced(ask, wire: str):
    received = await ask(wire, llm_server.ODD_ANSWERS["lone-surrogate"])
    assert received.error is None
    received.text.encode()


@on_each_wire
async def test_an_event_that_is_not_json_is_misplaced(ask, wire: str):
    received = await ask(wire, [say("Half", llm_server.raw(b"data: <html>\n\n"), "more")])
    assert received.error.kind is FailureKind.MISPLACED


ODD_EVENTS = [
    b"null",
    b"[]",
    b"7",
    b'"x"',
    b'{"type":["x"]}',
    b'{"choices":7}',
    b'{"choices":[null]}',
    b'{"choices":[{"delta":{"tool_calls":[]}}]}',
    b'{"type":"content_block_delta","delta":null}',
    b'{"type":"message_delta","usage":[]}',
    b'{"type":"content_block_start","index":"x","content_block":7}',
    b'{"usage":"many"}',
    b'{"usage":{"inputTokens":"x","outputTokens":-1}}',
    b'{"delta":{"toolUse":7,"reasoningContent":[]},"contentBlockIndex":"x"}',
    b'{"type":"response.output_item.added","item":null,"output_index":null}',
]


@on_each_wire
async def test_events_of_any_shape_are_tolerated(ask, wire: str):
    names = ("contentBlockDelta", "metadata", "other")
    odd = [event(name, data.decode()) for data in ODD_EVENTS for name in names]
    received = await ask(wire, [say("Half, ", *odd, "whole.")])
    assert received.error is None
    assert received.text == "Half, whole."


@on_each_framing
async def test_cancelling_closes_the_connection_at_once(wire: str):
    gate = llm_server.gate()
    with LlmServer([say("So far", gate)]) as server:
        provider = _provider(wire, server.url)
        with anyio.CancelScope() as scope:
            async with provider.stream(HELLO) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextChunk):
                        scope.cancel()
        assert scope.cancelled_caught
        await provider.aclose()


async def test_leaving_early_closes_the_connection(ask):
    with LlmServer([say("So far", llm_server.stall())]) as server:
        provider = _provider("openai", server.url)
        async with provider.stream(HELLO) as chunks:
            await anext(aiter(chunks))
        await anyio.to_thread.run_sync(server.wait_for_departure)
        await provider.aclose()


async def test_an_error_of_the_reader_is_raised_unchanged():
    with LlmServer([say("Hello")]) as server:
        provider = _provider("openai", server.url)
        with pytest.raises(ZeroDivisionError):
            await _divide_by_zero_while_listening(provider)
        await provider.aclose()


async def _divide_by_zero_while_listening(provider: Any) -> None:
    async with provider.stream(HELLO) as chunks:
        async for _ in chunks:
            raise ZeroDivisionError


async def test_a_stream_that_is_never_read_leaves_nothing_behind():
    with LlmServer([say("Hello")]) as server:
        provider = _provider("openai", server.url)
        async with provider.stream(HELLO):
            pass
        await provider.aclose()


@on_each_framing
async def test_the_connection_is_kept_for_the_next_request_unless_it_is_to_this_machine(wire: str):
    """Local servers close it after their answer, perhaps while the next request is sent."""
    for address, connections in ((_elsewhere, 1), (str, 2)):
        with LlmServer([say("One.")], [say("Two.")]) as server:
            provider = _provider(wire, address(server.url))
            assert [await _words(provider), await _words(provider)] == ["One.", "Two."]
            await provider.aclose()
        assert len({request.connection for request in server.requests}) == connections


def _elsewhere(url: str) -> str:
    """An address of the server that does not look like one of this machine."""
    return url.replace("127.0.0.1", "0.0.0.0")


def _provider(wire: str, url: str, limits: Limits | None = None) -> Any:
    return open_provider(wire, model="m", base_url=at(url, wire), api_key=KEY, limits=limits)


async def _words(provider: Any) -> str:
    async with provider.stream(HELLO) as chunks:
        return "".join([chunk.text async for chunk in chunks if isinstance(chunk, TextChunk)])


async def _said(wire: str, url: str) -> str:
    provider = _provider(wire, url)
    try:
        return await _words(provider)
    finally:
        await provider.aclose()


async def _failure(wire: str, url: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await _said(wire, url)
    return caught.value
