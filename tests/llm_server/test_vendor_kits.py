"""The scripted model is understood by the vendors' own kits."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct

from llm_server import (
    ERROR_EVENTS,
    ODD_ANSWERS,
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

ASK: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
SEALED = {"include": ["reasoning.encrypted_content"]}


class Received(Struct, frozen=True):
    """An answer as a vendor's kit understood it."""

    text: str
    thoughts: str
    calls: list[tuple[str, str, dict[str, Any]]]
    tokens: tuple[int, int, int, int]
    stop: str | None


@pytest.fixture(scope="module")
def anthropic_kit() -> Iterator[Any]:
    import anthropic

    with anthropic.Anthropic(api_key="k", max_retries=0) as kit:
        yield kit


@pytest.fixture(scope="module")
def openai_kit() -> Iterator[Any]:
    import openai

    with openai.OpenAI(api_key="k", max_retries=0) as kit:
        yield kit


class Kits:
    def __init__(self, anthropic: Any, openai: Any) -> None:
        self._anthropic, self._openai = anthropic, openai

    def at(self, server: LlmServer) -> "Kits":
        self._anthropic.base_url, self._openai.base_url = server.url, f"{server.url}/v1"
        return self

    def message(self) -> Any:
        with self._anthropic.messages.stream(model="m", max_tokens=9, messages=ASK) as streamed:
            return streamed.get_final_message()

    def completion(self) -> Any:
        counted = {"include_usage": True}
        with self._openai.chat.completions.stream(
            model="m", messages=ASK, stream_options=counted
        ) as streamed:
            return streamed.get_final_completion()

    def chat_chunks(self) -> list[Any]:
        """The kit's own accumulator raises at `length`, so this reads them one by one."""
        return list(self._openai.chat.completions.create(model="m", messages=ASK, stream=True))

    def response_events(self, **asked: Any) -> list[Any]:
        return list(self._openai.responses.create(model="m", input=ASK, stream=True, **asked))

    def response(self, **asked: Any) -> Any:
        with self._openai.responses.stream(model="m", input=ASK, **asked) as streamed:
            events = list(streamed)
        response = events[-1].response
        deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
        assert "".join(deltas) == response.output_text
        return response

    def receive_messages(self) -> Received:
        message = self.message()
        blocks, used = message.content, message.usage
        thoughts = [block for block in blocks if block.type == "thinking"]
        read, written = used.cache_read_input_tokens, used.cache_creation_input_tokens
        return Received(
            text="".join(block.text for block in blocks if block.type == "text"),
            thoughts="".join(block.thinking + block.signature for block in thoughts),
            calls=[(b.id, b.name, b.input) for b in blocks if b.type == "tool_use"],
            tokens=(used.input_tokens + read + written, used.output_tokens, read, written),
            stop=message.stop_reason,
        )

    def receive_chat(self) -> Received:
        completion = self.completion()
        message, used = completion.choices[0].message, completion.usage
        details = used.prompt_tokens_details
        read, written = details.cached_tokens, details.cache_write_tokens
        return Received(
            text=message.content or "",
            thoughts=getattr(message, "reasoning_content", ""),
            calls=[
                (made.id, made.function.name, json.loads(made.function.arguments))
                for made in message.tool_calls or ()
            ],
            tokens=(used.prompt_tokens, used.completion_tokens, read, written),
            stop=completion.choices[0].finish_reason,
        )

    def receive_responses(self) -> Received:
        response = self.response(**SEALED)
        reasoning = [item for item in response.output if item.type == "reasoning"]
        made = [item for item in response.output if item.type == "function_call"]
        used, details = response.usage, response.usage.input_tokens_details
        read, written = details.cached_tokens, details.cache_write_tokens
        return Received(
            text=response.output_text,
            thoughts="".join(item.summary[0].text + item.encrypted_content for item in reasoning),
            calls=[(item.call_id, item.name, json.loads(item.arguments)) for item in made],
            tokens=(used.input_tokens, used.output_tokens, read, written),
            stop=response.status,
        )


@pytest.fixture
def kits(anthropic_kit: Any, openai_kit: Any) -> Kits:
    return Kits(anthropic_kit, openai_kit)


ROUTES: dict[str, tuple[Callable[[Kits], Received], str, str]] = {
    "messages": (Kits.receive_messages, "Let me see.sealed", "tool_use"),
    "chat": (Kits.receive_chat, "Let me see.", "tool_calls"),
    "responses": (Kits.receive_responses, "Let me see.sealed", "completed"),
}


@pytest.mark.parametrize("route", ROUTES)
def test_vendor_sdks_receive_the_scripted_answer(kits: Kits, route: str):
    receive, thoughts, stopped = ROUTES[route]
    answer = [
        think("Let me see.", signature="sealed"),
        say("Looking at wörld 🐦."),
        call("read_file", path="a.py"),
        call("search", id="call_x", regex="ü+", deep={"n": [1, None]}),
        usage(50, 7, cache_reads=10, cache_writes=5, reasoning=3),
    ]
    longer = call("write_to_file", path="b.py", content="a longer text than the other one")
    together = [letters(4), say("Two."), interleaved(call("read_file", path="a.py"), longer)]
    with LlmServer(answer, together) as server:
        received = receive(kits.at(server))
        mixed = receive(kits).calls
    assert received == Received(
        text="Looking at wörld 🐦.",
        thoughts=thoughts,
        calls=[
            ("call_0_0", "read_file", {"path": "a.py"}),
            ("call_x", "search", {"regex": "ü+", "deep": {"n": [1, None]}}),
        ],
        tokens=(50, 7, 10, 5),
        stop=stopped,
    )
    content = "a longer text than the other one"
    assert mixed == [
        ("call_1_0", "read_file", {"path": "a.py"}),
        ("call_1_1", "write_to_file", {"path": "b.py", "content": content}),
    ]


OVERFLOW = "model_context_window_exceeded"


def test_each_stop_reason_uses_the_vendors_term(kits: Kits):
    rows = [
        ("end", "end_turn", "stop", "completed"),
        ("calls", "tool_use", "tool_calls", "completed"),
        ("length", "max_tokens", "length", "incomplete"),
        ("refused", "refusal", "content_filter", "incomplete"),
        ("paused", "pause_turn", "pause_turn", "incomplete"),
        ("overflow", OVERFLOW, OVERFLOW, "incomplete"),
        ("moon_phase", "moon_phase", "moon_phase", "incomplete"),
    ]
    answers = [[say("All."), stop(reason)] for reason, *_ in rows for _ in range(3)]
    with LlmServer(*answers) as server:
        kits.at(server)
        received = []
        for reason, *_ in rows:
            message, chunks, response = kits.message(), kits.chat_chunks(), kits.response()
            assert not any(chunk.usage for chunk in chunks)
            finish = chunks[-1].choices[0].finish_reason
            received.append((reason, message.stop_reason, finish, response.status))
    assert received == rows


def test_a_refusal_text_is_in_the_vendors_field(kits: Kits):
    with LlmServer(*[[refuse("Not with that.")]] * 3) as server:
        message = kits.at(server).message()
        choice, response = kits.completion().choices[0], kits.response()
    assert (message.content[0].text, message.stop_reason) == ("Not with that.", "refusal")
    assert (choice.message.refusal, choice.finish_reason) == ("Not with that.", "stop")
    assert response.output[0].content[0].refusal == "Not with that."
    assert response.status == "completed"


def test_redacted_reasoning_is_sent_encrypted(kits: Kits):
    with LlmServer(*[[redacted("blob"), say("x")]] * 3) as server:
        message = kits.at(server).message()
        sealed, unasked = kits.response(**SEALED).output[0], kits.response().output[0]
    assert message.content[0].data == "blob"
    assert (sealed.summary, sealed.encrypted_content) == ([], "blob")
    assert unasked.encrypted_content is None


def test_an_error_raises_the_sdks_typed_error(kits: Kits):
    import anthropic
    import openai

    names = {
        400: "BadRequestError",
        401: "AuthenticationError",
        403: "PermissionDeniedError",
        404: "NotFoundError",
        429: "RateLimitError",
        503: "InternalServerError",
    }
    with LlmServer(*(status(code) for code in names for _ in range(3))) as server:
        kits.at(server)
        for code, name in names.items():
            for receive, vendor in (
                (kits.message, anthropic),
                (kits.completion, openai),
                (kits.response, openai),
            ):
                with pytest.raises(getattr(vendor, name)) as refused:
                    receive()
                assert refused.value.status_code == code
    events = {name: answer for name, answer in ERROR_EVENTS.items() if name != "failed"}
    with LlmServer(*(answer for answer in events.values() for _ in range(2))) as server:
        kits.at(server)
        for name in events:
            with pytest.raises(anthropic.APIError):
                raise AssertionError(f"{name}: {kits.message()}")
            with pytest.raises(openai.APIError):
                raise AssertionError(f"{name}: {kits.completion()}")


def test_the_responses_route_distinguishes_errors_and_failures(kits: Kits):
    with LlmServer(ERROR_EVENTS["server-error"], ERROR_EVENTS["failed"]) as server:
        kits.at(server)
        last = [kits.response_events()[-1] for _ in range(2)]
    assert [event.type for event in last] == ["error", "response.failed"]
    assert all("It broke" in event.to_json() for event in last)


def test_a_request_after_the_end_of_the_script_is_an_error(kits: Kits):
    import openai

    with LlmServer([say("One.")]) as server:
        kits.at(server).completion()
        with pytest.raises(openai.BadRequestError, match="has 1 answers and was asked for one"):
            kits.completion()


def google(server: LlmServer) -> list[Any]:
    """The chunks of an answer, as Google's kit reads them."""
    from google import genai

    with genai.Client(api_key="k", http_options={"base_url": server.url}) as kit:
        return list(kit.models.generate_content_stream(model="m", contents="hi"))


def test_googles_sdk_receives_the_scripted_answer():
    answer = [
        think("Let me see.", signature="c2VhbGVk"),
        say("Looking at wörld 🐦."),
        call("read_file", path="a.py"),
        call("search", id=None, regex="ü+", deep={"n": [1, None]}),
        usage(50, 7, cache_reads=10, reasoning=3),
    ]
    with LlmServer(answer) as server:
        chunks = google(server)
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    said = [part for part in parts if part.text and not part.thought]
    assert "".join(part.text for part in parts if part.thought) == "Let me see."
    assert "".join(part.text for part in said) == "Looking at wörld 🐦."
    assert [part.thought_signature for part in said] == [b"sealed", None, None, None]
    calls = [part.function_call for part in parts if part.function_call]
    assert [(made.id, made.name, made.args) for made in calls] == [
        ("call_0_0", "read_file", {"path": "a.py"}),
        (None, "search", {"regex": "ü+", "deep": {"n": [1, None]}}),
    ]
    used = chunks[-1].usage_metadata
    assert (used.prompt_token_count, used.cached_content_token_count) == (50, 10)
    assert (used.candidates_token_count, used.thoughts_token_count) == (4, 3)
    assert server.requests[0].headers["x-goog-api-key"] == "k"


def test_googles_sdk_receives_stops_and_errors():
    from google.genai import errors

    stops = {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"}
    answers = [[say("All."), stop(reason)] for reason in stops]
    with LlmServer(*answers, ODD_ANSWERS["refused-in-words"]) as server:
        received = [google(server)[-1].candidates[0].finish_reason for _ in range(5)]
    assert received == [*stops.values(), "SAFETY"]
    codes = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    with LlmServer(*map(status, codes), ERROR_EVENTS["overloaded"]) as server:
        for code, word in [*codes.items(), (503, "UNAVAILABLE")]:
            with pytest.raises(errors.APIError) as refused:
                google(server)
            assert (refused.value.code, refused.value.status) == (code, word)
