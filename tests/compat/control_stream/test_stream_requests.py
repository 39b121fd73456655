"""Driver requests against a host that accepts, refuses or fails commands."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar, cast

import pytest

from rookery.compat.control_stream.event_stream import ControlStream
from rookery.compat.control_stream.stream_commands import StreamCommand
from rookery.compat.control_stream.stream_requests import Requests
from rookery.core.asks import AskKind
from rookery.core.commands import (
    Answer,
    Cancel,
    CloseTask,
    Command,
    OpenTask,
    Speak,
)
from rookery.core.facts import (
    Answered,
    Asked,
    CompletionOffered,
    Event,
    Fact,
    RequestStarted,
    StepCancelled,
    TaskOpened,
    UserSpoke,
    next_event,
)
from rookery.core.queries import About, AskAbout, Asking, KnownMode
from rookery.errors import CommandRejected, RookeryError, StorageError

pytestmark = pytest.mark.anyio

T = TypeVar("T")
GO = StreamCommand("start", "s", {"prompt": "go", "taskId": "t"})
SAYS = StreamCommand("message", "m", {"prompt": "more"})
STOP = StreamCommand("cancel", "c")


def configured(configuration: dict[str, Any]) -> StreamCommand:
    return StreamCommand("start", "s", {**GO.fields, "configuration": configuration})


class RequestHarness:
    """A host and a control stream that record commands and events."""

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.fails: dict[type[Command], RookeryError] = {}
        self.reported: list[dict[str, Any]] = []
        self.followed: list[str] = []
        self.stream = ControlStream()
        self.requests = Requests(
            self,
            self.stream,
            send=lambda outputs: self.reported.extend(outputs),
            follow=self.followed.append,
            recovered=self._never_recovered,
            error_code=lambda refusal: "blamed",
        )
        self.leaving = False
        self._last: Event | None = None

    async def _never_recovered(self) -> bool:
        """Time out: the task never asked whether to resume."""
        return not self.leaving

    async def send(self, command: Command) -> None:
        if error := self.fails.get(type(command)):
            raise error
        self.sent.append(command)

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        raise CommandRejected("Nothing is followed here.")

    async def query(self, query: Asking[T]) -> T:
        about = About(provider="p", model="m", mode="code")
        modes = (KnownMode(slug="code", name="Code"), KnownMode(slug="ask", name="Ask"))
        return cast(T, about if isinstance(query, AskAbout) else modes)

    async def receive(self, *commands: StreamCommand) -> None:
        for command in commands:
            await self.requests.carry_out(command)

    def see(self, *facts: Fact) -> None:
        for fact in facts:
            self._last = next_event(self._last, fact, 1)
            self.reported += self.stream.see("t", self._last)

    def replies(self, request_id: str) -> list[tuple[str, str]]:
        control = [
            e for e in self.reported if e["type"] == "control" and e["requestId"] == request_id
        ]
        return [(event["subtype"], event["code"]) for event in control]


@pytest.fixture
def handler() -> RequestHarness:
    return RequestHarness()


async def test_a_configuration_is_sent_with_its_task(handler: RequestHarness):
    wanted = {"mode": "ask", "model": "big", "autoApprovalEnabled": True}
    await handler.receive(configured(wanted))
    assert handler.sent == [
        OpenTask(task_id="t", text="go", mode="ask", provider="p", model="big", automatic=True),
    ]
    assert handler.followed == ["t"]


async def test_a_start_that_misspells_approval_is_refused(handler: RequestHarness):
    wanted = {"autoAprovalEnabled": False}
    await handler.receive(configured(wanted))
    assert (handler.replies("s"), handler.sent) == ([("error", "client_error")], [])


async def test_a_start_whose_task_cannot_be_stored_is_an_error(handler: RequestHarness):
    handler.fails[OpenTask] = StorageError("The disk is full.")
    await handler.receive(GO)
    assert handler.replies("s") == [("ack", "accepted"), ("error", "task_error")]
    assert handler.reported[-1]["content"] == "The disk is full."
    del handler.fails[OpenTask]
    await handler.receive(StreamCommand("start", "s2", GO.fields))
    assert handler.replies("s2") == [("ack", "accepted")]


@pytest.mark.parametrize(
    ("error", "replies"),
    [
        (None, [("ack", "accepted"), ("done", "cancel_requested")]),
        (CommandRejected("It is not open."), [("ack", "accepted"), ("done", "no_active_task")]),
        (StorageError("The disk is full."), [("error", "cancel_error")]),
    ],
)
async def test_a_cancel_is_answered(
    handler: RequestHarness, error: RookeryError | None, replies: list[tuple[str, str]]
):
    if error:
        handler.fails[Cancel] = error
    await handler.receive(GO, STOP)
    assert handler.replies("c") == replies


async def test_a_message_after_a_cancel_is_queued_until_the_task_resumes(
    handler: RequestHarness,
):
    await handler.receive(GO, STOP, SAYS)
    assert handler.replies("m") == [("ack", "accepted"), ("done", "resumed")]
    assert isinstance(handler.sent[-1], Speak)


async def test_a_message_to_a_task_that_just_ended_is_refused(handler: RequestHarness):
    handler.fails[Speak] = CommandRejected("It is not open.")
    await handler.receive(GO, SAYS)
    assert handler.replies("m") == [("error", "no_active_task")]
    completed(handler)
    [result] = [event for event in handler.reported if event["type"] == "result"]
    assert result["requestId"] == "s"
    assert handler.stream.note("x")["requestId"] == "s"


async def test_a_message_still_waiting_when_the_run_ends_is_refused(handler: RequestHarness):
    handler.leaving = True
    await handler.receive(GO, STOP, SAYS)
    assert handler.replies("m") == [("error", "client_error")]


def completed(handler: RequestHarness) -> None:
    asks = Asked(ask_id="q", ask=AskKind.COMPLETION_RESULT)
    begun = RequestStarted(request_id="r", model="m")
    handler.see(TaskOpened(text="go"), begun, CompletionOffered(result="Done."), asks)


async def test_an_accepted_task_takes_no_more_messages(handler: RequestHarness):
    await handler.receive(GO)
    completed(handler)
    await handler.receive(StreamCommand("approve", "a"), SAYS)
    assert handler.replies("s") == [("ack", "accepted"), ("done", "task_completed")]
    assert handler.replies("a") == [("ack", "accepted"), ("done", "responded")]
    assert handler.replies("m") == [("error", "no_active_task")]
    assert len([event for event in handler.reported if event["type"] == "result"]) == 1


async def test_rejecting_a_retry_aborts_the_start(handler: RequestHarness):
    await handler.receive(GO)
    failed = Asked(ask_id="q", ask=AskKind.API_REQ_FAILED, text="No.")
    handler.see(TaskOpened(text="go"), RequestStarted(request_id="r", model="m"), failed)
    await handler.receive(StreamCommand("reject", "a"))
    assert handler.replies("s") == [("ack", "accepted"), ("done", "task_aborted")]
    assert handler.stream.task_id == ""


def failing(handler: RequestHarness) -> None:
    failed = Asked(ask_id="q", ask=AskKind.API_REQ_FAILED, text="No.")
    handler.see(TaskOpened(text="go"), RequestStarted(request_id="r", model="m"), failed)


AGAIN = StreamCommand("start", "s2", {"prompt": "again", "taskId": "T2"})


async def test_a_new_start_replaces_a_task_that_waits_for_a_retry(handler: RequestHarness):
    await handler.receive(GO)
    failing(handler)
    await handler.receive(AGAIN)
    assert handler.replies("s") == [("ack", "accepted"), ("done", "task_aborted")]
    assert handler.replies("s2") == [("ack", "accepted")]
    assert handler.sent[-2:] == [OpenTask(task_id="t2", text="again"), CloseTask(task_id="t")]
    results = [event["requestId"] for event in handler.reported if event["type"] == "result"]
    assert (results, handler.stream.task_id) == (["s"], "t2")


async def test_a_task_that_waits_for_a_retry_can_be_cancelled_or_cleared(handler: RequestHarness):
    await handler.receive(GO)
    failing(handler)
    await handler.receive(STOP)
    assert handler.replies("c")[-1] == ("done", "cancel_requested")
    handler.stream.cancelling = False
    await handler.receive(StreamCommand("clear", "x"))
    assert handler.replies("x") == [("ack", "accepted"), ("done", "cleared")]
    assert handler.replies("s")[-1] == ("done", "task_aborted")
    assert handler.sent[-1] == CloseTask(task_id="t")


async def test_a_refused_start_leaves_the_previous_task_open(handler: RequestHarness):
    await handler.receive(GO)
    completed(handler)
    handler.fails[OpenTask] = StorageError("The disk is full.")
    await handler.receive(AGAIN, SAYS)
    assert handler.replies("s2") == [("ack", "accepted"), ("error", "task_error")]
    assert handler.replies("m") == [("ack", "accepted"), ("done", "responded")]
    assert CloseTask(task_id="t") not in handler.sent
    assert cast(Answer, handler.sent[-1]).task_id == "t"


async def test_the_reason_of_a_refused_start_is_kept_until_the_next_start(handler: RequestHarness):
    handler.fails[OpenTask] = StorageError("The disk is full.")
    await handler.receive(GO)
    assert (handler.stream.failure, handler.stream.failure_code) == ("The disk is full.", "blamed")
    del handler.fails[OpenTask]
    await handler.receive(AGAIN)
    assert handler.stream.failure == ""


async def test_messages_before_a_cancel_arrive_before_those_after_it(
    handler: RequestHarness,
):
    await handler.receive(GO)
    begun = RequestStarted(request_id="r", model="m")
    handler.see(TaskOpened(text="go"), begun)
    await handler.receive(StreamCommand("message", "q0", {"prompt": "first"}), STOP)
    first = cast(Speak, handler.sent[-2])
    resumes = Asked(ask_id="q", ask=AskKind.RESUME_TASK)
    handler.see(UserSpoke(message_id=first.message_id, text="first"), StepCancelled(), resumes)
    await handler.receive(SAYS)
    assert handler.replies("m") == [("ack", "accepted"), ("done", "resumed")]
    words, answer = handler.sent[-2:]
    assert isinstance(words, Speak)
    assert isinstance(answer, Answer)
    assert (words.text, answer.ask_id, answer.text) == ("more", "q", "")
    completion = Asked(ask_id="d", ask=AskKind.COMPLETION_RESULT)
    handler.see(UserSpoke(message_id=words.message_id, text="more"))
    handler.see(Answered(ask_id="q", ask=AskKind.RESUME_TASK, reply="message"), begun, completion)
    received = [(e["content"], e["requestId"]) for e in handler.reported if e["type"] == "user"]
    assert received[-2:] == [("first", "q0"), ("more", "m")]
    assert [e["requestId"] for e in handler.reported if e["type"] == "result"] == ["s", "q0", "m"]


@pytest.mark.parametrize(
    ("name", "fields", "reply"),
    [
        ("approve", {"text": "but mind the tests"}, ("yes", "but mind the tests", None)),
        ("reject", {}, ("no", "", None)),
        ("answer", {"choice": "no", "text": "why?"}, ("no", "why?", None)),
        ("answer", {"choice": "task"}, ("yes", "", "task")),
        ("answer", {"text": "8080"}, ("message", "8080", None)),
    ],
)
async def test_an_answer_carries_the_reply_and_text_of_its_command(
    handler: RequestHarness, name: str, fields: dict[str, Any], reply: tuple[str, str, str | None]
):
    await handler.receive(GO)
    asked = Asked(ask_id="q", ask=AskKind.TOOL, digest="d")
    handler.see(TaskOpened(text="go"), RequestStarted(request_id="r", model="m"), asked)
    await handler.receive(StreamCommand(name, "a", fields))
    answer = cast(Answer, handler.sent[-1])
    assert (answer.reply, answer.text, answer.choice) == reply


@pytest.mark.parametrize("row", [None, 3, 99])
async def test_an_answer_needs_a_matching_open_question(handler: RequestHarness, row: int | None):
    await handler.receive(GO)
    asked = Asked(ask_id="q", ask=AskKind.FOLLOWUP, text="Which?", digest="d")
    handler.see(TaskOpened(text="go"), RequestStarted(request_id="r", model="m"), asked)
    answer = StreamCommand("answer", "a", {"text": "this"} | ({"id": row} if row else {}))
    await handler.receive(answer, StreamCommand("approve", "b"))
    answers = [each for each in handler.sent if isinstance(each, Answer)]
    if row == 99:
        assert (answers, handler.replies("a")) == ([], [("error", "no_pending_ask")])
    else:
        [sent] = answers
        assert (sent.ask_id, sent.digest, sent.text, sent.reply) == ("q", "d", "this", "message")
        assert handler.replies("b") == [("error", "no_pending_ask")]


async def test_of_two_immediate_messages_the_second_is_queued(handler: RequestHarness):
    await handler.receive(GO)
    completed(handler)
    await handler.receive(SAYS, StreamCommand("message", "m2", {"prompt": "and more"}))
    assert handler.replies("m")[-1] == ("done", "responded")
    assert handler.replies("m2")[-1] == ("done", "queued")


async def test_late_messages_are_delivered_by_resuming(handler: RequestHarness):
    await handler.receive(GO)
    completed(handler)
    question = handler.stream.question
    assert question
    await handler.requests.resume_queued(question)
    answer = cast(Answer, handler.sent[-1])
    assert (answer.reply, answer.text, answer.by) == ("message", "", "policy")
