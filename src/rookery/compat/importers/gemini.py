"""Sessions of Gemini CLI: `tmp/<project>/chats/session-*.jsonl`, one file for each.

A line is a message, an update of one with its id, or says what was rewound. Older versions wrote
one JSON object, `session-*.json`. The project is the SHA-256 of its path, or a name with the path
in `.project_root` beside `chats`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rookery.compat.importers.foreign_sessions import (
    LARGEST_FILE,
    TOO_LARGE,
    AgentEntry,
    Entry,
    ForeignSession,
    Importer,
    Problems,
    Record,
    ResultEntry,
    UserEntry,
    beginning,
    decode,
    files_below,
    inline_image,
    json_file,
    json_lines,
    measured,
    milliseconds,
    number,
    record,
    records,
    text,
    with_images,
)
from rookery.core.blocks import Image, Text, ToolCall
from rookery.core.facts import Usage

_FIELD = r'"%s"\s*:\s*("(?:[^"\\]|\\.)*")'
_ID = re.compile(_FIELD % "sessionId")
_HASH = re.compile(_FIELD % "projectHash")
_SUMMARY = re.compile(_FIELD % "summary")
_FIRST_WORDS = re.compile(_FIELD % "(?:content|text)")


def _roots(home: Path, environ: Mapping[str, str]) -> list[Path]:
    return [Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp"]


def _find(root: Path) -> Iterator[ForeignSession]:
    for name in ("session-*.json", "session-*.jsonl"):
        below = (name, f"chats/{name}", f"*/chats/{name}", f"tmp/*/chats/{name}")
        for path in files_below(root, *below):
            yield _listed(path)


def _listed(path: Path) -> ForeignSession:
    """From the beginning of the file only."""
    head = beginning(path)
    updated, size = measured(path)
    return ForeignSession(
        agent="gemini",
        id=_field(_ID, head) or path.stem.removeprefix("session-"),
        path=path,
        folder=beginning(path.parent.parent / ".project_root").strip(),
        folder_hash=_field(_HASH, head),
        title=_field(_SUMMARY, head) or _field(_FIRST_WORDS, head),
        updated=updated,
        size=size,
    )


def _field(pattern: re.Pattern[str], head: str) -> str:
    found = pattern.search(head)
    try:
        return text(decode(found[1].encode())) if found else ""
    except ValueError:
        return ""


def _read(session: ForeignSession, problems: Problems) -> Iterator[Entry]:
    for message in _messages(session.path, problems):
        ts = milliseconds(message.get("timestamp"))
        words, images = _said(message.get("content"))
        if message.get("type") == "user":
            yield UserEntry(text=words, images=images, ts=ts)
        elif message.get("type") == "gemini":
            yield from _answer(message, words, ts)


def _messages(path: Path, problems: Problems) -> list[Record]:
    if path.suffix == ".json":
        return records(json_file(path, problems).get("messages"))
    if measured(path)[1] > LARGEST_FILE:
        problems.add(path.name, TOO_LARGE)
        return []
    kept: dict[str, Record] = {}
    replaced: list[Record] = []
    for line in json_lines(path, problems):
        match line:
            case {"$rewindTo": str(first)}:
                known = list(kept)
                for taken_back in known[known.index(first) if first in kept else 0 :]:
                    del kept[taken_back]
            case {"$set": {"messages": [*messages]}}:
                replaced = records(messages)
            case {"id": str(message_id)}:
                kept[message_id] = line
            case _:
                pass
    return replaced or list(kept.values())


def _said(content: object) -> tuple[str, tuple[Image, ...]]:
    if isinstance(content, str):
        return content, ()
    parts = records(content if isinstance(content, list) else [content])
    inline = [record(part["inlineData"]) for part in parts if "inlineData" in part]
    images = [inline_image(each.get("data")) for each in inline]
    return with_images([text(part.get("text")) for part in parts], images)


def _answer(message: Record, words: str, ts: int) -> Iterator[Entry]:
    calls = [call for call in records(message.get("toolCalls")) if call.get("id")]
    blocks: tuple[Text | ToolCall, ...] = (Text(text=words), *map(_call, calls))
    model = text(message.get("model"))
    yield AgentEntry(blocks=blocks, model=model, usage=_usage(message.get("tokens")), ts=ts)
    for call in calls:
        if call.get("status") in ("success", "error", "cancelled"):
            yield _result(call, ts)


def _call(call: Record) -> ToolCall:
    name = text(call.get("name")) or "unnamed"
    return ToolCall(id=str(call["id"]), name=name, arguments=record(call.get("args")))


def _result(call: Record, ts: int) -> ResultEntry:
    result = call.get("result")
    parts = records(result if isinstance(result, list) else [result])
    said = [_response(part) for part in parts] or [text(call.get("resultDisplay"))]
    words, images = with_images(said, _said(parts)[1])
    failed = call.get("status") != "success"
    return ResultEntry(call_id=str(call["id"]), text=words, images=images, failed=failed, ts=ts)


def _response(part: Record) -> str:
    response = record(record(part.get("functionResponse")).get("response"))
    return text(response.get("output")) or text(response.get("error")) or text(part.get("text"))


def _usage(tokens: object) -> Usage:
    known = record(tokens)
    return Usage(
        tokens_in=number(known.get("input")),
        tokens_out=number(known.get("output")) + number(known.get("thoughts")),
        cache_reads=number(known.get("cached")),
    )


IMPORTER = Importer(name="gemini", title="Gemini CLI", roots=_roots, find=_find, read=_read)
