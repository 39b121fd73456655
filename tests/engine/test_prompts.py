"""Hooks see every message of the user before the model does."""

from pathlib import Path

import pytest

from rookery.core.facts import Answered, Noted, PromptRefused, UserSpoke
from rookery.core.folds.view import View, see
from rookery.engine.ports.hooks import SessionHook
from support.stage import Stage, call

pytestmark = pytest.mark.anyio

QUESTION = call("ask_followup_question", question="Which?", follow_up=[{"text": "This"}])
DONE = call("attempt_completion", result="Done.")


class Listening(SessionHook):
    """Records every message and refuses those that contain `bad`."""

    checks_messages = True

    def __init__(self) -> None:
        self.received: list[str] = []

    async def check_message(self, text: str) -> str:
        self.received.append(text)
        return "It is bad." if "bad" in text else ""


@pytest.fixture
def listening() -> Listening:
    return Listening()


def sent(stage: Stage) -> str:
    return str([request.turns for request in stage.model.requests])


async def test_hooks_check_every_message_once(tmp_path: Path, listening: Listening):
    stage = Stage(tmp_path, [QUESTION], [DONE], [DONE], session_hooks=[listening])
    await stage.play("say queued; message an answer", "message more", "yes")
    assert listening.received == ["Do it", "an answer", "queued", "more"]
    assert all(words in sent(stage) for words in listening.received)


async def test_a_refused_answer_is_asked_for_again_and_never_sent(
    tmp_path: Path, listening: Listening
):
    stage = Stage(tmp_path, [QUESTION], [DONE], session_hooks=[listening])
    await stage.play("message bad words", "message good words", "yes")
    assert stage.asks == ["followup", "followup", "completion_result"]
    assert "bad words" not in sent(stage)
    assert "good words" in sent(stage)


async def test_a_refused_follow_up_leaves_the_task_unchanged(tmp_path: Path, listening: Listening):
    stage = Stage(tmp_path, [DONE], session_hooks=[listening])
    await stage.play("message bad words", "yes")
    assert stage.asks == ["completion_result", "completion_result"]
    assert len(stage.model.requests) == 1
    notes = [fact.text for fact in stage.facts if isinstance(fact, Noted)]
    assert notes == ["A hook refused your message, so it was not sent: It is bad."]


async def test_a_refused_queued_message_does_not_stop_the_work(
    tmp_path: Path, listening: Listening
):
    stage = Stage(tmp_path, [QUESTION], [DONE], session_hooks=[listening])
    await stage.play("say bad words; message an answer", "yes")
    assert "bad words" not in sent(stage)
    [refused] = [fact for fact in stage.facts if isinstance(fact, PromptRefused)]
    assert (refused.text, refused.reason) == ("bad words", "It is bad.")
    [spoken] = [event for event in stage.events if isinstance(event.fact, UserSpoke)]
    assert refused.of == spoken.seq
    view = View()
    for event in stage.events:
        view = see(view, event)
        if isinstance(event.fact, PromptRefused):
            assert view.queue == ()


async def test_messages_unchecked_at_a_crash_are_checked_after_it(
    tmp_path: Path, listening: Listening
):
    stage = Stage(tmp_path, [QUESTION], [DONE], session_hooks=[listening])
    await stage.play("say bad words; cancel", "crash")
    listening.received.clear()
    await stage.play("yes", "message fine", "yes", reopen=True)
    assert "bad words" not in sent(stage)


async def test_a_rejection_with_a_refused_text_asks_again(tmp_path: Path, listening: Listening):
    write = call("write_to_file", path="a.txt", content="x\n")
    stage = Stage(tmp_path, [write], [DONE], session_hooks=[listening])
    await stage.play("no bad words", "yes", "yes")
    assert (stage.root / "a.txt").read_text() == "x\n"
    assert "bad words" not in sent(stage)
    assert len([fact for fact in stage.facts if isinstance(fact, Answered)]) == 3
