"""Each wire format becomes the same chunks for the same answer."""

from typing import Any

import anyio
import pytest

import llm_server
from llm_server import LlmServer, call, gate, no_usage, redacted, say, stop, think, usage
from providers.conftest import at
from rookery.core.facts import StopReason, Usage
from rookery.core.limits import FailureKind
from rookery.engine.ports.model import (
    CallChunk,
    ModelRequest,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.providers.catalogue import find_model
from rookery.providers.openai import ChatReading
from rookery.providers.registry import PROVIDERS, open_provider

pytestmark = pytest.mark.anyio

WIRES = ("anthropic", "openai", "responses", "gemini", "bedrock")
on_each_wire = pytest.mark.parametrize("wire", WIRES)


@on_each_wire
async def test_text_arrives_in_order_up_to_the_end(ask, wire: str):
    received = await ask(wire, [say("One ", "two.")])
    assert received.text == "One two."
    assert received.stops == [StopChunk(StopReason.END)]
    assert received.chunks[-1] == StopChunk(StopReason.END)


async def test_an_answer_of_every_named_provider_is_read(ask):
    for name in PROVIDERS:
        received = await ask(name, [say("One.")])
        assert (received.text, received.error) == ("One.", None), name
        assert received.stops == [StopChunk(StopReason.END)], name


@on_each_wire
async def test_the_first_text_arrives_before_the_answer_ends(wire: str, hello: ModelRequest):
    held, received = gate(), ""
    with LlmServer([say("First ", held, "last")]) as server:
        provider = open_provider(wire, model="m", base_url=at(server.url, wire), api_key="k")
        with anyio.fail_after(60):
            async with provider.stream(hello) as chunks:
                async for chunk in chunks:
                    received += chunk.text if isinstance(chunk, TextChunk) else ""
                    if received == "First ":
                        held.open()
        await provider.aclose()
    assert received == "First last"


@on_each_wire
async def test_reasoning_arrives_before_the_text_with_its_source(ask, wire: str):
    received = await ask(wire, [think("Let me ", "see."), say("Yes.")])
    assert received.thinking == "Let me see."
    assert {c.source for c in received.chunks if isinstance(c, ThinkingChunk)} == {wire}
    assert received.text == "Yes."


@pytest.mark.parametrize("wire", ["anthropic", "responses", "bedrock"])
async def test_a_signature_comes_once_at_the_end_of_its_reasoning(ask, wire: str):
    received = await ask(wire, [think("Hm.", signature="sealed"), say("Yes.")])
    signed = [c for c in received.chunks if isinstance(c, ThinkingChunk) and c.signature]
    assert len(signed) == 1
    assert signed[0].text == ""
    assert "sealed" in signed[0].signature
    assert received.chunks.index(signed[0]) < received.chunks.index(TextChunk("Yes."))


@pytest.mark.parametrize(("wire", "sent"), [("anthropic", "opaque"), ("bedrock", "b3BhcXVl")])
async def test_redacted_reasoning_is_a_separate_block(ask, wire: str, sent: str):
    received = await ask(wire, [redacted("opaque"), say("Yes.")])
    assert ThinkingChunk("", f"redacted:{sent}", wire) in received.chunks


@on_each_wire
async def test_a_call_is_announced_once_and_its_arguments_follow(ask, wire: str):
    received = await ask(wire, [say("Reading."), call("read_file", path="a.py")])
    assert received.calls == [("call_0_0", "read_file", '{"path": "a.py"}')]
    named = [c for c in received.chunks if isinstance(c, CallChunk) and (c.name or c.id)]
    assert len(named) == 1
    assert received.stops == [StopChunk(StopReason.CALLS)]


@on_each_wire
async def test_interleaved_calls_are_distinguished(ask, wire: str):
    received = await ask(wire, llm_server.ODD_CALLS["interleaved"])
    assert received.calls == [
        ("call_0_0", "read_file", '{"path": "a.py"}'),
        ("call_0_1", "read_file", '{"path": "b.py"}'),
    ]


@on_each_wire
async def test_many_calls_keep_their_order(ask, wire: str):
    received = await ask(wire, llm_server.ODD_CALLS["25-calls"])
    assert [arguments for _, _, arguments in received.calls] == [
        f'{{"path": "{n}.py"}}' for n in range(25)
    ]


@on_each_wire
async def test_an_odd_call_is_passed_on_unchanged(ask_each, wire: str):
    for row, received in (await ask_each(wire, llm_server.ODD_CALLS)).items():
        if wire == "gemini" and row in ("giant-integer", "deep"):  # arguments are in the event
            assert received.error.kind is FailureKind.MISPLACED, row
            continue
        assert received.error is None, row
        assert received.calls, row
        assert received.stops[0].reason is StopReason.CALLS, row


@on_each_wire
async def test_missing_parts_of_a_call_are_left_empty(ask_each, wire: str):
    rows = ("missing-id", "empty-id", "missing-name", "empty-name")
    found = await ask_each(wire, {row: llm_server.ODD_CALLS[row] for row in rows})
    for number, (row, received) in enumerate(found.items()):
        ((call_id, name, arguments),) = received.calls
        assert call_id == ("" if row.endswith("id") else f"call_{number}_0"), row
        assert name == ("" if row.endswith("name") else "read_file"), row
        assert arguments == '{"path": "a.py"}', row


@on_each_wire
async def test_usage_counts_all_input_and_the_cost_follows_from_the_prices(ask, wire: str):
    prices = {
        "input_price": 3.0,
        "output_price": 15.0,
        "cache_read_price": 0.3,
        "cache_write_price": 3.75,
    }
    writes = 100 if wire in ("anthropic", "bedrock") else 0
    reported = usage(1000, 200, cache_reads=600, cache_writes=writes)
    received = await ask(wire, [say("Yes."), reported], described=prices)
    assert received.usage == Usage(
        tokens_in=1000,
        tokens_out=200,
        cache_reads=600,
        cache_writes=writes,
        cost=pytest.approx(0.004455 if writes else 0.00438),
    )


@on_each_wire
async def test_without_prices_the_cost_is_unknown(ask, wire: str):
    received = await ask(wire, [say("Yes."), usage(10, 2)])
    assert received.usage == Usage(tokens_in=10, tokens_out=2, cost=None)


@on_each_wire
async def test_implausible_usage_figures_are_ignored(ask_each, wire: str):
    odd = ("usage-negative", "usage-absurd", "usage-zero")
    answers = {row: llm_server.ODD_ANSWERS[row] for row in odd}
    for row, received in (await ask_each(wire, answers, described={"input_price": 1.0})).items():
        assert received.error is None, row
        assert received.usage.tokens_out in (0, 1), row
        assert received.usage.tokens_in >= 0, row


@on_each_wire
async def test_the_last_of_two_usages_counts(ask, wire: str):
    received = await ask(wire, llm_server.ODD_ANSWERS["usage-twice"])
    assert (received.usage.tokens_in, received.usage.tokens_out) == (120, 30)


@on_each_wire
async def test_an_answer_without_usage_is_accepted(ask, wire: str):
    received = await ask(wire, [say("Yes."), no_usage()])
    assert received.error is None
    assert received.text == "Yes."


STOPS = {
    "refused-in-words": StopReason.REFUSED,
    "refused-by-filter": StopReason.REFUSED,
    "cut-at-limit": StopReason.LENGTH,
    "arguments-cut-at-limit": StopReason.LENGTH,
}


STOPS_OF_ANTHROPIC = {"paused": StopReason.PAUSED, "overflow-as-stop": StopReason.OVERFLOW}
UNKNOWN_STOPS = ("stop-missing", "stop-unknown", "stop-missing-with-call")


@on_each_wire
async def test_an_unusual_stop_reason_is_reported(ask_each, wire: str):
    expected = STOPS | (STOPS_OF_ANTHROPIC if wire == "anthropic" else {})
    if wire in ("anthropic", "openai", "bedrock"):
        expected |= dict.fromkeys(UNKNOWN_STOPS, StopReason.UNKNOWN)
    answers = {row: llm_server.ODD_ANSWERS[row] for row in expected}
    for row, received in (await ask_each(wire, answers)).items():
        assert received.error is None, row
        assert [chunk.reason for chunk in received.stops] == [expected[row]], row


@on_each_wire
async def test_a_refusal_says_why(ask, wire: str):
    received = await ask(wire, [llm_server.refuse("I will not help with that.")])
    assert received.stops[0].reason is StopReason.REFUSED
    assert received.stops[0].detail or wire == "anthropic"


ANNEX_B = """
end_turn stop stop_sequence = end
max_tokens length = length
pause_turn = paused
guardrail_intervened content_filtered = refused
refusal content_filter SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII LANGUAGE = refused
model_context_window_exceeded = overflow
malformed_model_output malformed_tool_use = unknown
MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL OTHER moon_phase = unknown
"""


@pytest.mark.parametrize("wire", ["anthropic", "openai", "gemini", "bedrock"])
async def test_every_stop_reason_is_understood(ask_each, wire: str):
    lines = [line.split(" = ") for line in ANNEX_B.strip().splitlines()]
    reasons = {word: reason for words, reason in lines for word in words.split()}
    answers = {word: [say("So far."), stop(word)] for word in reasons}
    for word, received in (await ask_each(wire, answers)).items():
        assert [chunk.reason for chunk in received.stops] == [reasons[word]], word


@pytest.mark.parametrize("wire", ["anthropic", "openai", "bedrock"])
async def test_an_answer_with_calls_stops_for_the_calls(ask_each, wire: str):
    words = ("tool_use", "tool_calls", "function_call", "stop", "end_turn")
    answers = {word: [call("read_file", path="a"), stop(word)] for word in words}
    for word, received in (await ask_each(wire, answers)).items():
        assert [chunk.reason for chunk in received.stops] == [StopReason.CALLS], word


async def test_chat_calls_spelled_in_other_ways_are_put_together():
    model = find_model("vllm", "x", {})

    def received(*deltas: dict[str, Any]) -> list[CallChunk]:
        reading = ChatReading(model)
        chunks = [c for d in deltas for c in reading.read_event({"choices": [{"delta": d}]})]
        chunks += reading.close(marked=True)
        return [chunk for chunk in chunks if isinstance(chunk, CallChunk)]

    def piece(**fields: Any) -> dict[str, Any]:
        return {"tool_calls": [fields]}

    name_late = received(
        piece(index=0, id="a", function={"arguments": "{"}),
        piece(index=0, function={"name": "read", "arguments": "}"}),
    )
    assert name_late == [CallChunk(0, "{}", id="a", name="read")]
    same_index = received(
        piece(index=0, id="a", function={"name": "read", "arguments": "{}"}),
        piece(index=0, id="b", function={"name": "list", "arguments": "{}"}),
    )
    assert [(c.index, c.id) for c in same_index] == [(0, "a"), (1, "b")]
    repeated = received(
        piece(index=0, id="a", function={"name": "read", "arguments": "{"}),
        piece(index=0, id="a", function={"name": "read", "arguments": "}"}),
    )
    assert repeated == [CallChunk(0, "{", id="a", name="read"), CallChunk(0, "}")]
    no_index = received(
        piece(id="a", function={"name": "read", "arguments": {"path": "x"}}),
        piece(id="b", function={"name": "list", "arguments": "{}"}),
    )
    assert [c.arguments for c in no_index] == ['{"path":"x"}', "{}"]
    old = received({"function_call": {"name": "read", "arguments": "{}"}})
    assert old == [CallChunk(0, "{}", name="read")]


def test_chat_ends_at_the_done_marker_or_the_finish_reason():
    def closing(*events: dict[str, Any], marked: bool) -> list[Any]:
        reading = ChatReading(find_model("vllm", "x", {}))
        for event in events:
            list(reading.read_event(event))
        return list(reading.close(marked=marked))

    ended = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    assert closing(marked=False) == []
    assert closing(marked=True) == [StopChunk(StopReason.UNKNOWN)]
    assert closing(ended, marked=False) == [StopChunk(StopReason.END)]
    assert closing(ended, marked=True) == [StopChunk(StopReason.END)]


def test_chat_reasoning_is_read_under_each_field_name():
    model = find_model("openrouter", "x", {})
    for delta in ({"reasoning_content": "Hm."}, {"reasoning": "Hm."}):
        received = list(ChatReading(model).read_event({"choices": [{"delta": delta}]}))
        assert received == [ThinkingChunk("Hm.", source="openai")]


def test_chat_reasoning_details_are_joined_before_the_text():
    reading = ChatReading(find_model("openrouter", "x", {}))
    details = [
        {"type": "reasoning.text", "index": 0, "text": "Let me ", "format": "f"},
        {"type": "reasoning.text", "index": 0, "text": "see.", "signature": "sig"},
    ]
    chunks: list[Any] = []
    for detail in details:
        delta = {"reasoning": detail["text"], "reasoning_details": [detail]}
        chunks += reading.read_event({"choices": [{"delta": delta}]})
    chunks += reading.read_event({"choices": [{"delta": {"content": "Yes."}}]})
    assert chunks[:2] == [
        ThinkingChunk("Let me ", source="openai"),
        ThinkingChunk("see.", source="openai"),
    ]
    assert chunks[2].signature == (
        '[{"type":"reasoning.text","index":0,"text":"Let me see.","format":"f","signature":"sig"}]'
    )
    assert chunks[3] == TextChunk("Yes.")


def test_openrouter_reports_its_own_cost():
    reading = ChatReading(find_model("openrouter", "x", {"input_price": 9, "output_price": 9}))
    said = {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.0125}
    (chunk,) = reading.read_event({"choices": [], "usage": said})
    assert chunk == UsageChunk(Usage(tokens_in=10, tokens_out=2, cost=0.0125))
