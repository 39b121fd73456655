"""A long session is continued without reading all of it, and looks as if all had been read."""

import json
from collections.abc import AsyncIterator, Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.compat.acp.requests import ClientCapabilities, ShownUpdates
from rookery.compat.acp.updates import TaskUpdates
from rookery.compat.control_stream.followed_task import StreamTask
from rookery.compat.driver import OutputQueue
from rookery.compat.json_io.driven_client import EngineMessagesClient
from rookery.compat.json_io.lookups import before_message, checkpoint
from rookery.compat.json_io.messages import EngineMessages
from rookery.compat.json_io.row_messages import CHECKPOINT, as_line, as_message
from rookery.compat.json_io.task_rows import SEALED_AT_ONCE
from rookery.compat.structured_output.call_rows import Ids, readable
from rookery.compat.structured_output.output_events import DrivenOutput
from rookery.compat.structured_output.writer import EncodedLines, Line
from rookery.core.asks import AskKind
from rookery.core.commands import ReopenTask
from rookery.core.facts import (
    Asked,
    CheckpointSaved,
    Condensed,
    Event,
    Rewound,
    TaskReopened,
    Todo,
    TodosChanged,
    UserSpoke,
)
from rookery.core.folds.view import View, see
from rookery.core.message import Message
from rookery.core.queries import About, AskViewStart, ViewStart
from rookery.protocol.late_view import view_before
from support.each_row import each_row
from support.long_log import long_log, turn, turns
from support.scripted_host import ScriptedHost

LATE = (
    *turn(9_999),
    Condensed(upto=5, summary="so far"),
    UserSpoke(message_id="m", text="and this"),
    TaskReopened(),
    Asked(ask_id="q", ask=AskKind.RESUME_TASK),
)
A_QUARTER = 0.27
"""One event of a turn has its usage, and a few more are read."""


def test_the_control_stream_reads_only_the_end():
    known, store = long_log(*LATE)
    task = StreamTask("t", Ids(), known)
    assert store.reads < 2 * A_QUARTER * len(known) + 4_000  # once for the view and for the output
    whole = DrivenOutput(session_id="t", after=len(known), ids=Ids())
    for event in known:
        whole.see(event)
    assert task.question is not None
    assert [spoken.text for spoken in task.queue] == ["and this"]
    assert task.question.row == whole.question_id
    assert task.output.result(success=False) == whole.result(success=False)


COMPACTION = ClientCapabilities(session=ShownUpdates(compaction={}))


def test_an_editor_resumes_from_the_end():
    todos = TodosChanged(todos=(Todo(id="1", content="one", status="pending"),))
    known, store = long_log(todos, *LATE)
    shown = TaskUpdates("/w", COMPACTION)
    assert list(shown.load(known, replay=False)) == []
    assert store.reads < A_QUARTER * len(known) + 4_000
    whole = reduce(see, known, View())
    assert (shown.view.todos, shown.view.usage) == (whole.todos, whole.usage)
    assert shown.view.queue == whole.queue


def test_an_editor_that_loads_a_session_gets_all_of_it_while_few_rows_are_kept():
    known, _ = long_log(*LATE)
    shown = TaskUpdates("/w", COMPACTION)
    updates = list(shown.load(known, replay=True))
    plain = TaskUpdates("/w", COMPACTION)
    by_agent = [each for each in updates if each["sessionUpdate"] != "user_message_chunk"]
    assert by_agent == [each for event in known for each in plain.see(event)]
    assert len(shown.view.messages) < len(plain.view.messages) / 2
    assert shown.view.usage == plain.view.usage


@pytest.mark.anyio
async def test_a_rewind_to_before_what_is_shown_finds_what_was_shown_then_and_can_be_undone():
    known, _ = long_log(Rewound(to=4_001), Rewound(to=9_500))
    host = ScriptedHost()
    host.tell(*(event.fact for event in known))
    events = [*known]
    for start in (0, 3_997):
        host.answer(AskViewStart, ViewStart(seq=start))
        late = reduce(see, events[9_001:-2], View(start=9_001))
        whole = reduce(see, events[:-2], View())
        for event in events[-2:]:
            late, whole = see(await view_before(host, "t1", late, event), event), see(whole, event)
            shown = [row.text for row in late.messages]
            assert shown[-2:] == [row.text for row in whole.messages][-2:]
            assert late.agent.state == whole.agent.state
        assert shown[-1_000:] == [row.text for row in whole.messages][-1_000:]


def test_the_rows_of_a_stored_session_are_compared_once():
    """They are one change, however many events there are."""
    known, _ = long_log(*LATE, count=100)
    messages = EngineMessages(About())
    messages.drive("t")
    for event in known:
        assert messages.see("t", event, 0.0) == []
    assert messages.task is not None
    assert not messages.task.waits
    lines = messages.catch_up(0.0)
    whole = reduce(see, known, View())
    assert [line["ts"] for line in lines] == [row.ts for row in whole.messages]


def decoded(lines: Iterable[Line]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in lines:
        whole = b"".join(line.pieces).split(b"\n") if isinstance(line, EncodedLines) else ()
        found += map(json.loads, whole) if whole else [line]
    return found


def stored_session(known: Iterable[Event]) -> EngineMessages:
    messages = EngineMessages(About())
    messages.drive("t")
    for event in known:
        messages.see("t", event, 0.0)
    return messages


def test_json_io_writes_all_rows_of_a_long_session_and_keeps_the_old_ones_as_json():
    known, _ = long_log(*LATE)
    whole = [as_message(row) for row in reduce(see, known, View()).messages]
    messages = stored_session(known)
    assert messages.task is not None
    assert len(messages.task.view.messages) <= SEALED_AT_ONCE + 1
    written = decoded(messages.catch_up(0.0))
    assert [{**line, **_condensation(line)} for line in written] == [
        {**line, **_condensation(line)} for line in whole
    ]
    assert decoded(messages.show_again()) == written
    state, _ = decoded(messages.launch(()))
    assert state["state"]["clineMessages"] == written


def _condensation(line: dict[str, Any]) -> dict[str, Any]:
    """The tokens of a condensation are known to the task, not to its row."""
    return {"contextCondense": None} if line.get("say") == "condense_context" else {}


def test_a_driver_finds_old_rows_of_a_long_session():
    saved = CheckpointSaved(call_id="c1", id="a" * 40)
    known, _ = long_log(saved, *turns(3_000, 5_500))
    messages = stored_session(known)
    messages.catch_up(0.0)
    assert messages.task is not None
    [row] = (each for each in reduce(see, known, View()).messages if each.say == CHECKPOINT)
    assert checkpoint(messages, row.ts) == row.seq
    assert before_message(messages, row.ts) == row.seq - 1
    assert [*messages.task.checkpoints(0)] == [row.seq]
    assert messages.task.row(row.ts + 1) is None


@pytest.mark.anyio
@pytest.mark.parametrize("places", [(4_001,), (4_001, 10_001)], ids=["rewound", "and undone"])
async def test_a_rewind_in_a_long_session_changes_rows_that_were_written(
    tmp_path: Path, places: tuple[int, ...]
):
    known, _ = long_log(*LATE)
    count = len(known) + len(places)
    host = ScriptedHost()
    host.tell(*(event.fact for event in known))

    async def lines() -> AsyncIterator[bytes]:
        await anyio.wait_all_tasks_blocked()
        for to in places:
            host.tell(Rewound(to=to))
            await anyio.wait_all_tasks_blocked()
        yield b'{"type":"shutdown"}'

    with (tmp_path / "output").open("wb") as output:
        client = EngineMessagesClient(
            lines(),
            OutputQueue(output.fileno()),
            exit_code=lambda end: 0,
            first=ReopenTask(task_id="t1"),
        )
        await client.run(host)
    rows: dict[int, dict[str, Any]] = {}
    for line in map(json.loads, (tmp_path / "output").read_text(encoding="utf-8").splitlines()):
        for gone in line["ts"] if line.get("event") == "messages_removed" else ():
            del rows[gone]
        rows |= {line["ts"]: line} if "say" in line or "ask" in line else {}
    events = [event async for event in _first(host, count)]
    assert [*rows.values()] == [as_message(row) for row in reduce(see, events, View()).messages]


async def _first(host: ScriptedHost, count: int) -> AsyncIterator[Event]:
    async for event in host.follow("t1"):
        yield event
        if event.seq == count:
            break


@each_row("text", ["ä\u2028\x7f\x1b[0m", "\ud800 half", '\x00\b\f"\\/', "1e-05 😀"])
def test_a_row_is_the_same_json_whether_it_is_kept_as_json_or_not(text: str):
    row = Message(ts=1, type="say", say="text", content=text, notes=(text,), answered=True)
    assert as_line(row, {}).decode() == readable(as_line(row).decode())
    assert json.loads(as_line(row, {"cost": 1e-05}))["cost"] == 1e-05
