"""A task as lines of JSON, in the shape that hook scripts written for other agents read.

Each line has a `type` (`user` or `assistant`) and a `message` with a `role` and `content`, as the
Messages API of Anthropic has them. Tools have their own names. `TranscriptFile` is the file that
`transcript_path` names; it is brought up to date before each hook runs.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
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

TRANSCRIPT = "transcript.jsonl"


class TranscriptFile:
    """`folder` is the task's own, which only its user can read."""

    def __init__(self, folder: Path, task_id: str, cwd: str) -> None:
        self._path = folder / TRANSCRIPT
        self._task_id = task_id
        self._cwd = cwd
        self._written = 0

    def brought_up_to_date(self, events: Sequence[Event]) -> str:
        """Its path; empty if it cannot be written, so that no hook reads half of it."""
        new = events[self._written :]
        text = "".join(f"{line}\n" for line in transcript_lines(new, self._task_id, self._cwd))
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_APPEND if self._written else os.O_TRUNC
        try:
            with open(os.open(self._path, flags, 0o600), "wb") as file:
                file.write(text.encode("ascii"))
        except OSError:
            self._written = 0
            return ""
        self._written = len(events)
        return str(self._path)


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
