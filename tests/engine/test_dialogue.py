from itertools import count
from pathlib import Path

import anyio
import pytest

from rookery.core.asks import AskKind, Reply
from rookery.core.commands import Answer
from rookery.core.facts import Answered, Asked, OfferWithdrawn
from rookery.core.modes import Level
from rookery.engine.dialogue import Dialogue
from rookery.engine.event_log import EventLog
from rookery.errors import CommandRejected
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore

pytestmark = pytest.mark.anyio


class Talk:
    def __init__(self, folder: Path) -> None:
        store = TaskStore(find_places({"ROOKERY_HOME": str(folder)}))
        now, ids = count(1), count(1)
        self.log = EventLog(store.create("t1"), lambda: next(now))
        self.dialogue = Dialogue(self.log, lambda: f"q{next(ids)}")
        self.received: list[str] = []

    def say(self, ask_id: str, reply: Reply = "yes", text: str = "", *, always: bool = False):
        self.dialogue.answer(
            Answer(task_id="t1", ask_id=ask_id, reply=reply, text=text, always=always)
        )

    def offer(self):
        return self.dialogue.offer(
            AskKind.COMMAND_OUTPUT,
            "",
            call_id="c1",
            on_answer=lambda: self.received.append("answer"),
        )

    @property
    def facts(self) -> list[object]:
        return [event.fact for event in self.log.events]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def test_an_offer_blocks_nothing_and_is_answered_by_its_id(talk: Talk):
    offer = talk.offer()
    assert talk.facts == [Asked(ask_id="q1", ask=AskKind.COMMAND_OUTPUT, call_id="c1")]
    assert (offer.answer, talk.received) == (None, [])
    talk.say("q1", "message", "hurry")
    answered = Answered(ask_id="q1", ask=AskKind.COMMAND_OUTPUT, reply="message", text="hurry")
    assert (offer.answer, talk.received) == (answered, ["answer"])
    assert talk.facts[1:] == [answered]


def test_an_answered_offer_is_not_withdrawn_and_not_answered_again(talk: Talk):
    offer = talk.offer()
    talk.say("q1")
    offer.withdraw()
    assert len(talk.facts) == 2
    with pytest.raises(CommandRejected, match="No question is open"):
        talk.say("q1")


def test_a_withdrawn_offer_takes_no_answer(talk: Talk):
    offer = talk.offer()
    offer.withdraw()
    offer.withdraw()
    assert talk.facts[1:] == [OfferWithdrawn(ask_id="q1")]
    with pytest.raises(CommandRejected, match="q1 was withdrawn"):
        talk.say("q1")
    assert offer.answer is None


def test_an_offer_can_be_approved_once_only(talk: Talk):
    talk.offer()
    with pytest.raises(CommandRejected, match="only be approved once"):
        talk.say("q1", always=True)


async def test_offers_and_a_question_are_open_side_by_side(talk: Talk):
    answers: list[Answered] = []

    async def ask() -> None:
        answers.append(await talk.dialogue.ask(AskKind.FOLLOWUP, "Which?"))

    first = talk.offer()
    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        second = talk.offer()
        with pytest.raises(CommandRejected, match="q9 is closed; q2 is open now"):
            talk.say("q9")
        talk.say("q3", "no")
        assert not answers
        talk.say("q2", "message", "that one")
    assert [answer.text for answer in answers] == ["that one"]
    assert first.answer is None
    assert second.answer is not None
    with pytest.raises(CommandRejected, match="No question is open"):
        talk.say("q2", "message", "again")
    talk.say("q1")
    assert first.answer is not None


async def test_a_cancelled_question_takes_no_answer(talk: Talk):
    with anyio.move_on_after(0):
        await talk.dialogue.ask(AskKind.FOLLOWUP, "Which?")
    with pytest.raises(CommandRejected):
        talk.say("q1", "message", "that one")


PLAN = "- [ ] Write it"
REFUSED = {
    "no plan": ("", Answer(task_id="t1", ask_id="q1", reply="message", level=Level.EDITS)),
    "a level that does nothing": (
        PLAN,
        Answer(task_id="t1", ask_id="q1", reply="message", level=Level.PLAN),
    ),
    "no": (PLAN, Answer(task_id="t1", ask_id="q1", reply="no", level=Level.EDITS)),
    "a rule": (
        PLAN,
        Answer(task_id="t1", ask_id="q1", reply="message", level=Level.AUTO, by="policy"),
    ),
    "no such rule": ("", Answer(task_id="t1", ask_id="q1", reply="yes", prefix=True)),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_only_a_person_approves_a_plan_and_only_a_plan_takes_a_level(name: str, talk: Talk):
    plan, answer = REFUSED[name]
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: talk.dialogue.ask(AskKind.COMPLETION_RESULT, plan=plan))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(CommandRejected):
            talk.dialogue.answer(answer)
        group.cancel_scope.cancel()
    assert not any(isinstance(fact, Answered) for fact in talk.facts)


@pytest.mark.parametrize(("text", "approved"), [("", PLAN), ("- [ ] Mine", "- [ ] Mine")])
async def test_the_approved_plan_is_on_record_as_a_whole(talk: Talk, text: str, approved: str):
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: talk.dialogue.ask(AskKind.COMPLETION_RESULT, plan=PLAN))
        await anyio.wait_all_tasks_blocked()
        talk.dialogue.answer(
            Answer(task_id="t1", ask_id="q1", reply="yes", text=text, level=Level.ASK)
        )
    said = [fact for fact in talk.facts if isinstance(fact, Answered)]
    assert [(each.reply, each.text, each.level) for each in said] == [
        ("message", approved, Level.ASK)
    ]
