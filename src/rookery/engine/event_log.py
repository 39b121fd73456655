"""A task's log: the only thing in a task that changes, and it only grows."""

from collections.abc import AsyncIterator, Callable, Sequence

import anyio

from rookery.core.facts import Event, Fact, Noted, PromptRefused, Rewound, next_event
from rookery.core.folds.task_state import TaskState, advance, fold
from rookery.engine.ports.storage import LogStore


class _Link:
    """One event and the way to the next. News is forgotten once something lasting came behind it
    and every follower has passed it, because nobody holds its link any more."""

    __slots__ = ("event", "next")

    def __init__(self, event: Event | None) -> None:
        self.event = event
        self.next: _Link | None = None


class EventLog:
    """Appending is synchronous: nothing can interleave with it and no cancellation can
    tear it. Readers follow at their own pace; the log itself is their queue.
    """

    def __init__(self, store: LogStore, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._events = store.read()
        self._last = self._events[-1] if self._events else None
        self._tail = self._lasting = _Link(self._last)
        self._grown = anyio.Event()
        self._awaited = False
        self.ended = False
        self._failure: Exception | None = None
        self._told = store.recovered
        self.state = fold(self._events)

    @property
    def events(self) -> Sequence[Event]:
        """The lasting events."""
        return self._events

    def append(self, fact: Fact) -> Event:
        """Record a fact: first on disk, then in the state, then for whoever follows."""
        event = next_event(self._last, fact, self._now())
        if fact.lasting:
            self._store.write(event)
            self._events.append(event)
            self.state = self._state_after(fact)
        self._last = event
        self._tail.next = self._tail = _Link(event)
        if fact.lasting:
            self._lasting = self._tail
        self._wake()
        self._tell_what_was_recovered()
        return event

    def _tell_what_was_recovered(self) -> None:
        """Since the store was opened, when others tell it."""
        recovered = self._store.recovered
        if recovered and recovered != self._told:
            self._told = recovered
            self.append(Noted(text=recovered))
            self._told = self._store.recovered

    async def follow(self, after: int = 0) -> AsyncIterator[Event]:
        """Every lasting event past `after`, those already there and those still to come, and
        the news in between, until the log is closed. Who comes in the middle of an answer gets
        its beginning; who had already come to the last lasting event has heard it."""
        missed = self._events[after:]
        link = self._lasting if missed else self._tail
        for event in missed:
            yield event
        while True:
            while link.next:
                link = link.next
                assert link.event
                yield link.event
            if self.ended:
                break
            self._awaited = True
            await self._grown.wait()
        if self._failure:
            raise self._failure

    def close(self, failure: Exception | None = None) -> None:
        """Nothing more will come. A failure is raised to whoever follows."""
        if not self.ended:
            self.ended, self._failure = True, failure
            self._store.close()
            self._wake()

    def _wake(self) -> None:
        if self._awaited:
            self._awaited = False
            self._grown.set()
            self._grown = anyio.Event()

    def _state_after(self, fact: Fact) -> TaskState:
        takes_back = isinstance(fact, Rewound | PromptRefused)
        return fold(self._events) if takes_back else advance(self.state, fact)
