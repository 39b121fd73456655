"""No client sees a fact before it is on disk."""

import anyio
import pytest

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    Condensed,
    Event,
    Fact,
    Noted,
    Rewound,
    TaskClosed,
    TaskOpened,
    TextStreamed,
)
from rookery.core.folds.task_record import TaskRecord
from rookery.engine.event_log import EventLog
from rookery.errors import StorageError
from support.each_row import each_row
from support.long_log import long_log

pytestmark = pytest.mark.anyio


class MemoryStore:
    """A store that can be full."""

    recovered = ""

    def __init__(self) -> None:
        self.kept: list[Event] = []
        self.full = False

    def write(self, event: Event) -> None:
        if self.full:
            raise StorageError("The shelf is full.")
        self.kept.append(event)

    def read(self) -> TaskRecord:
        return TaskRecord.of(self.kept)

    def close(self) -> None:
        pass


def opened() -> tuple[EventLog, MemoryStore]:
    shelf = MemoryStore()
    log = EventLog(shelf, now=lambda: 1)
    log.append(TaskOpened(text="Do it"))
    return log, shelf


async def test_an_event_that_could_not_be_written_changes_nothing_and_is_not_sent():
    log, shelf = opened()
    shelf.full = True
    with pytest.raises(StorageError):
        log.append(TaskClosed())
    assert [event.fact for event in log.events] == [TaskOpened(text="Do it")]
    assert not log.state.closed
    shelf.full = False
    assert log.append(Noted(text="There is room again.")).seq == 2
    log.close()
    assert [event.seq async for event in log.follow()] == [1, 2]


@pytest.mark.parametrize(
    "later",
    [Noted(text="n"), Condensed(upto=3), Rewound(to=1)],
    ids=lambda fact: type(fact).__name__,
)
def test_the_id_of_a_call_stays_used_after_its_answer_left_the_conversation(later: Fact):
    log, _ = opened()
    for id in ("call_0", "call_1"):
        log.append(AssistantSpoke(request_id="r", blocks=(ToolCall(id=id, name="edit"),)))
    log.append(later)
    assert log.call_ids() == {"call_0", "call_1"}


async def test_passing_facts_are_numbered_between_lasting_ones_and_never_written():
    log, shelf = opened()
    log.append(TextStreamed(request_id="r", text="a"))
    log.append(TextStreamed(request_id="r", text="b"))
    log.append(Noted(text="n"))
    assert [(event.seq, event.sub) for event in shelf.kept] == [(1, 0), (2, 0)]


@each_row(
    ("after", "expected"),
    [
        pytest.param(
            0,
            [(1, 0), (2, 0), (2, 1), (2, 2), (3, 0)],
            id="a new follower gets the start of the answer",
        ),
        pytest.param(2, [(2, 2), (3, 0)], id="an earlier follower already has it"),
    ],
)
async def test_a_follower_gets_every_fact_once(after: int, expected: list[tuple[int, int]]):
    log, _ = opened()
    log.append(TextStreamed(request_id="q", text="long past"))
    log.append(Noted(text="m"))
    log.append(TextStreamed(request_id="r", text="begun"))
    received: list[tuple[int, int]] = []

    async def follow() -> None:
        async for event in log.follow(after):
            received.append((event.seq, event.sub))

    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        log.append(TextStreamed(request_id="r", text="heard"))
        log.append(Noted(text="n"))
        log.close()
    assert received == expected


async def test_a_failed_log_raises_to_its_followers_after_its_last_event():
    log, _ = opened()
    log.close(StorageError("The shelf is full."))
    following = log.follow()
    assert (await anext(following)).seq == 1
    with pytest.raises(StorageError):
        await anext(following)


async def test_a_follower_of_a_long_log_does_not_read_it_at_once():
    known, store = long_log(count=500)
    shelf = MemoryStore()
    shelf.read = lambda: TaskRecord(known)  # type: ignore[method-assign]
    log = EventLog(shelf, now=lambda: 7)
    following = log.follow()
    assert (await anext(following)).seq == 1
    assert store.reads < 300
    log.append(Noted(text="news"))
    log.close()
    assert [event.seq async for event in following] == [*range(2, 2_003)]
