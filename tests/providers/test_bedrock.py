"""Requests to Bedrock, validated by Amazon's SDK model, and its known models."""

from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given

import llm_server
from llm_server import say, status
from llm_server.parts import event
from rookery.core.blocks import Image, Thinking, ToolCall, ToolResult
from rookery.core.folds.history import Turn
from rookery.core.limits import Effort, FailureKind
from rookery.engine.ports.model import ModelInfo, ModelRequest
from rookery.providers import bedrock
from rookery.providers.catalogue import find_model, known_models, takes_budget
from rookery.providers.wire_format import IMAGE_LEFT_OUT, decode_event, encode_body
from support.each_row import each_row
from support.talks import READ, model, talks, text, user

PICTURE = Image(media_type="image/jpg", data="aGk=")
CLAUDE = find_model("bedrock", "us.anthropic.claude-sonnet-4-6", {})
NOVA = find_model("bedrock", "us.amazon.nova-pro-v1:0", {})
LLAMA = ModelInfo(id="us.meta.llama4-maverick-17b-instruct-v1:0", provider="bedrock")
CACHE_POINT = {"cachePoint": {"type": "default"}}


@pytest.fixture(scope="module")
def converse() -> Any:
    """The shape of a request in Amazon's kit."""
    import botocore.session

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    return service.operation_model("ConverseStream").input_shape


def asked(*turns: Turn, **more: Any) -> ModelRequest:
    return ModelRequest(system="Be brief.", turns=turns, tools=[READ], **more)


TALK = (
    user(text("Look."), PICTURE),
    model(
        Thinking(text="Hm.", signature="sig", source="bedrock"),
        Thinking(text="", signature="redacted:b3BhcXVl", source="bedrock"),
        Thinking(text="of another wire", signature="x", source="anthropic"),
        text("Reading."),
        ToolCall(id="c1", name="read_file", arguments={"path": "a"}),
        ToolCall(id="c2", name="read_file", arguments={"path": "b"}),
        ToolCall(id="c3", name="read_file", arguments={"path": "c"}),
    ),
    user(
        ToolResult(call_id="c1", text="A", images=(PICTURE,)),
        ToolResult(call_id="c2", text="no such file", is_error=True),
        ToolResult(call_id="c3", text=" "),
        text("And hurry."),
    ),
)


def check(body: dict[str, Any], shape: Any) -> None:
    """Raises for what Amazon's kit would not send."""
    from botocore.validate import ParamValidator

    problems = ParamValidator().validate({**_with_bytes(body), "modelId": "m"}, shape)
    assert not problems.has_errors(), problems.generate_report()


def _with_bytes(value: Any) -> Any:
    """The body as the kit is given it: bytes instead of base64."""
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: b64decode(part) if name in ("bytes", "redactedContent") else _with_bytes(part)
        for name, part in value.items()
    }


def test_the_answers_shape_and_its_sampling_are_sent_in_amazons_shape(converse: Any):
    schema = {"type": "object", "properties": {}}
    request = asked(*TALK, temperature=0.5, stop=("```",), answer_schema=schema)
    body = bedrock.body(request, ModelInfo(id="meta.llama", provider="bedrock"))
    check(body, converse)
    definition = body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert decode_event(definition["schema"].encode()) == schema
    assert body["inferenceConfig"]["temperature"] == 0.5
    assert body["inferenceConfig"]["stopSequences"] == ["```"]


def test_every_kind_of_block_is_sent_in_amazons_shape(converse: Any):
    body = bedrock.body(asked(*TALK, max_output=77), CLAUDE)
    check(body, converse)
    image = {"image": {"format": "jpeg", "source": {"bytes": "aGk="}}}
    assert body["messages"] == [
        {"role": "user", "content": [{"text": "Look."}, image, CACHE_POINT]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "sig"}}},
                {"reasoningContent": {"redactedContent": "b3BhcXVl"}},
                {"text": "Reading."},
                *(
                    {"toolUse": {"toolUseId": id, "name": "read_file", "input": {"path": path}}}
                    for id, path in (("c1", "a"), ("c2", "b"), ("c3", "c"))
                ),
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "A"}, image]}},
                {
                    "toolResult": {
                        "toolUseId": "c2",
                        "content": [{"text": "no such file"}],
                        "status": "error",
                    }
                },
                {"toolResult": {"toolUseId": "c3", "content": [{"text": "(no output)"}]}},
                {"text": "And hurry."},
                CACHE_POINT,
            ],
        },
    ]
    assert body["system"] == [{"text": "Be brief."}, CACHE_POINT]
    assert body["inferenceConfig"] == {"maxTokens": 77}
    tool = {
        "name": "read_file",
        "description": "Read a file.",
        "inputSchema": {"json": READ.schema},
    }
    assert body["toolConfig"] == {"tools": [{"toolSpec": tool}, CACHE_POINT]}


def test_amazons_own_models_get_no_mark_after_the_tools():
    body = bedrock.body(asked(*TALK), NOVA)
    assert CACHE_POINT not in body["toolConfig"]["tools"]
    assert CACHE_POINT in body["system"]


def test_a_model_that_does_not_cache_or_see_gets_neither_marks_nor_images():
    body = bedrock.body(asked(*TALK), LLAMA)
    assert "cachePoint" not in str(body)
    assert str(body).count(IMAGE_LEFT_OUT) == 2


def test_text_after_results_goes_into_the_last_result_if_required():
    body = bedrock.body(asked(*TALK), LLAMA)
    assert [list(block) for block in body["messages"][2]["content"]] == [["toolResult"]] * 3
    assert body["messages"][2]["content"][2]["toolResult"]["content"] == [
        {"text": "(no output)"},
        {"text": "And hurry."},
    ]


def test_earlier_calls_come_with_their_tools():
    request = ModelRequest(system="", turns=TALK)
    assert bedrock.body(request, CLAUDE)["toolConfig"]["tools"][0] == {
        "toolSpec": {"name": "read_file", "inputSchema": {"json": {"type": "object"}}}
    }
    assert "toolConfig" not in bedrock.body(ModelRequest(system="", turns=TALK[:1]), CLAUDE)


@each_row(
    ("name", "effort", "fields"),
    [
        ("us.anthropic.claude-opus-4-6-v1", "unspecified", {"thinking": "adaptive"}),
        ("us.anthropic.claude-opus-4-6-v1", "none", {"thinking": "disabled"}),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "high", {"thinking": "enabled"}),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "unspecified", {}),
        ("openai.gpt-oss-120b-1:0", "high", {"reasoning_effort": "high"}),
        ("openai.gpt-oss-120b-1:0", "xhigh", {"reasoning_effort": "high"}),
        ("openai.gpt-oss-120b-1:0", "unspecified", {}),
        ("openai.gpt-oss-120b-1:0", "none", {}),
        ("us.amazon.nova-pro-v1:0", "high", {}),
    ],
)
def test_reasoning_is_asked_for_in_the_vendors_fields(
    name: str, effort: Effort, fields: dict[str, str]
):
    info = find_model("bedrock", name, {})
    said = bedrock.body(asked(*TALK), info, effort).get("additionalModelRequestFields", {})
    assert {
        key: value.get("type") if isinstance(value, dict) else value for key, value in said.items()
    } == fields


@given(talk=talks())
def test_no_history_of_ours_is_refused(converse: Any, talk: list[Turn]):
    for info in (CLAUDE, NOVA, LLAMA):
        body = decode_event(encode_body(bedrock.body(asked(*talk), info)))
        check(body, converse)
        roles = [message["role"] for message in body["messages"]]
        assert roles[::2] == ["user"] * len(roles[::2])
        assert roles[1::2] == ["assistant"] * len(roles[1::2])


@each_row(
    "name",
    [
        "anthropic.claude-sonnet-4-5",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_claude_is_known_by_its_ids_at_amazon(name: str):
    info = find_model("bedrock", name, {})
    at_home = find_model("anthropic", "claude-sonnet-4-5", {})
    assert (info.window, info.max_output, info.input_price) == (200_000, 64_000, 3.0)
    assert (info.images, info.caching, info.cache_read_price) == (True, True, 0.3)
    assert takes_budget(info)
    assert takes_budget(at_home)


@each_row(
    ("name", "window"),
    [
        ("us.anthropic.claude-opus-4-6-v1", 1_000_000),
        ("us.amazon.nova-pro-v1:0", 300_000),
        ("amazon.nova-micro-v1:0", 128_000),
        ("openai.gpt-oss-20b-1:0", 128_000),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", 128_000),
        ("future.model-9", 128_000),
    ],
)
def test_other_ids_have_a_window(name: str, window: int):
    assert find_model("bedrock", name, {}).window == window


def test_every_listed_id_has_its_facts():
    listed = [find_model("bedrock", name, {}) for name in known_models("bedrock")]
    assert [info.id for info in listed if info.input_price is None] == []
    assert sum("anthropic.claude" in info.id and info.caching for info in listed) >= 5


EXCEPTIONS = {
    "throttlingException": FailureKind.BUSY,
    "serviceUnavailableException": FailureKind.BUSY,
    "internalServerException": FailureKind.BUSY,
    "modelStreamErrorException": FailureKind.BUSY,
    "modelTimeoutException": FailureKind.BUSY,
    "validationException": FailureKind.REJECTED,
    "somethingNewException": FailureKind.BUSY,
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", EXCEPTIONS)
async def test_an_exception_in_the_stream_has_one_kind(ask, name: str):
    received = await ask("bedrock", [say("Half", event(name, {"message": "It went wrong."}))])
    assert received.error.kind == EXCEPTIONS[name]
    assert "It went wrong." in str(received.error)
    assert received.text == "Half"
    assert received.stops == []


@pytest.mark.anyio
async def test_an_exception_of_the_models_server_counts_by_its_own_status(ask):
    reported = {"message": "Bad.", "originalStatusCode": 400, "status": 503, "type": "x"}
    received = await ask("bedrock", [event("modelStreamErrorException", reported)])
    assert received.error.kind is FailureKind.REJECTED


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (400, "The provided model identifier is invalid.", FailureKind.NO_MODEL),
        (
            400,
            "Invocation of model ID anthropic.claude-sonnet-4-5 with on-demand throughput isn't "
            "supported. Retry your request with the ID or ARN of an inference profile.",
            FailureKind.NO_MODEL,
        ),
        (
            404,
            "Could not resolve the foundation model from the provided model identifier.",
            FailureKind.NO_MODEL,
        ),
        (
            404,
            "This model version has reached the end of its life. Please refer to the AWS docs.",
            FailureKind.NO_MODEL,
        ),
        (
            400,
            "Expected toolResult blocks at messages.2.content for the following Ids: c1",
            FailureKind.BROKEN_HISTORY,
        ),
        (
            400,
            "The number of toolResult blocks at messages.2.content exceeds the number of toolUse "
            "blocks of previous turn.",
            FailureKind.BROKEN_HISTORY,
        ),
        (403, "You don't have access to the model with the specified model ID.", "rejected"),
        (424, "The model returned an error.", FailureKind.BUSY),
        (429, "Too many tokens, please wait before trying again.", FailureKind.BUSY),
    ],
)
async def test_a_refused_request_has_one_kind(ask, code: int, message: str, kind: FailureKind):
    received = await ask("bedrock", status(code, {"message": message}))
    assert received.error.kind == kind
    assert message in str(received.error)


@pytest.mark.anyio
async def test_a_damaged_frame_is_not_read(ask):
    received = await ask("bedrock", [say("Half", llm_server.raw(b"\0" * 40), "more")])
    assert received.error.kind is FailureKind.MISPLACED
    assert "sent a damaged event (wrong checksum" in str(received.error)
    assert received.text == "Half"
