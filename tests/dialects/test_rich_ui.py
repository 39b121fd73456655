"""What a webview offers and sends. Which buttons there are is tested where it is decided."""

from typing import Any

import pytest

from rookery.compat.json_io.message_rows import Wire
from rookery.compat.json_io.rich_ui import modified_messages, rich_ui, sent_text

TASK = {"ts": 1, "type": "say", "say": "text", "text": "do it"}


def says(kind: str, text: str | None = None, **more: Any) -> Wire:
    return {"ts": 2, "type": "say", "say": kind, "text": text, **more}


def asks(kind: str, text: str | None = None, **more: Any) -> Wire:
    return {"ts": 3, "type": "ask", "ask": kind, "text": text, **more}


YES = {"type": "askResponse", "askResponse": "yesButtonClicked", "messageTs": 3}
NO = {**YES, "askResponse": "noButtonClicked"}
CLEAR = {"type": "clearTask"}
CONTINUE = {"type": "terminalOperation", "terminalOperation": "continue"}
ABORT = {**CONTINUE, "terminalOperation": "abort"}

BUTTONS: list[tuple[Wire, tuple[str, Wire] | None, tuple[str, Wire] | None]] = [
    (asks("api_req_failed"), ("Retry", YES), ("New task", CLEAR)),
    (asks("mistake_limit_reached"), ("Proceed", YES), ("New task", CLEAR)),
    (asks("followup"), None, None),
    (asks("tool", '{"tool":"newFileCreated"}'), ("Save", YES), ("Reject", NO)),
    (asks("tool", '{"tool":"readFile","batchFiles":[1]}'), ("Approve all", YES), ("Deny all", NO)),
    (asks("tool", '{"tool":"finishTask"}'), ("Complete and return", YES), None),
    (asks("tool", '{"tool":"listFilesTopLevel"}'), ("Approve", YES), ("Reject", NO)),
    (asks("command", "ls"), ("Run", YES), ("Reject", NO)),
    (asks("use_mcp_server"), ("Approve", YES), ("Reject", NO)),
    (asks("browser_action_launch"), ("Approve", YES), ("Reject", NO)),
    (asks("command_output"), ("Proceed while running", CONTINUE), ("Kill", ABORT)),
    (asks("completion_result"), ("New task", CLEAR), None),
    (asks("resume_task"), ("Resume", YES), ("Terminate", CLEAR)),
    (asks("resume_completed_task"), ("New task", CLEAR), None),
    (asks("auto_approval_max_req_reached"), ("Continue", YES), ("New task", CLEAR)),
    (asks("payment_required_prompt"), ("Retry", YES), ("New task", CLEAR)),
    (asks("invalid_model"), ("Retry", YES), ("New task", CLEAR)),
    (says("api_req_started"), None, None),
]


@pytest.mark.parametrize(("row", "primary", "secondary"), BUTTONS, ids=lambda each: str(each)[:70])
def test_CL_3_4_every_button_sends_what_it_says(
    row: Wire, primary: tuple[str, Wire] | None, secondary: tuple[str, Wire] | None
):
    shown = rich_ui([TASK, row])
    found = [
        (each.label, each.message) if each else None for each in (shown.primary, shown.secondary)
    ]
    assert found == [primary, secondary]


def test_CL_3_4_a_button_sends_along_what_is_typed():
    shown = rich_ui([TASK, asks("tool")], text="but", images=["data:a"])
    assert shown.primary
    assert shown.primary.message == {**YES, "text": "but", "images": ["data:a"]}


def test_CL_3_4_a_finished_subtask_is_not_resumed():
    rows = [TASK, says("completion_result", "done"), asks("resume_task")]
    shown = rich_ui(rows, is_subtask=True)
    assert shown.primary
    assert (shown.primary.label, shown.secondary) == ("New task", None)


@pytest.mark.parametrize(
    ("rows", "streaming", "sending", "enabled"),
    [
        ([], False, False, False),
        ([TASK, says("api_req_started")], True, True, False),
        ([TASK, says("api_req_started"), asks("tool")], False, False, True),
        ([TASK, asks("tool", partial=True)], True, True, False),
        ([TASK, asks("followup", partial=True)], True, True, True),
        ([TASK, asks("tool"), says("api_req_retry_delayed")], False, True, True),
        ([TASK, asks("tool", isAnswered=True)], False, True, False),
    ],
)
def test_CL_3_4_streaming_sending_and_buttons(
    rows: list[Wire], streaming: bool, sending: bool, enabled: bool
):
    shown = rich_ui(rows)
    found = (shown.streaming, shown.sending_disabled, shown.buttons_enabled)
    assert found == (streaming, sending, enabled)


@pytest.mark.parametrize(
    ("rows", "queued", "sent"),
    [
        ([], 0, {"type": "newTask", "text": "x"}),
        (
            [TASK, asks("followup")],
            0,
            {"type": "askResponse", "askResponse": "messageResponse", "messageTs": 3, "text": "x"},
        ),
        ([TASK, asks("followup")], 1, {"type": "queueMessage", "text": "x"}),
        ([TASK, asks("command_output")], 0, {"type": "queueMessage", "text": "x"}),
        ([TASK, says("text", partial=True)], 0, {"type": "queueMessage", "text": "x"}),
        ([TASK, says("api_req_started")], 0, {"type": "queueMessage", "text": "x"}),
    ],
)
def test_CL_3_4_a_text_goes_where_it_is_heard(rows: list[Wire], queued: int, sent: Wire):
    assert sent_text(rows, "x", queued=queued) == sent


def test_CL_3_4_modified_messages_are_all_but_the_task_put_together():
    rows = [TASK, asks("command", "ls"), says("command_output", "a")]
    assert [row["text"] for row in modified_messages(rows)] == ["ls\nOutput:\na"]
