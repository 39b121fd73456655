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
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(desk.keyboard.run)
            yield desk
            group.cancel_scope.cancel()
    desk.clear()


async def test_whoever_waits_gets_the_next_line(desk: Desk):
    async with anyio.create_task_group() as group:
        group.start_soon(_expect, desk, "yes")
        await anyio.wait_all_tasks_blocked()
        desk.type("yes\n")


async def test_a_line_nobody_waits_for_is_said_unasked(desk: Desk):
    desk.type("  also the docs \n")
    assert await desk.unasked.receive() == "also the docs"


async def test_blank_lines_are_not_said(desk: Desk):
    desk.type("\n   \nwords\n")
    assert await desk.unasked.receive() == "words"


async def test_a_line_that_is_there_before_the_question_does_not_answer_it(desk: Desk):
    desk.type("y\n")  # nobody has had a chance to read it yet
    await desk.keyboard.drain_typed()
    assert await desk.unasked.receive() == "y"
    desk.type("n\n")
    assert await desk.keyboard.line() == "n"


async def test_a_line_begun_before_the_question_does_not_answer_it(desk: Desk):
    desk.type("ye")
    await desk.keyboard.drain_typed()
    desk.type("s\nno\n")
    assert await desk.keyboard.line() == "no"
    assert await desk.unasked.receive() == "yes"


async def test_what_was_typed_before_and_never_ended_is_no_answer_either(desk: Desk):
    desk.type("early\ny")
    await desk.keyboard.drain_typed()
    assert await desk.unasked.receive() == "early"
    desk.type("\nlate\n")
    assert await desk.keyboard.line() == "late"
    assert await desk.unasked.receive() == "y"


async def test_a_pasted_block_answers_with_its_first_line_only(desk: Desk):
    async with anyio.create_task_group() as group:
        group.start_soon(_expect, desk, "one")
        await anyio.wait_all_tasks_blocked()
        desk.type("one\ntwo\n")
    assert await desk.unasked.receive() == "two"


async def test_end_of_input_is_no_line_and_typing_goes_on_after_it(desk: Desk):
    for _ in range(2):
        async with anyio.create_task_group() as group:
            group.start_soon(_expect, desk, None)
            await anyio.wait_all_tasks_blocked()
            desk.type("\x04")
    desk.type("words\n")
    assert await desk.unasked.receive() == "words"


async def test_a_terminal_that_is_gone_ends_the_waiting_and_the_reading():
    desk = Desk()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(desk.keyboard.run)
            group.start_soon(_expect, desk, None)
            await anyio.wait_all_tasks_blocked()
            desk.hang_up()
    await desk.keyboard.drain_typed()
    desk.clear()


async def test_whoever_stops_waiting_leaves_the_line_to_others(desk: Desk):
    with anyio.move_on_after(0):
        await desk.keyboard.line()
    desk.type("words\n")
    assert await desk.unasked.receive() == "words"


@pytest.mark.parametrize("typed", ["grüße 🐦", "x" * 3000])
async def test_any_characters_can_be_typed(desk: Desk, typed: str):
    desk.type(typed + "\n")
    assert await desk.unasked.receive() == typed


async def _expect(desk: Desk, line: str | None) -> None:
    assert await desk.keyboard.line() == line


CLOCK = 0.5


async def test_the_first_key_stops_the_clock_for_good(desk: Desk):
    shown: list[str] = []
    lines: list[TimedLine] = []
    first = anyio.Event()

    def show(typed: str) -> None:
        shown.append(typed)
        first.set()

    async def wait() -> None:
        lines.append(await desk.keyboard.line_within(CLOCK, show))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        ends = anyio.current_time() + CLOCK
        desk.type("g")
        await first.wait()
        await anyio.sleep_until(ends + 0.1)
        assert lines == []
        desk.type("o\r")
    assert lines == [TimedLine("go")]
    assert "".join(shown) == "go\n"


async def test_a_line_begun_before_the_question_stops_the_clock_and_is_no_answer(desk: Desk):
    lines: list[TimedLine] = []

    async def wait() -> None:
        lines.append(await desk.keyboard.line_within(CLOCK, lambda typed: None))

    desk.type("ye")
    await desk.keyboard.drain_typed()
    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        desk.type("s\r")
        assert await desk.unasked.receive() == "yes"
        desk.type("no\r")
    assert lines == [TimedLine("no")]


async def test_without_a_key_the_time_runs_out(desk: Desk):
    assert await desk.keyboard.line_within(0.01, print) == TimedLine("", timed_out=True)
    desk.type("late\n")
    assert await desk.unasked.receive() == "late"
