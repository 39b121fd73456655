"""What is known of an agent that is looked at from outside: its messages and what they tell."""

from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from rookery.compat.json_io.client_events import Observable
from rookery.compat.json_io.message_rows import Wire, read_row
from rookery.core.folds.agent_state import AgentStateInfo, detect
from rookery.core.message import Message

NOTHING = detect(())


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
