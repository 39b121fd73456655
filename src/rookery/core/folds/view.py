"""Everything a client shows of a task, and what changed between two views.

A view is immutable: seeing an event returns a new view that shares most of the old one, so the cost
of an event does not grow with the log or with a text.
"""

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from rookery.core.facts import (
    Event,
    IntentSelected,
    Todo,
    UserSpoke,
    Waiting,
)
from rookery.core.folds.rows import Rows
from rookery.core.folds.run_tallies import Totals
from rookery.core.folds.transcript import Transcript
from rookery.core.message import AgentStateInfo, Message, state_after
from rookery.core.modes import Level
from rookery.core.queries import ViewStart, ViewState


class View(Struct, frozen=True, kw_only=True):
    """The current state of a task. `silence` is the number of seconds since the provider last
    sent something, and `waiting_for` says why, if that is known."""

    seq: int = 0
    start: int = 0
    """What it shows happened after this event."""
    silence: float = 0.0
    waiting_for: str = ""
    _transcript: Transcript = field(default_factory=Transcript)

    @property
    def messages(self) -> Rows[Message]:
        return self._transcript.messages

    @property
    def agent(self) -> AgentStateInfo:
        last = self.messages[-1] if self.messages else None
        return state_after(last, speaking=lambda: self._transcript.speaking)

    @property
    def usage(self) -> Totals:
        return self._transcript.usage

    @property
    def queue(self) -> tuple[UserSpoke, ...]:
        """The queued messages of the user."""
        return self._transcript.queue

    @property
    def open_ask(self) -> Message | None:
        return self._transcript.open_ask

    @property
    def mode(self) -> str:
        return self._view_state.mode

    @property
    def model(self) -> str:
        return self._view_state.model

    @property
    def window(self) -> int:
        return self._view_state.window

    @property
    def level(self) -> Level | None:
        return self._view_state.level

    @property
    def automatic(self) -> bool | None:
        """Whether actions are auto-approved; None: as the run was started."""
        return None if self.level is None else self.level is Level.AUTO

    @property
    def intent(self) -> IntentSelected | None:
        """The active intent, if any."""
        return self._view_state.intent

    @property
    def todos(self) -> tuple[Todo, ...]:
        return self._view_state.todos

    @property
    def closed(self) -> bool:
        return self._view_state.closed

    @property
    def _view_state(self) -> ViewState:
        return self._transcript.state


PARTS: dict[str, Callable[[View], object]] = {
    "agent": lambda view: {
        "state": view.agent.state,
        "current_ask": view.agent.current_ask,
        "required_action": view.agent.required_action,
    },
    "mode": lambda view: view.mode,
    "model": lambda view: view.model,
    "automatic": lambda view: view.automatic,
    "level": lambda view: view.level,
    "intent": lambda view: view.intent,
    "usage": lambda view: view.usage,
    "todos": lambda view: view.todos,
    "queue": lambda view: view.queue,
    "open_ask": lambda view: view.open_ask.ts if view.open_ask else None,
    "closed": lambda view: view.closed,
    "silence": lambda view: view.silence,
    "waiting_for": lambda view: view.waiting_for,
}
"""The parts of a view besides its rows, as clients get them."""


class ViewChange(Struct, frozen=True, kw_only=True):
    """What must be redrawn: rows by `ts`, and the names of other parts."""

    added: tuple[Message, ...] = ()
    changed: tuple[Message, ...] = ()
    removed: tuple[int, ...] = ()
    parts: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.parts)


def view_from(start: ViewStart) -> View:
    """A view of what happens after event `start.seq`. It cannot show a rewind to before that."""
    transcript = Transcript()
    transcript.usage, transcript.state = start.usage, start.state
    return View(seq=start.seq, start=start.seq, _transcript=transcript)


def without_rows(view: View) -> View:
    """The same view without what it has shown so far, if nothing in it is open."""
    return view_from(ViewStart(seq=view.seq, usage=view.usage, state=view._view_state))


def see(view: View, event: Event) -> View:
    transcript = view._transcript.copy()
    transcript.add(event)
    silence, waiting_for = 0.0, ""
    if isinstance(event.fact, Waiting):
        silence, waiting_for = event.fact.seconds, event.fact.what
    return View(
        seq=event.seq,
        start=view.start,
        silence=silence,
        waiting_for=waiting_for,
        _transcript=transcript,
    )


def take(view: View, event: Event) -> View:
    """Like `see`, but faster, for reading many stored events. `view` must not be used afterwards,
    and the result cannot show a rewind to an earlier event."""
    view._transcript.add(event, going_back=False)
    return View(seq=event.seq, start=event.seq, _transcript=view._transcript)


def settled_rows(view: View) -> tuple[list[Message], View]:
    """Split off the rows that only a rewind can change; call it when a request has just begun. The
    returned view has only the last row, and shares no memory with this one."""
    transcript = view._transcript.copy()
    rows = transcript.let_go()
    return rows, replace(view, _transcript=transcript)


def changes(before: View, after: View) -> ViewChange:
    """What a client that has drawn `before` must redraw to show `after`."""
    added, changed, removed = _row_changes(before.messages, after.messages)
    return ViewChange(
        added=tuple(added),
        changed=tuple(changed),
        removed=tuple(removed),
        parts=frozenset(name for name, part in PARTS.items() if part(before) != part(after)),
    )


def _row_changes(
    before: Rows[Message], after: Rows[Message]
) -> tuple[list[Message], list[Message], list[int]]:
    """Both are ordered by `ts`, so one pass over the rows they do not share is enough."""
    added: list[Message] = []
    changed: list[Message] = []
    removed: list[int] = []
    same = before.shared_with(after)
    old_rows, new_rows = before.since(same), after.since(same)
    old, new = next(old_rows, None), next(new_rows, None)
    while old or new:
        if old is None or (new is not None and new.ts < old.ts):
            assert new is not None
            added.append(new)
            new = next(new_rows, None)
        elif new is None or old.ts < new.ts:
            removed.append(old.ts)
            old = next(old_rows, None)
        else:
            if new is not old:
                changed.append(new)
            old, new = next(old_rows, None), next(new_rows, None)
    return added, changed, removed
