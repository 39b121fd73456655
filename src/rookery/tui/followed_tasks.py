"""Follows a session and its sub-tasks, and folds their events into views.

Streamed events arrive faster than the screen is drawn. They are buffered, merged, and folded when
the next frame is due.
"""

import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from rookery.core.event_list import live
from rookery.core.facts import (
    Asked,
    CallStreamed,
    ChildBegan,
    Condensed,
    Condensing,
    Ending,
    Event,
    OutputStreamed,
    PromptRefused,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
)
from rookery.core.folds.view import View, see, view_from
from rookery.core.queries import ViewStart
from rookery.core.text.terminal_text import lines_in_gap
from rookery.errors import CommandRejected
from rookery.protocol.codec import Host
from rookery.protocol.late_view import goes_before, start_of, stored_events

BACKLOG = 400
"""Number of pending events from which folding takes noticeable time."""
PREVIEW_EVENTS = 150
"""Number of last events that are enough to fill a screen."""
AT_ONCE = 200
"""Number of older events that are folded before the keyboard gets its turn."""
SLICE_SECONDS = 0.015
"""Longest time that folding may block the event loop."""

Start = Callable[[Coroutine[Any, Any, None]], object]


class WatchedTask:
    """A followed task: its journal, its view and its open questions."""

    def __init__(
        self, task_id: str, *, call_id: str = "", parent: "WatchedTask | None" = None
    ) -> None:
        self.task_id = task_id
        self.start = ViewStart()
        """Where the events begin: later in a long session, until the others are wanted."""
        self.begun = anyio.Event()
        """Set once `start` is known, or cannot be found out."""
        self.call_id = call_id
        self.parent = parent
        self.agent = ""
        """The agent that it is or works for, if several run side by side."""
        self.view = View()
        self.events: list[Event] = []
        """The lasting events."""
        self.ended: dict[str, ToolFinished] = {}
        self.ended_version = 0
        """Number of changes to `ended`."""
        self.questions: dict[str, Asked] = {}
        self.failure = ""
        self.over = False
        """Whether the event stream has ended."""
        self.condensing = False
        """Whether the conversation is being summarised; an open question is asked again
        afterwards."""
        self.refused_text = ""
        """A message that a hook refused, until it is put back into the input area."""
        self._pending: list[Event] = []
        self._streamed: list[Event] = []
        """What was received since the last lasting event, while older events are missing."""

    @property
    def depth(self) -> int:
        return self.parent.depth + 1 if self.parent else 0

    @property
    def waiting(self) -> int:
        """Number of events that are not folded yet."""
        return len(self._pending)

    @property
    def asked(self) -> Asked | None:
        """The open question."""
        row = None if self.condensing else self.view.open_ask
        return self.questions.get(row.ask_id) if row else None

    def begin_at(self, start: ViewStart) -> None:
        self.start, self.view = start, view_from(start)

    def receive(self, event: Event) -> None:
        """Buffer an event until the next frame."""
        if event.fact.lasting:
            self.events.append(event)
            self._streamed.clear()
        elif self.start.seq:
            self._streamed.append(event)
        self._pending.append(event)

    def catch_up(self, seconds: float) -> None:
        """Fold buffered events, for at most `seconds`."""
        until = anyio.current_time() + seconds
        done = 0
        while done < len(self._pending):
            upto = self._end_of_stream(done)
            self._fold(_merge(self._pending[done:upto]))
            done = upto
            if done % 32 == 0 and anyio.current_time() >= until:
                break
        del self._pending[:done]

    def put_before(self, past: "WatchedTask") -> None:
        """Show what happened before, too."""
        self.catch_up(math.inf)
        for event in self.events:
            past.receive(event)
        past.catch_up(math.inf)
        view = past.view
        for event in self._streamed:
            view = see(view, event)
        self.start, self.view, self.events = past.start, view, past.events
        self.ended = past.ended
        self.ended_version += 1

    def _end_of_stream(self, begin: int) -> int:
        """End of the run of streamed pieces that starts at `begin`."""
        stream, end = _stream_of(self._pending[begin]), begin + 1
        while stream and end < len(self._pending) and _stream_of(self._pending[end]) == stream:
            end += 1
        return end

    def preview(self, most: int = PREVIEW_EVENTS) -> View:
        """A view of the last events only, shown while a long backlog is being folded."""
        view = View()
        for event in (*self._opening_event(), *self._pending[-most:]):
            view = see(view, event)
            self._note(event)
        return view

    def _opening_event(self) -> Sequence[Event]:
        first = self._pending[:1]
        return first if first and isinstance(first[0].fact, TaskOpened) else ()

    def _fold(self, event: Event) -> None:
        self._note(event)
        self.view = see(self.view, event)

    def _note(self, event: Event) -> None:
        match event.fact:
            case ToolFinished(call_id=call_id) as finished:
                self.ended[call_id] = finished
                self.ended_version += 1
            case Rewound():
                self.ended = _call_ends(each for each in self.events if each.seq <= event.seq)
                self.ended_version += 1
            case Asked(ask_id=ask_id) as asked:
                self.questions[ask_id] = asked
                self.condensing = False
            case Condensing():
                self.condensing = True
            case RequestStarted():
                self.condensing, self.refused_text = False, ""
            case Condensed() | StepCancelled():
                self.condensing = False
            case TaskFailed(message=message):
                self.failure = message
            case TaskReopened():
                self.failure = ""
            case PromptRefused(text=text):
                self.refused_text = text
            case _:
                pass


def _call_ends(events: Iterable[Event]) -> dict[str, ToolFinished]:
    """How calls ended. Undone calls count as skipped, and their result is dropped."""
    known = list(events)
    kept_seqs = {event.seq for event in live(known)}
    undone: dict[str, ToolFinished] = {}
    ended: dict[str, ToolFinished] = {}
    for event in known:
        match event.fact:
            case ToolFinished(call_id=call_id) as finished if event.seq in kept_seqs:
                ended[call_id] = finished
            case ToolFinished(call_id=call_id):
                undone[call_id] = ToolFinished(call_id=call_id, text="", ending=Ending.SKIPPED)
    return undone | ended


def _stream_of(event: Event) -> tuple[object, ...]:
    """Identifies the stream that a piece belongs to; empty if the event is not streamed."""
    match event.fact:
        case TextStreamed(request_id=name) | ThinkingStreamed(request_id=name):
            return type(event.fact), name
        case CallStreamed(request_id=name, index=index):
            return CallStreamed, name, index
        case OutputStreamed(call_id=name, text=text) if lines_in_gap(text) is None:
            return OutputStreamed, name
        case _:
            return ()


def _merge(pieces: Sequence[Event]) -> Event:
    """Merge the pieces of a stream into one event with the time of the first."""
    last, ts = pieces[-1], pieces[0].ts
    match last.fact:
        case CallStreamed() as call:
            arguments = (
                each.fact.arguments for each in pieces if isinstance(each.fact, CallStreamed)
            )
            return replace(last, ts=ts, fact=replace(call, arguments="".join(arguments)))
        case TextStreamed() | ThinkingStreamed() | OutputStreamed() as words:
            texts = (each.fact.text for each in pieces if isinstance(each.fact, type(words)))
            return replace(last, ts=ts, fact=replace(words, text="".join(texts)))
        case _:
            return last


class Following:
    """The session on the screen and its sub-tasks. `on_event` is called for every event."""

    def __init__(self, host: Host, start: Start, on_event: Callable[[], None]) -> None:
        self._host = host
        self._start = start
        self._on_event = on_event
        self.root: WatchedTask | None = None
        self._reading = anyio.Lock()
        self._tasks: dict[str, WatchedTask] = {}

    @property
    def tasks(self) -> Sequence[WatchedTask]:
        return list(self._tasks.values())

    @property
    def views(self) -> Mapping[str, View]:
        return {task_id: each.view for task_id, each in self._tasks.items()}

    def task(self, task_id: str) -> WatchedTask | None:
        return self._tasks.get(task_id)

    def forget(self) -> None:
        self.root = None
        self._tasks = {}

    async def follow(self, task_id: str) -> None:
        """Follow the task until it ends. Raises `CommandRejected` if it is not open."""
        self.forget()
        self.root = self._tasks[task_id] = task = WatchedTask(task_id)
        try:
            task.begin_at(await start_of(self._host, task_id))
        finally:
            task.begun.set()
        await self._listen(task, task.start.seq)

    async def read_past(self) -> None:
        """Read the events of a long session before those that were shown first."""
        if task := self.root:
            await task.begun.wait()
        async with self._reading:
            if task is None or self.root is not task or not task.start.seq:
                return
            past = WatchedTask(task.task_id)
            stored = stored_events(self._host, task.task_id, 0, task.start.seq)
            async with aclosing(stored) as events:
                async for event in events:
                    past.receive(event)
                    if past.waiting >= AT_ONCE:
                        past.catch_up(math.inf)
                        await anyio.lowlevel.checkpoint()
                    if self.root is not task:
                        return
            older = [
                each
                for each in past.events
                if isinstance(each.fact, ChildBegan) and each.fact.task_id not in self._tasks
            ]
            task.put_before(past)
            self._follow_children(task, older)
            self._on_event()

    async def _listen(self, task: WatchedTask, after: int) -> None:
        async for event in self._host.follow(task.task_id, after):
            if self._tasks.get(task.task_id) is not task:
                return
            if goes_before(event, task.view):
                await self.read_past()
            task.receive(event)
            self._follow_children(task, [event])
            self._on_event()
        task.over = True
        self._on_event()

    def _follow_children(self, parent: WatchedTask, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event.fact, ChildBegan):
                self._start(self._follow_child(parent, event.fact))

    async def _follow_child(self, parent: WatchedTask, began: ChildBegan) -> None:
        child = WatchedTask(began.task_id, call_id=began.call_id, parent=parent)
        child.agent = began.name or parent.agent
        self._tasks[began.task_id] = child
        # rejected: the sub-task ended in an earlier run, and the parent has its result
        with suppress(CommandRejected):
            await self._listen(child, began.after)
        child.over = True

    def open_questions(self) -> Iterator[tuple[WatchedTask, Asked]]:
        """The open questions, those of the innermost task first."""
        for task in sorted(self._tasks.values(), key=lambda each: -each.depth):
            if not task.over and (asked := task.asked):
                yield task, asked
