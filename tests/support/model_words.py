"""Scripted answers for tests of the real command, and what the model received."""

import json
from typing import Any

from llm_server import Recorded, call

ALLOW = "Approve? [y/n/a, or say why not] "
DONE = "Done. [Enter accepts, or say what else to do] "
FINISHES = "- calls: [{tool: attempt_completion, arguments: {result: One.}}]\n"
"""A script for the scripted provider."""
LOOK = call("list_files", path=".", recursive=False)


def shell(line: str) -> object:
    return call("execute_command", command=line, cwd=None, timeout=None)


def write(path: str, content: str = "hi\n") -> object:
    return call("write_to_file", path=path, content=content)


def question(text: str = "Which port?") -> object:
    return call("ask_followup_question", question=text, follow_up=[{"text": "8080", "mode": None}])


def last_turn(request: Recorded) -> str:
    """The newest turn of a request, as JSON text."""
    return json.dumps(request.body["messages"][-1], ensure_ascii=False)


def received(request: Recorded) -> str:
    """The newest turn of a request, as one text."""
    return "\n".join(_words(block) for block in request.body["messages"][-1]["content"])


def _words(block: dict[str, Any]) -> str:
    content = block.get("text") or block.get("content") or ""
    return content if isinstance(content, str) else "\n".join(map(_words, content))


def system(request: Recorded) -> str:
    return "".join(block["text"] for block in request.body["system"])
