"""The state of a Python client of `--json-io`: rows, agent state and listeners."""

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rookery.compat.json_io.row_messages import Wire, read_row
from rookery.core.asks import AskKind
from rookery.core.message import AgentStateInfo, Message, detect

T = TypeVar("T")
Listener: TypeAlias = Callable[[Any], object]
Stop: TypeAlias = Callable[[], None]
"""Ends a subscription. Calling it twice is harmless."""

NOTHING = detect(())

_COMPLETIONS = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)


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

    def update_message(self, message: Wire) -> None:
        """Replace a message, or add it if it is new."""
        row = read_row(message)
        if row is None:
            return
        known = self.known
        place = self.place(row.ts)
        if place is None:
            messages, rows = (*known.messages, message), (*known.rows, row)
        else:
            messages = (*known.messages[:place], message, *known.messages[place + 1 :])
            rows = (*known.rows[:place], row, *known.rows[place + 1 :])
        self._become(messages, rows, initialized=known.initialized)

    def place(self, ts: float) -> int | None:
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


class MessageProcessor:
    """Turns messages of the engine into state and events."""

    def __init__(
        self,
        store: StateStore,
        emitter: Emitter,
        *,
        only_significant: bool = False,
        note: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`only_significant` suppresses state changes within the same kind of state."""
        self._store = store
        self._emitter = emitter
        self._only_significant = only_significant
        self._note = note
        self._version: float | None = None

    def process(self, message: Wire) -> None:
        try:
            match message:
                case {"type": "state", "state": dict(state)}:
                    self._take_state(state)
                case {"type": "messageUpdated", "clineMessage": dict(row)}:
                    self._take_row(row)
                case _:
                    self._note(f"A message of type {message.get('type')!r} is ignored.")
        except Exception as error:
            self._emitter.emit(AgentEvent.ERROR, error)

    def reset(self) -> None:
        self._version = None

    def _take_state(self, state: Wire) -> None:
        mode = state.get("mode")
        if isinstance(mode, str) and mode != self._store.known.mode:
            self._take_mode(mode)
        messages = state.get("clineMessages")
        if isinstance(messages, list) and self._is_news(state.get("clineMessagesSeq")):
            before = self._store.known
            self._store.set_messages(messages)
            self._emit_messages(before)
            self._emit_change(before)

    def _take_mode(self, mode: str) -> None:
        before = self._store.known.mode
        self._store.set_mode(mode)
        change = ModeChange(previous_mode=before, current_mode=mode)
        self._emitter.emit(AgentEvent.MODE_CHANGED, change)

    def _is_news(self, version: object) -> bool:
        """Whether the snapshot is newer than the last one."""
        if not isinstance(version, int | float):
            return True
        if self._version is not None and version <= self._version:
            return False
        self._version = version
        return True

    def _take_row(self, message: Wire) -> None:
        row = read_row(message)
        if row is None:
            self._note("The update is not a message.")
            return
        before = self._store.known
        place = self._store.place(row.ts)
        self._store.update_message(message)
        if place is None:
            self._emitter.emit(AgentEvent.MESSAGE, message)
        elif before.messages[place] != message:
            self._emitter.emit(AgentEvent.MESSAGE_UPDATED, message)
        self._emit_change(before)

    def _emit_messages(self, before: ClientState) -> None:
        known = {message["ts"]: message for message in before.messages}
        for message in self._store.known.messages:
            if message["ts"] not in known:
                self._emitter.emit(AgentEvent.MESSAGE, message)
            elif known[message["ts"]] != message:
                self._emitter.emit(AgentEvent.MESSAGE_UPDATED, message)

    def _emit_change(self, before: ClientState) -> None:
        """Emit the events for a state change. Their order is part of the protocol."""
        old, now = before.agent, self._store.known.agent
        last = self._store.known.messages[-1] if self._store.known.messages else {}
        emit = self._emitter.emit
        change = StateChange(previous_state=old, current_state=now)
        if change.is_significant_change or not self._only_significant:
            emit(AgentEvent.STATE_CHANGE, change)
        asks_anew = now.is_waiting_for_input and not (
            old.is_waiting_for_input and old.last_message_ts == now.last_message_ts
        )
        if asks_anew:
            ask = now.current_ask or ""
            emit(
                AgentEvent.WAITING_FOR_INPUT, WaitingForInput(ask=ask, state_info=now, message=last)
            )
        if old.is_waiting_for_input and now.is_running:
            emit(AgentEvent.RESUMED_RUNNING)
        if now.is_streaming and not old.is_streaming:
            emit(AgentEvent.STREAMING_STARTED)
        if old.is_streaming and not now.is_streaming:
            emit(AgentEvent.STREAMING_ENDED)
        if asks_anew and now.current_ask in _COMPLETIONS:
            emit(AgentEvent.TASK_COMPLETED, Completed(state_info=now, message=last))
