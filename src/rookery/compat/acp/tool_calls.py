"""A tool call as an editor shows it: kind, locations, differences and output."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from msgspec import Struct

from rookery.core.blocks import Image, ToolCall
from rookery.core.facts import Asked, Ending, ToolFinished, ToolStarted
from rookery.core.message import payload_in
from rookery.core.tool_traits import COMMAND, FILES, PATHS, ToolGroup, traits_of
from rookery.protocol.transcript_text import fenced

Wire: TypeAlias = dict[str, Any]
"""An object of the protocol."""

LONGEST_OUTPUT = 20_000
"""Characters of a call's output that are shown: its end."""
_KINDS_OF_GROUPS = {
    ToolGroup.READ: "read",
    ToolGroup.EDIT: "edit",
    ToolGroup.COMMAND: "execute",
}
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class EditorCall(Struct):
    """A call that has not ended, as it was announced. `diffs` stay when its output is added."""

    about: Wire
    diffs: list[Wire]
    terminal: str = ""
    """The id of the terminal in which the editor shows its output; empty if it shows text."""
    viewer: str = ""
    """The id of a terminal of the editor that runs our viewer of its output; empty if none."""
    began: bool = False
    output: str = ""
    """The end of its output; in a terminal, what was not sent yet."""
    is_unsent: bool = False
    sent_at: int = 0
    """When its output was last sent, in milliseconds."""

    @property
    def is_plain(self) -> bool:
        """Whether its output is code or a terminal's, not Markdown."""
        return self.about["kind"] in ("read", "search", "execute")


def text_block(text: str) -> Wire:
    return {"type": "text", "text": text}


def image_block(image: Image) -> Wire:
    return {"type": "image", "mimeType": image.media_type, "data": image.data}


def content(block: Wire) -> Wire:
    return {"type": "content", "content": block}


def kind_of_call(name: str) -> str:
    traits = traits_of(name)
    return traits.editor_kind or _KINDS_OF_GROUPS.get(traits.group, "other")


def announced(call: ToolCall, call_id: str, cwd: str) -> Wire:
    """The call as the model made it."""
    return {
        "toolCallId": call_id,
        "title": _first_title(call),
        "name": call.name,
        "kind": kind_of_call(call.name),
        "status": "pending",
        "locations": [{"path": path} for path in _paths(call.arguments, cwd)],
        "rawInput": dict(call.arguments),
    }


def prepared(about: Asked | ToolStarted, cwd: str) -> Wire:
    """What is known of a call once it is prepared: title, locations and differences."""
    changed = list(differences(about.text, cwd))
    known: Wire = {"title": about.title} if about.title else {}
    if changed:
        known["content"] = [diff for diff, _ in changed]
        known["locations"] = [{"path": diff["path"], "line": line} for diff, line in changed]
    return known


def differences(payload: str, cwd: str) -> Iterator[tuple[Wire, int]]:
    """The pieces of files that a call changes, each with its first line in the new file."""
    for path, diff in _file_diffs(payload):
        for old, new, line in hunks(diff):
            whole = absolute(path, cwd)
            yield {"type": "diff", "path": whole, "oldText": old, "newText": new}, line


def hunks(diff: str) -> Iterator[tuple[str | None, str, int]]:
    """The old and the new text of each piece of a diff. There is no old text in a new file."""
    old: list[str] = []
    new: list[str] = []
    at = 0
    for row in diff.split("\n"):
        if found := _HUNK.match(row):
            if at:
                yield _piece(old, new, at)
            old, new, at = [], [], max(1, int(found[1]))
        elif at:
            if not row.startswith("+"):
                old.append(row[1:])
            if not row.startswith("-"):
                new.append(row[1:])
    if at:
        yield _piece(old, new, at)


def ended(call: EditorCall, end: ToolFinished) -> Wire:
    """The end of a call. An edit keeps its differences; the text is what the model reads."""
    done = end.ending is Ending.DONE
    extra: Wire = {}
    if call.terminal and call.began:
        shown = [terminal_content(call.terminal)]
        left = call.output if call.sent_at else call.output or end.text
        extra = terminal_end(call.terminal, left, end.exit_code)
    elif call.viewer:
        shown = [terminal_content(call.viewer)]
    elif call.diffs and done:
        shown = call.diffs
    else:
        shown = [*call.diffs, *output_content(end.text, plain=call.is_plain)]
    return {
        "status": "completed" if done else "failed",
        "content": [*shown, *(content(image_block(image)) for image in end.images)],
        "rawOutput": {"text": end.text} | _exit_code(end),
        **extra,
    }


def terminal_content(terminal: str) -> Wire:
    return {"type": "terminal", "terminalId": terminal}


def terminal_begin(terminal: str, cwd: str) -> Wire:
    """The editor makes a terminal that only shows text: the process is ours."""
    return {
        "content": [terminal_content(terminal)],
        "_meta": {"terminal_info": {"terminal_id": terminal, "cwd": cwd}},
    }


def terminal_output(terminal: str, text: str) -> Wire:
    return {"_meta": {"terminal_output": {"terminal_id": terminal, "data": text}}}


def terminal_end(terminal: str, text: str, exit_code: int | None) -> Wire:
    known = terminal_output(terminal, text[-LONGEST_OUTPUT:])["_meta"] if text else {}
    exited = {"terminal_id": terminal, "exit_code": exit_code, "signal": None}
    return {"_meta": {**known, "terminal_exit": exited}}


def output_content(text: str, *, plain: bool) -> list[Wire]:
    """The end of a long text. Plain text is fenced, because editors show Markdown."""
    cut = text[-LONGEST_OUTPUT:]
    if len(cut) < len(text):
        cut = f"[… {len(text) - len(cut)} characters left out …]\n{cut}"
    if not cut.strip():
        return []
    return [content(text_block(fenced(cut.rstrip()) if plain else cut))]


def absolute(path: str, cwd: str) -> str:
    return str(PurePosixPath(cwd, path))


def _piece(old: Sequence[str], new: Sequence[str], line: int) -> tuple[str | None, str, int]:
    return _joined(old) or None, _joined(new), line


def _joined(rows: Sequence[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


def _file_diffs(payload: str) -> Iterator[tuple[str, str]]:
    said = payload_in(payload) if payload.startswith("{") else {}
    if "diffStats" not in said:
        return
    for each in said.get("batchDiffs") or [said]:
        yield str(each.get("path", "")), str(each.get("content") or "")


def _first_title(call: ToolCall) -> str:
    """A title before the call is prepared."""
    for name in (COMMAND, *PATHS, "query", "regex", "url", "message"):
        if isinstance(value := call.arguments.get(name), str) and value.strip():
            return f"{call.name.replace('_', ' ')}: {value.strip()[:200]}"
    return call.name.replace("_", " ")


def _paths(arguments: Mapping[str, Any], cwd: str) -> Iterator[str]:
    for name in PATHS:
        if isinstance(path := arguments.get(name), str) and path:
            yield absolute(path, cwd)
    files = arguments.get(FILES)
    for each in files if isinstance(files, list) else ():
        if isinstance(each, dict) and isinstance(path := each.get("path"), str):
            yield absolute(path, cwd)


def _exit_code(end: ToolFinished) -> Wire:
    return {} if end.exit_code is None else {"exitCode": end.exit_code}
