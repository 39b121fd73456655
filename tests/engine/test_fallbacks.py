"""A model fails for too long, and the next one continues the task."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.core.facts import (
    AssistantSpoke,
    Condensed,
    FellBack,
    Noted,
    RequestStarted,
    Usage,
)
from rookery.core.folds.task_record import fold
from rookery.core.limits import FailureKind, Limits
from rookery.errors import ProviderError
from rookery.providers.scripted import MODEL, Line
from support.scripted_provider import ScriptedProvider
from support.stage import TASK, Stage, call, finish, write

pytestmark = pytest.mark.anyio

BUSY: list[Line] = [ProviderError("Slow down.", kind=FailureKind.BUSY, retry_after=61)]
OVERLOADED: list[Line] = [ProviderError("Overloaded.", kind=FailureKind.BUSY)]
GONE: list[Line] = [ProviderError("No such model.", kind=FailureKind.NO_MODEL)]


def other(name: str, *scenes: list[Line], window: int = 128_000) -> ScriptedProvider:
    return ScriptedProvider(scenes, model=replace(MODEL, id=name, window=window))


def asked_models(stage: Stage) -> list[tuple[str, bool]]:
    """The model of each request, and whether it was a fallback."""
    started = [fact for fact in stage.facts if isinstance(fact, RequestStarted)]
    return [(fact.model, fact.fallback) for fact in started]


def notes(stage: Stage) -> list[str]:
    return [fact.text for fact in stage.facts if isinstance(fact, Noted)]


async def test_the_next_model_continues_and_every_client_can_show_it(tmp_path: Path):
    stage = Stage(tmp_path, BUSY, fallbacks=[other("b", [finish()])])
    await stage.play("yes")
    assert asked_models(stage) == [("scripted", False), ("b", True)]
    assert notes(stage) == ["scripted cannot answer. Continuing with b until your next message."]
    assert stage.clock.waits == []


async def test_an_overloaded_model_is_retried_for_as_long_as_the_user_waits(tmp_path: Path):
    spare = other("b", [finish()])
    stage = Stage(tmp_path, *[OVERLOADED] * 9, fallbacks=[spare], limits=Limits(fallback_after=10))
    await stage.play("yes")
    assert stage.clock.waits == [1, 2, 4]
    assert len(spare.requests) == 1


async def test_the_first_model_is_tried_again_with_the_next_message(tmp_path: Path):
    stage = Stage(tmp_path, GONE, [finish("More.")], fallbacks=[other("b", [finish()])])
    await stage.play("message And more?", "yes")
    assert [name for name, _ in asked_models(stage)] == ["scripted", "b", "scripted"]


async def test_a_fallback_that_cannot_be_opened_is_skipped_with_a_note(tmp_path: Path):
    stage = Stage(tmp_path, GONE, fallbacks=["No key for p.", other("b", [finish()])])
    await stage.play("yes")
    assert notes(stage)[0] == "Skipped the fallback m1. No key for p."
    assert [name for name, _ in asked_models(stage)] == ["scripted", "b"]


async def test_when_all_models_failed_the_user_is_asked_and_a_retry_starts_with_the_first(
    tmp_path: Path,
):
    stage = Stage(tmp_path, GONE, [finish()], fallbacks=[other("b", GONE)])
    await stage.play("yes", "yes")
    assert stage.asks == ["invalid_model", "completion_result"]
    assert [name for name, _ in asked_models(stage)] == ["scripted", "b", "scripted"]


async def test_a_resumed_task_continues_with_the_same_model(tmp_path: Path):
    stage = Stage(tmp_path, GONE, fallbacks=[other("b", [write("a.txt", "x\n")], [finish()])])
    await stage.play("crash")
    await stage.play("yes", "yes", "yes", reopen=True)
    assert [name for name, _ in asked_models(stage)] == ["scripted", "b", "b"]


async def test_the_cost_is_that_of_the_model_that_answered(tmp_path: Path):
    cheap = other("b", [write("a.txt", "x\n"), Usage(tokens_in=10, cost=0.25)], [finish()])
    stage = Stage(tmp_path, [*BUSY], [finish()], fallbacks=[cheap], automatic=True)
    await stage.play("yes")
    answers = [fact.usage.cost for fact in stage.facts if isinstance(fact, AssistantSpoke)]
    assert answers == [0.25, None]
    assert fold(stage.store.read(TASK)).spent.cost == 0.25


async def test_a_smaller_window_condenses_the_conversation_first(tmp_path: Path):
    small = other("b", ["What was read so far."], [finish()], window=8_000)
    large: list[Line] = [write("a.txt", "word " * 8_000)]
    stage = Stage(tmp_path, large, BUSY, fallbacks=[small], automatic=True)
    await stage.play("yes")
    kinds = [type(f) for f in stage.facts if isinstance(f, FellBack | Condensed | AssistantSpoke)]
    assert kinds == [AssistantSpoke, FellBack, Condensed, AssistantSpoke]
    sizes = [len(str(request.turns)) for request in small.requests]
    assert max(sizes) < 40_000


async def test_a_sub_task_begins_with_the_model_that_took_over(tmp_path: Path):
    delegate = call("new_task", mode="code", message="Do part.")
    spare = other("b", [delegate], [finish("Part.")], [finish()])
    stage = Stage(tmp_path, GONE, fallbacks=[spare], automatic=True)
    await stage.play("yes")
    assert [name for name, _ in asked_models(stage)] == ["scripted", "b", "b", "b"]


@pytest.mark.parametrize("limits", [Limits(), Limits(fallback_after=0)])
async def test_without_fallbacks_nothing_changes(tmp_path: Path, limits: Limits):
    stage = Stage(tmp_path, OVERLOADED, GONE, [finish()], limits=limits)
    await stage.play("yes", "yes")
    assert stage.asks == ["invalid_model", "completion_result"]
    assert stage.clock.waits == [1]
