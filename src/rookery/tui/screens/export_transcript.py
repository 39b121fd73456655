"""The conversation as a Markdown file, for people to keep or to show."""

import os
from collections.abc import Iterator
from pathlib import Path

from rookery.core.folds.view import View
from rookery.core.message import Message
from rookery.core.text.terminal_text import harmless

_HEADINGS = {
    "user_feedback": "You",
    "text": "Rookery",
    "completion_result": "Result",
    "error": "Error",
}


def export(view: View, task_id: str, workspace: str, wanted: str = "") -> Path:
    """Write it to the file that is wanted, or to a new one in the workspace. Never over another.

    Raises `OSError` if it cannot be written.
    """
    folder = Path(workspace) if os.path.isdir(workspace) else Path.cwd()
    path = folder / os.path.expanduser(wanted) if wanted else _free(folder, task_id)
    with open(path, "x", encoding="utf-8", errors="replace", opener=_privately) as file:
        file.write(as_markdown(view))
    return path


def _privately(path: str, flags: int) -> int:
    """Nobody knows what is in it, so it is for the user alone."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _free(folder: Path, task_id: str) -> Path:
    name = f"rookery-{task_id[:8]}"
    path, number = folder / f"{name}.md", 2
    while os.path.lexists(path):
        path, number = folder / f"{name}-{number}.md", number + 1
    return path


def as_markdown(view: View) -> str:
    return "\n\n".join(_blocks(view)) + "\n"


def _blocks(view: View) -> Iterator[str]:
    for message in view.messages:
        text = harmless(message.text or "").strip()
        if message.type == "say" and message.say == "text" and message.seq == 1:
            yield f"# {text}"
        elif message.type == "say" and (heading := _HEADINGS.get(message.say or "")) and text:
            yield f"## {heading}\n\n{text}"
        elif message.type == "say" and message.say == "command_output" and text:
            yield _fenced(text)
        elif message.type == "ask":
            yield from _asked(message, text)


def _asked(message: Message, text: str) -> Iterator[str]:
    match message.ask:
        case "command":
            yield f"## Command\n\n{_fenced(f'$ {text}')}"
        case "tool" | "use_mcp_server" | "browser_action_launch" if message.title:
            yield f"## {harmless(message.title)}"
            if message.diff:
                yield _fenced(harmless(message.diff), "diff")
        case "followup":
            yield f"## Question\n\n{text}"
        case _:
            pass


def _fenced(text: str, kind: str = "") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{kind}\n{text}\n{fence}"
