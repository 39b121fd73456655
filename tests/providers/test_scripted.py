"""The scripted provider streams a script like a real provider."""

from pathlib import Path
from typing import Any

import pytest

from rookery.core.blocks import Text, Thinking, ToolCall
from rookery.core.facts import StopReason, Usage
from rookery.core.folds.history import Turn
from rookery.core.limits import FailureKind
from rookery.engine.ports.model import (
    CallChunk,
    ModelRequest,
    StopChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from rookery.errors import ProviderError, SettingsError
from rookery.providers.registry import open_provider
from support.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio


def after(assistant_turns: int, opening: str = "Go.") -> ModelRequest:
    spoken = (Turn("user", (Text(text=opening),)), Turn("assistant", (Text(text="On it."),)))
    return ModelRequest(system="", turns=[*spoken * assistant_turns, spoken[0]])


async def played(provider: Any, request: ModelRequest) -> list[Any]:
    async with provider.stream(request) as chunks:
        return [chunk async for chunk in chunks]


async def test_a_scene_is_played_in_pieces_and_the_request_is_kept():
    scene = [
        Thinking(text="Hm ok"),
        "Let me see.",
        ToolCall(id="", name="read", arguments={"a": 1}),
    ]
    model = ScriptedProvider([scene])
    assert await played(model, after(0)) == [
        ThinkingChunk("Hm ", source="scripted"),
        ThinkingChunk("ok", source="scripted"),
        TextChunk("Let "),
        TextChunk("me "),
        TextChunk("see."),
        CallChunk(0, "", id="call_1_1", name="read"),
        CallChunk(0, '{"a":1}'),
        StopChunk(StopReason.CALLS),
    ]
    assert model.requests == [after(0)]


async def test_scenes_follow_each_other_whatever_the_requests_hold():
    model = ScriptedProvider([["One."], ["Two.", Usage(tokens_in=3), StopReason.LENGTH]])
    assert await played(model, after(0)) == [TextChunk("One."), StopChunk(StopReason.END)]
    assert await played(model, after(0)) == [
        TextChunk("Two."),
        UsageChunk(Usage(tokens_in=3)),
        StopChunk(StopReason.LENGTH),
    ]
    with pytest.raises(ProviderError, match="has 2 answers") as caught:
        await played(model, after(0))
    assert caught.value.kind is FailureKind.REJECTED


async def test_an_error_breaks_a_scene_off():
    model = ScriptedProvider([["So far", ProviderError("gone", kind=FailureKind.DROPPED)]])
    received: list[Any] = []
    with pytest.raises(ProviderError, match="gone"):
        await _collect(model, received)
    assert received == [TextChunk("So "), TextChunk("far")]


async def _collect(model: Any, received: list[Any]) -> None:
    async with model.stream(after(0)) as chunks:
        async for chunk in chunks:
            received.append(chunk)


SCRIPT = """
- think: Hm.
  say: Writing it.
  calls:
    - tool: write_to_file
      arguments: {path: hello.txt, content: "hello\\n"}
    - {tool: read_file, arguments: {path: a}, id: mine}
  usage: {tokens_in: 900, tokens_out: 40, cost: 0.002}
- fail: {kind: busy, message: Too many requests., retry_after: 2, status: 429}
  say: Done.
  stop: length
- fail: {kind: bad_key}
"""


def script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "script.yaml"
    path.write_text(text, encoding="utf-8")
    return path


async def test_a_script_file_is_played_by_the_length_of_the_history(tmp_path: Path):
    path = script(tmp_path, SCRIPT)
    for _ in range(2):
        provider = open_provider("scripted", model=str(path))
        chunks = await played(provider, after(0))
        assert [c.id for c in chunks if isinstance(c, CallChunk) and c.id] == ["call_1_1", "mine"]
        assert UsageChunk(Usage(tokens_in=900, tokens_out=40, cost=0.002)) in chunks
        assert chunks[0] == ThinkingChunk("Hm.", source="scripted")
        assert await played(provider, after(0)) == chunks
        await provider.aclose()


async def test_an_answer_may_fail_before_it_is_given(tmp_path: Path):
    provider = open_provider("scripted", model=str(script(tmp_path, SCRIPT)))
    with pytest.raises(ProviderError, match="Too many requests") as caught:
        await played(provider, after(1))
    assert (caught.value.kind, caught.value.status, caught.value.retry_after) == ("busy", 429, 2)
    assert await played(provider, after(1)) == [TextChunk("Done."), StopChunk(StopReason.LENGTH)]


async def test_an_answer_that_only_fails_fails_always(tmp_path: Path):
    provider = open_provider("scripted", model=str(script(tmp_path, SCRIPT)))
    for _ in range(3):
        with pytest.raises(ProviderError) as caught:
            await played(provider, after(2))
        assert caught.value.kind is FailureKind.BAD_KEY


async def test_a_history_longer_than_the_script_is_an_error(tmp_path: Path):
    provider = open_provider("scripted", model=str(script(tmp_path, SCRIPT)))
    with pytest.raises(ProviderError, match="has 3 answers"):
        await played(provider, after(3))


PARTS = """
"": [{say: Somebody else.}, {say: Still.}]
part one: [{say: One., fail: {kind: busy}}]
part: [{say: Another part., fail: {kind: busy}}]
"""


@pytest.mark.parametrize(
    ("opening", "turns", "said"),
    [
        ("Do part one.", 0, "One."),
        ("Do part two.", 0, "Another part."),
        ("Do all of it.", 0, "Somebody else."),
        ("Do all of it.", 1, "Still."),
        ("", 0, "Somebody else."),
    ],
)
async def test_the_text_of_a_task_selects_its_answers(
    tmp_path: Path, opening: str, turns: int, said: str
):
    text = PARTS.replace(", fail: {kind: busy}", "")
    provider = open_provider("scripted", model=str(script(tmp_path, text)))
    chunks = await played(provider, after(turns, opening))
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) == said


async def test_only_the_first_user_message_selects_the_answers(tmp_path: Path):
    provider = open_provider(
        "scripted", model=str(script(tmp_path, "part one: [{}]\n'': [{}, {}]"))
    )
    later = Turn("user", (Text(text="Now do part one."),))
    before = after(1, "Do all of it.")
    assert await played(provider, ModelRequest(system="part one", turns=[*before.turns[:2], later]))


async def test_tasks_fail_independently(tmp_path: Path):
    provider = open_provider("scripted", model=str(script(tmp_path, PARTS)))
    for opening in ("part one", "part two"):
        with pytest.raises(ProviderError):
            await played(provider, after(0, opening))
        assert await played(provider, after(0, opening))


async def test_a_task_without_answers_is_named(tmp_path: Path):
    provider = open_provider("scripted", model=str(script(tmp_path, "part one: [{say: One.}]")))
    with pytest.raises(ProviderError, match=r"begins with 'Do part two\.'\. Add") as caught:
        await played(provider, after(0, "Do part two."))
    assert caught.value.kind is FailureKind.REJECTED
    with pytest.raises(ProviderError, match="has 1 answer, but"):
        await played(provider, after(1, "Do part one."))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("say: hello", "not a list of answers"),
        ("part one: {say: hello}", r"not a list of answers: .*array"),
        ("part one: [{sy: hello}]", "sy"),
        ("1: [{say: hello}]", "not a list of answers: "),
        ("- sy: hello", "sy"),
        ("- calls: [{tool: 7}]", r"calls\[0\]\.tool|\$\[0\]"),
        ("- fail: {kind: sleepy}", "sleepy"),
        ("- {say: [", "not YAML"),
        ("- !!python/object/apply:os.system [ls]", "not YAML"),
        ("", "not a list of answers"),
    ],
)
def test_a_wrong_script_is_refused_with_its_name_and_the_reason(
    tmp_path: Path, text: str, problem: str
):
    path = script(tmp_path, text)
    with pytest.raises(SettingsError, match=problem) as caught:
        open_provider("scripted", model=str(path))
    assert str(path) in str(caught.value)


def test_a_script_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"nowhere\.yaml cannot be read"):
        open_provider("scripted", model=str(tmp_path / "nowhere.yaml"))
