"""The Python client of `--json-io`: its state, its events and their order."""

import json
from typing import Any

import pytest

from rookery.compat.json_io.client import ExtensionClient
from rookery.compat.json_io.client_state import AgentEvent, Emitter, Observable
from rookery.compat.json_io.row_messages import Wire
from support.each_row import each_row

NAMES = list(AgentEvent)


def says(ts: int, kind: str = "text", **more: Any) -> Wire:
    return {"ts": ts, "type": "say", "say": kind, **more}


def asks(ts: int, kind: str, **more: Any) -> Wire:
    return {"ts": ts, "type": "ask", "ask": kind, **more}


def state(*messages: Wire, **more: Any) -> Wire:
    return {"type": "state", "state": {"clineMessages": list(messages), **more}}


def updated(message: Wire) -> Wire:
    return {"type": "messageUpdated", "clineMessage": message}


class Watched:
    """A client that records its events."""

    def __init__(self, **more: Any) -> None:
        self.sent: list[Wire] = []
        self.notes: list[str] = []
        self.client = ExtensionClient(self.sent.append, note=self.notes.append, **more)
        self.events: list[tuple[str, Any]] = []
        for name in NAMES:
            self.client.on(name, lambda payload, name=name: self.events.append((name, payload)))

    def feed(self, *messages: Wire) -> list[str]:
        """Feed the messages; return the names of the events."""
        self.events.clear()
        self.client.handle_messages(messages)
        return [str(name) for name, _ in self.events]

    def payload(self, name: str) -> Any:
        return next(payload for known, payload in self.events if known == name)


TASK = says(1, text="do it")
RUN = says(2, "api_req_started", text='{"cost": 1}')
BUSY = says(2, "api_req_started")

STEPS: list[tuple[str, list[Wire], Wire, list[str]]] = [
    ("a message more", [state(TASK)], updated(says(2)), ["message", "stateChange"]),
    (
        "W waiting begins",
        [state(TASK)],
        updated(asks(2, "tool")),
        ["message", "stateChange", "waitingForInput"],
    ),
    (
        "W another ask without a running phase",
        [state(TASK, asks(2, "tool"))],
        state(TASK, asks(2, "tool"), asks(3, "tool")),
        ["message", "stateChange", "waitingForInput"],
    ),
    (
        "W the same ask again",
        [state(TASK, asks(2, "tool"))],
        updated(asks(2, "tool", text="x")),
        ["messageUpdated", "stateChange"],
    ),
    (
        "waiting ends",
        [state(TASK, asks(2, "tool"))],
        updated(says(3)),
        ["message", "stateChange", "resumedRunning"],
    ),
    (
        "an answered ask is no longer waited for",
        [state(TASK, asks(2, "tool"))],
        updated(asks(2, "tool", isAnswered=True)),
        ["messageUpdated", "stateChange", "resumedRunning"],
    ),
    (
        "waiting ends in streaming",
        [state(TASK, asks(2, "tool"))],
        updated(says(3, partial=True)),
        ["message", "stateChange", "resumedRunning", "streamingStarted"],
    ),
    (
        "streaming begins",
        [state(TASK)],
        updated(says(2, partial=True)),
        ["message", "stateChange", "streamingStarted"],
    ),
    (
        "streaming ends",
        [state(TASK, says(2, partial=True))],
        updated(says(2)),
        ["messageUpdated", "stateChange", "streamingEnded"],
    ),
    (
        "the same ts flips from partial to complete",
        [state(TASK, asks(2, "tool", partial=True))],
        updated(asks(2, "tool")),
        ["messageUpdated", "stateChange", "waitingForInput", "streamingEnded"],
    ),
    (
        "C a completion",
        [state(TASK)],
        updated(asks(2, "completion_result")),
        ["message", "stateChange", "waitingForInput", "taskCompleted"],
    ),
    (
        "C a completion after streaming",
        [state(TASK, BUSY)],
        updated(asks(3, "completion_result")),
        ["message", "stateChange", "waitingForInput", "streamingEnded", "taskCompleted"],
    ),
    (
        "C a stored completion",
        [state(TASK)],
        updated(asks(2, "resume_completed_task")),
        ["message", "stateChange", "waitingForInput", "taskCompleted"],
    ),
    (
        "C the same completion again",
        [state(TASK, asks(2, "completion_result"))],
        updated(asks(2, "completion_result", text="x")),
        ["messageUpdated", "stateChange"],
    ),
    (
        "C another completion",
        [state(TASK, asks(2, "completion_result"))],
        state(TASK, asks(2, "completion_result"), asks(3, "completion_result")),
        ["message", "stateChange", "waitingForInput", "taskCompleted"],
    ),
    (
        "C a partial completion is none",
        [state(TASK)],
        updated(asks(2, "completion_result", partial=True)),
        ["message", "stateChange", "streamingStarted"],
    ),
    *(
        (
            f"C {ask} is recoverable",
            [state(TASK)],
            updated(asks(2, ask)),
            ["message", "stateChange", "waitingForInput"],
        )
        for ask in ("api_req_failed", "mistake_limit_reached", "resume_task", "invalid_model")
    ),
    (
        "a non-blocking ask is not waited for",
        [state(TASK)],
        updated(asks(2, "command_output")),
        ["message", "stateChange"],
    ),
    (
        "M a batch is told message by message, in order, before what it leads to",
        [state(TASK, says(2))],
        state(TASK, says(2, text="more"), says(3), asks(4, "followup")),
        ["messageUpdated", "message", "message", "stateChange", "waitingForInput"],
    ),
    (
        "M unchanged messages are not told",
        [state(TASK, says(2))],
        state(TASK, says(2)),
        ["stateChange"],
    ),
    (
        "the mode is told first",
        [state(TASK)],
        state(TASK, says(2), mode="code"),
        ["modeChanged", "message", "stateChange"],
    ),
    (
        "the mode without messages",
        [state(TASK)],
        {"type": "state", "state": {"mode": "code"}},
        ["modeChanged"],
    ),
    (
        "the same mode",
        [state(TASK, mode="code")],
        {"type": "state", "state": {"mode": "code"}},
        [],
    ),
    ("a mode that is no text", [], {"type": "state", "state": {"mode": 7}}, []),
    ("state without a state", [state(TASK)], {"type": "state"}, []),
    ("state with something else", [state(TASK)], {"type": "state", "state": []}, []),
    ("state without messages", [state(TASK)], {"type": "state", "state": {"x": 1}}, []),
    ("an update of nothing", [state(TASK)], {"type": "messageUpdated"}, []),
    ("an update of what is no message", [state(TASK)], updated({"ts": "x"}), []),
    ("another type", [state(TASK)], {"type": "action", "action": "x"}, []),
    (
        "a late snapshot",
        [state(TASK, says(2), clineMessagesSeq=3)],
        state(TASK, clineMessagesSeq=3),
        [],
    ),
    (
        "a later snapshot",
        [state(TASK, says(2), clineMessagesSeq=3)],
        state(TASK, clineMessagesSeq=4),
        ["stateChange"],
    ),
    ("no task any more", [state(TASK)], state(), ["stateChange"]),
]


@pytest.mark.parametrize(
    ("before", "message", "events"), [step[1:] for step in STEPS], ids=[step[0] for step in STEPS]
)
def test_every_step_emits_its_events_in_order(before: list[Wire], message: Wire, events: list[str]):
    watched = Watched()
    watched.feed(*before)
    assert watched.feed(message) == events


def test_payloads():
    watched = Watched()
    watched.feed(state(TASK))
    ask = asks(2, "completion_result", extra={"kept": True})
    watched.feed(state(TASK, ask, mode="code"))
    change = watched.payload("stateChange")
    assert (change.previous_state.state, change.current_state.state) == ("running", "idle")
    assert change.is_significant_change
    waiting, completed = watched.payload("waitingForInput"), watched.payload("taskCompleted")
    assert (waiting.ask, waiting.message) == ("completion_result", ask)
    assert waiting.state_info.required_action == "start_task"
    assert (completed.success, completed.message) == (True, ask)
    mode = watched.payload("modeChanged")
    assert (mode.previous_mode, mode.current_mode) == (None, "code")
    assert watched.payload("message") == ask
    watched.feed(state(TASK, ask))
    assert not watched.payload("stateChange").is_significant_change


def test_state_changes_can_be_limited_to_significant_ones():
    watched = Watched(only_significant=True)
    assert watched.feed(state(TASK)) == ["message", "stateChange"]
    assert watched.feed(updated(says(2))) == ["message"]


def test_a_failing_listener_emits_an_error_event_and_does_not_crash():
    watched = Watched()

    def fail(_: object) -> None:
        raise RuntimeError("no")

    watched.client.on("message", fail)
    assert watched.feed(state(TASK)) == ["message", "error", "stateChange"]
    assert str(watched.payload("error")) == "no"
    alone = ExtensionClient(lambda message: None)
    alone.on("message", fail)
    alone.handle_message(state(TASK))  # no error listener
    assert alone.messages == (TASK,)
    alone.on("error", fail)
    alone.handle_message(updated(says(2)))
    assert alone.has_active_task


@each_row("given", ["no json", b"\xff", "[1]", "{}", '{"type": 3}', "[" * 100_000, {"state": 1}, 7])
def test_invalid_messages_are_dropped_with_a_debug_note(given: Any):
    watched = Watched()
    watched.client.handle_message(given)
    assert watched.notes == []
    watched.client.set_debug(True)
    watched.client.handle_message(given)
    assert (watched.events, len(watched.notes), watched.client.is_initialized) == ([], 1, False)


def test_queries():
    client = Watched().client
    assert (client.state, client.has_active_task, client.is_initialized) == (
        "no_task",
        False,
        False,
    )
    assert (client.last_message, client.current_ask, client.mode) == (None, None, None)
    client.handle_message(json.dumps(state(TASK, says(2, partial=True), mode="code")))
    assert (client.is_streaming, client.is_running, client.is_waiting_for_input) == (
        True,
        True,
        False,
    )
    client.handle_message(updated(asks(3, "followup", unknown=1)))
    assert (client.is_waiting_for_input, client.current_ask, client.mode) == (
        True,
        "followup",
        "code",
    )
    assert client.last_message == asks(3, "followup", unknown=1)
    assert client.is_initialized


ANSWERS: list[tuple[str, list[Any], Wire]] = [
    ("approve", [], {"type": "askResponse", "askResponse": "yesButtonClicked", "messageTs": 3}),
    ("resume_task", [], {"type": "askResponse", "askResponse": "yesButtonClicked", "messageTs": 3}),
    (
        "retry_api_request",
        [],
        {"type": "askResponse", "askResponse": "yesButtonClicked", "messageTs": 3},
    ),
    (
        "reject",
        ["why"],
        {"type": "askResponse", "askResponse": "noButtonClicked", "text": "why", "messageTs": 3},
    ),
    (
        "respond",
        ["x", ["data:a"]],
        {
            "type": "askResponse",
            "askResponse": "messageResponse",
            "text": "x",
            "images": ["data:a"],
            "messageTs": 3,
        },
    ),
    (
        "send_response",
        ["objectResponse", "{}"],
        {"type": "askResponse", "askResponse": "objectResponse", "text": "{}", "messageTs": 3},
    ),
    ("new_task", ["go"], {"type": "newTask", "text": "go"}),
    ("cancel_task", [], {"type": "cancelTask"}),
    ("clear_task", [], {"type": "clearTask"}),
    ("continue_terminal", [], {"type": "terminalOperation", "terminalOperation": "continue"}),
    ("abort_terminal", [], {"type": "terminalOperation", "terminalOperation": "abort"}),
]


@pytest.mark.parametrize(("method", "given", "sent"), ANSWERS, ids=[each[0] for each in ANSWERS])
def test_answers_name_the_question(method: str, given: list[Any], sent: Wire):
    watched = Watched()
    watched.feed(state(TASK, asks(3, "tool")))
    getattr(watched.client, method)(*given)
    assert watched.sent == [sent]


def test_an_answer_without_a_complete_question_names_none():
    watched = Watched()
    watched.feed(state(TASK, asks(3, "tool", partial=True)))
    watched.client.approve()
    assert watched.sent == [{"type": "askResponse", "askResponse": "yesButtonClicked"}]


def test_clearing_keeps_the_mode_and_resetting_clears_everything():
    watched = Watched()
    watched.feed(state(TASK, mode="code", clineMessagesSeq=5))
    watched.client.clear_task()
    client = watched.client
    assert [name for name, _ in watched.events][-1] == "taskCleared"
    assert (client.messages, client.mode, client.is_initialized) == ((), "code", True)
    client.reset()
    assert (client.messages, client.mode, client.is_initialized) == ((), None, False)
    assert client.listener_count("message") == 0
    assert watched.feed(state(TASK, clineMessagesSeq=1)) == []
    assert client.messages == (TASK,)


def test_an_update_alone_does_not_initialise():
    client = Watched().client
    client.handle_message(updated(says(2)))
    assert (client.is_initialized, len(client.messages)) == (False, 1)


def test_state_history_is_kept_only_if_configured():
    assert Watched().client.state_history == ()
    client = Watched(history=2).client
    for ts in range(1, 6):
        client.handle_message(updated(says(ts)))
    assert [len(known.messages) for known in client.state_history] == [3, 4]


def test_the_store_can_be_observed_and_records_its_update_time():
    client = ExtensionClient(lambda message: None, now=lambda: 7.0)
    seen: list[int] = []
    stop = client.store.observable.subscribe(lambda known: seen.append(len(known.messages)))
    client.handle_message(state(TASK))
    stop()
    stop()
    client.handle_message(state())
    assert seen == [0, 1]
    assert client.store.known.updated == 7.0


def test_an_emitter_forgets_removed_listeners():
    emitter, received = Emitter(), list[object]()
    stop = emitter.on("message", received.append)
    emitter.once(AgentEvent.MESSAGE, received.append)
    assert emitter.listener_count("message") == 2
    emitter.emit(AgentEvent.MESSAGE, 1)
    emitter.emit(AgentEvent.MESSAGE, 2)
    stop()
    emitter.off("message", received.append)
    emitter.emit(AgentEvent.MESSAGE, 3)
    assert received == [1, 1, 2]
    emitter.on("message", received.append)
    emitter.on("error", received.append)
    emitter.remove_all_listeners("message")
    assert (emitter.listener_count("message"), emitter.listener_count("error")) == (0, 1)
    with pytest.raises(ValueError, match="moonrise"):
        emitter.on("moonrise", received.append)


def test_a_failing_observer_does_not_stop_the_others():
    failures: list[Exception] = []
    value = Observable(1, failures.append)
    received: list[int] = []

    def fail(_: int) -> None:
        raise RuntimeError("no")

    value.subscribe(fail)
    value.subscribe(received.append)
    value.change(2)
    assert (received, len(failures), value.value) == ([1, 2], 2, 2)


def test_unknown_fields_of_a_message_do_not_affect_the_state():
    client = Watched().client
    for text, expected in (
        (None, "streaming"),
        ("", "streaming"),
        ('{"cost":0}', "running"),
        ("x", "running"),
    ):
        client.handle_message(state(TASK, {**BUSY, "text": text}, says(3)))
        assert client.state == expected
    client.handle_message(state(TASK, BUSY, says(3, "api_req_finished")))
    assert client.state == "running"
    client.handle_message(state(TASK, says(2, partial=1)))
    assert client.state == "running"  # only `true` marks a partial message
    client.handle_message(state(TASK, RUN, {"ts": 3, "type": "ask"}))
    assert client.state == "running"
