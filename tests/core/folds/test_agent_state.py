"""A task's state is derived from its rows by the tables of the client specification."""

from collections.abc import Sequence
from typing import Any

import pytest

from rookery.core.asks import AskKind
from rookery.core.message import (
    AgentState,
    Message,
    detect,
    request_in_progress,
)
from support.each_row import each_row

ENDED = '{"tokensIn": 1, "cost": 0.5}'
OPEN = '{"model": "m"}'


def says(kind: str, text: str | None = None, **more: Any) -> Message:
    return Message(ts=1, type="say", say=kind, content=text, **more)


def asks(kind: str | None, text: str | None = None, **more: Any) -> Message:
    return Message(ts=2, type="ask", ask=kind, content=text, **more)


TASK = says("text", "do it")


# ── states ─────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("text", "in_progress"),
    [
        (None, True),
        ("", True),
        ("no json", False),
        ("[" * 100_000, False),
        ("[1]", False),
        ("3", False),
        ("{}", True),
        ('{"tokensIn": 3}', True),
        ('{"cost": 0.5}', False),
        ('{"cost": 0}', False),
        ('{"cost": null}', False),
        ('{"cancelReason": "user_cancelled"}', False),
        ('{"cancelReason": null}', True),
        ('{"streamingFailedMessage": "x"}', False),
        ('{"streamingFailedMessage": ""}', True),
    ],
)
def test_a_request_is_in_progress_until_its_row_says_otherwise(text: str | None, in_progress: bool):
    assert request_in_progress([TASK, says("api_req_started", text)]) is in_progress


def test_without_a_request_none_is_in_progress():
    assert not request_in_progress([TASK])


def test_only_the_newest_request_counts():
    rows = [says("api_req_started", OPEN), says("api_req_started", ENDED)]
    assert not request_in_progress(rows)
    assert request_in_progress(rows[::-1])


def test_a_later_finish_row_of_an_old_recording_ends_the_request():
    assert not request_in_progress([says("api_req_started"), says("api_req_finished")])
    assert request_in_progress([says("api_req_finished"), says("api_req_started")])


# ── changes of state ─────────────────────────────────────────────────────────────────────────

ASK_STATES = """
tool                          waiting_for_input  approve
command                       waiting_for_input  approve
use_mcp_server                waiting_for_input  approve
browser_action_launch         waiting_for_input  approve
followup                      waiting_for_input  answer
report_bug                    waiting_for_input  approve
condense                      waiting_for_input  approve
checkpoint_restore            waiting_for_input  approve
completion_result             idle               start_task
api_req_failed                idle               retry_or_new_task
mistake_limit_reached         idle               proceed_or_new_task
auto_approval_max_req_reached idle               start_new_task
resume_completed_task         idle               start_new_task
payment_required_prompt       idle               retry_or_new_task
invalid_model                 idle               retry_or_new_task
resume_task                   resumable          resume_or_abandon
command_output                running            continue_or_abort
"""
ASK_ROWS = [row.split() for row in ASK_STATES.strip().splitlines()]


@pytest.mark.parametrize("row", ASK_ROWS, ids=lambda row: row[0])
@pytest.mark.parametrize("text", [None, "", "text"])
@pytest.mark.parametrize("request_text", [OPEN, ENDED])
def test_a_complete_ask_decides(row: list[str], text: str | None, request_text: str):
    ask, state, action = row
    info = detect([TASK, says("api_req_started", request_text), asks(ask, text)])
    assert (info.state, info.current_ask, info.required_action) == (state, ask, action)


@each_row("messages", [None, []])
def test_without_rows_there_is_no_task(messages: list[Message] | None):
    info = detect(messages)
    assert (info.state, info.required_action) == ("no_task", "start_new_task")
    assert (info.last_message, info.last_message_ts, info.current_ask) == (None, None, None)


@each_row("ask", [*AskKind, "moonrise"])
def test_a_partial_ask_is_streaming_and_names_its_ask(ask: str):
    info = detect([TASK, asks(ask, partial=True)])
    assert (info.state, info.current_ask, info.required_action) == ("streaming", ask, "none")


@each_row(
    ("messages", "state"),
    [
        pytest.param([TASK], "running", id="row 8: the task alone"),
        pytest.param([TASK, says("text", partial=True)], "streaming", id="row 2: partial say"),
        pytest.param(
            [says("api_req_started", OPEN), says("text")], "streaming", id="row 7: say, no cost"
        ),
        pytest.param(
            [says("api_req_started", ENDED), says("text")], "running", id="row 8: say, cost"
        ),
        pytest.param(
            [says("api_req_started", OPEN), asks("moonrise")], "streaming", id="row 9 after row 7"
        ),
        pytest.param(
            [says("api_req_started", ENDED), asks("moonrise")], "running", id="row 9: unknown ask"
        ),
        pytest.param([TASK, asks(None)], "running", id="row 9: ask without a kind"),
        pytest.param([TASK, says("moonrise")], "running", id="unknown say"),
        pytest.param(
            [
                says("api_req_started", '{"cancelReason": "streaming_failed"}'),
                says("api_req_retry_delayed", "busy"),
            ],
            "running",
            id="backing off after a failed stream",
        ),
        pytest.param(
            [says("api_req_started", '{"cancelReason": "user_cancelled"}'), asks("resume_task")],
            "resumable",
            id="cancelled, then asked to resume",
        ),
        pytest.param(
            [TASK, *[says("text")] * 100, asks("followup")],
            "waiting_for_input",
            id="a hundred says, then a followup",
        ),
        pytest.param(
            [asks("tool", answered=True)], "running", id="an answered ask counts as a say"
        ),
        pytest.param(
            [says("api_req_started", OPEN), asks("tool", answered=True)],
            "streaming",
            id="an answered ask while the model speaks",
        ),
        pytest.param(
            [asks("tool"), says("text")], "running", id="first say after an ask: the last decides"
        ),
    ],
)
def test_edge_cases(messages: list[Message], state: str):
    assert detect(messages).state == state


def test_the_same_row_flips_from_streaming_to_waiting():
    arriving = asks("tool", partial=True)
    whole = asks("tool")
    assert [detect([TASK, row]).state for row in (arriving, whole)] == [
        "streaming",
        "waiting_for_input",
    ]


def test_an_answered_ask_is_no_longer_the_current_ask():
    info = detect([asks("tool", answered=True)])
    assert (info.current_ask, info.required_action) == (None, "none")


class CountingRows(Sequence[Message]):
    def __init__(self, rows: list[Message]) -> None:
        self._rows = rows
        self.looks = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return self._rows[index]


@each_row(
    ("tail", "state"),
    [
        ([says("api_req_started", ENDED), says("text")], "running"),
        ([asks("followup")], "waiting_for_input"),
        ([says("text", partial=True)], "streaming"),
    ],
)
def test_only_the_last_rows_are_read(tail: list[Message], state: str):
    rows = CountingRows([TASK] * 10_000 + tail)
    assert detect(rows).state == state
    assert rows.looks <= 4


FLAGS = """
no_task            no  no  no
running            no  yes no
streaming          no  yes yes
waiting_for_input  yes no  no
idle               yes no  no
resumable          yes no  no
"""
WITNESS: dict[str, list[Message]] = {
    "no_task": [],
    "running": [TASK],
    "streaming": [says("text", partial=True)],
    "waiting_for_input": [asks("tool")],
    "idle": [asks("completion_result")],
    "resumable": [asks("resume_task")],
}


@each_row("row", FLAGS.strip().splitlines())
def test_every_state_has_its_flags_and_a_description(row: str):
    state, waiting, running, streaming = row.split()
    info = detect(WITNESS[state])
    assert info.state == state
    flags = (info.is_waiting_for_input, info.is_running, info.is_streaming)
    assert flags == (waiting == "yes", running == "yes", streaming == "yes")
    assert info.description
    assert {state.value for state in AgentState} == set(WITNESS)
