"""Sessions of Codex: `sessions/YYYY/MM/DD/rollout-*.jsonl`, one item per line.

Newer files wrap each item in `{timestamp, type, payload}`. Older ones have the bare items after a
first line about the session.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from rookery.compat.importers.foreign_sessions import (
    AgentEntry,
    Entry,
    ForeignSession,
    Importer,
    Problems,
    Record,
    ResultEntry,
    RewindEntry,
    SummaryEntry,
    UserEntry,
    files_below,
    first_records,
    inline_image,
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

_NOT_SAID = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions"),
    *("<INSTRUCTIONS>", "<permissions instructions>", "<turn_aborted>", "<skills_instructions>"),
)


def _roots(home: Path, environ: Mapping[str, str]) -> list[Path]:
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    return [codex / "sessions", codex / "archived_sessions"]


def _find(root: Path) -> Iterator[ForeignSession]:
    for path in files_below(root, "**/rollout-*.jsonl"):
        yield _listed(path)


def _listed(path: Path) -> ForeignSession:
    lines = first_records(path)
    about = record(lines[0].get("payload")) or lines[0] if lines else {}
    updated, size = measured(path)
    prompts = (_words(item)[0] for item in map(_item, lines) if _is_prompt(item))
    return ForeignSession(
        agent="codex",
        id=text(about.get("id")) or path.stem.removeprefix("rollout-"),
        path=path,
        folder=text(about.get("cwd")),
        title=next(filter(None, prompts), ""),
        updated=updated,
        size=size,
    )


def _item(line: Record) -> Record:
    """The item of a line; its payload, if it has one."""
    if "payload" not in line:
        return line
    return record(line["payload"]) if line.get("type") == "response_item" else {}


def _read(session: ForeignSession, problems: Problems) -> Iterator[Entry]:
    model, total = "", None
    for line in json_lines(session.path, problems):
        payload = record(line.get("payload"))
        ts = milliseconds(line.get("timestamp"))
        match line.get("type"):
            case "turn_context":
                model = text(payload.get("model")) or model
            case "compacted" if summary := text(payload.get("message")):
                yield SummaryEntry(text=summary, ts=ts)
            case "event_msg" if payload.get("type") == "token_count":
                info = record(payload.get("info"))
                if info.get("total_token_usage") != total:
                    total = info.get("total_token_usage")
                    yield AgentEntry(usage=_usage(info.get("last_token_usage")), ts=ts)
            case "event_msg" if payload.get("type") == "thread_rolled_back":
                yield RewindEntry(messages=number(payload.get("num_turns")), ts=ts)
            case _:
                yield from _entries(_item(line), model, ts)


def _entries(item: Record, model: str, ts: int) -> Iterator[Entry]:
    call_id = text(item.get("call_id")) or text(item.get("id"))
    match item.get("type"):
        case "message" if _is_prompt(item):
            words, images = _words(item)
            yield UserEntry(text=words, images=images, ts=ts)
        case "message" if item.get("role") == "assistant":
            yield AgentEntry(blocks=(Text(text=_words(item)[0]),), model=model, ts=ts)
        case "function_call" | "custom_tool_call" | "local_shell_call":
            call = ToolCall(id=call_id, name=_name(item), arguments=_arguments(item))
            yield AgentEntry(blocks=(call,), model=model, ts=ts)
        case "function_call_output" | "custom_tool_call_output":
            yield _result(item, call_id, ts)
        case "web_search_call":
            query = text(record(item.get("action")).get("query"))
            yield AgentEntry(blocks=(Text(text=f"[Searched the web: {query}]"),), ts=ts)
        case _:
            pass


def _is_prompt(item: Record) -> bool:
    """Whether the user wrote it. Codex sends its own instructions as messages of the user."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    return not _words(item)[0].lstrip().startswith(_NOT_SAID)


def _words(item: Record) -> tuple[str, tuple[Image, ...]]:
    return _said(item.get("content"))


def _said(content: object) -> tuple[str, tuple[Image, ...]]:
    if isinstance(content, str):
        return content, ()
    parts = records(content)
    urls = [part["image_url"] for part in parts if part.get("image_url")]
    return with_images([text(part.get("text")) for part in parts], [*map(inline_image, urls)])


def _name(item: Record) -> str:
    return text(item.get("name")) or ("shell" if item["type"] == "local_shell_call" else "unnamed")


def _arguments(item: Record) -> Record:
    if item["type"] == "local_shell_call":
        return {"command": record(item.get("action")).get("command", "")}
    spelled = text(item.get("arguments")) or text(item.get("input"))
    try:
        value = json.loads(spelled)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"input": spelled}


def _result(item: Record, call_id: str, ts: int) -> ResultEntry:
    output = item.get("output")
    failed = isinstance(output, dict) and output.get("success") is False
    words, images = _said(output.get("content") if isinstance(output, dict) else output)
    inner = _inner_output(words)
    return ResultEntry(call_id=call_id, text=inner, images=images, failed=failed, ts=ts)


def _inner_output(words: str) -> str:
    """Older versions stored the output of a command as JSON with its exit code."""
    if not words.startswith('{"output"'):
        return words
    try:
        return text(json.loads(words).get("output")) or words
    except (ValueError, RecursionError):
        return words


def _usage(used: object) -> Usage:
    known = record(used)
    return Usage(
        tokens_in=number(known.get("input_tokens")),
        tokens_out=number(known.get("output_tokens")),
        cache_reads=number(known.get("cached_input_tokens")),
    )


IMPORTER = Importer(name="codex", title="Codex", roots=_roots, find=_find, read=_read)
