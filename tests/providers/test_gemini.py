"""Only for Gemini: signed parts, thinking levels, blocked prompts and Google's errors."""

from typing import Any, TypeAlias

import pytest

from llm_server import call, no_usage, raw, redacted, say, status, think, usage
from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import Effort, FailureKind
from rookery.engine.answer_assembler import Assembler
from rookery.engine.ports.model import (
    CallChunk,
    Chunk,
    ModelInfo,
    ModelRequest,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
    UsageChunk,
)
from rookery.providers import gemini
from rookery.providers.catalogue import find_model
from support.each_row import each_row
from support.provider_validators import validate_gemini

NEW = find_model("gemini", "gemini-3.5-flash", {})
OLD = find_model("gemini", "gemini-2.5-flash", {})
PRO = find_model("gemini", "gemini-2.5-pro", {})
PLAIN = ModelInfo(id="gemini-x", provider="gemini")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = ToolSpec("read_file", "Read a file.", SCHEMA)
PICTURE = Image(media_type="image/png", data="aGk=")
CALL = ToolCall(id="c1", name="read_file", arguments={"path": "a"})


def talk(*spoken: Block, answer: Block | None = None) -> ModelRequest:
    """A question, an answer, and the reply to it."""
    turns = [Turn("user", (Text(text="Go."),)), Turn("assistant", spoken)]
    turns.append(Turn("user", (answer or Text(text="And?"),)))
    return ModelRequest(system="Be brief.", turns=turns, tools=[READ])


def test_a_conversation_becomes_contents_with_what_changes_at_the_end():
    second = ToolCall(id="c2", name="list_files", arguments={})
    turns = [
        Turn("user", (Text(text="Look."), PICTURE)),
        Turn("assistant", (Text(text="Reading."), CALL, second)),
        Turn(
            "user",
            (
                ToolResult(call_id="c1", text="A"),
                ToolResult(call_id="c2", text="no such folder", is_error=True),
                Text(text="Hurry."),
            ),
        ),
    ]
    request = ModelRequest(system="Be brief.", turns=turns, tools=[READ], max_output=77)
    body = gemini.body(request, OLD)
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read_file",
                        "description": "Read a file.",
                        "parametersJsonSchema": SCHEMA,
                    }
                ]
            }
        ],
        "generationConfig": {
            "maxOutputTokens": 77,
            "thinkingConfig": {"includeThoughts": True},
        },
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Look."},
                    {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "Reading."},
                    {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "a"}}},
                    {"functionCall": {"id": "c2", "name": "list_files", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "c1",
                            "name": "read_file",
                            "response": {"output": "A"},
                        }
                    },
                    {
                        "functionResponse": {
                            "id": "c2",
                            "name": "list_files",
                            "response": {"error": "no such folder"},
                        }
                    },
                    {"text": "Hurry."},
                ],
            },
        ],
    }
    assert list(body)[-1] == "contents"
    validate_gemini(gemini.body(request, NEW))


def test_images_of_a_result_are_inside_it_or_beside_it_for_older_models():
    shown = ToolResult(call_id="c1", text="A picture.", images=(PICTURE,))
    inline = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    result = {"id": "c1", "name": "read_file", "response": {"output": "A picture."}}
    parts = gemini.body(talk(CALL, answer=shown), NEW)["contents"][-1]["parts"]
    assert parts == [{"functionResponse": {**result, "parts": [inline]}}]
    parts = gemini.body(talk(CALL, answer=shown), OLD)["contents"][-1]["parts"]
    assert parts == [{"functionResponse": result}, inline]


def received(*parts: dict[str, Any]) -> tuple[Block, ...]:
    """The blocks of an answer that came in these parts, one event for each."""
    reading, answer = gemini.ContentReading(NEW), Assembler()
    events: list[Any] = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    for event in [*events, {"candidates": [{"finishReason": "STOP"}]}]:
        for chunk in reading.read_event(event):
            match chunk:
                case TextChunk(text):
                    answer.add_text(text)
                case CallChunk(index, arguments, id, name):
                    answer.add_call(index, arguments, id, name)
                case ThinkingChunk(text, signature, source):
                    answer.add_thinking(text, signature, source)
    return answer.blocks()


def read(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "name": "read_file", "args": {"path": "a"}}


def signed(part: dict[str, Any], signature: str = "S") -> dict[str, Any]:
    return {**part, "thoughtSignature": signature}


Parts: TypeAlias = list[dict[str, Any]]
THOUGHT = {"text": "Hm.", "thought": True}
A, B = {"functionCall": read("a")}, {"functionCall": read("b")}
ONE, TWO, NO_TEXT = {"text": "One."}, {"text": "Two."}, {"text": ""}
UNSIGNED = signed(A, "skip_thought_signature_validator")
SIGNATURES: dict[str, tuple[Parts, Parts]] = {
    "on a call after a thought": ([THOUGHT, signed(A)], [signed(A)]),
    "on the first of two calls": ([signed(A), B], [signed(A), B]),
    "on both calls": ([signed(A), signed(B, "T")], [signed(A), signed(B, "T")]),
    "on an empty text at the end": (
        [ONE, TWO, signed(NO_TEXT)],
        [{"text": "One.Two."}, signed(NO_TEXT)],
    ),
    "on a text in the middle": ([ONE, signed(TWO), ONE], [ONE, signed(TWO), ONE]),
    "on the text before a call": ([signed(ONE), A], [signed(ONE), UNSIGNED]),
    "on a blank text": ([signed({"text": "\n"}), A], [signed(NO_TEXT), UNSIGNED]),
    "on a thought": ([signed(THOUGHT), ONE], [signed(THOUGHT), ONE]),
    "on both texts": ([signed(ONE), signed(TWO, "T")], [signed(ONE), signed(TWO, "T")]),
    "none": ([THOUGHT, ONE], [ONE]),
}


@pytest.mark.parametrize(("came", "sent"), SIGNATURES.values(), ids=SIGNATURES)
def test_a_signature_goes_back_on_the_part_it_came_with(came: Parts, sent: Parts):
    blocks = received(*came)
    results = [
        ToolResult(call_id=block.id, text="A") for block in blocks if isinstance(block, ToolCall)
    ]
    said = (*results, Text(text="And?"))
    turns = [Turn("user", (Text(text="Go."),)), Turn("assistant", blocks), Turn("user", said)]
    body = gemini.body(ModelRequest(system="", turns=turns), NEW)
    validate_gemini(body)
    assert body["contents"][1]["parts"] == sent


def test_googles_sdk_understands_every_part_of_a_request():
    from google.genai import types

    shown = ToolResult(call_id="c1", text="A picture.", images=(PICTURE,))
    signed = Thinking(text="Hm.", signature='{"call":"c2VhbGVk"}', source="gemini")
    body = gemini.body(talk(Text(text="So."), signed, CALL, answer=shown), NEW, "high")
    contents = [types.Content.model_validate(content) for content in body["contents"]]
    (call,) = [part for part in contents[1].parts or () if part.function_call]
    assert call.thought_signature == b"sealed"
    response = (contents[2].parts or [])[0].function_response
    assert response
    assert (response.name, response.response) == ("read_file", {"output": "A picture."})
    blob = (response.parts or [])[0].inline_data
    assert blob
    assert (blob.mime_type, blob.data) == ("image/png", b"hi")
    (tool,) = [types.Tool.model_validate(each) for each in body["tools"]]
    assert (tool.function_declarations or [])[0].parameters_json_schema == SCHEMA
    config = types.GenerationConfig.model_validate(body["generationConfig"])
    assert config.thinking_config
    assert config.thinking_config.thinking_level == "HIGH"


@each_row(
    ("kept", "sent"),
    [
        ("nonsense", [{"text": "Short."}]),
        ('{"text": [[9, 3, "S"]]}', [{"text": "Short."}, {"text": "", "thoughtSignature": "S"}]),
        ('{"text": [[-4, 99, "S"]]}', [{"text": "Short.", "thoughtSignature": "S"}]),
        ('{"text": [["x"]]}', [{"text": "Short."}]),
        ('{"call": "S"}', [{"text": "Short."}]),
    ],
)
def test_a_signature_that_no_longer_fits_does_no_harm(kept: str, sent: list[dict[str, Any]]):
    signed = Thinking(text="", signature=kept, source="gemini")
    body = gemini.body(talk(Text(text="Short."), signed), NEW)
    validate_gemini(body)
    assert body["contents"][1]["parts"] == sent


def test_a_call_of_another_model_gets_the_stand_in_signature_where_one_is_needed():
    other = Thinking(text="Hm.", signature="sig", source="anthropic")
    second = ToolCall(id="c2", name="read_file")
    request = talk(other, CALL, second, answer=ToolResult(call_id="c1", text="A"))
    calls = gemini.body(request, NEW)["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in calls] == [
        "skip_thought_signature_validator",
        None,
    ]
    calls = gemini.body(request, OLD)["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in calls] == [None, None]


def test_calls_without_ids_get_different_ids():
    one, two = {"name": "read_file", "args": {"path": "a"}}, {"name": "list_files"}
    (first, second) = received({"functionCall": one}, {"functionCall": two})
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert (first.arguments, second.arguments) == ({"path": "a"}, {})
    assert first.id != second.id


@each_row(
    ("model", "effort", "sent"),
    [
        (NEW, "unspecified", {"includeThoughts": True}),
        (NEW, "none", {"thinkingLevel": "LOW"}),
        (NEW, "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        (NEW, "low", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        (NEW, "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        (NEW, "high", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        (NEW, "xhigh", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        (OLD, "unspecified", {"includeThoughts": True}),
        (OLD, "disabled", {"thinkingBudget": 0}),
        (PRO, "disabled", {"thinkingBudget": 128}),
        (OLD, "low", {"includeThoughts": True, "thinkingBudget": 1024}),
        (OLD, "medium", {"includeThoughts": True, "thinkingBudget": 8192}),
        (PRO, "xhigh", {"includeThoughts": True, "thinkingBudget": 24_576}),
        (PLAIN, "high", None),
    ],
)
def test_the_effort_is_a_level_or_for_older_models_a_budget(
    model: ModelInfo, effort: Effort, sent: dict[str, Any] | None
):
    config = gemini.body(talk(Text(text="Yes.")), model, effort).get("generationConfig", {})
    assert config.get("thinkingConfig") == sent


@pytest.mark.anyio
async def test_the_key_is_in_a_header_and_the_model_in_the_path(ask):
    said = await ask("gemini", [say("Yes.")], api_key="k-1", model="gemini-3.5-flash")
    (request,) = said.requests
    assert request.path == "/v1/models/gemini-3.5-flash:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == "k-1"
    assert "authorization" not in request.headers
    odd = await ask("gemini", [say("Yes.")], model="models/a/../b?c")
    assert odd.requests[0].path == "/v1/models/a%2F..%2Fb%3Fc:streamGenerateContent?alt=sse"


@pytest.mark.anyio
async def test_the_openai_address_of_google_keeps_chat_completions(ask):
    said = await ask("gemini", [say("Yes.")], suffix="beta/openai/", api_key="k-1")
    assert said.text == "Yes."
    assert said.requests[0].path == "/v1beta/openai/chat/completions"
    assert said.requests[0].headers["authorization"] == "Bearer k-1"


@pytest.mark.anyio
async def test_reasoning_counts_as_output(ask):
    reported = usage(1000, 200, cache_reads=600, reasoning=150)
    said = await ask("gemini", [think("Hm."), say("Yes."), reported])
    assert said.usage == Usage(tokens_in=1000, tokens_out=200, cache_reads=600, cost=None)


def test_a_later_usage_without_a_figure_keeps_the_earlier_one():
    reading = gemini.ContentReading(PLAIN)
    first = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 2}
    list(reading.read_event({"usageMetadata": first}))
    chunks: list[Chunk] = list(reading.read_event({"usageMetadata": {"promptTokenCount": 9}}))
    assert chunks == [UsageChunk(Usage(tokens_in=9, tokens_out=6))]


@pytest.mark.anyio
async def test_a_signature_without_words_is_kept(ask):
    said = await ask("gemini", [redacted("opaque"), call("read_file", path="a")])
    assert ThinkingChunk("", '{"call":"opaque"}', "gemini") in said.chunks


@pytest.mark.anyio
async def test_a_signed_text_stays_one_text(ask):
    said = await ask("gemini", [think("Hm.", signature="S"), say("One ", "two ", "three.")])
    assert [type(c) for c in said.chunks if isinstance(c, TextChunk | ThinkingChunk)][-1] is (
        ThinkingChunk
    )
    blocks = received({"text": "One "}, {"text": "two.", "thoughtSignature": "S"})
    assert blocks[0] == Text(text="One two.")


@pytest.mark.anyio
async def test_a_blocked_prompt_is_refused_with_the_reason(ask):
    event = b'data: {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}\n\n'
    said = await ask("gemini", [raw(event), no_usage()])
    assert said.error is None
    assert said.stops[0].reason is StopReason.REFUSED
    assert said.stops[0].detail == "Google blocked the prompt (PROHIBITED_CONTENT)."


def google_error(code: int, word: str, message: str, *details: dict[str, Any]) -> Any:
    error = {"code": code, "message": message, "status": word, "details": list(details)}
    return status(code, {"error": error})


INFO = "type.googleapis.com/google.rpc.ErrorInfo"
RETRY = "type.googleapis.com/google.rpc.RetryInfo"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "kind", "wait"),
    [
        pytest.param(
            google_error(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                {"@type": INFO, "reason": "API_KEY_INVALID", "domain": "googleapis.com"},
            ),
            FailureKind.BAD_KEY,
            None,
            id="wrong-key",
        ),
        pytest.param(
            google_error(
                429,
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
                {"@type": RETRY, "retryDelay": "33.5s"},
            ),
            FailureKind.BUSY,
            33.5,
            id="quota-per-minute",
        ),
        pytest.param(
            google_error(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
            FailureKind.BUSY,
            None,
            id="overloaded",
        ),
        pytest.param(
            google_error(
                404,
                "NOT_FOUND",
                "models/gemini-9 is not found for API version v1beta, or is not supported for "
                "generateContent.",
            ),
            FailureKind.NO_MODEL,
            None,
            id="no-model",
        ),
        pytest.param(
            google_error(
                400,
                "INVALID_ARGUMENT",
                "Function call is missing a thought_signature in functionCall parts.",
            ),
            FailureKind.BROKEN_HISTORY,
            None,
            id="missing-signature",
        ),
        pytest.param(
            google_error(400, "INVALID_ARGUMENT", "Corrupted thought signature."),
            FailureKind.BROKEN_HISTORY,
            None,
            id="corrupted-signature",
        ),
    ],
)
async def test_errors_of_google_are_classified(
    ask, answer: Any, kind: FailureKind, wait: float | None
):
    said = await ask("gemini", answer)
    assert (said.error.kind, said.error.retry_after) == (kind, wait)
