"""What happens to an agent that is looked at from outside, and how one is told of it."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from rookery.compat.json_io.message_rows import Wire
from rookery.core.folds.agent_state import AgentStateInfo

T = TypeVar("T")
Listener: TypeAlias = Callable[[Any], object]
Stop: TypeAlias = Callable[[], None]
"""Ends a subscription. Doing so twice does no harm."""


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


class Waiting(Struct, frozen=True, kw_only=True):
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
