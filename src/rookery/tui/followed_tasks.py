"""Follows a task and all that work for it, and keeps what is to be shown of them.

News of a stream come far faster than anybody reads: they are put aside as they come, put
together, and folded into the view when the next picture is due.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
from msgspec.structs import replace

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
    live,
)
from rookery.core.folds.view import View, see
from rookery.core.text.output_preview import lines_in_gap
from rookery.errors import CommandRejected
from rookery.protocol.codec import Host

BACKLOG = 400
"""Events at once that take long enough for somebody to notice."""
GLIMPSE = 150
"""Events at the end of a long past that fill a screen."""
SLICE_SECONDS = 0.015
"""How long folding may keep the keyboard waiting."""

Start = Callable[[Coroutine[Any, Any, None]], object]


class WatchedTask:
    """One task as it is seen here."""

    def __init__(
        self, task_id: str, *, call_id: str = "", parent: "WatchedTask | None" = None
    ) -> None:
        self.task_id = task_id
        self.call_id = call_id
        self.parent = parent
        self.view = View()
        self.events: list[Event] = []
        """What is on record."""
        self.ended: dict[str, ToolFinished] = {}
        self.ends_seen = 0
        """How often `ended` has changed."""
        self.questions: dict[str, Asked] = {}
        self.failure = ""
        """Why it failed, if it did."""
        self.over = False
        """Nothing more will come."""
        self.condensing = False
        """Its conversation is being summarised. What it had asked is asked again after that."""
        self.refused_words = ""
        """What a hook refused of what the user said, until it is given back."""
        self._news: list[Event] = []

    @property
    def depth(self) -> int:
        return self.parent.depth + 1 if self.parent else 0

    @property
    def waiting(self) -> int:
        """Events that the view does not hold yet."""
        return len(self._news)

    @property
    def asked(self) -> Asked | None:
        """The question that is open, as it was put."""
        row = None if self.condensing else self.view.open_ask
        return self.questions.get(row.ask_id) if row else None

    def hear(self, event: Event) -> None:
        """Put an event aside until the next picture."""
        if event.fact.lasting:
            self.events.append(event)
        self._news.append(event)

    def catch_up(self, seconds: float) -> None:
        """Fold what was put aside, for at most so long."""
        until = anyio.current_time() + seconds
        done = 0
        while done < len(self._news):
            upto = self._end_of_stream(done)
            self._see(_together(self._news[done:upto]))
            done = upto
            if done % 32 == 0 and anyio.current_time() >= until:
                break
        del self._news[:done]

    def _end_of_stream(self, begin: int) -> int:
        """Where the pieces end that belong together with the one at `begin`."""
        stream, end = _stream_of(self._news[begin]), begin + 1
        while stream and end < len(self._news) and _stream_of(self._news[end]) == stream:
            end += 1
        return end

    def glimpse(self, most: int = GLIMPSE) -> View:
        """What the end of a long backlog looks like, before all of it is folded."""
        view = View()
        for event in (*self._openings(), *self._news[-most:]):
            view = see(view, event)
            self._note(event)
        return view

    def _openings(self) -> Sequence[Event]:
        first = self._news[:1]
        return first if first and isinstance(first[0].fact, TaskOpened) else ()

    def _see(self, event: Event) -> None:
        self._note(event)
        self.view = see(self.view, event)

    def _note(self, event: Event) -> None:
        match event.fact:
            case ToolFinished(call_id=call_id) as finished:
                self.ended[call_id] = finished
                self.ends_seen += 1
            case Rewound():
                self.ended = _ends(each for each in self.events if each.seq <= event.seq)
                self.ends_seen += 1
            case Asked(ask_id=ask_id) as asked:
                self.questions[ask_id] = asked
                self.condensing = False
            case Condensing():
                self.condensing = True
            case RequestStarted():
                self.condensing, self.refused_words = False, ""
            case Condensed() | StepCancelled():
                self.condensing = False
            case TaskFailed(message=message):
                self.failure = message
            case TaskReopened():
                self.failure = ""
            case PromptRefused(text=text):
                self.refused_words = text
            case _:
                pass


def _ends(events: Iterable[Event]) -> dict[str, ToolFinished]:
    """How calls ended. One that was taken back counts as not done, and its result is not told."""
    known = list(events)
    standing = {event.seq for event in live(known)}
    taken_back: dict[str, ToolFinished] = {}
    ended: dict[str, ToolFinished] = {}
    for event in known:
        match event.fact:
            case ToolFinished(call_id=call_id) as finished if event.seq in standing:
                ended[call_id] = finished
            case ToolFinished(call_id=call_id):
                taken_back[call_id] = ToolFinished(call_id=call_id, text="", ending=Ending.SKIPPED)
    return taken_back | ended


def _stream_of(event: Event) -> tuple[object, ...]:
    """What a piece of a stream belongs to, and for whatever is none, nothing but itself."""
    match event.fact:
        case TextStreamed(request_id=name) | ThinkingStreamed(request_id=name):
            return type(event.fact), name
        case CallStreamed(request_id=name, index=index):
            return CallStreamed, name, index
        case OutputStreamed(call_id=name, text=text) if lines_in_gap(text) is None:
            return OutputStreamed, name
        case _:
            return ()


def _together(pieces: Sequence[Event]) -> Event:
    """The pieces of one stream as one, named after the first."""
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
    """The task that is looked at, and its children. `news` is called whenever something came."""

    def __init__(self, host: Host, start: Start, news: Callable[[], None]) -> None:
        self._host = host
        self._start = start
        self._news = news
        self.root: WatchedTask | None = None
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
        """Until the task ends. Raises `CommandRejected` if it is not open."""
        self.forget()
        self.root = self._tasks[task_id] = WatchedTask(task_id)
        await self._listen(self.root, 0)

    async def _listen(self, task: WatchedTask, after: int) -> None:
        async for event in self._host.follow(task.task_id, after):
            if self._tasks.get(task.task_id) is not task:
                return
            task.hear(event)
            if isinstance(event.fact, ChildBegan):
                self._start(self._follow_child(task, event.fact))
            self._news()
        task.over = True
        self._news()

    async def _follow_child(self, parent: WatchedTask, began: ChildBegan) -> None:
        child = WatchedTask(began.task_id, call_id=began.call_id, parent=parent)
        self._tasks[began.task_id] = child
        # refused means that it ended before we came, in an earlier run: its parent tells the rest
        with suppress(CommandRejected):
            await self._listen(child, began.after)
        child.over = True

    def asking(self) -> Iterator[tuple[WatchedTask, Asked]]:
        """The open questions, those of the innermost task first."""
        for task in sorted(self._tasks.values(), key=lambda each: -each.depth):
            if not task.over and (asked := task.asked):
                yield task, asked
