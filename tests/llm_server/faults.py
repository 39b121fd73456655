"""Known faults between a client and a provider, by name.

Grouped by what a client should make of it. Not here, because they are not answers:
`nobody_home()` for a refused connection, an https URL of this server for a failed handshake,
a host under `.invalid` for a name that does not resolve, and `redirect()`, which needs to know
where to.
"""

import json
from collections.abc import Callable

from llm_server.parts import (
    MIB,
    WHOLE,
    Answer,
    Part,
    Status,
    call,
    comment,
    content_type,
    drop,
    each_byte,
    end_early,
    event,
    failed,
    framed,
    hang,
    html,
    interleaved,
    invalid_utf8,
    keepalives,
    letters,
    oversized_line,
    postscript,
    problem,
    raw,
    raw_call,
    refuse,
    reset,
    say,
    stall,
    status,
    stop,
    usage,
)

_AS_JSON = {"content-type": "application/json"}

TEXT = "Grüße, wörld 🐦 at once."


def _named(*statuses: Status) -> dict[str, Status]:
    return {str(each.code): each for each in statuses}


STATUSES: dict[str, Status] = {
    **_named(*(status(code) for code in (400, 401, 403, 404, 408, 409, 413, 422, 425))),
    **_named(*(status(code) for code in (500, 502, 503, 504, *range(520, 525), 529))),
    "407": status(407, headers={"proxy-authenticate": 'Basic realm="proxy.example"'}),
    "429": status(429),
    "429-wait": status(429, headers={"retry-after": "7"}),
    "429-date": status(429, headers={"retry-after": "Thu, 31 Dec 2037 23:59:59 GMT"}),
    "429-past": status(429, headers={"retry-after": "Thu, 01 Jan 1998 00:00:00 GMT"}),
    "429-negative": status(429, headers={"retry-after": "-3"}),
    "429-nonsense": status(429, headers={"retry-after": "soon"}),
    "429-long": status(429, headers={"retry-after": "7200"}),
    "503-wait": status(503, headers={"retry-after": "7"}),
    "unknown-4xx": status(418),
    "unknown-5xx": status(599),
    "not-json": status(500, "upstream connect error"),
    "broken-json": status(400, b'{"error": {"message": "cut o', _AS_JSON),
    "empty": status(500, b""),
    "huge": status(500, b"x" * (5 * MIB)),
    "html-error": status(502, "<html><h1>Bad gateway</h1>", {"content-type": "text/html"}),
    "json-no-object": status(400, b"[null]", _AS_JSON),
}

MISPLACED: dict[str, Answer] = {
    "html": html(),
    "octets": status(200, b"\x00\x01\x02", {"content-type": "application/octet-stream"}),
    "empty": status(200, b"", {"content-type": "text/plain"}),
    "wrong-type": [say(TEXT), content_type("text/plain")],
}


def _openai(code: int, message: str, error_code: str | None, type: str) -> Status:
    error = {"message": message, "type": type, "param": "messages", "code": error_code}
    return status(code, {"error": error})


def _anthropic(code: int, message: str, type: str = "invalid_request_error") -> Status:
    return status(code, {"type": "error", "error": {"type": type, "message": message}})


_TOO_LONG = "This model's maximum context length is 128000 tokens. You sent 140317 tokens."

OVERFLOWS: dict[str, Status] = {
    "openai-code": _openai(400, "Too long.", "context_length_exceeded", "invalid_request_error"),
    "openai-phrase": _openai(400, _TOO_LONG, None, "invalid_request_error"),
    "anthropic-prompt": _anthropic(400, "prompt is too long: 213462 tokens > 200000 maximum"),
    "anthropic-output": _anthropic(
        400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"
    ),
    "anthropic-413": _anthropic(413, "Request exceeds the maximum size", "request_too_large"),
    "bedrock": status(
        400,
        {"__type": "ValidationException", "message": "Input is too long for requested model."},
    ),
    "bedrock-relayed": status(
        400,
        {"__type": "ValidationException", "message": "prompt is too long: 9 tokens > 8 maximum"},
    ),
    "gemini": status(
        400,
        {
            "error": {
                "code": 400,
                "status": "INVALID_ARGUMENT",
                "message": "The input token count (1200000) exceeds the maximum number of tokens "
                "allowed (1048576).",
            }
        },
    ),
    "router-raw": status(
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "provider_name": "Somebody",
                    "raw": json.dumps({"error": {"message": _TOO_LONG}}),
                },
            }
        },
    ),
    "router-phrase": status(
        400,
        {
            "error": {
                "message": "Input length 140317 exceeds the maximum allowed input length of "
                "131072 tokens.",
                "code": 400,
            }
        },
    ),
    "self-hosted-input": _openai(
        400, "The prompt exceeds the maximum input length of 8191", None, "BadRequestError"
    ),
    "self-hosted-context": _openai(
        400,
        "the request exceeds the available context size. try increasing the context size",
        "400",
        "exceed_context_size_error",
    ),
}

NO_CREDIT: dict[str, Status] = {
    "402": status(402),
    "402-router": status(402, {"error": {"message": "Insufficient credits", "code": 402}}),
    "anthropic-balance": _anthropic(
        400, "Your credit balance is too low to access the Anthropic API."
    ),
    "openai-quota": _openai(
        429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"
    ),
}

BROKEN_HISTORIES: dict[str, Status] = {
    "anthropic-unpaired": _anthropic(
        400,
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: "
        "call_0_0",
    ),
    "anthropic-stray-result": _anthropic(
        400, "messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: call_9"
    ),
    "anthropic-duplicate-ids": _anthropic(400, "messages: `tool_use` ids must be unique"),
    "anthropic-order": _anthropic(
        400, 'messages: roles must alternate between "user" and "assistant"'
    ),
    "anthropic-unicode": _anthropic(
        400, "The request body is not valid JSON: no low surrogate in string: line 1 column 812"
    ),
    "openai-unpaired": _openai(
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: call_0_0",
        None,
        "invalid_request_error",
    ),
    "openai-stray-result": _openai(
        400,
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        None,
        "invalid_request_error",
    ),
    "responses-unpaired": _openai(
        400, "No tool output found for function call call_0_0.", None, "invalid_request_error"
    ),
}

TOLERATED: dict[str, Answer] = {
    "plain": [say(TEXT)],
    "comments": [comment(), say("Grüße, ", comment(), "wörld 🐦 at once."), comment("bye")],
    "keepalives": [keepalives(2), say("Grüße, ", keepalives(3), "wörld 🐦 at once.")],
    "unknown-events": [
        event("future.thing", {"type": "future.thing", "novelty": {"a": [1]}}),
        say("Grüße, ", event("later", {"type": "later"}), "wörld 🐦 at once."),
    ],
    "blank-lines": [raw(b"\n\n\n"), say(TEXT)],
    "id-and-retry-lines": [raw(b"id: 7\nretry: 3000\n\n"), say(TEXT)],
    "crlf": [framed(newline="\r\n"), say(TEXT)],
    "several-data-lines": [framed(several_data_lines=True), say(TEXT)],
    "no-last-blank-line": [framed(last_blank_line=False), say(TEXT)],
    "byte-order-mark": [framed(byte_order_mark=True), say(TEXT)],
    "one-letter-deltas": [letters(1), say(TEXT)],
    "one-delta": [WHOLE, say(TEXT)],
    "empty-deltas": [say("", "Grüße, ", "", "wörld 🐦 at once.", "")],
    "split-characters": [each_byte(), say(TEXT)],
    "split-characters-crlf": [each_byte(), framed(newline="\r\n"), say(TEXT)],
    "text-after-end": [say(TEXT), postscript("You should not see this.")],
}
"""All of them say `TEXT`, and nothing else."""

_CUTS: dict[str, Part] = {"reset": reset(), "dropped": drop(), "ended-early": end_early()}

CUT_OFF: dict[str, Answer] = {
    "reset-before-first-byte": reset(),
    "dropped-before-first-byte": drop(),
    **{f"{name}-after-headers": [raw(b""), cut] for name, cut in _CUTS.items()},
    "reset-in-text": [say("Half a sen", reset())],
    "dropped-in-text": [say("Half a sen", drop())],
    "ended-early-in-text": [say("Half a sen", end_early())],
    "reset-in-arguments": [raw_call("write_to_file", '{"path": "a', reset())],
    "dropped-in-arguments": [raw_call("write_to_file", '{"path": "a', drop())],
    "ended-early-in-arguments": [raw_call("write_to_file", '{"path": "a', end_early())],
    **{
        f"{name}-before-end-event": [say("All."), call("read_file", path="a"), cut]
        for name, cut in _CUTS.items()
    },
}

SILENT: dict[str, Answer] = {
    "no-first-byte": hang(),
    "no-byte-after-headers": [raw(b""), stall()],
    "stalled-in-text": [say("Half a sen", stall())],
    "stalled-in-arguments": [raw_call("write_to_file", '{"path": "a', stall())],
    "stalled-before-end-event": [say("All."), stall()],
    "keepalives-only": [keepalives()],
    "keepalives-in-text": [say("Half a sen", keepalives())],
}
"""None of them ever ends by itself."""

ERROR_EVENTS: dict[str, Answer] = {
    "overloaded": [say("Half a sen", problem("Overloaded", "overloaded_error", "overloaded"))],
    "at-once": problem("Overloaded", "overloaded_error", "overloaded"),
    "rate-limit": [say("Half", problem("Slow down", "rate_limit_error", "rate_limit_exceeded"))],
    "server-error": [say("Half", problem("It broke", "api_error", "server_error"))],
    "overflow": [problem(_TOO_LONG, "invalid_request_error", "context_length_exceeded")],
    "no-credit": [problem("Out of quota", "billing_error", "insufficient_quota")],
    "failed": [say("Half", failed("It broke", "api_error", "server_error"))],
    "numeric-code": [say("Half", problem("Provider disconnected", "api_error", 502))],
}

OVERSIZED: dict[str, Callable[[], Answer]] = {
    "event": lambda: [WHOLE, say("x" * (17 * MIB))],
    "line-without-end": lambda: [say("Hello", oversized_line())],
}
"""Functions, so that these large answers are built only when played."""

ODD_ANSWERS: dict[str, Answer] = {
    "refused-in-words": [refuse("I will not help with that.")],
    "refused-by-filter": [say("Half a sen"), stop("refused")],
    "paused": [say("So far."), stop("paused")],
    "cut-at-limit": [say("So far"), stop("length")],
    "arguments-cut-at-limit": [
        raw_call("write_to_file", '{"path": "a.py", "content": "x = '),
        stop("length"),
    ],
    "overflow-as-stop": [say("So far"), stop("overflow")],
    "stop-missing": [say("All."), stop(None)],
    "stop-missing-with-call": [call("read_file", path="a.py"), stop(None)],
    "stop-unknown": [say("All."), stop("moon_phase")],
    "usage-negative": [say("All."), usage(-5, -7)],
    "usage-absurd": [say("All."), usage(10**18, 10**18)],
    "usage-zero": [say("All."), usage(0, 0)],
    "usage-twice": [say("All."), usage(100, 10), usage(120, 30)],
    "invalid-utf8": [say(invalid_utf8(b"caf\xe9 \xf0\x9f\x90"), " and on")],
    "lone-surrogate": [say("half \ud83d of a pair")],
}

ODD_CALLS: dict[str, Answer] = {
    "not-json": [raw_call("read_file", "{path: a.py}")],
    "truncated": [raw_call("write_to_file", '{"path": "a.py", "content": "x = ')],
    "no-arguments": [raw_call("read_file")],
    "a-list": [raw_call("read_file", '["a.py"]')],
    "a-string": [raw_call("read_file", '"a.py"')],
    "null": [raw_call("read_file", "null")],
    "json-in-a-string": [raw_call("read_file", json.dumps('{"path": "a.py"}'))],
    "two-objects": [raw_call("read_file", '{"path": "a.py"}{"path": "b.py"}')],
    "duplicate-keys": [raw_call("read_file", '{"path": "a.py", "path": "b.py"}')],
    "not-a-number": [raw_call("read_file", '{"path": "a.py", "limit": NaN}')],
    "infinity": [raw_call("read_file", '{"path": "a.py", "limit": -Infinity}')],
    "giant-integer": [raw_call("read_file", '{"path": "a.py", "limit": ' + "9" * 5000 + "}")],
    "deep": [raw_call("read_file", '{"path": ' + "[" * 2000 + "]" * 2000 + "}")],
    "missing-id": [call("read_file", id=None, path="a.py")],
    "empty-id": [call("read_file", id="", path="a.py")],
    "duplicate-ids": [
        call("read_file", id="same", path="a.py"),
        call("read_file", id="same", path="b.py"),
    ],
    "odd-id": [call("read_file", id="call:7/ü \n<x>", path="a.py")],
    "long-id": [call("read_file", id="call_" + "0" * 400, path="a.py")],
    "missing-name": [raw_call(None, '{"path": "a.py"}')],
    "empty-name": [raw_call("", '{"path": "a.py"}')],
    "unknown-tool": [call("read_fiel", path="a.py")],
    "prototype-name": [call("__class__", path="a.py"), call("constructor", path="a.py")],
    "interleaved": [
        letters(3),
        interleaved(call("read_file", path="a.py"), call("read_file", path="b.py")),
    ],
    "25-calls": [call("read_file", path=f"{n}.py") for n in range(25)],
    "giant-argument": [
        WHOLE,
        raw_call("write_to_file", '{"path": "a.py", "content": "', *["x" * MIB] * 2, '"}'),
    ],
}
