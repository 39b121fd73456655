"""A long session is continued without reading all of it, and looks as if all had been read."""

from functools import reduce

import pytest

from rookery.compat.acp.updates import Announced, TaskUpdates
from rookery.compat.control_stream.followed_task import StreamTask
from rookery.compat.json_io.messages import EngineMessages
from rookery.compat.structured_output.call_rows import Ids
from rookery.compat.structured_output.output_events import DrivenOutput
from rookery.core.asks import AskKind
from rookery.core.facts import (
    Asked,
    Condensed,
    Rewound,
    TaskReopened,
    Todo,
    TodosChanged,
    UserSpoke,
)
from rookery.core.folds.view import View, see
from rookery.core.queries import About, AskViewStart, ViewStart
from rookery.protocol.late_view import view_before
from support.long_log import long_log, turn
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


def test_an_editor_resumes_from_the_end():
    todos = TodosChanged(todos=(Todo(id="1", content="one", status="pending"),))
    known, store = long_log(todos, *LATE)
    shown = TaskUpdates("/w", Announced(compaction=True))
    assert list(shown.load(known, replay=False)) == []
    assert store.reads < A_QUARTER * len(known) + 4_000
    whole = reduce(see, known, View())
    assert (shown.view.todos, shown.view.usage) == (whole.todos, whole.usage)
    assert shown.view.queue == whole.queue


def test_an_editor_that_loads_a_session_gets_all_of_it_while_few_rows_are_kept():
    known, _ = long_log(*LATE)
    shown = TaskUpdates("/w", Announced(compaction=True))
    updates = list(shown.load(known, replay=True))
    plain = TaskUpdates("/w", Announced(compaction=True))
    assert updates == [each for event in known for each in plain.see(event, replay=True)]
    assert len(shown.view.messages) < len(plain.view.messages) / 2
    assert shown.view.usage == plain.view.usage


@pytest.mark.anyio
async def test_a_rewind_to_before_what_is_shown_finds_what_was_shown_then():
    known, _ = long_log(Rewound(to=4_001))
    host = ScriptedHost()
    host.tell(*(event.fact for event in known))
    events = [*known]
    for start in (0, 3_997):
        host.answer(AskViewStart, ViewStart(seq=start))
        late = reduce(see, events[9_001:-1], View(start=9_001))
        late = see(await view_before(host, "t1", late, events[-1]), events[-1])
        whole = reduce(see, events, View())
        assert [row.text for row in late.messages][-2:] == [row.text for row in whole.messages][-2:]
        assert late.agent.state == whole.agent.state


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
