"""The other end of `--json-io`: a client with which Python programs drive an agent.

`ExtensionClient` takes the engine's messages, tracks the agent's state, calls listeners, and builds
answers, which it passes to `send`. It does no I/O itself. Names and payloads of events are those of
the message protocol.
"""

import json
from collections.abc import Callable, Iterable, Sequence

from rookery.compat.json_io.client_state import (
    AgentEvent,
    ClientState,
    Completed,
    Emitter,
    ModeChange,
    StateChange,
    StateStore,
    WaitingForInput,
)
from rookery.compat.json_io.row_messages import Wire
from rookery.compat.structured_output.call_rows import output
from rookery.core.message import AgentState, AgentStateInfo
from rookery.protocol.debug_log import emitted


class ExtensionClient(Emitter):
    """The state of an agent, and the means to drive it. `send` gets the messages for the engine."""

    def __init__(
        self,
        send: Callable[[Wire], None],
        *,
        only_significant: bool = False,
        history: int = 0,
        now: Callable[[], float] = lambda: 0.0,
        note: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`only_significant` suppresses state changes within the same kind of state. `note` gets
        the reason for each dropped message while debugging is on."""
        super().__init__()
        self._send = send
        self._only_significant = only_significant
        self._sink = note
        self._debug = False
        self._version: float | None = None
        self.store = StateStore(now=now, history=history, failed=self._fail)

    def handle_message(self, given: Wire | str | bytes) -> None:
        """Process one message of the engine. Invalid ones are dropped."""
        message: object = given
        if isinstance(given, str | bytes):
            try:
                message = json.loads(given)
            except (ValueError, RecursionError):
                self._note("A text that is not JSON was dropped.")
                return
        try:
            match message:
                case {"type": "state", "state": dict(state)}:
                    self._take_state(state)
                case {"type": "messageUpdated", "clineMessage": dict(row)}:
                    self._take_row(row)
                case {"type": str(type)}:
                    self._note(f"A message of type {type!r} is ignored.")
                case _:
                    self._note("A message without a type was dropped.")
        except Exception as error:
            self._fail(error)

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
    def state_history(self) -> Sequence[ClientState]:
        return self.store.history

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
        """Answer the open question. The answer names it, so that it cannot answer another one."""
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
        self.emit(AgentEvent.TASK_CLEARED)

    def cancel_task(self) -> None:
        self._send({"type": "cancelTask"})

    def continue_terminal(self) -> None:
        self._send({"type": "terminalOperation", "terminalOperation": "continue"})

    def abort_terminal(self) -> None:
        self._send({"type": "terminalOperation", "terminalOperation": "abort"})

    def reset(self) -> None:
        """Go back to the initial state without notifying anyone, and remove all listeners."""
        self.remove_all_listeners()
        self._version = None
        self.store.reset()

    def set_debug(self, on: bool) -> None:
        self._debug = on

    def _note(self, sentence: str) -> None:
        if self._debug:
            self._sink(sentence)

    def _fail(self, error: Exception) -> None:
        self.emit(AgentEvent.ERROR, error)

    def _take_state(self, state: Wire) -> None:
        before, mode = self.store.known, state.get("mode")
        if isinstance(mode, str) and mode != before.mode:
            self.store.set_mode(mode)
            change = ModeChange(previous_mode=before.mode, current_mode=mode)
            self.emit(AgentEvent.MODE_CHANGED, change)
        messages = state.get("clineMessages")
        if isinstance(messages, list) and self._is_news(state.get("clineMessagesSeq")):
            self.store.set_messages(messages)
            self._emit_changes(before, self.messages)

    def _is_news(self, version: object) -> bool:
        """Whether the snapshot is newer than the last one."""
        if not isinstance(version, int | float):
            return True
        if self._version is not None and version <= self._version:
            return False
        self._version = version
        return True

    def _take_row(self, message: Wire) -> None:
        before = self.store.known
        if self.store.update_message(message):
            self._emit_changes(before, [message])
        else:
            self._note("The update is not a message.")

    def _emit_changes(self, before: ClientState, messages: Sequence[Wire]) -> None:
        """Emit the events for new and changed messages, and then those for the state."""
        known = {message["ts"]: message for message in before.messages}
        for message in messages:
            if message["ts"] not in known:
                self.emit(AgentEvent.MESSAGE, message)
            elif known[message["ts"]] != message:
                self.emit(AgentEvent.MESSAGE_UPDATED, message)
        old, now = before.agent, self.agent_state
        change = StateChange(previous_state=old, current_state=now)
        if change.is_significant_change or not self._only_significant:
            self.emit(AgentEvent.STATE_CHANGE, change)
        last, ask = self.last_message or {}, now.current_ask or ""
        payloads = {
            AgentEvent.WAITING_FOR_INPUT: WaitingForInput(ask=ask, state_info=now, message=last),
            AgentEvent.TASK_COMPLETED: Completed(state_info=now, message=last),
        }
        for event in map(AgentEvent, emitted(old, now)):
            self.emit(event, payloads.get(event))
