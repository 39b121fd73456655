"""The other end of `--json-io`: what a program knows of an agent from what it is told of it.

It is fed the lines of a webview, can be asked how things stand, tells whoever listens what
happens, and spells answers, which it hands to whatever sends them. It reads and writes nothing
itself.
"""

import json
from collections.abc import Callable, Iterable, Sequence

from rookery.compat.json_io.client_events import (
    Completed,
    Emitter,
    Happening,
    Listener,
    ModeChange,
    StateChange,
    Stop,
    Waiting,
)
from rookery.compat.json_io.client_state import Known, StateStore
from rookery.compat.json_io.message_rows import Wire, read_row
from rookery.compat.structured_output.output_rows import output
from rookery.core.asks import AskKind
from rookery.core.folds.agent_state import AgentState, AgentStateInfo

_COMPLETIONS = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)


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
                    self._note(f"A message of type {message.get('type')!r} changes nothing.")
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
            self._note("What was to be updated is no message.")
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
            emit(Happening.WAITING_FOR_INPUT, Waiting(ask=ask, state_info=now, message=last))
        if old.is_waiting_for_input and now.is_running:
            emit(Happening.RESUMED_RUNNING)
        if now.is_streaming and not old.is_streaming:
            emit(Happening.STREAMING_STARTED)
        if old.is_streaming and not now.is_streaming:
            emit(Happening.STREAMING_ENDED)
        if asks_anew and now.current_ask in _COMPLETIONS:
            emit(Happening.TASK_COMPLETED, Completed(state_info=now, message=last))


class ExtensionClient:
    """The one source of truth about an agent, for a program. `send` takes what it answers."""

    def __init__(
        self,
        send: Callable[[Wire], None],
        *,
        only_significant: bool = False,
        history: int = 0,
        now: Callable[[], float] = lambda: 0.0,
        note: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`note` is told, once debugging is on, what was dropped and why."""
        self._send = send
        self._sink = note
        self._debug = False
        self._emitter = Emitter()
        self.store = StateStore(
            now=now,
            history=history,
            failed=lambda error: self._emitter.emit(Happening.ERROR, error),
        )
        self._processor = MessageProcessor(
            self.store, self._emitter, only_significant=only_significant, note=self._note
        )

    def handle_message(self, given: Wire | str | bytes) -> None:
        """One message of the engine. What is none is dropped."""
        message: object = given
        if isinstance(given, str | bytes):
            try:
                message = json.loads(given)
            except (ValueError, RecursionError):
                self._note("A text that is no JSON was dropped.")
                return
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            self._note("A message without a type was dropped.")
            return
        self._processor.process(message)

    def handle_messages(self, given: Iterable[Wire | str | bytes]) -> None:
        for message in given:
            self.handle_message(message)

    @property
    def agent_state(self) -> AgentStateInfo:
        return self.store.known.agent

    @property
    def state(self) -> AgentState:
        return self.agent_state.state

    @property
    def is_waiting_for_input(self) -> bool:
        return self.agent_state.is_waiting_for_input

    @property
    def is_running(self) -> bool:
        return self.agent_state.is_running

    @property
    def is_streaming(self) -> bool:
        return self.agent_state.is_streaming

    @property
    def has_active_task(self) -> bool:
        return self.state is not AgentState.NO_TASK

    @property
    def messages(self) -> Sequence[Wire]:
        return self.store.known.messages

    @property
    def last_message(self) -> Wire | None:
        return self.messages[-1] if self.messages else None

    @property
    def current_ask(self) -> str | None:
        return self.agent_state.current_ask

    @property
    def is_initialized(self) -> bool:
        return self.store.known.initialized

    @property
    def mode(self) -> str | None:
        return self.store.known.mode

    @property
    def state_history(self) -> Sequence[Known]:
        return self.store.history

    def on(self, happening: Happening | str, listener: Listener) -> Stop:
        return self._emitter.on(happening, listener)

    def once(self, happening: Happening | str, listener: Listener) -> Stop:
        return self._emitter.once(happening, listener)

    def off(self, happening: Happening | str, listener: Listener) -> None:
        self._emitter.off(happening, listener)

    def remove_all_listeners(self, happening: Happening | str | None = None) -> None:
        self._emitter.remove_all_listeners(happening)

    def listener_count(self, happening: Happening | str) -> int:
        return self._emitter.listener_count(happening)

    def approve(self, text: str = "", images: Sequence[str] = ()) -> None:
        self.send_response("yesButtonClicked", text, images)

    def reject(self, text: str = "", images: Sequence[str] = ()) -> None:
        self.send_response("noButtonClicked", text, images)

    def respond(self, text: str, images: Sequence[str] = ()) -> None:
        self.send_response("messageResponse", text, images)

    def resume_task(self) -> None:
        self.approve()

    def retry_api_request(self) -> None:
        self.approve()

    def send_response(self, response: str, text: str = "", images: Sequence[str] = ()) -> None:
        """Answer what is asked. The answer names the question, so that it answers no other."""
        asked = self.agent_state.last_message_ts if self.is_waiting_for_input else None
        self._send(
            output(
                type="askResponse",
                askResponse=response,
                text=text or None,
                images=list(images) or None,
                messageTs=asked,
            )
        )

    def new_task(
        self,
        text: str,
        images: Sequence[str] = (),
        *,
        task_id: str = "",
        configuration: Wire | None = None,
    ) -> None:
        self._send(
            output(
                type="newTask",
                text=text,
                images=list(images) or None,
                taskId=task_id or None,
                taskConfiguration=configuration,
            )
        )

    def clear_task(self) -> None:
        self._send({"type": "clearTask"})
        self.store.clear()
        self._emitter.emit(Happening.TASK_CLEARED)

    def cancel_task(self) -> None:
        self._send({"type": "cancelTask"})

    def continue_terminal(self) -> None:
        self._send({"type": "terminalOperation", "terminalOperation": "continue"})

    def abort_terminal(self) -> None:
        self._send({"type": "terminalOperation", "terminalOperation": "abort"})

    def reset(self) -> None:
        """As it was before anything came. Nobody is told, and nobody listens any more."""
        self._emitter.remove_all_listeners()
        self._processor.reset()
        self.store.reset()

    def set_debug(self, on: bool) -> None:
        self._debug = on

    def _note(self, sentence: str) -> None:
        if self._debug:
            self._sink(sentence)
