"""The events a driver receives about its requests and its task."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rookery.compat.control_stream.event_stream import ControlStream
from rookery.compat.control_stream.followed_task import (
    Attribution,
    change_between,
    continues,
    queue_event,
)
from rookery.compat.control_stream.stream_commands import CAPABILITIES, StreamCommand
from rookery.compat.structured_output.output_events import init
from rookery.core.asks import AskKind
from rookery.core.blocks import Image, Text, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    ChildBegan,
    CompletionOffered,
    Event,
    Fact,
    QueueEdited,
    RequestFailed,
    RequestStarted,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    next_event,
)
from rookery.core.limits import FailureKind
from rookery.core.message import AgentState
from support.each_row import each_row

JsonEvent = dict[str, Any]
REQUEST = RequestStarted(request_id="r", model="m")
COMPLETE = [CompletionOffered(result="Done."), Asked(ask_id="c", ask=AskKind.COMPLETION_RESULT)]
RESUMES = Asked(ask_id="r", ask=AskKind.RESUME_TASK)


class Driven:
    """A control stream with one task; `see` feeds it facts and returns the events."""

    def __init__(self, task_id: str = "t", request_id: str = "s") -> None:
        self.stream = ControlStream()
        self.task_id = task_id
        self._last: dict[str, Event] = {}
        self.stream.begin_task(task_id, request_id)

    def see(self, *facts: Fact, of: str = "") -> list[JsonEvent]:
        reported: list[JsonEvent] = []
        for fact in facts:
            task_id = of or self.task_id
            event = next_event(self._last.get(task_id), fact, 1)
            self._last[task_id] = event
            reported += self.stream.see(task_id, event)
        return reported


def started(*facts: Fact) -> Driven:
    reported = Driven()
    reported.see(TaskOpened(text="go"), REQUEST, *facts)
    return reported


def spoke(*blocks: Any, **fields: Any) -> AssistantSpoke:
    return AssistantSpoke(request_id="r", blocks=blocks, **fields)


def gist(reported: Iterable[JsonEvent]) -> list[tuple[Any, ...]]:
    """The type, subtype or code, and request id of each event."""
    return [
        (e["type"], e.get("subtype") or e.get("code") or "", e.get("requestId")) for e in reported
    ]


def says(message_id: str) -> UserSpoke:
    return UserSpoke(message_id=message_id, text=f"words {message_id}")


class TestState:
    """The stream's state decides which commands it accepts."""

    @each_row(
        ("ask", "state"),
        [
            (AskKind.FOLLOWUP, AgentState.WAITING_FOR_INPUT),
            (AskKind.TOOL, AgentState.WAITING_FOR_INPUT),
            (AskKind.API_REQ_FAILED, AgentState.IDLE),
            (AskKind.RESUME_TASK, AgentState.RESUMABLE),
            (AskKind.COMPLETION_RESULT, AgentState.IDLE),
        ],
    )
    def test_a_question_sets_the_state_and_the_digest(self, ask: AskKind, state: AgentState):
        reported = started(Asked(ask_id="q", ask=ask, digest="d"))
        question = reported.stream.question
        assert question
        assert (reported.stream.state, question.ask_id, question.digest) == (state, "q", "d")

    def test_a_second_start_is_possible_once_the_first_task_is_idle_or_resumable(self):
        reported = started(*COMPLETE)
        assert not reported.stream.busy
        reported.stream.begin_task("t2", "s2")
        assert reported.stream.busy
        assert reported.see(StepCancelled(), RESUMES) == []  # facts of the previous task

    @each_row(
        ("ask", "reply", "on"),
        [
            (AskKind.COMPLETION_RESULT, "yes", False),
            (AskKind.COMPLETION_RESULT, "message", True),
            (AskKind.TOOL, "no", True),
            (AskKind.RESUME_TASK, "no", False),
            (AskKind.RESUME_TASK, "yes", True),
        ],
    )
    def test_only_some_answers_make_a_task_continue(self, ask: AskKind, reply: Any, on: bool):
        assert continues(ask, reply) is on


def test_the_first_event_names_the_commands():
    event = init("", CAPABILITIES)
    assert event["capabilities"] == CAPABILITIES
    assert "taskId" not in event


def test_replies_have_their_fields_and_done_only_on_done():
    stream = ControlStream()
    ping = StreamCommand("ping", "p")
    accepted, done = stream.accept(ping, "pong")
    assert accepted == {
        "type": "control",
        "subtype": "ack",
        "requestId": "p",
        "command": "ping",
        "content": "Accepted.",
        "code": "accepted",
        "success": True,
    }
    assert done["done"] is True
    refused = stream.refuse(ping, "client_error", "Why.")
    assert (refused["success"], refused["content"], "done" in refused) == (False, "Why.", False)


class TestTurns:
    def test_on_completion_the_result_precedes_the_done_of_the_start(self):
        assert gist(started().see(*COMPLETE)) == [("result", "", "s"), ("control", "done", "s")]

    def test_a_cancelled_start_is_closed_once_and_never_completed(self):
        reported = started()
        reported.stream.cancel("c")
        aborted = reported.see(spoke(interrupted=True), StepCancelled(), RESUMES)
        assert gist(aborted) == [
            ("assistant", "resume_task", "c"),
            ("system", "waiting", "c"),
            ("result", "task_aborted", "s"),
            ("control", "done", "s"),
        ]
        assert aborted[-1]["code"] == "task_aborted"
        assert aborted[-1]["success"] is False
        question = reported.stream.question
        assert question
        reported.stream.deliver(question, "message", "m", words=True)
        later = reported.see(
            Answered(ask_id="r", ask=AskKind.RESUME_TASK, reply="message", text="on"),
            REQUEST,
            *COMPLETE,
        )
        assert gist(later) == [("user", "", "m"), ("result", "", "m")]

    def test_a_failure_closes_the_start_and_the_task(self):
        reported = started()
        assert gist(reported.see(TaskFailed(message="broke"))) == [
            ("error", "task_failed", "s"),
            ("result", "task_failed", "s"),
            ("control", "done", "s"),
        ]
        assert reported.stream.end_task("t") == []
        assert (reported.stream.task_id, reported.stream.failure) == ("", "broke")

    def test_a_task_closed_before_completion_is_aborted(self):
        reported = started().see(TaskClosed())
        assert [one.get("code") for one in reported] == ["task_aborted", "task_aborted"]

    def test_closing_a_completed_task_reports_no_second_result(self):
        reported = started(*COMPLETE)
        assert reported.see(TaskClosed()) == []

    def test_a_failed_request_reports_no_result(self):
        reported = started().see(
            RequestFailed(request_id="r", error=FailureKind.BUSY, message="Busy."),
            Asked(ask_id="q", ask=AskKind.API_REQ_FAILED, text="Busy."),
        )
        assert "result" not in [one["type"] for one in reported]

    @each_row(
        ("code", "reason", "kinds"),
        [
            ("", "", ["result", "control"]),
            ("timeout", "Too long.", ["error", "result", "control"]),
        ],
    )
    def test_the_end_of_the_run_closes_the_open_start(
        self, code: str, reason: str, kinds: list[str]
    ):
        reported = started()
        ended = reported.stream.finish(code, reason)
        assert [one["type"] for one in ended] == kinds
        assert ended[-1]["code"] == "task_aborted"
        assert reported.stream.finish() == []

    def test_an_abandoned_start_gets_an_error_and_no_done(self):
        reported = started()
        [error] = reported.stream.give_up_start("No such mode.")
        assert (error["subtype"], error["code"]) == ("error", "task_error")
        assert [one["type"] for one in reported.stream.finish("task_failed")] == ["result"]


class TestOpenRows:
    """Every reported row is closed, however the task ends."""

    CALLS = (ToolCall(id="k1", name="write_to_file"), ToolCall(id="k2", name="read_file"))

    def asked(self) -> Driven:
        """Two calls: one waits for approval, the other for its turn."""
        pieces = [
            CallStreamed(request_id="r", index=at, name=call.name, arguments='{"path":"a"}')
            for at, call in enumerate(self.CALLS)
        ]
        asks = Asked(ask_id="q", ask=AskKind.TOOL, call_id="k1", text='{"tool":"newFileCreated"}')
        return started(*pieces, spoke(*self.CALLS), asks)

    def interrupted(self) -> Driven:
        reported = self.asked()
        reported.stream.cancel("c")
        assert "tool_result" not in [one["type"] for one in reported.see(StepCancelled(), RESUMES)]
        return reported

    @each_row("end", ["finish", "leave_task", "end_task", "another start"])
    def test_calls_of_an_interrupted_task_get_a_result_when_it_ends(self, end: str):
        reported = self.interrupted()
        stream = reported.stream
        events = {
            "finish": stream.finish,
            "leave_task": stream.leave_task,
            "end_task": lambda: stream.end_task("t"),
            "another start": lambda: stream.begin_task("t2", "s2"),
        }[end]()
        results = [one for one in events if one["type"] == "tool_result"]
        assert [one["done"] for one in results] == [True, True]
        assert stream.finish() == [] or end == "another start"

    def test_calls_of_a_resumed_task_are_closed_by_their_own_results(self):
        reported = self.interrupted()
        continues = Answered(ask_id="r", ask=AskKind.RESUME_TASK, reply="yes")
        reported.see(continues, *(ToolFinished(call_id=call.id, text="x") for call in self.CALLS))
        assert [one["type"] for one in reported.stream.finish()] == []

    def test_calls_left_open_by_an_earlier_run_are_not_closed_again(self):
        log: list[Event] = []
        for fact in [TaskOpened(text="go"), REQUEST, spoke(*self.CALLS)]:
            log.append(next_event(log[-1] if log else None, fact, 1))
        stream = ControlStream()
        stream.resume_task("t", log)
        for fact in [TaskReopened(), RESUMES]:
            log.append(next_event(log[-1], fact, 1))
            stream.see("t", log[-1])
        assert stream.finish() == []

    def test_a_childs_open_call_is_closed_when_its_parent_is_interrupted(self):
        reported = TestChildren().child()
        asked = Asked(ask_id="q", ask=AskKind.TOOL, text=TestChildren.PAYLOAD, call_id="k")
        reported.see(TaskOpened(text="part"), REQUEST, spoke(TestChildren.CALL), asked, of="kid")
        reported.stream.cancel("c")
        events = reported.see(StepCancelled(), RESUMES)
        assert ("tool_result", "tool", "c") in gist(events)
        [parent] = [one for one in reported.stream.finish() if one["type"] == "tool_result"]
        assert "taskId" not in parent


class TestStartingOver:
    """A task that waits for a retry counts as idle."""

    def failed(self) -> Driven:
        return started(Asked(ask_id="q", ask=AskKind.API_REQ_FAILED, text="Busy."))

    def test_a_refused_start_keeps_the_previous_task(self):
        reported = started(*COMPLETE)
        stream = reported.stream
        start = StreamCommand("start", "s2", {"prompt": "x", "taskId": "t2"})
        ack = stream.accept_start(start, "t2")
        assert (ack["taskId"], stream.task_id, stream.busy) == ("t2", "t", True)
        assert stream.note("x")["requestId"] == "s2"
        [error] = stream.refuse_start("No.", "auth_failed")
        assert (error["taskId"], error["code"], error["requestId"]) == ("t2", "task_error", "s2")
        assert (stream.busy, stream.complete, stream.failure_code) == (False, True, "auth_failed")


class TestAttribution:
    def test_a_message_that_answers_a_question_takes_over_at_once(self):
        reported = started(Asked(ask_id="q", ask=AskKind.FOLLOWUP))
        question = reported.stream.question
        assert question
        reported.stream.deliver(question, "message", "m", words=True)
        answer = Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="8080")
        assert gist(reported.see(answer, REQUEST, *COMPLETE)) == [
            ("user", "", "m"),
            ("result", "", "m"),
            ("control", "done", "s"),
        ]

    def test_an_approval_does_not_take_over_the_turn(self):
        reported = started(Asked(ask_id="q", ask=AskKind.TOOL, call_id="c1"))
        question = reported.stream.question
        assert question
        reported.stream.deliver(question, "yes", "a", words=False)
        assert gist(reported.see(*COMPLETE))[0] == ("result", "", "s")

    def test_an_approval_that_resumes_a_task_owns_the_turn(self):
        reported = started(StepCancelled(), RESUMES)
        question = reported.stream.question
        assert question
        reported.stream.deliver(question, "yes", "a", words=False)
        assert gist(reported.see(REQUEST, *COMPLETE)) == [("result", "", "a")]

    def test_queued_messages_take_over_in_order_when_the_model_receives_them(self):
        reported = started()
        for number in "123":
            reported.stream.attribution.queue(f"id{number}", f"m{number}")
            assert gist(reported.see(says(f"id{number}"))) == [("queue", "enqueued", "s")]
        received = reported.see(spoke(Text(text="hm")), REQUEST)
        assert gist(received)[1:] == [
            ("queue", "dequeued", "m1"),
            ("user", "", "m1"),
            ("queue", "dequeued", "m2"),
            ("user", "", "m2"),
            ("queue", "drained", "m3"),
            ("user", "", "m3"),
        ]
        assert gist(reported.see(*COMPLETE)) == [
            *(("result", "", each) for each in ("s", "m1", "m2", "m3")),
            ("control", "done", "s"),
        ]

    def test_queued_messages_keep_their_results_when_an_answer_follows(self):
        reported = started()
        reported.stream.attribution.queue("id1", "m1")
        reported.see(says("id1"), spoke(Text(text="hm")), REQUEST)
        reported.see(Asked(ask_id="q", ask=AskKind.FOLLOWUP))
        question = reported.stream.question
        assert question
        reported.stream.deliver(question, "message", "a1", words=True)
        reported.see(Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="x"), REQUEST)
        assert gist(reported.see(*COMPLETE))[:3] == [
            ("result", "", each) for each in ("s", "m1", "a1")
        ]

    def test_a_turn_that_completes_ends_before_queued_messages_are_delivered(self):
        reported = started()
        reported.stream.attribution.queue("id1", "m1")
        reported.see(says("id1"), CompletionOffered(result="One."))
        assert gist(reported.see(REQUEST)) == [
            ("result", "", "s"),
            ("control", "done", "s"),
            ("queue", "drained", "m1"),
            ("user", "", "m1"),
        ]
        assert gist(reported.see(*COMPLETE)) == [("result", "", "m1")]

    def test_messages_right_after_the_completion_question_are_delivered(self):
        reported = started()
        reported.see(*COMPLETE)
        reported.stream.attribution.queue("id1", "m1")
        assert not reported.stream.early_finish
        reported.see(says("id1"))
        question = reported.stream.early_finish
        assert question
        assert not reported.stream.complete
        reported.stream.resume_queued(question)
        assert (reported.stream.early_finish, reported.stream.busy) == (None, True)

    def test_events_after_a_cancellation_belong_to_the_latest_cancel_request(self):
        reported = started()
        reported.stream.cancel("c")
        reported.stream.cancel("c2")
        aborted = reported.see(StepCancelled(), RESUMES)
        assert gist(aborted)[0][2] == "c2"
        assert gist(aborted)[2] == ("result", "task_aborted", "s")

    def test_a_new_start_drops_messages_queued_for_the_previous_one(self):
        reported = started()
        reported.stream.attribution.queue("id1", "m1")
        reported.see(says("id1"), StepCancelled(), RESUMES)
        reported.stream.begin_task("t2", "s2")
        opened = reported.see(TaskOpened(text="go"), REQUEST, *COMPLETE, of="t2")
        assert {one["requestId"] for one in opened} == {"s2"}


def test_a_cancellation_remembers_the_interrupted_request_until_another_takes_over():
    by = Attribution()
    by.start("s")
    by.cancel("c1")
    by.cancel("c2")
    assert (by.active, by.interrupted) == ("c2", "s")
    by.take_over("m3")
    assert (by.active, by.interrupted) == ("m3", "")


class TestChildren:
    """A child's questions and their outcomes reach the driver."""

    CALL = ToolCall(id="k", name="write_to_file", arguments={"path": "a"})
    PAYLOAD = '{"tool": "newFileCreated", "path": "a"}'

    def child(self) -> Driven:
        reported = started(ToolStarted(call_id="n", tool="new_task", title="", child="kid"))
        reported.see(ChildBegan(call_id="n", task_id="kid"))
        return reported

    def test_a_childs_questions_carry_its_own_id(self):
        reported = self.child()
        asked = Asked(ask_id="q", ask=AskKind.TOOL, text=self.PAYLOAD, call_id="k", digest="d")
        events = reported.see(TaskOpened(text="part"), REQUEST, spoke(self.CALL), asked, of="kid")
        assert gist(events) == [("tool_use", "tool", "s"), ("system", "waiting", "s")]
        assert {one["taskId"] for one in events} == {"kid"}
        question = reported.stream.question
        assert question
        assert (question.task_id, question.row) == ("kid", events[0]["id"])
        ended = reported.see(ToolFinished(call_id="k", text="Created a."), of="kid")
        assert gist(ended) == [("tool_result", "tool", "s")]

    def test_messages_go_to_the_child_and_are_reported_on_delivery(self):
        reported = self.child()
        reported.see(TaskOpened(text="part"), REQUEST, of="kid")
        assert reported.stream.receiver == "kid"
        reported.stream.attribution.queue("id1", "m1")
        reported.see(says("id1"), of="kid")
        received = reported.see(spoke(Text(text="hm")), REQUEST, of="kid")
        assert gist(received) == [("queue", "drained", "m1"), ("user", "", "m1")]
        reported.stream.end_task("kid")
        assert reported.stream.receiver == "t"

    def test_a_text_answer_to_a_child_is_reported(self):
        reported = self.child()
        reported.see(TaskOpened(text="part"), Asked(ask_id="q", ask=AskKind.FOLLOWUP), of="kid")
        answer = Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="8080")
        [user] = reported.see(answer, of="kid")
        assert (user["type"], user["taskId"]) == ("user", "kid")

    def test_a_childs_open_call_is_closed_when_the_run_ends(self):
        reported = self.child()
        asked = Asked(ask_id="q", ask=AskKind.TOOL, text=self.PAYLOAD, call_id="k")
        reported.see(TaskOpened(text="part"), spoke(self.CALL), asked, of="kid")
        ended = reported.stream.finish()
        assert [(one["type"], one.get("taskId")) for one in ended] == [
            ("tool_result", None),
            ("tool_result", "kid"),
            ("result", "t"),
            ("control", "t"),
        ]

    def test_an_interrupted_task_receives_messages_itself_again(self):
        reported = self.child()
        reported.see(TaskOpened(text="part"), Asked(ask_id="q", ask=AskKind.FOLLOWUP), of="kid")
        reported.stream.cancel("c")
        reported.see(StepCancelled(), RESUMES)
        question = reported.stream.question
        assert question
        assert (question.task_id, question.ask, reported.stream.receiver) == (
            *("t", AskKind.RESUME_TASK),
            "t",
        )

    def test_a_childs_cost_counts_for_the_task(self):
        reported = self.child()
        reported.see(spoke(usage=Usage(tokens_in=7)), of="kid")
        reported.stream.end_task("kid")
        assert reported.see(*COMPLETE)[0]["cost"]["inputTokens"] == 7


class TestQueueEvents:
    def test_queued_texts_are_shortened_and_images_counted(self):
        image = Image(media_type="image/png", data="x")
        long = UserSpoke(message_id="a", text="word  \n" * 100, images=(image, image))
        event = queue_event("enqueued", "t", [long, says("b")], {"a": 5})
        [first, second] = event["queue"]
        assert (event["queueDepth"], first["imageCount"], first["timestamp"]) == (2, 2, 5)
        assert first["text"] == ("word " * 100)[:177] + "..."
        assert second == {"id": "b", "text": "words b"}

    @each_row(
        ("before", "after", "subtype"),
        [
            ("", "", None),
            ("", "a", "enqueued"),
            ("ab", "b", "dequeued"),
            ("a", "", "drained"),
            ("a", "b", "updated"),
        ],
    )
    def test_each_queue_change_has_a_subtype(self, before: str, after: str, subtype: str | None):
        assert change_between([*map(says, before)], [*map(says, after)]) == subtype

    def test_editing_a_queued_message_reports_an_update(self):
        reported = started(says("a"))
        [event] = reported.see(QueueEdited(message_id="a", text="other words"))
        assert (event["subtype"], event["queue"][0]["text"]) == ("updated", "other words")

    def test_a_resumed_task_reports_its_queue_once(self):
        stream = ControlStream()
        log: list[Event] = []
        for fact in [TaskOpened(text="go"), REQUEST, says("a"), TaskReopened(), RESUMES]:
            log.append(next_event(log[-1] if log else None, fact, 1))
        [snapshot] = stream.resume_task("t", log[:3])
        assert (snapshot["subtype"], snapshot["queueDepth"]) == ("snapshot", 1)
        reported = [one for event in log[3:] for one in stream.see("t", event)]
        assert gist(reported) == [("assistant", "resume_task", None), ("system", "waiting", None)]


steps = st.lists(
    st.sampled_from(["message", "cancel", "complete", "ask", "answer", "request", "fail"]),
    max_size=20,
)


@given(steps)
def test_a_start_is_closed_once_and_each_turn_and_queued_message_has_one_result(
    steps: list[str],
):
    reported = Driven()
    events = reported.see(TaskOpened(text="go"), REQUEST)
    turns = 1
    for number, step in enumerate(steps):
        question = reported.stream.question
        match step:
            case "message" if question is None:
                reported.stream.attribution.queue(f"i{number}", f"m{number}")
                events += reported.see(says(f"i{number}"))
            case "answer" if question is not None:
                fresh = not reported.stream._in_turn
                reported.stream.deliver(question, "message", f"a{number}", words=True)
                reply = Answered(
                    ask_id=question.ask_id, ask=question.ask, reply="message", text="x"
                )
                events += reported.see(reply, REQUEST)
                turns += fresh
            case "cancel" if reported.stream.busy:
                reported.stream.cancel(f"c{number}")
                resumes = Asked(ask_id=f"q{number}", ask=AskKind.RESUME_TASK)
                events += reported.see(StepCancelled(), resumes)
            case "complete" if question is None:
                asked = Asked(ask_id=f"q{number}", ask=AskKind.COMPLETION_RESULT)
                events += reported.see(CompletionOffered(result="x"), asked)
            case "ask" if question is None:
                events += reported.see(Asked(ask_id=f"q{number}", ask=AskKind.FOLLOWUP))
            case "request" if question is None:
                events += reported.see(REQUEST)
            case _:
                pass
    events += reported.stream.finish()
    settled = [one for one in events if one["type"] == "control"]
    assert [one["requestId"] for one in settled] == ["s"]
    results = [one["requestId"] for one in events if one["type"] == "result"]
    received = [one["requestId"] for one in events if one["type"] == "user"]
    queued = [each for each in received if each.startswith("m")]
    assert [each for each in results if each.startswith("m")] == queued
    assert len(results) == len(set(results))
    assert turns <= len(results) <= turns + 2 * len(queued)
