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
    Emitter,
    Listener,
    MessageProcessor,
    StateStore,
    Stop,
)
from rookery.compat.json_io.row_messages import Wire
from rookery.compat.structured_output.call_rows import output
from rookery.core.message import AgentState, AgentStateInfo


class ExtensionClient:
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
        """`note` gets the reason for each dropped message while debugging is on."""
        self._send = send
        self._sink = note
        self._debug = False
        self._emitter = Emitter()
        self.store = StateStore(
            now=now,
            history=history,
            failed=lambda error: self._emitter.emit(AgentEvent.ERROR, error),
        )
        self._processor = MessageProcessor(
            self.store, self._emitter, only_significant=only_significant, note=self._note
        )

    def handle_message(self, given: Wire | str | bytes) -> None:
        """Process one message of the engine. Invalid ones are dropped."""
        message: object = given
        if isinstance(given, str | bytes):
            try:
                message = json.loads(given)
            except (ValueError, RecursionError):
                self._note("A text that is not JSON was dropped.")
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
    def state_history(self) -> Sequence[ClientState]:
        return self.store.history

    def on(self, event: AgentEvent | str, listener: Listener) -> Stop:
        return self._emitter.on(event, listener)

    def once(self, event: AgentEvent | str, listener: Listener) -> Stop:
        return self._emitter.once(event, listener)

    def off(self, event: AgentEvent | str, listener: Listener) -> None:
        self._emitter.off(event, listener)

    def remove_all_listeners(self, event: AgentEvent | str | None = None) -> None:
        self._emitter.remove_all_listeners(event)

    def listener_count(self, event: AgentEvent | str) -> int:
        return self._emitter.listener_count(event)

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
        self._emitter.emit(AgentEvent.TASK_CLEARED)

    def cancel_task(self) -> None:
        self._send({"type": "cancelTask"})

    def continue_terminal(self) -> None:
        self._send({"type": "terminalOperation", "terminalOperation": "continue"})

    def abort_terminal(self) -> None:
        self._send({"type": "terminalOperation", "terminalOperation": "abort"})

    def reset(self) -> None:
        """Go back to the initial state without notifying anyone, and remove all listeners."""
        self._emitter.remove_all_listeners()
        self._processor.reset()
        self.store.reset()

    def set_debug(self, on: bool) -> None:
        self._debug = on

    def _note(self, sentence: str) -> None:
        if self._debug:
            self._sink(sentence)
