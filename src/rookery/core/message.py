"""One row of a transcript, with text that may still be streaming, and the state that rows show.

Streaming texts are immutable: adding a piece returns a new text that shares the old one, so adding
costs only the piece. Reading joins the pieces.

The last row decides the state of a task. An incomplete row means streaming. An open ask means
waiting, by its category. Otherwise the newest request says whether the model is still answering. An
answered or withdrawn ask counts as a said row, so that rows can be evaluated at any moment.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from rookery.core.asks import (
    AskCategory,
    AskKind,
    IntentQuestion,
    RequiredAction,
    category,
    required_action,
)
from rookery.core.blocks import Image
from rookery.core.folds.argument_reader import ArgumentReader
from rookery.core.tool_traits import COMPLETION, FOLLOWUP

COMMAND_TOOL = "execute_command"
REQUEST = "api_req_started"
"""The kind of a request's row."""
SPOKEN: dict[str, tuple[Literal["say", "ask"], str, str]] = {
    COMMAND_TOOL: ("ask", AskKind.COMMAND, "command"),
    FOLLOWUP: ("ask", AskKind.FOLLOWUP, "question"),
    COMPLETION: ("say", "completion_result", "result"),
}
"""Calls shown by a single argument: the row's type and kind, and the argument."""
_SHOWN_WHEN_WHOLE = frozenset(("path", "file_path", "cwd", "mode"))

Outcome: TypeAlias = Literal["", "denied", "failed"]


class Pieces:
    """Text in pieces."""

    __slots__ = ("_count", "_shared")

    def __init__(self, first: str = "") -> None:
        self._shared = _Shared([first] if first else [])
        self._count = len(self._shared.pieces)

    @property
    def text(self) -> str:
        shared, count = self._shared, self._count
        if shared.joined_count > count:
            return "".join(shared.pieces[:count])
        if shared.joined_count < count:
            shared.joined += "".join(shared.pieces[shared.joined_count : count])
            shared.joined_count = count
        return shared.joined

    @property
    def count(self) -> int:
        return self._count

    def add(self, piece: str) -> "Pieces":
        more = Pieces()
        more._shared = self._shared
        if len(self._shared.pieces) > self._count:  # another version has gone on from here
            more._shared = _Shared(self._shared.pieces[: self._count])
        more._shared.pieces.append(piece)
        more._count = self._count + 1
        return more

    def since(self, count: int) -> list[str]:
        return self._shared.pieces[count : self._count]

    def __eq__(self, other: object) -> bool:
        return self.text == (other.text if isinstance(other, Pieces) else other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return repr(self.text)


class _Shared(Struct):
    pieces: list[str]
    joined: str = ""
    joined_count: int = 0


class CallText:
    """The text of a call while its arguments stream."""

    __slots__ = ("_name", "_pieces", "_reading")

    def __init__(self, name: str = "", arguments: str = "") -> None:
        self._name = name
        self._pieces = Pieces(arguments)
        self._reading = _Reading()

    @property
    def text(self) -> str:
        reader = self._reading.upto(self._pieces)
        known = reader.known()
        if reader.growing_key in _SHOWN_WHEN_WHOLE:
            known.pop(reader.growing_key, None)
        return call_text(self._name, known)

    @property
    def scanned(self) -> int:
        """The number of argument characters read."""
        return self._reading.reader.scanned

    def add(self, piece: str, name: str) -> "CallText":
        more = CallText(name or self._name)
        more._pieces = self._pieces.add(piece)
        more._reading = self._reading
        return more

    def __eq__(self, other: object) -> bool:
        return self.text == (other.text if isinstance(other, CallText) else other)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return repr(self.text)


class _Reading(Struct):
    """How far the newest reader of a call has read; an older text is read again."""

    reader: ArgumentReader = field(default_factory=ArgumentReader)
    count: int = 0

    def upto(self, pieces: Pieces) -> ArgumentReader:
        if pieces.count < self.count:
            return _Reading().upto(pieces)
        for piece in pieces.since(self.count):
            self.reader.feed(piece)
        self.count = pieces.count
        return self.reader


def call_kind(name: str) -> tuple[Literal["say", "ask"], str]:
    """The row type and kind of a call."""
    type, kind, _ = SPOKEN.get(name, ("ask", AskKind.TOOL, ""))
    return type, kind


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """The text of a call's row: its main argument, or all arguments as JSON."""
    if name in SPOKEN:
        return str(arguments.get(SPOKEN[name][2], ""))
    said = {"tool": name, **arguments} | {"tool": name}  # an argument may have that name too
    return json.dumps(said, ensure_ascii=False)


def payload_in(text: str | None) -> Mapping[str, Any]:
    """The JSON object in a row's text; empty if there is none."""
    try:
        payload = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return payload if isinstance(payload, dict) else {}


def diff_in(payload: Mapping[str, Any]) -> str | None:
    """The file changes in a call's row; None if it edits no file. `diff` is the model's text,
    which may not be a diff; `content` is one."""
    if "diffStats" not in payload:
        return None
    return str(payload.get("content") or payload.get("diff") or "")


Content: TypeAlias = str | Pieces | CallText | None


class Message(Struct, frozen=True, kw_only=True):
    """One row, identified by its `ts`. `text` is joined when read.

    `answered` marks an ask that was answered or withdrawn. `seq` is that of the event that made the
    row. `outcome` says that a call was refused or failed.
    """

    ts: int
    type: Literal["say", "ask"]
    say: str | None = None
    ask: str | None = None
    content: Content = None
    images: tuple[Image, ...] = ()
    partial: bool = False
    answered: bool = False
    outcome: Outcome = ""
    seq: int = 0
    ask_id: str = ""
    call_id: str = ""
    digest: str = ""
    title: str = ""
    diff: str = ""
    where: str = ""
    notes: tuple[str, ...] = ()
    rule: str = ""
    governance: IntentQuestion | None = None

    @property
    def text(self) -> str | None:
        return self.content.text if isinstance(self.content, Pieces | CallText) else self.content

    @property
    def failure(self) -> str:
        """Why the request of this row failed; empty if it did not."""
        if self.say != REQUEST or "streamingFailedMessage" not in (self.text or ""):
            return ""
        return str(payload_in(self.text).get("streamingFailedMessage") or "")

    @property
    def open(self) -> bool:
        """Whether it is still streaming or waits for an answer."""
        return self.partial or (self.type == "ask" and not self.answered)


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
        if message.say == REQUEST:
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
