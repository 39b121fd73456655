"""A task as lines of JSON, in the shape that hook scripts written for other agents read.

Each line has a `type` (`user` or `assistant`) and a `message` with a `role` and `content`, as the
Messages API of Anthropic has them. Tools have their own names.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from rookery.core.blocks import Block, Text, Thinking, ToolCall
from rookery.core.facts import (
    Answered,
    AssistantSpoke,
    Ending,
    Event,
    Fact,
    TaskOpened,
    ToolFinished,
    UserSpoke,
)


def transcript_lines(events: Iterable[Event], session_id: str, cwd: str) -> Iterator[str]:
    for event in events:
        message = _message(event.fact)
        if message is None:
            continue
        at = datetime.fromtimestamp(event.ts / 1000, UTC)
        line = {
            "type": message["role"],
            "uuid": f"{session_id}-{event.seq}",
            "sessionId": session_id,
            "cwd": cwd,
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "message": message,
        }
        yield json.dumps(line, ensure_ascii=True, default=str)


def _message(fact: Fact) -> dict[str, Any] | None:
    match fact:
        case TaskOpened(text=text) | UserSpoke(text=text):
            return {"role": "user", "content": text}
        case Answered(by="user", text=text) if text:
            return {"role": "user", "content": text}
        case AssistantSpoke(blocks=blocks):
            content = [shown for block in blocks if (shown := _block(block))]
            return {"role": "assistant", "content": content} if content else None
        case ToolFinished(call_id=call_id, text=text, ending=ending):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": text}
            return {"role": "user", "content": [{**result, "is_error": ending is not Ending.DONE}]}
        case _:
            return None


def _block(block: Block) -> dict[str, Any] | None:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(text=text):
            return {"type": "thinking", "thinking": text}
        case ToolCall(id=id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": dict(arguments)}
        case _:
            return None
