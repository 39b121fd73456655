"""Requests to each server of the chat completions wire, and what follow-up requests repeat."""

import re
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from llm_server import call, say, think
from rookery.core.blocks import Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.folds.history import Turn
from rookery.engine.ports.model import ModelInfo, ModelRequest, ThinkingChunk
from rookery.providers import openai
from rookery.providers.catalogue import find_model
from rookery.providers.openai import ChatReading
from rookery.providers.registry import PROVIDERS
from rookery.providers.vendors import BY_MODEL, VENDORS, vendor_of
from support.each_row import each_row
from support.provider_validators import validate_chat

PICTURE = Image(media_type="image/png", data="aGk=")


def talk(*after: Any, images: bool = False) -> ModelRequest:
    shown = (PICTURE,) if images else ()
    turns = [
        Turn("user", (Text(text="Read a."),)),
        Turn(
            "assistant",
            (
                Thinking(text="It is short.", signature="[]", source="openai"),
                ToolCall(id="call_0123456789", name="read_file", arguments={"path": "a"}),
            ),
        ),
        Turn("user", (ToolResult(call_id="call_0123456789", text="A", images=shown), *after)),
    ]
    return ModelRequest(system="Be brief.", turns=turns, max_output=100, cache_key="t")


def sent(provider: str, request: ModelRequest, model: str = "m", **facts: Any) -> dict[str, Any]:
    info = ModelInfo(id=model, provider=provider, **facts)
    body = openai.body(request, info, vendor_of(info))
    validate_chat(body)
    return body


def test_every_row_is_of_a_provider():
    assert {*VENDORS, *(provider for provider, _ in BY_MODEL)} <= set(PROVIDERS)


def test_mistral_gets_ids_of_nine_letters_and_digits_that_belong_together():
    body = sent("mistral", talk())
    _, _, spoken, result = body["messages"]
    (made,) = spoken["tool_calls"]
    assert re.fullmatch("[A-Za-z0-9]{9}", made["id"])
    assert result["tool_call_id"] == made["id"]
    again = sent("mistral", talk(Text(text="More.")))
    assert again["messages"][2] == spoken


def test_mistral_is_not_sent_fields_that_it_refuses():
    body = sent("mistral", talk(), thinking=True)
    allowed = {"model", "messages", "stream", "max_tokens", "prompt_cache_key"}
    assert set(body) <= allowed
    assert {name for message in body["messages"] for name in message} <= {
        *("role", "content", "tool_calls", "tool_call_id")
    }


@each_row(
    ("request_", "last"),
    [
        (talk(Text(text="Hurry.")), {"role": "tool", "content": "A\n\nHurry."}),
        (
            talk(Text(text="Hurry."), Text(text="It is late.")),
            {"role": "tool", "content": "A\n\nHurry.\n\nIt is late."},
        ),
        (talk(), {"role": "tool", "content": "A"}),
    ],
)
def test_mistral_reads_the_users_text_in_the_result(request_: ModelRequest, last: dict[str, str]):
    message = sent("mistral", request_)["messages"][-1]
    assert {name: message[name] for name in last} == last


def test_mistral_never_gets_the_user_right_after_a_result():
    body = sent("mistral", talk(Text(text="Late."), images=True), images=True)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert ("tool", "user") not in set(pairwise(roles))


@each_row("provider", ["deepseek", "moonshot", "zai", "fireworks"])
def test_reasoning_content_goes_back_with_the_call(provider: str):
    spoken = sent(provider, talk(), thinking=True)["messages"][2]
    assert spoken["reasoning_content"] == "It is short."
    without = ModelRequest(system="", turns=_without_reasoning(talk().turns))
    assert sent(provider, without, thinking=True)["messages"][1]["reasoning_content"] == ""
    assert "reasoning_content" not in sent(provider, talk())["messages"][2]


def _without_reasoning(turns: Any) -> list[Turn]:
    return [
        Turn(turn.role, tuple(b for b in turn.blocks if not isinstance(b, Thinking)))
        for turn in turns
    ]


@each_row("provider", ["openai", "groq", "mistral", "xai", "cerebras", "ollama"])
def test_other_servers_get_no_reasoning_back(provider: str):
    assert "It is short." not in str(sent(provider, talk(), thinking=True))


@each_row(
    ("provider", "model", "field"),
    [
        ("openai", "gpt-6.1-sol", "max_completion_tokens"),
        ("groq", "openai/gpt-oss-120b", "max_completion_tokens"),
        ("cerebras", "qwen-3.8-27b", "max_completion_tokens"),
        ("github", "openai/gpt-5-mini", "max_completion_tokens"),
        ("github", "openai/gpt-4.1", "max_tokens"),
        ("mistral", "mistral-medium-latest", "max_tokens"),
        ("deepseek", "deepseek-v4-pro", "max_tokens"),
    ],
)
def test_the_output_limit_is_in_the_field_the_model_knows(provider: str, model: str, field: str):
    body = sent(provider, talk(), model)
    assert {"max_tokens", "max_completion_tokens"} & set(body) == {field}


def test_groq_parses_the_reasoning_except_of_the_models_that_refuse_the_field():
    assert sent("groq", talk(), "qwen/qwen3.8-27b", thinking=True)["reasoning_format"] == "parsed"
    assert "reasoning_format" not in sent("groq", talk(), "openai/gpt-oss-120b", thinking=True)
    assert "reasoning_format" not in sent("groq", talk(), "llama-3.3-70b-versatile")


@pytest.mark.anyio
async def test_reasoning_that_must_be_returned_is_marked_where_it_ends(ask):
    answer = [think("Short "), say("I read."), call("read_file", path="a")]
    received = await ask("deepseek", answer, model="deepseek-v4-pro")
    marks = [chunk for chunk in received.chunks if isinstance(chunk, ThinkingChunk)]
    assert [(mark.text, mark.signature) for mark in marks] == [("Short ", ""), ("", "[]")]
    assert received.text == "I read."
    received = await ask("openai", answer, model="gpt-6.1-sol")
    assert not any(getattr(chunk, "signature", "") for chunk in received.chunks)


@pytest.mark.anyio
async def test_github_gets_its_api_version(ask):
    received = await ask("github", [say("Yes.")], model="openai/gpt-4.1")
    (request,) = received.requests
    assert request.headers["x-github-api-version"] == "2022-11-28"
    assert request.headers["authorization"].startswith("Bearer ")


def test_reasoning_of_mistral_is_read_from_its_parts():
    reading = ChatReading(find_model("mistral", "m", {}))
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Yes."},
    ]
    chunks = list(reading.read_event({"choices": [{"delta": {"content": parts}}]}))
    assert [chunk.text for chunk in chunks if hasattr(chunk, "text")] == ["Hm.", "Yes."]


@each_row("provider", sorted(VENDORS))
def test_turns_of_the_last_request_are_sent_as_if_they_were_new(provider: str):
    info = ModelInfo(id="anthropic/m", provider=provider, thinking=True)
    vendor, repeated = vendor_of(info), openai.RepeatedTurns()
    first = talk(Text(text="Go on."), images=True)
    answer = Turn("assistant", (ToolCall(id="call_1", name="read file", arguments={}),))
    turns = [*first.turns, answer, Turn("user", (ToolResult(call_id="call_1", text="B"),))]
    for request in (first, replace(first, turns=turns), replace(first, turns=turns[:1])):
        again = openai.body(request, info, vendor, repeated=repeated)
        assert again == openai.body(request, info, vendor)
