"""The validators themselves: a good body passes, and each way to spoil it is noticed."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from rookery.core.blocks import Text, ToolCall, ToolResult
from rookery.core.folds.history import Turn
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.providers import anthropic, gemini, openai, responses
from rookery.providers.vendors import VENDORS
from support.each_row import each_row
from support.provider_validators import (
    validate_anthropic,
    validate_chat,
    validate_gemini,
    validate_responses,
)

MODEL = ModelInfo(id="m", provider="p", caching=True)
TALK = ModelRequest(
    system="Be brief.",
    turns=[
        Turn("user", (Text(text="Go."),)),
        Turn(
            "assistant", (Text(text="So."), ToolCall(id="a", name="x"), ToolCall(id="b", name="y"))
        ),
        Turn("user", (ToolResult(call_id="a", text="1"), ToolResult(call_id="b", text="2"))),
        Turn("assistant", (Text(text="Done."),)),
        Turn("user", (Text(text="Thanks."),)),
    ],
)
MESSAGES = anthropic.body(TALK, MODEL)
CHAT = openai.body(TALK, MODEL, VENDORS["openai"])
RESPONSES = responses.body(TALK, MODEL)
GEMINI = gemini.body(TALK, MODEL)


def spoil(body: dict[str, Any], change: Callable[[Any], object], key: str) -> dict[str, Any]:
    copy = deepcopy(body)
    change(copy[key])
    return copy


@each_row(
    "change",
    [
        lambda m: m.pop(0),
        lambda m: m.pop(1),
        lambda m: m.insert(1, m[0]),
        lambda m: m[2]["content"].pop(),
        lambda m: m[2]["content"].reverse(),
        lambda m: m[2]["content"].insert(0, {"type": "text", "text": "first"}),
        lambda m: m[2]["content"].append(m[2]["content"][0]),
        lambda m: m[1]["content"][1].update(id="odd id"),
        lambda m: m[1]["content"][2].update(id="a"),
        lambda m: m[1]["content"].append({"type": "thinking", "thinking": "x", "signature": "s"}),
        lambda m: m[0]["content"].append({"type": "text", "text": " "}),
        lambda m: m[0]["content"].clear(),
        lambda m: m[0]["content"].append({"type": "text", "text": "\ud800"}),
    ],
)
def test_messages_that_would_be_refused_are_noticed(change: Callable[[Any], object]):
    validate_anthropic(MESSAGES)
    with pytest.raises(AssertionError, match=r"."):
        validate_anthropic(spoil(MESSAGES, change, "messages"))


@each_row(
    "change",
    [
        lambda m: m.pop(1),
        lambda m: m.pop(2),
        lambda m: m.pop(3),
        lambda m: m.insert(3, {"role": "user", "content": "between"}),
        lambda m: m.insert(4, m[3]),
        lambda m: m.append({"role": "tool", "tool_call_id": "z", "content": "stray"}),
        lambda m: m[2]["tool_calls"][0].update(id="x" * 65),
        lambda m: m[3].update(content=[]),
        lambda m: m[3].update(content=[{"type": "text", "text": "no mark"}]),
        lambda m: m[3].update(content=[{"type": "text", "text": " ", "cache_control": {}}]),
        lambda m: m[3].update(content=[{"type": "image_url", "cache_control": {}}]),
        lambda m: m[5].update(content=None),
        lambda m: m.insert(1, m[1]),
    ],
)
def test_chats_that_would_be_refused_are_noticed(change: Callable[[Any], object]):
    validate_chat(CHAT)
    with pytest.raises(AssertionError, match=r"."):
        validate_chat(spoil(CHAT, change, "messages"))


@each_row(
    "change",
    [
        lambda i: i.pop(2),
        lambda i: i.pop(4),
        lambda i: i.insert(4, {"type": "message", "role": "user", "content": ["between"]}),
        lambda i: i.insert(5, i[4]),
        lambda i: i.append({"type": "reasoning", "id": "r"}),
        lambda i: i[2].update(call_id="odd id"),
        lambda i: i[0].update(content=[]),
    ],
)
def test_inputs_that_would_be_refused_are_noticed(change: Callable[[Any], object]):
    validate_responses(RESPONSES)
    with pytest.raises(AssertionError, match=r"."):
        validate_responses(spoil(RESPONSES, change, "input"))


@each_row(
    "change",
    [
        lambda c: c.pop(0),
        lambda c: c.pop(1),
        lambda c: c.pop(2),
        lambda c: c.insert(1, c[0]),
        lambda c: c[2]["parts"].pop(),
        lambda c: c[2]["parts"].reverse(),
        lambda c: c[2]["parts"][0]["functionResponse"].update(name="z"),
        lambda c: c[1]["parts"][1].pop("thoughtSignature"),
        lambda c: c[1]["parts"][1].update(text="both"),
        lambda c: c[1]["parts"][1]["functionCall"].update(id="b"),
        lambda c: c[0]["parts"].append({"text": ""}),
        lambda c: c[0]["parts"].clear(),
        lambda c: c[0]["parts"][0].update(thoughtSignature="S"),
        lambda c: c[3]["parts"][0].update(text="", thoughtSignature="S"),
    ],
)
def test_contents_that_would_be_refused_are_noticed(change: Callable[[Any], object]):
    validate_gemini(GEMINI)
    with pytest.raises(AssertionError, match=r"."):
        validate_gemini(spoil(GEMINI, change, "contents"))
