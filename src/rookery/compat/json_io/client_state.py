"""What a Python client of `--json-io` knows: the rows and state so far, and who listens."""

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rookery.compat.json_io.task_rows import Wire, read_row
from rookery.core.asks import AskKind
from rookery.core.folds.agent_state import AgentStateInfo, detect
from rookery.core.message import Message

T = TypeVar("T")
Listener: TypeAlias = Callable[[Any], object]
Stop: TypeAlias = Callable[[], None]
"""Ends a subscription. Doing so twice does no harm."""

NOTHING = detect(())

_COMPLETIONS = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)


class Happening(StrEnum):
    """Everything one can be told of, with what comes along."""

    STATE_CHANGE = "stateChange"
    """`StateChange`"""
    MESSAGE = "message"
    """The message, which was not seen before."""
    MESSAGE_UPDATED = "messageUpdated"
    """The message, which was known and has changed."""
    WAITING_FOR_INPUT = "waitingForInput"
    """`Waiting`"""
    RESUMED_RUNNING = "resumedRunning"
    STREAMING_STARTED = "streamingStarted"
    STREAMING_ENDED = "streamingEnded"
    TASK_COMPLETED = "taskCompleted"
    """`Completed`"""
    TASK_CLEARED = "taskCleared"
    MODE_CHANGED = "modeChanged"
    """`ModeChange`"""
    ERROR = "error"
    """The exception."""


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
    """Tells listeners of happenings, in the order in which they came. One that fails stops no
    other: its failure is an `error`, and that of a listener to errors is nobody's."""

    def __init__(self) -> None:
        self._listeners: dict[Happening, list[Listener]] = {}

    def on(self, happening: Happening | str, listener: Listener) -> Stop:
        self._listeners.setdefault(Happening(happening), []).append(listener)
        return lambda: self.off(happening, listener)

    def once(self, happening: Happening | str, listener: Listener) -> Stop:
        def hear(payload: Any) -> None:
            self.off(happening, hear)
            listener(payload)

        return self.on(happening, hear)

    def off(self, happening: Happening | str, listener: Listener) -> None:
        listeners = self._listeners.get(Happening(happening), [])
        if listener in listeners:
            listeners.remove(listener)

    def remove_all_listeners(self, happening: Happening | str | None = None) -> None:
        if happening is None:
            self._listeners.clear()
        else:
            self._listeners.pop(Happening(happening), None)

    def listener_count(self, happening: Happening | str) -> int:
        return len(self._listeners.get(Happening(happening), ()))

    def emit(self, happening: Happening, payload: Any = None) -> None:
        for listener in tuple(self._listeners.get(happening, ())):
            try:
                listener(payload)
            except Exception as error:
                if happening is not Happening.ERROR:
                    self.emit(Happening.ERROR, error)


class Observable(Generic[T]):
    """A value that can be watched. Who comes is handed the present one at once; one who fails is
    no reason not to tell the others."""

    def __init__(self, value: T, failed: Callable[[Exception], None]) -> None:
        self._value = value
        self._failed = failed
        self._observers: list[Callable[[T], object]] = []

    @property
    def value(self) -> T:
        return self._value

    def subscribe(self, observer: Callable[[T], object]) -> Stop:
        self._observers.append(observer)
        self._hand(observer)

        def stop() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return stop

    def change(self, value: T) -> None:
        self._value = value
        for observer in tuple(self._observers):
            self._hand(observer)

    def forget(self, value: T) -> None:
        """Take another value and have nobody watch it."""
        self._observers.clear()
        self._value = value

    def _hand(self, observer: Callable[[T], object]) -> None:
        try:
            observer(self._value)
        except Exception as error:
            self._failed(error)


class Known(Struct, frozen=True, kw_only=True):
    """All that is known at one moment; it never changes, another takes its place."""

    messages: tuple[Wire, ...] = ()
    """As they came, with fields that nobody here knows."""
    rows: tuple[Message, ...] = ()
    """The same as we read them."""
    agent: AgentStateInfo = NOTHING
    initialized: bool = False
    """A list of messages has come, if only an empty one."""
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
        """`now` is when something was learnt. So many earlier states are kept as `history` says;
        the oldest go first."""
        self._now = now
        self._past: deque[Known] = deque(maxlen=history)
        self.observable: Observable[Known] = Observable(Known(), failed)

    @property
    def known(self) -> Known:
        return self.observable.value

    @property
    def history(self) -> tuple[Known, ...]:
        return tuple(self._past)

    def set_messages(self, given: Iterable[object]) -> None:
        """Take another list in place of the one before; what is no message is left out."""
        pairs = [(each, row) for each in given if (row := read_row(each)) is not None]
        messages = tuple(each for each, _ in pairs if isinstance(each, dict))
        self._become(messages, tuple(row for _, row in pairs), initialized=True)

    def update_message(self, message: Wire) -> None:
        """Take another version of a message, or one more."""
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
        """Where the message with this `ts` is; most likely at the end."""
        rows = self.known.rows
        return next((at for at in range(len(rows) - 1, -1, -1) if rows[at].ts == ts), None)

    def set_mode(self, mode: str) -> None:
        self._change(replace(self.known, mode=mode, updated=self._now()))

    def clear(self) -> None:
        """There is no task any more. The mode stays."""
        self._become((), (), initialized=True)

    def reset(self) -> None:
        """As it was before anything came, without telling anyone."""
        self._past.clear()
        self.observable.forget(Known())

    def _become(
        self, messages: tuple[Wire, ...], rows: tuple[Message, ...], *, initialized: bool
    ) -> None:
        self._change(
            Known(
                messages=messages,
                rows=rows,
                agent=detect(rows),
                initialized=initialized,
                updated=self._now(),
                mode=self.known.mode,
            )
        )

    def _change(self, known: Known) -> None:
        if self._past.maxlen:
            self._past.append(self.known)
        self.observable.change(known)


class MessageProcessor:
    """Turns what the engine says into what is known and what happens."""

    def __init__(
        self,
        store: StateStore,
        emitter: Emitter,
        *,
        only_significant: bool = False,
        note: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`only_significant` leaves out changes of the state that are none of its kind."""
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
            self._emitter.emit(Happening.ERROR, error)

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
            self._tell_messages(before)
            self._tell_change(before)

    def _take_mode(self, mode: str) -> None:
        before = self._store.known.mode
        self._store.set_mode(mode)
        change = ModeChange(previous_mode=before, current_mode=mode)
        self._emitter.emit(Happening.MODE_CHANGED, change)

    def _is_news(self, version: object) -> bool:
        """A snapshot that was overtaken by a later one takes nothing back."""
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
            self._emitter.emit(Happening.MESSAGE, message)
        elif before.messages[place] != message:
            self._emitter.emit(Happening.MESSAGE_UPDATED, message)
        self._tell_change(before)

    def _tell_messages(self, before: Known) -> None:
        known = {message["ts"]: message for message in before.messages}
        for message in self._store.known.messages:
            if message["ts"] not in known:
                self._emitter.emit(Happening.MESSAGE, message)
            elif known[message["ts"]] != message:
                self._emitter.emit(Happening.MESSAGE_UPDATED, message)

    def _tell_change(self, before: Known) -> None:
        """What the step from one state to the next means. The order is part of the promise."""
        old, now = before.agent, self._store.known.agent
        last = self._store.known.messages[-1] if self._store.known.messages else {}
        emit = self._emitter.emit
        change = StateChange(previous_state=old, current_state=now)
        if change.is_significant_change or not self._only_significant:
            emit(Happening.STATE_CHANGE, change)
        asks_anew = now.is_waiting_for_input and not (
            old.is_waiting_for_input and old.last_message_ts == now.last_message_ts
        )
        if asks_anew:
            ask = now.current_ask or ""
            emit(
                Happening.WAITING_FOR_INPUT, WaitingForInput(ask=ask, state_info=now, message=last)
            )
        if old.is_waiting_for_input and now.is_running:
            emit(Happening.RESUMED_RUNNING)
        if now.is_streaming and not old.is_streaming:
            emit(Happening.STREAMING_STARTED)
        if old.is_streaming and not now.is_streaming:
            emit(Happening.STREAMING_ENDED)
        if asks_anew and now.current_ask in _COMPLETIONS:
            emit(Happening.TASK_COMPLETED, Completed(state_info=now, message=last))
