"""Calls of tools: one line that says what was done, and below it what one may want to see."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rich.text import Text

from rookery.clients.terminal_text import harmless_line
from rookery.clients.tui.counted import counted
from rookery.clients.tui.look import Look
from rookery.clients.tui.rows.diffs import drawn_diff
from rookery.clients.tui.rows.families import Shown
from rookery.clients.tui.rows.lines import clean, cut, indented, wrapped
from rookery.core.message import Message

HUNK_LINES = 8
HUNKS = 2
COMMAND_LINES = 10
SHORT_COMMAND = 5
UNFOLDED_LINES = 400
MARGIN = "  "
_EDITS = {"editedExistingFile", "appliedDiff", "newFileCreated"}
_QUIET_RESULTS = _EDITS | {"updateTodoList", "switchMode"}
"""What the model is told of them says nothing new."""


def drawn_call(shown: Shown, width: int, look: Look) -> Iterator[Text]:
    message = shown.message
    payload = payload_of(message)
    mark, ink = _mark(shown, look)
    tail = _tail(shown, payload, look)
    head = Text(f"{mark} ", look.ink(ink))
    if message.ask == "command":
        yield from _command(shown, head, tail, width, look)
    else:
        yield _with_tail(Text.assemble(head, _title(shown, payload, look)), tail, width)
    if message.open:
        return  # what it is about to do is shown where it is asked about
    margin = Text(MARGIN)
    yield from indented(_body(shown, payload, width - len(MARGIN), look), margin, margin)


def payload_of(message: Message) -> Mapping[str, Any]:
    return payload_in(message.text or "") if message.ask != "command" else {}


@lru_cache(maxsize=256)
def payload_in(text: str) -> Mapping[str, Any]:
    """What is told of a call, as its tool tells it."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    can_be_told = isinstance(said, dict) and isinstance(said.get("tool", ""), str)
    return said if can_be_told else {}


def is_edit(payload: Mapping[str, Any]) -> bool:
    return payload.get("tool") in _EDITS or "diffStats" in payload


def _mark(shown: Shown, look: Look) -> tuple[str, str]:
    match shown.ended:
        case "done":
            return ("●", look.bad) if shown.exit_code else ("●", look.good)
        case "":
            return ("○", look.quiet) if shown.message.open else ("●", look.accent)
        case "skipped":
            return "○", look.quiet
        case _:
            return "✗", look.bad


def _command(shown: Shown, head: Text, tail: Text, width: int, look: Look) -> Iterator[Text]:
    """The command itself, in full once it is no longer asked about."""
    text = clean(shown.message.text or "").strip()
    prompt = Text.assemble(head, ("$ ", look.ink(look.quiet)))
    if shown.message.open:
        first = Text.assemble(prompt, (text.partition("\n")[0], look.ink(look.words)))
        yield _with_tail(first, tail, width)
        return
    beside = tail.cell_len + 2 if tail else 0
    room = max(8, width - prompt.cell_len - beside)
    lines = wrapped(Text(text, look.ink(look.words)), room)
    most = UNFOLDED_LINES if shown.unfolded else SHORT_COMMAND
    lines = list(folded(lines, most, look))
    first, *rest = indented(lines, prompt, Text(" " * prompt.cell_len))
    yield _with_tail(first, tail, width)
    yield from rest


def _title(shown: Shown, payload: Mapping[str, Any], look: Look) -> Text:
    title = harmless_line(shown.message.title) or _spelled(payload)
    verb, _, rest = title.partition(" ")
    return Text.assemble((verb, look.ink(look.words, bold=True)), f" {rest}" if rest else "")


def _spelled(payload: Mapping[str, Any]) -> str:
    """What a call that is still arriving is going to do, as far as that can be told."""
    name = str(payload.get("tool") or payload.get("toolName") or "a call")
    about = payload.get("path") or payload.get("file_path") or payload.get("query") or ""
    return harmless_line(f"{name} {about}").strip()


def _tail(shown: Shown, payload: Mapping[str, Any], look: Look) -> Text:
    """What is told at the end of the head: sizes, badges, how it ended."""
    parts: list[Text] = []
    if stats := payload.get("diffStats"):
        parts.append(_stats(stats, look))
    if payload.get("isOutsideWorkspace"):
        parts.append(Text("outside the workspace", look.ink(look.careful)))
    if payload.get("isProtected"):
        parts.append(Text("protected", look.ink(look.careful)))
    if payload.get("tool") == "updateTodoList":
        parts.append(Text(_todo_count(payload), look.ink(look.quiet)))
    elif told := _told(shown, payload):
        parts.append(Text(told, look.ink(look.quiet)))
    if shown.ended == "denied":
        parts.append(Text("not done", look.ink(look.bad)))
    if shown.exit_code:
        parts.append(Text(f"exit {shown.exit_code}", look.ink(look.bad)))
    return Text("  ").join(parts)


def _stats(stats: Any, look: Look) -> Text:
    try:
        added, removed = int(stats["added"]), int(stats["removed"])
    except (KeyError, TypeError, ValueError):
        return Text()
    return Text.assemble(
        (f"+{added}", look.ink(look.good)), " ", (f"−{removed}", look.ink(look.bad))
    )


def _todo_count(payload: Mapping[str, Any]) -> str:
    listed = payload.get("todos")
    todos = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    done = sum(each.get("status") == "completed" for each in todos)
    return f"{done} of {len(todos)} done"


def _told(shown: Shown, payload: Mapping[str, Any]) -> str:
    """How much there is to unfold."""
    if shown.ended != "done" or not _has_result(shown, payload):
        return ""
    count = shown.result.rstrip("\n").count("\n") + 1
    return counted(count, "line")


def _has_result(shown: Shown, payload: Mapping[str, Any]) -> bool:
    told_elsewhere = shown.message.ask == "command" or payload.get("tool") in _QUIET_RESULTS
    return bool(shown.result.strip()) and not told_elsewhere


def _with_tail(head: Text, tail: Text, width: int) -> Text:
    if not tail:
        return cut(head, width)
    room = width - tail.cell_len - 2
    return cut(Text.assemble(cut(head, max(8, room)), "  ", tail), width)


def _body(shown: Shown, payload: Mapping[str, Any], width: int, look: Look) -> Iterator[Text]:
    message = shown.message
    if is_edit(payload):
        diff = message.diff or str(payload.get("diff") or payload.get("content") or "")
        yield from _edit(diff, width, look, unfolded=shown.unfolded)
    elif payload.get("tool") == "updateTodoList":
        yield from _todos(payload.get("todos"), width, look)
    elif shown.unfolded and _has_result(shown, payload):
        lines = [
            part
            for line in clean(shown.result).rstrip("\n").split("\n")[: UNFOLDED_LINES * 2]
            for part in wrapped(Text(line, look.ink(look.quiet)), width)
        ]
        yield from folded(lines, UNFOLDED_LINES, look)


def _edit(diff: str, width: int, look: Look, *, unfolded: bool) -> Iterator[Text]:
    if unfolded:
        yield from drawn_diff(diff, width, look)
        return
    lines = drawn_diff(_beginning(diff), width, look)
    yield from lines
    hidden = diff.rstrip("\n").count("\n") - _beginning(diff).count("\n")
    if hidden > 0:
        yield Text(f"… {counted(hidden, 'more line')}", look.ink(look.quiet))


def _beginning(diff: str) -> str:
    """As much of a diff as tells what it is about: a few lines of its first hunks."""
    kept: list[str] = []
    hunks = lines = 0
    for row in diff.rstrip("\n").split("\n"):
        if row.startswith("@@"):
            hunks, lines = hunks + 1, 0
        if hunks > HUNKS:
            break
        if lines <= HUNK_LINES:
            kept.append(row)
        lines += 1
    return "\n".join(kept)


_BOXES = {"completed": "☑", "in_progress": "◐"}


def _todos(todos: Any, width: int, look: Look) -> Iterator[Text]:
    for todo in todos if isinstance(todos, list) else ():
        if not isinstance(todo, dict):
            continue
        status = str(todo.get("status"))
        ink = {"completed": look.quiet, "in_progress": look.accent}.get(status, look.words)
        words = harmless_line(str(todo.get("content", "")))
        yield cut(Text(f"{_BOXES.get(status, '☐')} {words}", look.ink(ink)), width)


def drawn_output(shown: Shown, width: int, look: Look) -> Iterator[Text]:
    """The end of what a command wrote, which is where it tells how it went; or all of it."""
    bar = Text("  ▏ ", look.ink(look.line))
    text = clean(shown.message.text or "").strip("\n")
    rows = text.split("\n") if text.strip() else []
    most = UNFOLDED_LINES if shown.unfolded else COMMAND_LINES
    hidden = max(0, len(rows) - most)
    lines = [
        part
        for row in rows[hidden:]
        for part in wrapped(Text(row, look.ink(look.quiet)), width - 4)[:6]
    ]
    if hidden:
        more = Text(f"… {counted(hidden, 'line')} above", look.ink(look.quiet, italic=True))
        lines.insert(0, more)
    yield from indented(lines, bar, bar)


def folded(lines: Sequence[Text], most: int, look: Look) -> Iterator[Text]:
    yield from lines[:most]
    if len(lines) > most:
        more = counted(len(lines) - most, "more line")
        yield Text(f"… {more}", look.ink(look.quiet, italic=True))
