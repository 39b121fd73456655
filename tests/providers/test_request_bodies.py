"""Our turns in each wire format: the request bodies, validated like the providers do."""

import os
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from llm_server import say
from rookery.core.blocks import Thinking, ToolCall, ToolResult
from rookery.core.facts import Event, Reminded, Rewound, TaskOpened
from rookery.core.folds.history import Turn, history
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.providers import anthropic, gemini, openai, responses
from rookery.providers.vendors import vendor_of
from rookery.providers.wire_format import IMAGE_LEFT_OUT, decode_event, encode_body, safe_id
from support.each_row import each_row
from support.provider_validators import (
    validate_anthropic,
    validate_chat,
    validate_gemini,
    validate_responses,
)
from support.sample_logs import ANY_LOG, log
from support.talks import PICTURE, READ, model, talks, text, user

SEES = ModelInfo(id="m", provider="anthropic", images=True, caching=True, thinking=True)
BLIND = ModelInfo(id="m", provider="anthropic")


def asked(*turns: Turn, **more: Any) -> ModelRequest:
    return ModelRequest(system="Be brief.", turns=turns, tools=[READ], cache_key="task-1", **more)


A_CALL = ToolCall(id="c1", name="read_file", arguments={"path": "a"})
A_TALK = (
    user(text("Read a and b.")),
    model(
        text("Reading."),
        A_CALL,
        ToolCall(id="c2", name="read_file", arguments={"path": "b"}),
    ),
    user(
        ToolResult(call_id="c1", text="A"),
        ToolResult(call_id="c2", text="no such file", is_error=True),
        text("And hurry."),
    ),
)


def chat(request: ModelRequest, info: ModelInfo = SEES, vendor: str = "openai") -> dict[str, Any]:
    return openai.body(request, info, vendor_of(replace(info, provider=vendor)))


SHAPE = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
SAMPLED = ModelRequest(
    system="", turns=A_TALK[:1], max_output=9, temperature=0.5, stop=("```",), answer_schema=SHAPE
)
FORMAT = {"type": "json_schema", "schema": SHAPE}


def test_the_answers_shape_and_its_sampling_are_spelled_for_each_wire():
    from google.genai.types import GenerateContentConfig

    messages = anthropic.body(SAMPLED, BLIND)
    assert messages["output_config"] == {"format": FORMAT}
    assert (messages["temperature"], messages["stop_sequences"]) == (0.5, ["```"])
    effort = anthropic.body(SAMPLED, SEES, "high")["output_config"]
    assert effort == {"effort": "high", "format": FORMAT}
    completions = chat(SAMPLED, BLIND)
    assert completions["response_format"]["json_schema"] == {"name": "answer", "schema": SHAPE}
    assert (completions["temperature"], completions["stop"]) == (0.5, ["```"])
    assert responses.body(SAMPLED, BLIND)["text"] == {"format": {**FORMAT, "name": "answer"}}
    config = gemini.body(SAMPLED, BLIND)["generationConfig"]
    assert GenerateContentConfig.model_validate(config).response_json_schema == SHAPE
    assert (config["temperature"], config["stopSequences"]) == (0.5, ["```"])
    assert config["responseMimeType"] == "application/json"


def test_anthropic_is_sent_blocks_with_errors_marked():
    body = anthropic.body(asked(*A_TALK), BLIND)
    validate_anthropic(body)
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Read a and b."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Reading."},
                {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "read_file", "input": {"path": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "A"},
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": "no such file",
                    "is_error": True,
                },
                {"type": "text", "text": "And hurry."},
            ],
        },
    ]
    assert body["max_tokens"] == BLIND.max_output
    assert "thinking" not in body
    assert "cache_control" not in str(body)


def test_chat_gets_results_as_separate_messages():
    body = chat(asked(*A_TALK), BLIND)
    validate_chat(body)
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Read a and b."},
        {
            "role": "assistant",
            "content": "Reading.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path":"a"}'},
                },
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path":"b"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "A"},
        {"role": "tool", "tool_call_id": "c2", "content": "no such file"},
        {"role": "user", "content": "And hurry."},
    ]
    assert body["stream_options"] == {"include_usage": True}


def test_responses_are_sent_items_and_keep_nothing_on_the_server():
    body = responses.body(asked(*A_TALK), SEES)
    validate_responses(body)
    assert [item["type"] for item in body["input"]] == [
        "message",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["prompt_cache_key"] == "task-1"
    assert body["instructions"] == "Be brief."


def test_a_model_that_does_not_reason_is_not_asked_for_its_reasoning():
    body = responses.body(asked(*A_TALK), BLIND)
    assert "include" not in body
    assert "reasoning" not in body


@each_row(
    ("vendor", "name"),
    [("openai", "max_completion_tokens"), ("openrouter", "max_tokens"), ("vllm", "max_tokens")],
)
def test_the_output_limit_is_named_as_the_vendor_names_it(vendor: str, name: str):
    assert chat(asked(*A_TALK, max_output=77), vendor=vendor)[name] == 77
    assert name not in chat(asked(*A_TALK), vendor=vendor)


def test_vendor_specific_fields_are_sent_to_that_vendor_only():
    assert chat(asked(*A_TALK))["prompt_cache_key"] == "task-1"
    assert chat(asked(*A_TALK), vendor="openrouter")["usage"] == {"include": True}
    assert not {"usage", "prompt_cache_key"} & chat(asked(*A_TALK), vendor="ollama").keys()


def test_anthropic_caches_tools_system_and_the_last_two_user_turns():
    body = anthropic.body(asked(*A_TALK, model(text("Done.")), user(text("More."))), SEES)
    validate_anthropic(body)
    assert body["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
    marked = [
        (at, place)
        for at, message in enumerate(body["messages"])
        for place, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert marked == [(2, 2), (4, 0)]


def test_earlier_parts_of_a_request_stay_identical():
    def without_marks(body: dict[str, Any]) -> bytes:
        for blocks in (body["tools"], body["system"], *(m["content"] for m in body["messages"])):
            for block in blocks:
                block.pop("cache_control", None)
        return encode_body({"tools": body["tools"], "messages": body["messages"]})

    longer = asked(*A_TALK, model(text("Done.")), user(text("More.")))
    first = without_marks(anthropic.body(asked(*A_TALK), SEES))
    assert without_marks(anthropic.body(longer, SEES)).startswith(first.removesuffix(b"]}"))


def test_openrouter_marks_the_cache_for_anthropics_models_only():
    claude = ModelInfo(id="anthropic/claude-sonnet-5.5", provider="openrouter")
    body = chat(asked(*A_TALK), claude, "openrouter")
    validate_chat(body)
    assert body["messages"][0]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in str(chat(asked(*A_TALK), SEES, "openrouter"))


def test_openrouter_marks_results_where_only_tools_are_called():
    claude = ModelInfo(id="anthropic/claude-sonnet-5.5", provider="openrouter")
    talk = [user(text("Read them."))]
    for number in range(3):
        calls = [ToolCall(id=f"{name}{number}", name="read_file", arguments={}) for name in "ab"]
        results = [ToolResult(call_id=call.id, text=f"text of {call.id}") for call in calls]
        talk += [model(*calls), user(*results)]
    talk[-1] = user(*talk[-1].blocks, text("It is late."))
    body = chat(asked(*talk), claude, "openrouter")
    validate_chat(body)
    marked = [
        (message["role"], message.get("tool_call_id"))
        for message in body["messages"]
        if "cache_control" in str(message)
    ]
    assert marked == [("system", None), ("tool", "b1"), ("user", None)]
    assert body["messages"][-1]["content"] == [
        {"type": "text", "text": "It is late.", "cache_control": {"type": "ephemeral"}}
    ]


SHOWN = (
    user(text("What is this?"), PICTURE),
    model(A_CALL),
    user(ToolResult(call_id="c1", text="A picture.", images=(PICTURE,))),
)


def test_anthropic_is_sent_images_in_turns_and_in_results():
    body = anthropic.body(asked(*SHOWN), SEES)
    validate_anthropic(body)
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert body["messages"][0]["content"][1]["source"] == source
    assert body["messages"][2]["content"][0]["content"] == [
        {"type": "text", "text": "A picture."},
        {"type": "image", "source": source},
    ]


def test_chat_is_sent_the_images_of_results_in_the_users_name():
    body = chat(asked(*SHOWN))
    validate_chat(body)
    url = "data:image/png;base64,aGk="
    assert body["messages"][-2] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "A picture.",
    }
    assert body["messages"][-1]["content"] == [
        {"type": "text", "text": "The images that call c1 returned:"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    assert body["messages"][1]["content"][1] == {"type": "image_url", "image_url": {"url": url}}


def test_responses_are_sent_images_in_turns_and_in_outputs():
    body = responses.body(asked(*SHOWN), SEES)
    validate_responses(body)
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    assert body["input"][0]["content"][1] == image
    assert body["input"][-1]["output"] == [{"type": "input_text", "text": "A picture."}, image]


@each_row("translate", [anthropic.body, chat, responses.body, gemini.body])
def test_a_model_without_vision_gets_a_note_about_the_image(translate: Any):
    body = str(translate(asked(*SHOWN), BLIND))
    assert "aGk=" not in body
    assert body.count(IMAGE_LEFT_OUT) == 2


def test_reasoning_is_sent_back_only_to_the_wire_that_made_it():
    talk = (
        user(text("Hi.")),
        model(
            Thinking(text="Hm.", signature="sig", source="anthropic"),
            Thinking(text="", signature="redacted:opaque", source="anthropic"),
            Thinking(text="Hm?", signature='[{"type":"reasoning.text"}]', source="openai"),
            Thinking(
                text="Hm!",
                signature='{"id":"rs_1","summary":[],"encrypted_content":"x"}',
                source="responses",
            ),
            Thinking(text="unsigned", source="anthropic"),
            text("Hello."),
        ),
        user(text("Go on.")),
    )
    assert anthropic.body(asked(*talk), SEES)["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "Hello."},
    ]
    assert chat(asked(*talk), vendor="openrouter")["messages"][2] == {
        "role": "assistant",
        "content": "Hello.",
        "reasoning_details": [{"type": "reasoning.text"}],
    }
    assert chat(asked(*talk))["messages"][2] == {"role": "assistant", "content": "Hello."}
    assert responses.body(asked(*talk), SEES)["input"][1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "x",
    }


def test_a_reasoning_model_is_asked_to_reason():
    body = anthropic.body(asked(*A_TALK), SEES)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}


@each_row("call_id", ["call:7/ü \n<x>", "call_" + "0" * 400, "", "\ud83d"])
def test_an_odd_id_becomes_a_safe_one_on_both_sides(call_id: str):
    talk = (
        user(text("Go.")),
        model(ToolCall(id=call_id, name="read file!", arguments={})),
        user(ToolResult(call_id=call_id, text="A")),
    )
    validate_anthropic(anthropic.body(asked(*talk), SEES))
    validate_chat(chat(asked(*talk)))
    validate_responses(responses.body(asked(*talk), SEES))
    validate_gemini(gemini.body(asked(*talk), SEES))


@settings(deadline=None)
@given(one=st.text(), other=st.text())
def test_different_ids_stay_different(one: str, other: str):
    assert (safe_id(one) == safe_id(other)) == (one == other)
    assert safe_id(one) == safe_id(one)


@settings(deadline=None)
@given(talk=talks(), info=st.sampled_from([SEES, BLIND]))
def test_no_provider_would_refuse_any_of_our_histories(talk: list[Turn], info: ModelInfo):
    accepted_by_all(asked(*talk), info)


def accepted_by_all(request: ModelRequest, info: ModelInfo) -> None:
    validate_anthropic(decode_event(encode_body(anthropic.body(request, info))))
    validate_responses(decode_event(encode_body(responses.body(request, info))))
    validate_gemini(decode_event(encode_body(gemini.body(request, info))))
    for vendor in ("openai", "openrouter", "mistral", "deepseek", "roo"):  # all forms of messages
        validate_chat(decode_event(encode_body(chat(request, info, vendor))))


@settings(max_examples=1000 if os.environ.get("ROOKERY_TORTURE") else 50, deadline=None)
@given(ANY_LOG)
@example(log(Rewound(to=0), Reminded(text="")))
def test_no_provider_would_refuse_the_history_of_any_prefix_of_any_log(events: list[Event]):
    opened = log(TaskOpened(text="go"))
    for end in {0, 1, len(events) // 2, len(events)}:
        folded = history([*opened, *_after(opened, events[:end])])
        for info in (SEES, BLIND):
            accepted_by_all(ModelRequest(system="s", turns=folded), info)


def _after(first: list[Event], events: list[Event]) -> list[Event]:
    """The events renumbered to follow the first ones."""
    return [
        Event(first[-1].seq + event.seq, event.sub, first[-1].ts + event.ts, event.fact)
        for event in events
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("wire", ["anthropic", "openai", "responses", "gemini", "bedrock"])
async def test_a_lone_surrogate_is_replaced_before_sending(ask, wire: str):
    received = await ask(wire, [say("Yes.")], asked(user(text("half \ud83d of a pair"))))
    assert received.error is None
    assert "half \ufffd of a pair" in str(received.body)


@pytest.mark.anyio
async def test_a_base_url_of_anthropic_may_end_in_the_version(ask):
    received = await ask("anthropic", [say("Yes.")], suffix="/v1/")
    assert received.requests[0].path == "/v1/messages"


@pytest.mark.anyio
async def test_each_wire_has_its_path_and_key_header(ask):
    shown = {}
    for wire in ("anthropic", "openai", "responses", "bedrock"):
        (request,) = (await ask(wire, [say("Yes.")], api_key="k-1")).requests
        shown[wire] = (request.path, request.headers.get("x-api-key"))
        shown[wire] += (request.headers.get("authorization"),)
        if wire == "anthropic":
            assert request.headers["anthropic-version"] == "2026-10-21"
    assert shown == {
        "anthropic": ("/v1/messages", "k-1", None),
        "openai": ("/v1/chat/completions", None, "Bearer k-1"),
        "responses": ("/v1/responses", None, "Bearer k-1"),
        "bedrock": ("/model/scripted-model/converse-stream", None, "Bearer k-1"),
    }
