"""The scripted model is held against the vendors' own kits, and against bare sockets."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest
from msgspec import Struct

from llm_server import (
    ERROR_EVENTS,
    Answer,
    LlmServer,
    call,
    interleaved,
    letters,
    redacted,
    refuse,
    say,
    status,
    stop,
    think,
    usage,
)

History: TypeAlias = list[dict[str, Any]]

ASK: History = [{"role": "user", "content": "hi"}]
OVERFLOW = "model_context_window_exceeded"


class Heard(Struct, frozen=True):
    """An answer as a vendor's kit understood it."""

    text: str
    thoughts: str
    calls: list[tuple[str, str, dict[str, Any]]]
    tokens: tuple[int, int, int, int]
    stop: str | None


@contextmanager
def anthropic_kit(url: str) -> Iterator[Any]:
    import anthropic

    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as kit:
        yield kit


@contextmanager
def openai_kit(url: str) -> Iterator[Any]:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as kit:
        yield kit


def hear_messages(url: str, *, stream: bool, history: History = ASK) -> Heard:
    with anthropic_kit(url) as kit:
        if stream:
            with kit.messages.stream(model="m", max_tokens=9, messages=history) as streamed:
                message = streamed.get_final_message()
        else:
            message = kit.messages.create(model="m", max_tokens=9, messages=history)
    blocks = message.content
    thoughts = [block for block in blocks if block.type == "thinking"]
    used = message.usage
    read, written = used.cache_read_input_tokens, used.cache_creation_input_tokens
    return Heard(
        text="".join(block.text for block in blocks if block.type == "text"),
        thoughts="".join(block.thinking + block.signature for block in thoughts),
        calls=[(b.id, b.name, b.input) for b in blocks if b.type == "tool_use"],
        tokens=(used.input_tokens + read + written, used.output_tokens, read, written),
        stop=message.stop_reason,
    )


def hear_chat(url: str, *, stream: bool, history: History = ASK) -> Heard:
    with openai_kit(url) as kit:
        if stream:
            counted = {"include_usage": True}
            with kit.chat.completions.stream(
                model="m", messages=history, stream_options=counted
            ) as streamed:
                completion = streamed.get_final_completion()
        else:
            completion = kit.chat.completions.create(model="m", messages=history)
    message, used = completion.choices[0].message, completion.usage
    details = used.prompt_tokens_details
    return Heard(
        text=message.content or "",
        thoughts=getattr(message, "reasoning_content", ""),
        calls=[
            (made.id, made.function.name, json.loads(made.function.arguments))
            for made in message.tool_calls or ()
        ],
        tokens=(
            used.prompt_tokens,
            used.completion_tokens,
            details.cached_tokens,
            details.cache_write_tokens,
        ),
        stop=completion.choices[0].finish_reason,
    )


def hear_responses(url: str, *, stream: bool, history: History = ASK) -> Heard:
    asked = {"model": "m", "input": history, "include": ["reasoning.encrypted_content"]}
    with openai_kit(url) as kit:
        if stream:
            with kit.responses.stream(**asked) as streamed:
                events = list(streamed)
            response = events[-1].response
            deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
            assert "".join(deltas) == response.output_text
        else:
            response = kit.responses.create(**asked)
    reasoning = [item for item in response.output if item.type == "reasoning"]
    made = [item for item in response.output if item.type == "function_call"]
    details = response.usage.input_tokens_details
    return Heard(
        text=response.output_text,
        thoughts="".join(item.summary[0].text + item.encrypted_content for item in reasoning),
        calls=[(item.call_id, item.name, json.loads(item.arguments)) for item in made],
        tokens=(
            response.usage.input_tokens,
            response.usage.output_tokens,
            details.cached_tokens,
            details.cache_write_tokens,
        ),
        stop=response.status,
    )


def finish_reason_of_chat(url: str, *, stream: bool) -> str | None:
    """The kit's own accumulator raises at `length`, so this reads the chunks one by one."""
    if not stream:
        return hear_chat(url, stream=False).stop
    with openai_kit(url) as kit:
        parts = list(kit.chat.completions.create(model="m", messages=ASK, stream=True))
    assert not any(part.usage for part in parts)
    return [part.choices[0].finish_reason for part in parts][-1]


HEARERS: dict[str, Callable[..., Heard]] = {
    "messages": hear_messages,
    "chat": hear_chat,
    "responses": hear_responses,
}
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
ON_EACH_ROUTE = pytest.mark.parametrize("route", HEARERS)


@STREAMED
@pytest.mark.parametrize(
    ("route", "thoughts", "stopped"),
    [
        ("messages", "Let me see.sealed", "tool_use"),
        ("chat", "Let me see.", "tool_calls"),
        ("responses", "Let me see.sealed", "completed"),
    ],
)
def test_the_vendors_kits_hear_what_the_script_says(
    route: str, thoughts: str, stopped: str, stream: bool
):
    answer = [
        think("Let me see.", signature="sealed"),
        say("Looking at wörld 🐦."),
        call("read_file", path="a.py"),
        call("search", id="call_x", regex="ü+", deep={"n": [1, None]}),
        usage(50, 7, cache_reads=10, cache_writes=5, reasoning=3),
    ]
    with LlmServer(answer) as server:
        heard = HEARERS[route](server.url, stream=stream)
    assert heard == Heard(
        text="Looking at wörld 🐦.",
        thoughts=thoughts,
        calls=[
            ("call_0_0", "read_file", {"path": "a.py"}),
            ("call_x", "search", {"regex": "ü+", "deep": {"n": [1, None]}}),
        ],
        tokens=(50, 7, 10, 5),
        stop=stopped,
    )


@ON_EACH_ROUTE
def test_calls_whose_fragments_come_interleaved_are_put_together_by_index(route: str):
    calls = interleaved(
        call("read_file", path="a.py"),
        call("write_to_file", path="b.py", content="a longer text than the other one"),
        call("list_files", path="."),
    )
    with LlmServer([letters(4), say("Three."), calls]) as server:
        heard = HEARERS[route](server.url, stream=True)
    assert heard.calls == [
        ("call_0_0", "read_file", {"path": "a.py"}),
        (
            "call_0_1",
            "write_to_file",
            {"path": "b.py", "content": "a longer text than the other one"},
        ),
        ("call_0_2", "list_files", {"path": "."}),
    ]


@STREAMED
@pytest.mark.parametrize(
    ("reason", "messages", "chat", "responses"),
    [
        ("end", "end_turn", "stop", "completed"),
        ("calls", "tool_use", "tool_calls", "completed"),
        ("length", "max_tokens", "length", "incomplete"),
        ("refused", "refusal", "content_filter", "incomplete"),
        ("paused", "pause_turn", "pause_turn", "incomplete"),
        (
            "overflow",
            "model_context_window_exceeded",
            "model_context_window_exceeded",
            "incomplete",
        ),
        ("moon_phase", "moon_phase", "moon_phase", "incomplete"),
    ],
)
def test_each_stop_reason_has_each_vendors_word(
    reason: str, messages: str, chat: str, responses: str, stream: bool
):
    with LlmServer(*[[say("All."), stop(reason)]] * 3) as server:
        assert hear_messages(server.url, stream=stream).stop == messages
        assert finish_reason_of_chat(server.url, stream=stream) == chat
        assert hear_responses(server.url, stream=stream).stop == responses


@STREAMED
def test_a_refusal_in_words_comes_where_the_vendor_puts_it(stream: bool):
    with LlmServer(*[[refuse("Not with that.")]] * 3) as server:
        heard = hear_messages(server.url, stream=stream)
        assert (heard.text, heard.stop) == ("Not with that.", "refusal")
        with openai_kit(server.url) as kit:
            asked = {"model": "m", "messages": ASK}
            if stream:
                with kit.chat.completions.stream(**asked) as streamed:
                    choice = streamed.get_final_completion().choices[0]
            else:
                choice = kit.chat.completions.create(**asked).choices[0]
            assert (choice.message.refusal, choice.finish_reason) == ("Not with that.", "stop")
            response = kit.responses.create(model="m", input=ASK)
            assert response.output[0].content[0].refusal == "Not with that."
            assert response.status == "completed"


def test_reasoning_that_nobody_may_read_is_carried_sealed():
    with LlmServer(*[[redacted("blob"), say("x")]] * 3) as server:
        with anthropic_kit(server.url) as kit:
            message = kit.messages.create(model="m", max_tokens=9, messages=ASK)
        with openai_kit(server.url) as kit:
            sealed = kit.responses.create(
                model="m", input=ASK, include=["reasoning.encrypted_content"]
            )
            unasked = kit.responses.create(model="m", input=ASK)
    assert message.content[0].data == "blob"
    assert (sealed.output[0].summary, sealed.output[0].encrypted_content) == ([], "blob")
    assert unasked.output[0].encrypted_content is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (409, "ConflictError"),
        (422, "UnprocessableEntityError"),
        (429, "RateLimitError"),
        (503, "InternalServerError"),
    ],
)
def test_an_error_status_is_the_kits_typed_error(code: int, name: str):
    import anthropic
    import openai

    with LlmServer(*[status(code)] * 3) as server:
        with pytest.raises(anthropic.APIStatusError) as refused:
            hear_messages(server.url, stream=True)
        assert isinstance(refused.value, getattr(anthropic, name))
        assert refused.value.status_code == code
        for hear in (hear_chat, hear_responses):
            with pytest.raises(getattr(openai, name)) as rejected:
                hear(server.url, stream=True)
            assert rejected.value.status_code == code


@pytest.mark.parametrize("name", [n for n in ERROR_EVENTS if n != "failed"])
def test_an_error_event_after_200_is_an_error_for_the_kits(name: str):
    import anthropic
    import openai

    with LlmServer(*[ERROR_EVENTS[name]] * 2) as server:
        with pytest.raises(anthropic.APIError):
            hear_messages(server.url, stream=True)
        with pytest.raises(openai.APIError):
            hear_chat(server.url, stream=True)


@pytest.mark.parametrize(
    ("name", "last"), [("server-error", "error"), ("failed", "response.failed")]
)
def test_on_the_responses_route_an_error_and_a_failure_are_two_things(name: str, last: str):
    with LlmServer(ERROR_EVENTS[name]) as server, openai_kit(server.url) as kit:
        *_, event = kit.responses.create(model="m", input=ASK, stream=True)
    assert event.type == last
    assert "It broke" in event.to_json()


def test_the_kits_find_the_model_that_is_served():
    with LlmServer() as server:
        with anthropic_kit(server.url) as kit:
            assert [model.id for model in kit.models.list()] == ["scripted-1"]
        with openai_kit(server.url) as kit:
            assert [model.id for model in kit.models.list()] == ["scripted-1"]


HISTORIES: dict[str, History] = {
    "messages": [
        *ASK,
        {"role": "assistant", "content": [{"type": "text", "text": "One."}]},
        {"role": "user", "content": "go on"},
    ],
    "chat": [*ASK, {"role": "assistant", "content": "One."}, {"role": "user", "content": "on"}],
    "responses": [
        *ASK,
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"role": "assistant", "content": "One."},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ],
}


@ON_EACH_ROUTE
def test_by_history_the_answer_depends_on_the_conversation_alone(route: str):
    script: list[Answer] = [[say("One.")], [say("Two.")]]
    with LlmServer.by_history(script) as server:
        for _ in range(2):
            assert HEARERS[route](server.url, stream=True).text == "One."
        for _ in range(2):
            heard = HEARERS[route](server.url, stream=True, history=HISTORIES[route])
            assert heard.text == "Two."
        assert not server.exhausted


@ON_EACH_ROUTE
def test_a_script_that_is_over_says_so(route: str):
    import anthropic
    import openai

    refusals = (anthropic.BadRequestError, openai.BadRequestError)
    with LlmServer([say("One.")]) as server:
        HEARERS[route](server.url, stream=True)
        assert not server.exhausted
        with pytest.raises(refusals, match="The script has 1 answers and was asked for one more"):
            HEARERS[route](server.url, stream=True)
        assert server.exhausted
