"""The kits of Amazon and Azure understand the scripted model, and ask it as we do."""

import json
from contextlib import closing
from typing import Any

import pytest

from llm_server import (
    ERROR_EVENTS,
    LlmServer,
    call,
    redacted,
    refuse,
    say,
    status,
    stop,
    think,
    usage,
)
from llm_server.parts import interleaved, letters
from support.each_row import each_row

HELLO = [{"role": "user", "content": [{"text": "Hello"}]}]
PROFILE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.fixture(scope="module")
def session() -> Any:
    import botocore.session

    return botocore.session.get_session()


class Kit:
    def __init__(self, session: Any, server: LlmServer) -> None:
        from botocore.config import Config

        self._client = session.create_client(
            "bedrock-runtime",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id="AKIA",
            aws_secret_access_key="secret",
            config=Config(retries={"total_max_attempts": 1}),
        )

    def __enter__(self) -> "Kit":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def events(self) -> list[dict[str, Any]]:
        answer = self._client.converse_stream(modelId=PROFILE, messages=HELLO)
        with closing(answer["stream"]) as stream:
            return list(stream)


def deltas(events: list[dict[str, Any]], index: int) -> list[dict[str, Any]]:
    found = [event.get("contentBlockDelta") or {} for event in events]
    return [each["delta"] for each in found if each.get("contentBlockIndex") == index]


def test_amazons_kit_receives_the_scripted_answer(session: Any):
    answer = [
        redacted("opaque"),
        think("Let me see.", signature="sealed"),
        say("Looking at wörld 🐦."),
        call("read_file", path="a.py"),
        usage(50, 7, cache_reads=10, cache_writes=5),
    ]
    with LlmServer(answer) as server, Kit(session, server) as kit:
        events = kit.events()
    assert deltas(events, 0) == [{"reasoningContent": {"redactedContent": b"opaque"}}]
    *thoughts, seal = [delta["reasoningContent"] for delta in deltas(events, 1)]
    assert "".join(thought["text"] for thought in thoughts) == "Let me see."
    assert seal == {"signature": "sealed"}
    assert "".join(delta["text"] for delta in deltas(events, 2)) == "Looking at wörld 🐦."
    arguments = "".join(delta["toolUse"]["input"] for delta in deltas(events, 3))
    assert json.loads(arguments) == {"path": "a.py"}
    started = [event["contentBlockStart"] for event in events if "contentBlockStart" in event]
    name = {"toolUseId": "call_0_0", "name": "read_file"}
    assert started == [{"start": {"toolUse": name}, "contentBlockIndex": 3}]
    assert events[0] == {"messageStart": {"role": "assistant"}}
    assert events[-2] == {"messageStop": {"stopReason": "tool_use"}}
    assert events[-1]["metadata"]["usage"] == {
        "inputTokens": 35,
        "outputTokens": 7,
        "totalTokens": 57,
        "cacheReadInputTokens": 10,
        "cacheWriteInputTokens": 5,
    }


def test_interleaved_calls_have_their_own_indexes(session: Any):
    answer = [letters(4), interleaved(call("a", path="1"), call("b", path="a longer path"))]
    with LlmServer(answer) as server, Kit(session, server) as kit:
        events = kit.events()
    for index, path in enumerate(("1", "a longer path")):
        arguments = "".join(delta["toolUse"]["input"] for delta in deltas(events, index))
        assert json.loads(arguments) == {"path": path}


def test_each_stop_reason_is_one_of_amazons(session: Any):
    known = session.get_service_model("bedrock-runtime").shape_for("StopReason").enum
    reasons = ["end", "calls", "length", "refused", "overflow"]
    answers = [[say("All."), stop(reason)] for reason in reasons]
    with LlmServer(*answers, [refuse("No.")]) as server, Kit(session, server) as kit:
        reported = [kit.events()[-2]["messageStop"]["stopReason"] for _ in range(6)]
    assert reported[-1] == "guardrail_intervened"
    assert set(reported) <= set(known)
    assert len(set(reported)) == 5


def test_an_error_raises_the_kits_error(session: Any):
    from botocore.exceptions import ClientError, EventStreamError

    with LlmServer(status(429)) as server, Kit(session, server) as kit:
        with pytest.raises(ClientError) as refused:
            kit.events()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
    with LlmServer(*ERROR_EVENTS.values()) as server, Kit(session, server) as kit:
        for name in ERROR_EVENTS:
            with pytest.raises(EventStreamError, match=r"\w+Exception"):
                raise AssertionError(f"{name}: {kit.events()}")


def test_amazons_kit_asks_at_the_same_place(session: Any):
    with LlmServer([say("Yes.")]) as server, Kit(session, server) as kit:
        kit.events()
    (request,) = server.requests
    assert request.path == f"/model/{PROFILE.replace(':', '%3A')}/converse-stream"
    assert request.body == {"messages": HELLO}
    assert "/us-east-1/bedrock/aws4_request" in request.headers["authorization"]


CLAUDE = "claude-sonnet-4-5@20250929"
VERTEX_PATH = (
    f"/v1/projects/p-1/locations/global/publishers/anthropic/models/{CLAUDE}:streamRawPredict"
)
"""`tests/providers/test_vertex.py` has the same for us."""
AZURE = {
    "key": ({"api_key": "k-1"}, ("k-1", None)),
    "token": ({"azure_ad_token": "t-1"}, (None, "Bearer t-1")),
}
"""`tests/providers/test_azure.py` has the same rows for us."""


@each_row("proof", AZURE)
def test_azures_kit_asks_a_deployment(proof: str):
    import openai

    credentials, headers = AZURE[proof]
    with (
        LlmServer([say("Yes.")]) as server,
        openai.AzureOpenAI(
            azure_endpoint=server.url, api_version="2024-10-21", **credentials
        ) as kit,
    ):
        assert _answer(kit) == "Yes."
    (request,) = server.requests
    assert request.path == "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"
    assert (request.headers.get("api-key"), request.headers.get("authorization")) == headers


def test_openais_kit_asks_the_current_surface_of_azure():
    import openai

    with (
        LlmServer([say("Yes.")]) as server,
        openai.OpenAI(base_url=f"{server.url}/openai/v1/", api_key="t-1") as kit,
    ):
        assert _answer(kit) == "Yes."
    (request,) = server.requests
    assert request.path == "/openai/v1/chat/completions"
    assert request.body["model"] == "my-gpt"
    assert request.headers["authorization"] == "Bearer t-1"


def _answer(kit: Any) -> str:
    asked = [{"role": "user", "content": "Hello"}]
    streamed = kit.chat.completions.create(model="my-gpt", messages=asked, stream=True)
    said = [chunk.choices[0].delta.content for chunk in streamed if chunk.choices]
    return "".join(text or "" for text in said)


def test_anthropics_kit_asks_claude_on_vertex():
    import anthropic

    with (
        LlmServer([say("Yes.")]) as server,
        anthropic.AnthropicVertex(
            base_url=f"{server.url}/v1", region="global", project_id="p-1", access_token="t-1"
        ) as kit,
    ):
        asked = [{"role": "user", "content": "Hello"}]
        options = {"model": CLAUDE, "max_tokens": 9, "messages": asked}
        with kit.messages.stream(**options) as streamed:
            assert streamed.get_final_text() == "Yes."
    (request,) = server.requests
    assert request.path == VERTEX_PATH
    assert request.headers["authorization"] == "Bearer t-1"
    assert "anthropic_version" in request.body  # the kit sends a newer one than Google documents
    assert "model" not in request.body
