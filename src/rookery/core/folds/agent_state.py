"""Derives the state of a task from its rows.

The last row decides. An incomplete row means streaming. An open ask means waiting, by its category.
Otherwise the newest request says whether the model is still answering. An answered or withdrawn ask
counts as a said row, so that rows can be evaluated at any moment.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from rookery.core.asks import AskCategory, RequiredAction, category, required_action
from rookery.core.message import Message


class AgentState(StrEnum):
    NO_TASK = "no_task"
    RUNNING = "running"
    STREAMING = "streaming"
    WAITING_FOR_INPUT = "waiting_for_input"
    IDLE = "idle"
    RESUMABLE = "resumable"


_WAITING = (AgentState.WAITING_FOR_INPUT, AgentState.IDLE, AgentState.RESUMABLE)


class AgentStateInfo(Struct, frozen=True, kw_only=True):
    state: AgentState
    current_ask: str | None = None
    required_action: RequiredAction = RequiredAction.NONE
    last_message: Message | None = None

    @property
    def is_waiting_for_input(self) -> bool:
        """Whether someone must act before the loop continues."""
        return self.state in _WAITING

    @property
    def is_running(self) -> bool:
        return self.state in (AgentState.RUNNING, AgentState.STREAMING)

    @property
    def is_streaming(self) -> bool:
        return self.state is AgentState.STREAMING

    @property
    def last_message_ts(self) -> int | None:
        return self.last_message.ts if self.last_message else None

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self.state]


_DESCRIPTIONS = {
    AgentState.NO_TASK: "No task is open.",
    AgentState.RUNNING: "The agent is working.",
    AgentState.STREAMING: "The model is answering.",
    AgentState.WAITING_FOR_INPUT: "The agent is waiting for your answer.",
    AgentState.IDLE: "The agent has stopped; it is your turn.",
    AgentState.RESUMABLE: "The task was interrupted and can be resumed.",
}

_STATE_OF_ASK = {
    AskCategory.NON_BLOCKING: AgentState.RUNNING,
    AskCategory.IDLE: AgentState.IDLE,
    AskCategory.RESUMABLE: AgentState.RESUMABLE,
    AskCategory.INTERACTIVE: AgentState.WAITING_FOR_INPUT,
}


def detect(messages: Sequence[Message] | None) -> AgentStateInfo:
    """The state derived from the rows; only the last ones are read."""
    if not messages:
        return state_after(None, speaking=lambda: False)
    return state_after(messages[-1], speaking=lambda: request_in_progress(messages))


def state_after(last: Message | None, *, speaking: Callable[[], bool]) -> AgentStateInfo:
    """The state after this row. `speaking` is called only if the row does not decide."""
    if last is None:
        action = RequiredAction.START_NEW_TASK
        return AgentStateInfo(state=AgentState.NO_TASK, required_action=action)
    if last.partial:
        return AgentStateInfo(state=AgentState.STREAMING, current_ask=last.ask, last_message=last)
    kind = category(last.ask) if last.type == "ask" and not last.answered else None
    if kind is None:
        state = AgentState.STREAMING if speaking() else AgentState.RUNNING
        return AgentStateInfo(state=state, last_message=last)
    return AgentStateInfo(
        state=_STATE_OF_ASK[kind],
        current_ask=last.ask,
        required_action=required_action(last.ask),
        last_message=last,
    )


def request_in_progress(messages: Sequence[Message]) -> bool:
    """Whether the newest request has not ended yet."""
    for message in newest_first(messages):
        if message.say == "api_req_finished":
            return False
        if message.say == "api_req_started":
            return _is_unfinished(message.text)
    return False


def newest_first(messages: Sequence[Message]) -> Iterator[Message]:
    return (messages[position] for position in range(len(messages) - 1, -1, -1))


def _is_unfinished(text: str | None) -> bool:
    if not text:
        return True
    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(info, dict) or "cost" in info:
        return False
    return info.get("cancelReason") is None and not info.get("streamingFailedMessage")
