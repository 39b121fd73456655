"""Parsed records, whatever program wrote them.

Reads our records, plain Agent Trace records, and lines in the shape of the format's predecessors
(`relative_path`, top-level `intent_id`, `related[].value`). A line can hold several objects. Lines
that cannot be parsed are skipped; `verify_ledger` reports them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from rookery.governance.intents.intent import Related
from rookery.governance.ledger.records import FileHash, LineRange, TracedFile
from rookery.governance.ledger.verify_ledger import decode_objects

PSEUDO_FILES = frozenset({".sessions", ".shell-history"})
"""Paths under which another writer stores events that touched no file."""


class TracedRecord(Struct, frozen=True, kw_only=True):
    id: str
    time: str
    kind: str
    writer: str = ""
    task_id: str = ""
    turn: int | None = None
    intent_id: str = ""
    intent_rev: int | None = None
    intent_digest: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    outcome: str = ""
    error_code: str = ""
    error_type: str = ""
    enforced: bool = True
    scope: str = ""
    contributor: str = ""
    model_id: str = ""
    files: tuple[TracedFile, ...] = ()
    """What was done to each file. Files that a rewind removed count as deleted."""
    targets: tuple[str, ...] = ()
    """The paths that a call without changes was about."""
    related: tuple[Related, ...] = ()
    command: str = ""
    exit_code: int | None = None
    approved_by: str = ""
    approval: str = ""
    stream: str = ""
    seq: int = -1
    prev: str = ""
    hash: str = ""
    raw: dict[str, Any]

    @property
    def chained(self) -> bool:
        return bool(self.stream)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that were changed, or would have been."""
        return (*(file.path for file in self.files), *self.targets)


def records_on(line: bytes) -> list[TracedRecord]:
    try:
        objects = [msgspec.json.decode(line)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        objects = _lenient_objects(line)
    return [parse_record(each) for each in objects if isinstance(each, dict)]


def _lenient_objects(line: bytes) -> list[Any]:
    """Parse what strict JSON refuses: several objects on a line, odd numbers or characters. Empty
    if that fails too."""
    try:
        return list(decode_objects(line.decode("utf-8")))
    except (ValueError, RecursionError):
        return []


def records_in(lines: Iterable[bytes]) -> Iterator[TracedRecord]:
    for line in lines:
        yield from records_on(line)


def parse_record(record: dict[str, Any]) -> TracedRecord:
    own = _object(_object(record.get("metadata")).get("orchestration"))
    files = tuple(_files(record, own))
    first = _first_conversation(record)
    contributor = _object(first.get("contributor")) or _object(record.get("contributor"))
    error, command = _object(own.get("error")), _object(own.get("command"))
    approval = _object(own.get("approval"))
    return TracedRecord(
        id=_text(record.get("id")),
        time=_text(record.get("timestamp")),
        kind=_text(own.get("kind")) or ("mutation" if files else "event"),
        writer=_text(_object(record.get("tool")).get("name")),
        task_id=_text(own.get("task_id")) or _text(first.get("url")).removeprefix("urn:task:"),
        turn=_number(own.get("turn")),
        intent_id=_text(own.get("intent_id")) or _foreign_intent(record, first),
        intent_rev=_number(own.get("intent_rev")),
        intent_digest=_text(own.get("intent_digest")),
        tool_name=_text(own.get("tool_name")),
        tool_use_id=_text(own.get("tool_use_id")),
        outcome=_text(own.get("outcome")),
        error_code=_text(error.get("code")),
        error_type=_text(error.get("type")),
        enforced=own.get("enforced") is not False,
        scope=_text(own.get("scope")),
        contributor=_text(contributor.get("type")) or _text(contributor.get("entity_type")).lower(),
        model_id=_text(contributor.get("model_id")) or _text(contributor.get("model_identifier")),
        files=files,
        targets=tuple(_targets(own)),
        related=tuple(_related(first)),
        command=_text(command.get("text")),
        exit_code=_number(command.get("exit_code")),
        approved_by=_text(approval.get("by")),
        approval=_text(approval.get("answer")),
        stream=_text(own.get("stream")),
        seq=-1 if _number(own.get("seq")) is None else int(own["seq"]),
        prev=_text(own.get("prev")),
        hash=_text(own.get("hash")),
        raw=record,
    )


def _files(record: dict[str, Any], own: dict[str, Any]) -> Iterator[TracedFile]:
    entries = {_text(_object(file).get("path")): _object(file) for file in _list(own.get("files"))}
    for file in map(_object, _list(record.get("files"))):
        path = _text(file.get("path")) or _text(file.get("relative_path"))
        if path and path not in PSEUDO_FILES:
            yield _file(path, file, entries.get(path, {}))
    if own.get("kind") == "rewind":
        for path in map(_text, _list(own.get("removed"))):
            if path:
                yield TracedFile(path=path, op="delete")


def _targets(own: dict[str, Any]) -> Iterator[str]:
    for target in _list(own.get("targets")):
        if path := _text(target) or _text(_object(target).get("path")):
            yield path


def _file(path: str, file: dict[str, Any], own: dict[str, Any]) -> TracedFile:
    conversations = [_object(conversation) for conversation in _list(file.get("conversations"))]
    ranges = [each for conversation in conversations for each in _list(conversation.get("ranges"))]
    op = own.get("op")
    return TracedFile(
        path=path,
        op=op if op in {"create", "modify", "delete", "rename", "mode"} else "modify",
        before=_hash(own.get("before")),
        after=_hash(own.get("after")),
        origin=_text(own.get("from")),
        ranges=_ranges(ranges or _list(file.get("ranges"))),
        deleted_ranges=_ranges(_list(own.get("deleted_ranges"))),
        lines_added=_number(own.get("lines_added")) or 0,
        lines_deleted=_number(own.get("lines_deleted")) or 0,
        line_marks=_text(own.get("line_marks")),
        word_marks=_text(own.get("word_marks")),
    )


def _ranges(found: list[Any]) -> tuple[LineRange, ...]:
    ranges: list[LineRange] = []
    for each in map(_object, found):
        start = _number(each.get("start_line"))
        end = _number(each.get("end_line"))
        if start and end and 1 <= start <= end:
            ranges.append(LineRange(start, end, _text(each.get("content_hash"))))
    return tuple(ranges)


def _related(conversation: dict[str, Any]) -> Iterator[Related]:
    for each in map(_object, _list(conversation.get("related"))):
        url = _text(each.get("url")) or _text(each.get("value"))
        if url:
            yield Related(type=_text(each.get("type")), url=url)


def _first_conversation(record: dict[str, Any]) -> dict[str, Any]:
    for file in map(_object, _list(record.get("files"))):
        for conversation in map(_object, _list(file.get("conversations"))):
            return conversation
    return {}


def _foreign_intent(record: dict[str, Any], conversation: dict[str, Any]) -> str:
    if named := _text(record.get("intent_id")):
        return named
    urls = [each.url for each in _related(conversation) if each.type in {"intent", "specification"}]
    return urls[0].removeprefix("urn:intent:") if urls else ""


def _hash(value: object) -> FileHash | None:
    fields = _object(value)
    digest, size = fields.get("sha256"), fields.get("size")
    if isinstance(digest, str) and isinstance(size, int):
        return FileHash(sha256=digest, size=size)
    return None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
