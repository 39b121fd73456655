"""Validation of Agent Trace records, version 0.1.0."""

import re
from collections.abc import Iterator
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")

RANGE = {
    "type": "object",
    "required": ["start_line", "end_line"],
    "properties": {
        "start_line": {"type": "integer", "minimum": 1},
        "end_line": {"type": "integer", "minimum": 1},
        "content_hash": {"type": "string"},
        "contributor": {"$ref": "#/$defs/contributor"},
    },
}
AGENT_TRACE = {
    "type": "object",
    "required": ["version", "id", "timestamp", "files"],
    "properties": {
        "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "id": {"type": "string", "format": "uuid"},
        "timestamp": {"type": "string", "format": "date-time"},
        "vcs": {"type": "object", "required": ["type", "revision"]},
        "tool": {"type": "object", "properties": {"name": {"type": "string"}}},
        "files": {"type": "array", "items": {"$ref": "#/$defs/file"}},
        "metadata": {"type": "object"},
    },
    "$defs": {
        "file": {
            "type": "object",
            "required": ["path", "conversations"],
            "properties": {
                "path": {"type": "string"},
                "conversations": {"type": "array", "items": {"$ref": "#/$defs/conversation"}},
            },
        },
        "conversation": {
            "type": "object",
            "required": ["ranges"],
            "properties": {
                "url": {"type": "string", "format": "uri"},
                "contributor": {"$ref": "#/$defs/contributor"},
                "ranges": {"type": "array", "items": RANGE},
                "related": {
                    "type": "array",
                    "items": {"type": "object", "required": ["type", "url"]},
                },
            },
        },
        "contributor": {
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"enum": ["human", "ai", "mixed", "unknown"]},
                "model_id": {"type": "string", "maxLength": 250},
            },
        },
    },
}


def shape_problems(record: object) -> tuple[str, ...]:
    """Where a record violates the Agent Trace format; empty if it is valid."""
    if not isinstance(record, dict):
        return ("a record is an object",)
    return tuple(_record_problems(record))


def _record_problems(record: dict[str, Any]) -> Iterator[str]:
    for name, form in (("version", _VERSION), ("id", _UUID), ("timestamp", _TIME)):
        if not isinstance(record.get(name), str) or not form.fullmatch(record[name]):
            yield f"{name} is missing or malformed"
    files = record.get("files")
    if not isinstance(files, list):
        yield "files is not a list"
        return
    for number, file in enumerate(files):
        yield from (f"files[{number}]: {problem}" for problem in _file_problems(file))


def _file_problems(file: object) -> Iterator[str]:
    if not isinstance(file, dict) or not isinstance(file.get("path"), str):
        yield "path is missing"
        return
    conversations = file.get("conversations")
    if not isinstance(conversations, list):
        yield "conversations is not a list"
        return
    for talk in conversations:
        if not isinstance(talk, dict) or not isinstance(talk.get("ranges"), list):
            yield "ranges is not a list"
            continue
        yield from _talk_problems(talk)


def _talk_problems(talk: dict[str, Any]) -> Iterator[str]:
    for lines in talk["ranges"]:
        start, end = (lines.get("start_line"), lines.get("end_line")) if lines else (None, None)
        if not isinstance(start, int) or not isinstance(end, int) or not 1 <= start <= end:
            yield "a range has no lines from 1"
    contributor = talk.get("contributor", {"type": "unknown"})
    if contributor.get("type") not in {"human", "ai", "mixed", "unknown"}:
        yield "contributor is of no known type"
    if len(contributor.get("model_id", "")) > 250:
        yield "model_id is longer than 250 characters"
