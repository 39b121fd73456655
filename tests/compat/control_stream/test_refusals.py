"""The events for messages that a hook refused."""

from typing import Any

from rookery.compat.control_stream.event_stream import ControlStream
from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    Asked,
    ChildBegan,
    CompletionOffered,
    Event,
    Fact,
    Noted,
    PromptRefused,
    QueueEdited,
    RequestStarted,
    StepCancelled,
    TaskOpened,
    UserSpoke,
    next_event,
)

JsonEvent = dict[str, Any]
REQUEST = RequestStarted(request_id="r", model="m")
OFFER = CompletionOffered(result="Done.")
COMPLETE = Asked(ask_id="c", ask=AskKind.COMPLETION_RESULT)
QUESTION = Asked(ask_id="q", ask=AskKind.FOLLOWUP, text="Which?")
NOTE = Noted(text="A hook refused your message, so it was not sent: no")
SUCCESS = (True, None, None)
REFUSED = (False, "governance_refused", "no")


class Driven:
    """A control stream whose task was started by request s, and the events it reported."""

    def __init__(self) -> None:
        self.stream = ControlStream()
        self.reported: list[JsonEvent] = []
        self._last: dict[str, Event] = {}
        self.stream.begin_task("t", "s")
        self.see(TaskOpened(text="go"))

    def see(self, *facts: Fact, of: str = "t") -> int:
        """Feed the facts; return the number of the last event."""
        for fact in facts:
            self._last[of] = next_event(self._last.get(of), fact, 1)
            self.reported += self.stream.see(of, self._last[of])
        return self._last[of].seq

    def queue(self, request_id: str, of: str = "t") -> int:
        self.stream.attribution.queue(f"of {request_id}", request_id)
        return self.see(UserSpoke(message_id=f"of {request_id}", text=request_id), of=of)

    def refuse_queued(self, seq: int, request_id: str, of: str = "t") -> None:
        self.see(QueueEdited(message_id=f"of {request_id}", text=None), of=of)
        self.refuse(seq, of=of)

    def refuse(self, seq: int, of: str = "t") -> None:
        self.see(PromptRefused(of=seq, text="bad", reason="no"), NOTE, of=of)

    def answer(self, request_id: str) -> int:
        question = self.stream.question
        assert question
        self.stream.deliver(question, "message", request_id, words=True)
        answer = Answered(
            ask_id=question.ask_id, ask=question.ask, reply="message", text=request_id
        )
        return self.see(answer)

    def of(self, **fields: Any) -> list[JsonEvent]:
        return [one for one in self.reported if fields.items() <= one.items()]

    @property
    def results(self) -> list[tuple[Any, ...]]:
        return [
            (one["requestId"], (one["success"], one.get("code"), one.get("error")))
            for one in self.of(type="result")
        ]


def test_each_queued_message_has_its_own_result_in_order():
    driven = Driven()
    driven.see(REQUEST)
    seqs = [driven.queue(each) for each in ("m1", "m2", "m3")]
    driven.refuse_queued(seqs[0], "m1")
    driven.refuse_queued(seqs[2], "m3")
    driven.see(REQUEST, OFFER, COMPLETE)
    assert driven.results == [("s", SUCCESS), ("m1", REFUSED), ("m2", SUCCESS), ("m3", REFUSED)]


def test_events_of_a_refused_message_carry_its_own_request_id():
    driven = Driven()
    driven.see(REQUEST)
    driven.refuse_queued(driven.queue("m1"), "m1")
    driven.see(Noted(text="More of the start."))
    [left] = driven.of(type="queue", subtype="drained")
    notes = driven.of(type="assistant", subtype="note")
    assert left["requestId"] == "m1"
    assert [one["requestId"] for one in notes] == ["m1", "s"]


def test_a_message_refused_after_the_completion_offer_is_reported_after_the_turn():
    driven = Driven()
    driven.see(REQUEST, OFFER)
    driven.refuse_queued(driven.queue("m1"), "m1")
    driven.see(COMPLETE)
    assert driven.results == [("s", SUCCESS), ("m1", REFUSED)]
    assert not driven.stream.under_way
    [done] = driven.of(type="control", requestId="s")
    assert done["code"] == "task_completed"


def test_a_refused_start_is_aborted_even_if_a_queued_message_succeeds():
    driven = Driven()
    driven.queue("m1")
    driven.refuse(1)
    driven.see(REQUEST, OFFER, COMPLETE)
    assert driven.results == [("s", REFUSED), ("m1", SUCCESS)]
    [done] = driven.of(type="control", requestId="s")
    assert (done["code"], done["success"]) == ("task_aborted", False)


def test_a_refused_answer_is_reported_and_the_start_continues():
    driven = Driven()
    driven.see(REQUEST, QUESTION)
    driven.refuse(driven.answer("m1"))
    assert driven.results == [("m1", REFUSED)]
    driven.reported.clear()
    driven.see(Asked(ask_id="q2", ask=AskKind.FOLLOWUP, text="Which?"))
    [waiting] = driven.of(subtype="waiting")
    assert waiting["requestId"] == "s"
    driven.answer("m2")
    driven.see(REQUEST, OFFER, COMPLETE)
    assert driven.results == [("m2", SUCCESS)]


def test_a_refused_follow_up_to_a_completed_task_has_one_result():
    driven = Driven()
    driven.see(REQUEST, OFFER, COMPLETE)
    driven.refuse(driven.answer("m1"))
    driven.see(Asked(ask_id="c2", ask=AskKind.COMPLETION_RESULT))
    assert driven.results == [("s", SUCCESS), ("m1", REFUSED)]
    assert not driven.stream.under_way


def test_a_refused_message_of_an_interrupted_turn_keeps_its_own_reason():
    driven = Driven()
    driven.see(REQUEST)
    driven.refuse_queued(driven.queue("m1"), "m1")
    driven.stream.cancel("x")
    driven.see(StepCancelled(), Asked(ask_id="r", ask=AskKind.RESUME_TASK))
    (first, (_, aborted, _)), second = driven.results
    assert (first, aborted, second) == ("s", "task_aborted", ("m1", REFUSED))


def test_a_message_refused_by_a_child_gets_its_result():
    driven = Driven()
    driven.see(REQUEST, ChildBegan(call_id="k", task_id="c"))
    driven.see(TaskOpened(text="part", parent="t"), REQUEST, of="c")
    driven.refuse_queued(driven.queue("m1", of="c"), "m1", of="c")
    driven.see(REQUEST, OFFER, COMPLETE)
    assert driven.results == [("s", SUCCESS), ("m1", REFUSED)]
