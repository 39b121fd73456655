"""From what an agent says to what happens to its session.

Rows come more than once: while they grow, when their request is paid for, when a resumed process
tells its past again. An event comes once.
"""

import json

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.message import Message
from rookery.manager.sessions.session_events import (
    Activity,
    AgentAsked,
    AgentMessage,
    ApiReqStarted,
    AskAnswered,
    SayCheckpointSaved,
    SayCompletionResult,
)

_USAGE = ("tokensIn", "tokensOut", "cost")


class Heard(Struct, frozen=True, kw_only=True):
    """What a process of one generation has told so far."""

    generation: int
    stored_ts: int = 0
    """The last row that was stored when the process started. Up to there it repeats the past."""
    new_task: bool = False
    """Until the first request, the text that comes is the prompt."""
    request_ts: int = 0
    ask_ts: int = 0
    result_ts: int = 0


class Told(Struct, frozen=True):
    heard: Heard
    event: AgentMessage | None = None


def told(heard: Heard, message: Message) -> Told:
    """What a row means that came, or came again."""
    if message.ts <= heard.stored_ts or (message.partial and not message.text):
        return Told(heard)
    if message.type == "ask":
        return _told_by_ask(heard, message)
    generation, ts = heard.generation, message.ts
    match message.say:
        case "api_req_started":
            return _told_by_request(heard, message)
        case "text" if heard.new_task and not heard.request_ts:
            return Told(heard)
        case "checkpoint_saved":
            return Told(heard, SayCheckpointSaved(generation=generation, ts=ts))
        case "completion_result" if not message.partial:
            if ts <= heard.result_ts:
                return Told(heard)
            said = SayCompletionResult(generation=generation, ts=ts, text=message.text or "")
            return Told(replace(heard, result_ts=ts), said)
        case _:
            return Told(heard, Activity(generation=generation, ts=ts))


def _told_by_ask(heard: Heard, message: Message) -> Told:
    generation, ts = heard.generation, message.ts
    if message.answered:
        return Told(heard, AskAnswered(generation=generation, ts=ts))
    if ts <= heard.ask_ts:
        return Told(heard)
    if message.partial or message.ask is None:
        return Told(heard, Activity(generation=generation, ts=ts))
    asked = AgentAsked(generation=generation, ts=ts, ask=message.ask, text=message.text or "")
    return Told(replace(heard, ask_ts=ts), asked)


def _told_by_request(heard: Heard, message: Message) -> Told:
    """A request is news once, when it starts; later the row only tells what it took."""
    if message.ts <= heard.request_ts:
        return Told(heard)
    heard = replace(heard, request_ts=message.ts)
    if _tells_usage(message.text):
        return Told(heard)
    return Told(heard, ApiReqStarted(generation=heard.generation, ts=message.ts))


def _tells_usage(text: str | None) -> bool:
    try:
        about = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(about, dict) and any(name in about for name in _USAGE)
