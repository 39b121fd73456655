"""Lines typed at a real pseudo-terminal, as answers or as messages."""

import os
import pty
from collections.abc import AsyncIterator

import anyio
import pytest

from rookery.plain.keyboard import Keyboard, TimedLine

pytestmark = pytest.mark.anyio


class TypingHarness:
    """A keyboard on a pseudo-terminal, and the lines that came as messages."""

    def __init__(self) -> None:
        self._master, self._terminal = pty.openpty()
        self._messages_in, self.messages = anyio.create_memory_object_stream[str](10)
        self.keyboard = Keyboard(self._terminal, self._messages_in.send)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def hang_up(self) -> None:
        os.close(self._master)
        self._master = os.open(os.devnull, os.O_RDONLY)

    def clear(self) -> None:
        os.close(self._master)
        os.close(self._terminal)
        self._messages_in.close()
        self.messages.close()


@pytest.fixture
async def handler() -> AsyncIterator[TypingHarness]:
    handler = TypingHarness()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(handler.keyboard.run)
            yield handler
            group.cancel_scope.cancel()
    handler.clear()


async def test_a_waiting_question_gets_the_next_line(handler: TypingHarness):
    async with anyio.create_task_group() as group:
        group.start_soon(_expect, handler, "yes")
        await anyio.wait_all_tasks_blocked()
        handler.type("yes\n")


async def test_a_line_without_a_question_is_a_message(handler: TypingHarness):
    handler.type("  also the docs \n")
    assert await handler.messages.receive() == "also the docs"


async def test_blank_lines_are_not_sent(handler: TypingHarness):
    handler.type("\n   \nwords\n")
    assert await handler.messages.receive() == "words"


async def test_a_line_typed_before_the_question_does_not_answer_it(handler: TypingHarness):
    handler.type("y\n")  # the question is not shown yet
    await handler.keyboard.drain_typed()
    assert await handler.messages.receive() == "y"
    handler.type("n\n")
    assert await handler.keyboard.line() == "n"


async def test_a_line_started_before_the_question_does_not_answer_it(handler: TypingHarness):
    handler.type("ye")
    await handler.keyboard.drain_typed()
    handler.type("s\nno\n")
    assert await handler.keyboard.line() == "no"
    assert await handler.messages.receive() == "yes"


async def test_an_unfinished_line_from_before_the_question_does_not_answer_it(
    handler: TypingHarness,
):
    handler.type("early\ny")
    await handler.keyboard.drain_typed()
    assert await handler.messages.receive() == "early"
    handler.type("\nlate\n")
    assert await handler.keyboard.line() == "late"
    assert await handler.messages.receive() == "y"


async def test_a_pasted_block_answers_with_its_first_line_only(handler: TypingHarness):
    async with anyio.create_task_group() as group:
        group.start_soon(_expect, handler, "one")
        await anyio.wait_all_tasks_blocked()
        handler.type("one\ntwo\n")
    assert await handler.messages.receive() == "two"


async def test_typing_continues_after_end_of_input(handler: TypingHarness):
    for _ in range(2):
        async with anyio.create_task_group() as group:
            group.start_soon(_expect, handler, None)
            await anyio.wait_all_tasks_blocked()
            handler.type("\x04")
    handler.type("words\n")
    assert await handler.messages.receive() == "words"


async def test_a_closed_terminal_ends_waiting_and_reading():
    handler = TypingHarness()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(handler.keyboard.run)
            group.start_soon(_expect, handler, None)
            await anyio.wait_all_tasks_blocked()
            handler.hang_up()
    await handler.keyboard.drain_typed()
    handler.clear()


async def test_a_line_after_a_cancelled_question_is_a_message(handler: TypingHarness):
    with anyio.move_on_after(0):
        await handler.keyboard.line()
    handler.type("words\n")
    assert await handler.messages.receive() == "words"


@pytest.mark.parametrize("typed", ["grüße 🐦", "x" * 3000])
async def test_any_characters_can_be_typed(handler: TypingHarness, typed: str):
    handler.type(typed + "\n")
    assert await handler.messages.receive() == typed


async def _expect(handler: TypingHarness, line: str | None) -> None:
    assert await handler.keyboard.line() == line


CLOCK = 0.5


async def test_the_first_key_stops_the_clock_for_good(handler: TypingHarness):
    shown: list[str] = []
    lines: list[TimedLine] = []
    first = anyio.Event()

    def show(typed: str) -> None:
        shown.append(typed)
        first.set()

    async def wait() -> None:
        lines.append(await handler.keyboard.line_within(CLOCK, show))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        ends = anyio.current_time() + CLOCK
        handler.type("g")
        await first.wait()
        await anyio.sleep_until(ends + 0.1)
        assert lines == []
        handler.type("o\r")
    assert lines == [TimedLine("go")]
    assert "".join(shown) == "go\n"


async def test_a_line_started_before_the_question_stops_the_clock_without_answering(
    handler: TypingHarness,
):
    lines: list[TimedLine] = []

    async def wait() -> None:
        lines.append(await handler.keyboard.line_within(CLOCK, lambda typed: None))

    handler.type("ye")
    await handler.keyboard.drain_typed()
    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        handler.type("s\r")
        assert await handler.messages.receive() == "yes"
        handler.type("no\r")
    assert lines == [TimedLine("no")]


async def test_without_a_key_the_time_runs_out(handler: TypingHarness):
    assert await handler.keyboard.line_within(0.01, print) == TimedLine("", timed_out=True)
    handler.type("late\n")
    assert await handler.messages.receive() == "late"
