"""What `--json-io` and the control stream share: lines, events, followed tasks."""

import os
from collections.abc import AsyncIterator, Callable
from functools import partial

import anyio
import pytest

from rookery.compat.driver import (
    DONE,
    LONGEST,
    DriverConversation,
    EventSender,
    FollowedTasks,
    OutputQueue,
    Wakeup,
    parsed_lines,
    unanswered,
)
from rookery.compat.structured_output.writer import ReaderLeft
from rookery.core.asks import AskKind
from rookery.core.commands import OpenTask
from rookery.core.facts import Event, Noted, TaskOpened
from rookery.errors import first_error
from rookery.protocol.attend import Fate, RunEnd
from support.scripted_host import ScriptedHost

pytestmark = pytest.mark.anyio


class Unreadable(Exception):
    pass


def read_number(line: bytes, number: int) -> int:
    try:
        return int(line)
    except ValueError:
        raise Unreadable(f"line {number} is no number") from None


async def test_each_line_is_read_or_refused_by_its_number_and_blank_ones_count():
    refused: list[tuple[str, int]] = []

    async def lines() -> AsyncIterator[bytes]:
        for line in (b"1", b"", b" \t", b"x", b"9" * (LONGEST + 1), b"6"):
            yield line

    parsed = parsed_lines(
        lines(),
        read_number,
        bad=Unreadable,
        too_long="line {number} is too long",
        refuse=lambda bad, number: refused.append((str(bad), number)),
    )
    assert [number async for number in parsed] == [1, 6]
    assert refused == [("line 4 is no number", 4), ("line 5 is too long", 5)]


class TestWakeup:
    async def test_a_waiter_checks_again_after_each_event(self):
        news, seen = Wakeup(), 0

        def third_time() -> bool:
            nonlocal seen
            seen += 1
            return seen == 3

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(news.wait_for, third_time)
                for count in (1, 2):
                    while seen < count:
                        await anyio.lowlevel.checkpoint()
                    news.notify()
        assert seen == 3

    async def test_waiting_ends_at_its_time_limit(self):
        with anyio.fail_after(60):
            await Wakeup().wait_for(lambda: False, 0.01)


class TestEventSender:
    async def test_the_last_line_is_written_without_another_event(self):
        reading, writing = os.pipe()
        EventSender(OutputQueue(writing)).send_last([{"a": 1}, {"b": "ü"}])
        os.close(writing)
        assert os.read(reading, 1000).decode() == '{"a":1}\n{"b":"ü"}\n'
        os.close(reading)

    async def test_a_reader_that_leaves_early_is_reported(self):
        reading, writing = os.pipe()
        sender = EventSender(OutputQueue(writing))
        sender.send([{"long": "x" * 1_000_000}])
        os.close(reading)
        with anyio.fail_after(60), pytest.raises(ReaderLeft):
            await sender.run()
        os.close(writing)


class FollowLog:
    """Records what `FollowedTasks` reports."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def begun(self, task_id: str) -> None:
        self.entries.append(f"{task_id} begins")

    async def see(self, task_id: str, event: Event) -> None:
        self.entries.append(f"{task_id} {type(event.fact).__name__}")

    def ended(self, task_id: str) -> None:
        self.entries.append(f"{task_id} ends")


async def follow_to_the_end(
    host: ScriptedHost, task_id: str, after: int = 0, meanwhile: Callable[[], None] = lambda: None
) -> list[str]:
    reported, news = FollowLog(), Wakeup()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            tasks = FollowedTasks(
                host, group, news, see=reported.see, ended=reported.ended, starting=reported.begun
            )
            tasks.follow(task_id, after)
            assert tasks.ids == {task_id}
            meanwhile()
            await news.wait_for(lambda: not tasks.ids)
    return reported.entries


class TestFollowedTasks:
    async def test_a_task_is_followed_from_its_beginning_to_its_end(self):
        host = ScriptedHost()
        await host.send(OpenTask(task_id="t1", text="go"))
        host.tell(Noted(text="well"))
        entries = await follow_to_the_end(host, "t1", meanwhile=partial(host.end, "t1"))
        assert entries == ["t1 begins", "t1 TaskOpened", "t1 Noted", "t1 ends"]

    async def test_events_already_seen_are_not_reported_again(self):
        host = ScriptedHost()
        host.tell(TaskOpened(text="go"), Noted(text="well"))
        entries = await follow_to_the_end(host, "t1", 1, meanwhile=partial(host.end, "t1"))
        assert entries == ["t1 begins", "t1 Noted", "t1 ends"]

    async def test_following_a_task_that_is_gone_ends_without_an_error(self):
        assert await follow_to_the_end(ScriptedHost(), "nobody") == ["nobody begins", "nobody ends"]


class TestConversation:
    async def test_a_conversation_returns_its_own_end(self):
        async def converse() -> RunEnd:
            return RunEnd(Fate.LEFT, "enough", "usage")

        assert await DriverConversation().run(converse) == RunEnd(Fate.LEFT, "enough", "usage")

    @pytest.mark.parametrize("early", [True, False], ids=["before it began", "while it waits"])
    async def test_an_aborted_conversation_ends_as_the_abort_says(self, early: bool):
        conversation, failed = DriverConversation(), RunEnd(Fate.FAILED, "no key", "auth_failed")

        async def converse() -> RunEnd:
            conversation.abort(failed)
            await anyio.sleep_forever()
            return DONE

        if early:
            conversation.abort(failed)
        with anyio.fail_after(60):
            assert await conversation.run(converse) == failed


def test_an_unanswered_question_names_its_kind_and_its_session():
    end = unanswered(AskKind.FOLLOWUP, "t1")
    assert (end.fate, end.code) == (Fate.LEFT, "needs_human")
    assert "(followup)" in end.reason
    assert "--session-id t1" in end.reason


def test_the_cause_is_the_first_error_of_a_group():
    first = ValueError("first")
    assert first_error(ExceptionGroup("", [ExceptionGroup("", [first]), KeyError("x")])) is first
