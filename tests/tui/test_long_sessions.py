"""A long session is shown from near its end. What came before is read when it is wanted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import reduce
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.commands import ReopenTask
from rookery.core.event_list import EventList
from rookery.core.facts import (
    Asked,
    CheckpointSaved,
    ChildBegan,
    Event,
    Fact,
    FilesChanged,
    RequestStarted,
    Rewound,
    TaskOpened,
    TextStreamed,
    Todo,
    TodosChanged,
    ToolStarted,
    UserSpoke,
)
from rookery.core.folds.view import View, see
from rookery.core.folds.view_start import view_start
from rookery.core.queries import Asking, AskViewStart
from rookery.errors import StorageError
from rookery.tui.app import FullScreen
from rookery.tui.task_controller import StartOptions
from support.long_log import turns
from support.scripted_host import ABOUT, ScriptedHost
from support.tui_session import Play

pytestmark = pytest.mark.anyio
T = TypeVar("T")

CHANGE: tuple[Fact, ...] = (
    CheckpointSaved(call_id="e", id="a"),
    ToolStarted(call_id="e", tool="edit", title="Edit old.txt", text="{}"),
    FilesChanged(call_id="e", before="a", after="b", since=3),
)
TURNS, SHOWN = 400, 300
LONG: tuple[Fact, ...] = (
    TaskOpened(text="The giraffe comes first"),
    *CHANGE,
    *turns(0, TURNS),
    Asked(ask_id="q", ask=AskKind.RESUME_TASK),
)


class LongHost(ScriptedHost):
    """Counts the events that the client reads."""

    reads = 0
    fault: Exception | None = None
    """Why the first events cannot be read."""

    @property
    def log(self) -> list[Event]:
        return self._logs["t1"]

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        if self.fault and not after:
            raise self.fault
        async for event in super().follow(task_id, after):
            self.reads += 1
            yield event


@asynccontextmanager
async def opened(host: LongHost, *facts: Fact) -> AsyncIterator[Play]:
    host.tell(*(facts or LONG))
    host.answer(AskViewStart, view_start(EventList(host.log), SHOWN, long=SHOWN))
    app = FullScreen(host, StartOptions(first=ReopenTask(task_id="t1"), home="/home/ada"))
    async with app.run_test(size=(80, 24)) as pilot:
        yield Play(app, host, pilot)


@asynccontextmanager
async def shown(*facts: Fact) -> AsyncIterator[tuple[Play, LongHost]]:
    host = LongHost()
    async with opened(host, *facts) as played:
        await played.see("Step 399")
        await played.settle()
        yield played, host


def folded(host: LongHost) -> View:
    return reduce(see, host.log, View())


def texts(view: View) -> list[tuple[int, str | None]]:
    return [(row.ts, row.text) for row in view.messages]


async def test_only_the_end_is_read_until_more_is_wanted():
    async with shown() as (it, host):
        assert SHOWN <= host.reads < SHOWN + 20
        view = it.app.view
        assert view is not None
        assert view.usage == folded(host).usage
        assert view.mode == folded(host).mode
        await it.type("hello")
        assert it.composer.text == "hello"
        assert host.reads < SHOWN + 20


async def test_home_goes_to_the_very_first_row():
    async with shown() as (it, host):
        it.app._page.transcript.focus()
        await it.press("home")
        await it.see("giraffe")
        await it.settle()
        assert it.app.view is not None
        assert texts(it.app.view) == texts(folded(host))
        names = [row.name[1] for row in it.app._page.transcript.rows]
        assert names == [row.ts for row in folded(host).messages]
        await it.press("end")
        await it.see("Step 399")


async def test_scrolling_up_by_hand_finds_older_rows_in_place():
    async with shown() as (it, _):
        transcript = it.app._page.transcript
        transcript._go(1)
        await it.settle()
        before = it.lines[1:10]
        transcript._go(0)
        await it.until(lambda: it.app.start.seq == 0)
        await it.settle()
        assert transcript._first > 200
        assert [line for line in before if line.strip() and line in it.lines]


async def test_a_search_finds_the_first_message():
    async with shown() as (it, _):
        await it.app.run_action("find('giraffe')")
        await it.see("1 of 1")
        assert "The giraffe comes first" in it.screen


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("/checkpoints", "giraffe"),
        ("/undo", "old.txt"),
        ("/rewind 1", "Edit old.txt"),
        ("/cost", "200 earlier"),
    ],
)
async def test_screens_know_the_whole_session(command: str, found: str):
    async with shown() as (it, _):
        await it.type(command)
        await it.press("enter")
        await it.until(lambda: len(it.app.screen_stack) > 1)
        await it.see(found)


class SlowHost(LongHost):
    """Does not know yet where a session begins."""

    def __init__(self) -> None:
        super().__init__()
        self.knows = anyio.Event()

    async def query(self, query: Asking[T]) -> T:
        if isinstance(query, AskViewStart):
            await self.knows.wait()
        return await super().query(query)


@pytest.mark.parametrize(("line", "found"), [("/undo", "old.txt"), ("/find giraffe", "1 of 1")])
async def test_commands_wait_until_the_start_is_known(line: str, found: str):
    host = SlowHost()
    async with opened(host) as it:
        await it.type(line)
        await it.press("enter")
        await it.settle()
        assert "Nothing to undo" not in it.screen
        host.knows.set()
        await it.see(found)


async def test_the_to_do_list_knows_what_it_was_before_what_is_shown():
    was = Todo(id="1", content="Bake a cake")
    done = TodosChanged(todos=(replace(was, status="completed"),))
    before = TaskOpened(text="Go"), TodosChanged(todos=(was,))
    async with shown(*before, *turns(0, TURNS), done) as (it, _):
        await it.app.run_action("todos")
        await it.see("Bake a cake  done")


async def test_an_export_has_the_whole_conversation(tmp_path: Path):
    async with shown() as (it, _):
        it.app._status_updates.about = replace(ABOUT, workspace=str(tmp_path))
        await it.type("/export all.md")
        await it.press("enter")
        await it.until((tmp_path / "all.md").exists)
        await it.settle()
        written = (tmp_path / "all.md").read_text()
        assert ("giraffe" in written, "Step 7\n" in written) == (True, True)


async def test_text_streamed_while_reading_the_past_is_not_lost():
    async with shown() as (it, host):
        host.tell(RequestStarted(request_id="new", model="m"))
        host.tell(TextStreamed(request_id="new", text="Half a sent"))
        await it.see("Half a sent")
        await it.app.read_past()
        host.tell(TextStreamed(request_id="new", text="ence."))
        await it.see("Half a sentence.")
        assert it.app.view is not None
        assert texts(it.app.view) == texts(folded(host))


async def test_a_sub_task_keeps_its_question_while_older_events_are_read():
    again = ChildBegan(call_id="c2", task_id="child", after=1)
    older = ChildBegan(call_id="c1", task_id="child"), ChildBegan(call_id="c0", task_id="old")
    async with shown(TaskOpened(text="Go"), *older, *turns(0, TURNS)) as (it, host):
        host.tell(TaskOpened(text="Look", parent="t1"), task="old")
        host.tell(TaskOpened(text="Look", parent="t1"), task="child")
        host.tell(Asked(ask_id="k", ask=AskKind.FOLLOWUP, text="Which one?"), task="child")
        host.tell(again)
        await it.see("Which one?")
        child = it.app._session.task("child")
        assert child is not None
        await it.app.read_past()
        await it.until(lambda: it.app._session.task("old") is not None)
        assert it.app._session.task("child") is child
        assert child.call_id == "c2"


async def test_another_client_rewinds_to_before_what_is_shown():
    async with shown() as (it, host):
        host.tell(Rewound(to=5), UserSpoke(message_id="m", text="Instead of this"))
        host.tell(RequestStarted(request_id="new", model="m"))
        await it.see("Instead of this")
        await it.see("giraffe")
        assert "Step 399" not in it.screen
        assert it.app.view is not None
        assert texts(it.app.view) == texts(folded(host))


@pytest.mark.parametrize("line", ["/undo", "/export all.md"])
async def test_a_session_whose_start_cannot_be_read_stays_open(line: str):
    async with shown() as (it, host):
        host.fault = StorageError("The journal was damaged.")
        it.app._page.transcript.focus()
        await it.press("home")
        await it.see("The journal was damaged.")
        await it.type(line)
        await it.press("enter")
        await it.settle()
        assert it.app.is_running
        assert it.app.start.seq > 0
        assert "Written to" not in it.screen
        assert len(it.app.screen_stack) == 1


async def test_a_session_that_was_left_while_it_is_read_stays_left():
    async with shown() as (it, _):
        it.app.run_worker(it.app.read_past())
        await it.app.new_task()
        await it.settle()
        assert it.app.task_id is None
