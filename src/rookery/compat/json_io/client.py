"""The other end of `--json-io`: an agent as a Python program sees and drives it.

`ExtensionClient` is fed the lines of a webview, says how things stand, calls listeners when
something happens, and spells answers, which it hands to whatever sends them. It reads and writes
nothing itself. Names and payloads of events are those of the message protocol.
"""

import json
from collections.abc import Callable, Iterable, Sequence

from rookery.compat.json_io.client_state import (
    Emitter,
    Happening,
    Known,
    Listener,
    MessageProcessor,
    StateStore,
    Stop,
)
from rookery.compat.json_io.task_rows import Wire
from rookery.compat.structured_output.call_rows import output
from rookery.core.folds.agent_state import AgentState, AgentStateInfo


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
