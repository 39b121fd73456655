"""Lines typed at a real pseudo-terminal, and who gets them."""

import os
import pty
from collections.abc import AsyncIterator

import anyio
import pytest

from rookery.plain.keyboard import Keyboard, TimedLine

pytestmark = pytest.mark.anyio


class Desk:
    """A keyboard, the fingers that type on it, and what was said unasked."""

    def __init__(self) -> None:
        self._fingers, self._terminal = pty.openpty()
        self._said, self.unasked = anyio.create_memory_object_stream[str](10)
        self.keyboard = Keyboard(self._terminal, self._said.send)

    def type(self, keys: str) -> None:
        os.write(self._fingers, keys.encode())

    def hang_up(self) -> None:
        os.close(self._fingers)
        self._fingers = os.open(os.devnull, os.O_RDONLY)

    def clear(self) -> None:
        os.close(self._fingers)
        os.close(self._terminal)
        self._said.close()
        self.unasked.close()


@pytest.fixture
async def handler() -> AsyncIterator[Desk]:
    handler = Desk()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(handler.keyboard.run)
            yield handler
            group.cancel_scope.cancel()
    handler.clear()


async def test_a_waiting_question_gets_the_next_line(handler: Desk):
    async with anyio.create_task_group() as group:
        group.start_soon(_expect, handler, "yes")
        await anyio.wait_all_tasks_blocked()
        handler.type("yes\n")


async def test_a_line_without_a_question_is_a_message(handler: Desk):
    handler.type("  also the docs \n")
    assert await handler.unasked.receive() == "also the docs"


async def test_blank_lines_are_not_said(handler: Desk):
    handler.type("\n   \nwords\n")
    assert await handler.unasked.receive() == "words"


async def test_a_line_that_is_there_before_the_question_does_not_answer_it(handler: Desk):
    handler.type("y\n")  # nobody has had a chance to read it yet
    await handler.keyboard.drain_typed()
    assert await handler.unasked.receive() == "y"
    handler.type("n\n")
    assert await handler.keyboard.line() == "n"


async def test_a_line_begun_before_the_question_does_not_answer_it(handler: Desk):
    handler.type("ye")
    await handler.keyboard.drain_typed()
    handler.type("s\nno\n")
    assert await handler.keyboard.line() == "no"
    assert await handler.unasked.receive() == "yes"


async def test_what_was_typed_before_and_never_ended_is_no_answer_either(handler: Desk):
    handler.type("early\ny")
    await handler.keyboard.drain_typed()
    assert await handler.unasked.receive() == "early"
    handler.type("\nlate\n")
    assert await handler.keyboard.line() == "late"
    assert await handler.unasked.receive() == "y"


async def test_a_pasted_block_answers_with_its_first_line_only(handler: Desk):
    async with anyio.create_task_group() as group:
        group.start_soon(_expect, handler, "one")
        await anyio.wait_all_tasks_blocked()
        handler.type("one\ntwo\n")
    assert await handler.unasked.receive() == "two"


async def test_end_of_input_is_no_line_and_typing_goes_on_after_it(handler: Desk):
    for _ in range(2):
        async with anyio.create_task_group() as group:
            group.start_soon(_expect, handler, None)
            await anyio.wait_all_tasks_blocked()
            handler.type("\x04")
    handler.type("words\n")
    assert await handler.unasked.receive() == "words"


async def test_a_terminal_that_is_gone_ends_the_waiting_and_the_reading():
    handler = Desk()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(handler.keyboard.run)
            group.start_soon(_expect, handler, None)
            await anyio.wait_all_tasks_blocked()
            handler.hang_up()
    await handler.keyboard.drain_typed()
    handler.clear()


async def test_a_question_that_stops_waiting_leaves_the_line_to_the_next(handler: Desk):
    with anyio.move_on_after(0):
        await handler.keyboard.line()
    handler.type("words\n")
    assert await handler.unasked.receive() == "words"


@pytest.mark.parametrize("typed", ["grüße 🐦", "x" * 3000])
async def test_any_characters_can_be_typed(handler: Desk, typed: str):
    handler.type(typed + "\n")
    assert await handler.unasked.receive() == typed


async def _expect(handler: Desk, line: str | None) -> None:
    assert await handler.keyboard.line() == line


CLOCK = 0.5


async def test_the_first_key_stops_the_clock_for_good(handler: Desk):
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


async def test_a_line_begun_before_the_question_stops_the_clock_and_is_no_answer(handler: Desk):
    lines: list[TimedLine] = []

    async def wait() -> None:
        lines.append(await handler.keyboard.line_within(CLOCK, lambda typed: None))

    handler.type("ye")
    await handler.keyboard.drain_typed()
    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        handler.type("s\r")
        assert await handler.unasked.receive() == "yes"
        handler.type("no\r")
    assert lines == [TimedLine("no")]


async def test_without_a_key_the_time_runs_out(handler: Desk):
    assert await handler.keyboard.line_within(0.01, print) == TimedLine("", timed_out=True)
    handler.type("late\n")
    assert await handler.unasked.receive() == "late"
