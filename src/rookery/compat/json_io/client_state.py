"""The state of a Python client of `--json-io`, and its listeners."""

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rookery.compat.json_io.row_messages import Wire, read_row
from rookery.core.message import AgentStateInfo, Message, detect

T = TypeVar("T")
Listener: TypeAlias = Callable[[Any], object]
Stop: TypeAlias = Callable[[], None]
"""Ends a subscription. Calling it twice is harmless."""

NOTHING = detect(())


class AgentEvent(StrEnum):
    """The events a program can listen to, each with its payload."""

    STATE_CHANGE = "stateChange"
    """Payload: `StateChange`."""
    MESSAGE = "message"
    """Payload: a new message."""
    MESSAGE_UPDATED = "messageUpdated"
    """Payload: a known message that has changed."""
    WAITING_FOR_INPUT = "waitingForInput"
    """Payload: `WaitingForInput`."""
    RESUMED_RUNNING = "resumedRunning"
    STREAMING_STARTED = "streamingStarted"
    STREAMING_ENDED = "streamingEnded"
    TASK_COMPLETED = "taskCompleted"
    """Payload: `Completed`."""
    TASK_CLEARED = "taskCleared"
    MODE_CHANGED = "modeChanged"
    """Payload: `ModeChange`."""
    ERROR = "error"
    """Payload: the exception."""


class StateChange(Struct, frozen=True, kw_only=True):
    previous_state: AgentStateInfo
    current_state: AgentStateInfo

    @property
    def is_significant_change(self) -> bool:
        return self.previous_state.state is not self.current_state.state


class WaitingForInput(Struct, frozen=True, kw_only=True):
    ask: str
    state_info: AgentStateInfo
    message: Wire


class Completed(Struct, frozen=True, kw_only=True):
    state_info: AgentStateInfo
    message: Wire
    success: bool = True


class ModeChange(Struct, frozen=True, kw_only=True):
    previous_mode: str | None
    current_mode: str


class Emitter:
    """Calls listeners in the order they were added. An exception in one does not stop the
    others: it is emitted as `error`, unless an error listener raised it."""

    def __init__(self) -> None:
        self._listeners: dict[AgentEvent, list[Listener]] = {}

    def on(self, event: AgentEvent | str, listener: Listener) -> Stop:
        self._listeners.setdefault(AgentEvent(event), []).append(listener)
        return lambda: self.off(event, listener)

    def once(self, event: AgentEvent | str, listener: Listener) -> Stop:
        def once_listener(payload: Any) -> None:
            self.off(event, once_listener)
            listener(payload)

        return self.on(event, once_listener)

    def off(self, event: AgentEvent | str, listener: Listener) -> None:
        listeners = self._listeners.get(AgentEvent(event), [])
        if listener in listeners:
            listeners.remove(listener)

    def remove_all_listeners(self, event: AgentEvent | str | None = None) -> None:
        if event is None:
            self._listeners.clear()
        else:
            self._listeners.pop(AgentEvent(event), None)

    def listener_count(self, event: AgentEvent | str) -> int:
        return len(self._listeners.get(AgentEvent(event), ()))

    def emit(self, event: AgentEvent, payload: Any = None) -> None:
        for listener in tuple(self._listeners.get(event, ())):
            try:
                listener(payload)
            except Exception as error:
                if event is not AgentEvent.ERROR:
                    self.emit(AgentEvent.ERROR, error)


class Observable(Generic[T]):
    """A value that can be watched. A new observer gets the current value at once. An exception
    in one does not stop the others."""

    def __init__(self, value: T, failed: Callable[[Exception], None]) -> None:
        self._value = value
        self._failed = failed
        self._observers: list[Callable[[T], object]] = []

    @property
    def value(self) -> T:
        return self._value

    def subscribe(self, observer: Callable[[T], object]) -> Stop:
        self._observers.append(observer)
        self._notify(observer)

        def stop() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return stop

    def change(self, value: T) -> None:
        self._value = value
        for observer in tuple(self._observers):
            self._notify(observer)

    def forget(self, value: T) -> None:
        """Set the value and remove all observers."""
        self._observers.clear()
        self._value = value

    def _notify(self, observer: Callable[[T], object]) -> None:
        try:
            observer(self._value)
        except Exception as error:
            self._failed(error)


class ClientState(Struct, frozen=True, kw_only=True):
    """The known state at one moment; immutable."""

    messages: tuple[Wire, ...] = ()
    """As received, with unknown fields."""
    rows: tuple[Message, ...] = ()
    """The same messages, parsed."""
    agent: AgentStateInfo = NOTHING
    initialized: bool = False
    """A list of messages was received, even if it was empty."""
    updated: float = 0.0
    mode: str | None = None


class StateStore:
    def __init__(
        self,
        *,
        now: Callable[[], float] = lambda: 0.0,
        history: int = 0,
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """`now` returns the time of an update, `history` limits the earlier states kept."""
        self._now = now
        self._past: deque[ClientState] = deque(maxlen=history)
        self.observable: Observable[ClientState] = Observable(ClientState(), failed)

    @property
    def known(self) -> ClientState:
        return self.observable.value

    @property
    def history(self) -> tuple[ClientState, ...]:
        return tuple(self._past)

    def set_messages(self, given: Iterable[object]) -> None:
        """Replace the list of messages; invalid ones are dropped."""
        pairs = [(each, row) for each in given if (row := read_row(each)) is not None]
        messages = tuple(each for each, _ in pairs if isinstance(each, dict))
        self._become(messages, tuple(row for _, row in pairs), initialized=True)

    def update_message(self, message: Wire) -> bool:
        """Replace a message, or add it if it is new. Returns whether it is valid."""
        row = read_row(message)
        if row is None:
            return False
        known = self.known
        place = self._place(row.ts)
        if place is None:
            messages, rows = (*known.messages, message), (*known.rows, row)
        else:
            messages = (*known.messages[:place], message, *known.messages[place + 1 :])
            rows = (*known.rows[:place], row, *known.rows[place + 1 :])
        self._become(messages, rows, initialized=known.initialized)
        return True

    def _place(self, ts: float) -> int | None:
        """Return the index of the message with this `ts`, searching from the end."""
        rows = self.known.rows
        return next((at for at in range(len(rows) - 1, -1, -1) if rows[at].ts == ts), None)

    def set_mode(self, mode: str) -> None:
        self._change(replace(self.known, mode=mode, updated=self._now()))

    def clear(self) -> None:
        """Remove the task but keep the mode."""
        self._become((), (), initialized=True)

    def reset(self) -> None:
        """Go back to the initial state without notifying anyone."""
        self._past.clear()
        self.observable.forget(ClientState())

    def _become(
        self, messages: tuple[Wire, ...], rows: tuple[Message, ...], *, initialized: bool
    ) -> None:
        self._change(
            ClientState(
                messages=messages,
                rows=rows,
                agent=detect(rows),
                initialized=initialized,
                updated=self._now(),
                mode=self.known.mode,
            )
        )

    def _change(self, known: ClientState) -> None:
        if self._past.maxlen:
            self._past.append(self.known)
        self.observable.change(known)
