"""A model with a script for each conversation."""

import json
import threading
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from llm_server import LlmServer, Recorded
from llm_server.parts import Answer

PATIENCE = 60.0


class Model(LlmServer):
    """Selects the script of a conversation by its first message."""

    def __init__(self) -> None:
        super().__init__()
        self._all: list[Answer] = []
        self._answers = self._all
        self._scripts: dict[str, _Script] = {}
        self._lock = threading.Lock()

    def plays(self, prompt: str, *answers: Answer, to_each: bool = False) -> None:
        """Set the answers for conversations with that prompt; with `to_each`, every conversation
        gets them from the start."""
        with self._lock:
            places = range(len(self._all), len(self._all) + len(answers))
            self._all.extend(answers)
            self._scripts[prompt] = _Script(places, to_each)

    def received(self, prompt: str, count: int = 1) -> Recorded:
        """Wait for request number `count` of the conversations with that prompt."""
        self._wait(lambda: len(self.asked(prompt)) >= count, f"{count} of {prompt!r}", PATIENCE)
        return self.asked(prompt)[count - 1]

    def asked(self, prompt: str) -> list[Recorded]:
        return [each for each in self.requests if each.body and prompt in _opening(each.body)]

    def _position(self, body: dict[str, Any]) -> int:
        opening = _opening(body)
        with self._lock:
            found = [script for prompt, script in self._scripts.items() if prompt in opening]
            if not found:
                return len(self._all)
            script = found[0]
            turn = _past_answers(body) if script.to_each else script.turn
            script.turn += 1
            return script.places[turn] if turn < len(script.places) else len(self._all)


class _Script(Struct):
    places: range
    to_each: bool
    turn: int = 0


def _opening(body: Mapping[str, Any]) -> str:
    """The first message of the user, without the environment details, which name files of other
    tests."""
    messages = body.get("messages") or [{}]
    said = messages[0].get("content", "")
    text = said if isinstance(said, str) else "".join(block.get("text", "") for block in said)
    return text.partition("<environment_details>")[0]


def _past_answers(body: Mapping[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in body["messages"])


def last_words(request: Recorded) -> str:
    """The last message of a request, with real line breaks."""
    return json.dumps(request.body["messages"][-1], ensure_ascii=False).replace("\\n", "\n")
