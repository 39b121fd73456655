"""A line of the ledger: an Agent Trace record (0.1.0) with our part in `metadata.orchestration`.

No content of a file is ever in it, only hashes and line numbers. What is empty is left out.
"""

import secrets
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields, replace

from rookery.core.text.text_lines import alike
from rookery.governance.ledger.verify_ledger import canonical, leaf_hash, signature

COMPARED_LINES = 3_000
"""Above this, what changed is one block: finding small changes would take too long."""
MARKED_LINES = 2_000
MARK = 8
"""Hex digits that tell a line from another, when it is looked for again."""


class LineRange(Struct, frozen=True):
    """Lines from 1, both ends included."""

    start: int
    end: int
    content_hash: str


class LineChange(Struct, frozen=True, kw_only=True):
    written: tuple[LineRange, ...] = ()
    """In the new text."""
    removed: tuple[LineRange, ...] = ()
    """In the old one."""
    added: int = 0
    deleted: int = 0
    marks: str = ""
    """Eight digits for every line written, one after the other; empty if they are too many."""
    words: str = ""
    """The same for what is left of each line without blanks."""


def plain_lines(text: str) -> list[str]:
    """The lines with every kind of line end taken off. A final one opens no further line."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def content_hash(lines: Sequence[str]) -> str:
    return "sha256:" + sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def line_mark(line: str) -> str:
    return sha256(f"{line}\n".encode()).hexdigest()[:MARK]


def word_mark(line: str) -> str:
    """The same for a line that was only indented or spaced in another way."""
    return sha256("".join(line.split()).encode()).hexdigest()[:MARK]


def line_change(old: str, new: str) -> LineChange:
    """What became of the lines of `old` in `new`."""
    before, after = plain_lines(old), plain_lines(new)
    written, removed = _changed_spans(before, after)
    fresh = [line for start, end in written for line in after[start:end]]
    marked = fresh if len(fresh) <= MARKED_LINES else []
    return LineChange(
        written=tuple(_range_of(after, *span) for span in written),
        removed=tuple(_range_of(before, *span) for span in removed),
        added=len(fresh),
        deleted=sum(end - start for start, end in removed),
        marks="".join(map(line_mark, marked)),
        words="".join(map(word_mark, marked)),
    )


Span = tuple[int, int]


def _changed_spans(before: list[str], after: list[str]) -> tuple[list[Span], list[Span]]:
    head = alike(before, after)
    tail = alike(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    written, removed = list[Span](), list[Span]()
    for tag, a, b, c, d in _steps(old, new):
        if tag != "equal":
            removed += [(head + a, head + b)] if b > a else []
            written += [(head + c, head + d)] if d > c else []
    return written, removed


def _steps(old: list[str], new: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    if not old or not new or len(old) + len(new) > COMPARED_LINES:
        return [("replace", 0, len(old), 0, len(new))]
    return SequenceMatcher(None, old, new).get_opcodes()


def _range_of(lines: list[str], start: int, end: int) -> LineRange:
    return LineRange(start + 1, end, content_hash(lines[start:end]))


_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
VERSION = "0.1.0"
SCHEMA = 1
LONGEST_LINE = 256 * 1024
"""Bytes of one line; a call that needs more is recorded in several parts."""
Kind = Literal[
    "stream_start",
    "intent_selected",
    "intent_cleared",
    "intent_invalidated",
    "intent_change",
    "mutation",
    "command",
    "external",
    "blocked",
    "decision",
    "hook_failure",
    "rewind",
    "lesson",
    "checkpoint",
    "seal",
    "repair",
    "recovered",
]
OWN_KINDS = frozenset({"stream_start", "checkpoint", "seal", "repair"})
"""What the ledger records of itself."""
Outcome = Literal["success", "failure", "blocked", "denied", "cancelled", "interrupted"]
FileDeed = Literal["create", "modify", "delete", "rename", "mode"]
Contributor = Literal["ai", "human", "mixed", "unknown"]
_TOLD_ELSEWHERE = frozenset({"files", "contributor", "model_id", "related", "more", "enforced"})


class FileHash(Struct, frozen=True, kw_only=True):
    """A file's raw bytes."""

    sha256: str
    size: int


class TracedFile(Struct, frozen=True, kw_only=True):
    """What a call did to one file."""

    path: str
    op: FileDeed
    before: FileHash | None = None
    after: FileHash | None = None
    origin: str = ""
    """Where a renamed file was."""
    ranges: tuple[LineRange, ...] = ()
    deleted_ranges: tuple[LineRange, ...] = ()
    original_ranges: tuple[LineRange, ...] = ()
    lines_added: int = 0
    lines_deleted: int = 0
    line_marks: str = ""
    word_marks: str = ""
    """Instead of them since lines are found again however they are spaced."""
    binary: bool = False
    stale: str = ""
    attribution: str = ""


class RelatedLink(Struct, frozen=True, kw_only=True):
    type: str
    url: str


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """What is to be recorded. The ledger adds the id, the time and the chain."""

    kind: Kind
    task_id: str
    parent_task_id: str = ""
    turn: int | None = None
    agent_role: str = ""
    intent_id: str = ""
    intent_rev: int | None = None
    intent_digest: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    input_digest: str = ""
    outcome: Outcome | None = None
    error: Mapping[str, str] | None = None
    """`code` and `type`."""
    enforced: bool = True
    scope: str = ""
    files: tuple[TracedFile, ...] = ()
    command: Mapping[str, Any] | None = None
    mcp: Mapping[str, str] | None = None
    approval: Mapping[str, Any] | None = None
    base: Mapping[str, Any] | None = None
    redactions: int = 0
    contributor: Contributor = "ai"
    model_id: str = ""
    log_seq: int | None = None
    """The event of the task's journal that the record of a call goes back to."""
    related: tuple[RelatedLink, ...] = ()
    """What the intent names; the intent and the parent task are added."""
    more: Mapping[str, Any] | None = None
    """What only some kinds have."""


class Link(Struct, frozen=True, kw_only=True):
    """A record's place in its stream."""

    stream: str
    seq: int
    prev: str | None


class Writer(Struct, frozen=True, kw_only=True):
    """Who writes, as the format calls it: a tool."""

    name: str
    version: str


def new_ulid() -> str:
    number = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(26)))


def record_of(
    entry: LedgerEntry, *, id: str, timestamp: str, writer: Writer, link: Link, key: bytes = b""
) -> dict[str, Any]:
    """The whole record with its hash, signed if there is a key. Raises ValueError for what has no
    canonical form."""
    record: dict[str, Any] = {
        "version": VERSION,
        "id": id,
        "timestamp": timestamp,
        "tool": {"name": writer.name, "version": writer.version},
        "files": [_standard_file(file, entry) for file in entry.files],
        "metadata": {"orchestration": _own(entry, link)},
    }
    try:
        return _marked(record, key)
    except UnicodeEncodeError:  # names of files and commands may be no Unicode
        return _marked(_unicode(record), key)


def line_of(record: Mapping[str, Any]) -> bytes:
    return canonical(record) + b"\n"


def parts_of(entry: LedgerEntry, limit: int = LONGEST_LINE) -> tuple[LedgerEntry, ...]:
    """The entry, or if one line cannot hold it, several with some of its files each."""
    sizes = [_size([_standard_file(file, entry), _own_file(file)]) for file in entry.files]
    room = limit - _bare_size(entry)
    groups: list[list[TracedFile]] = [[]]
    used = 0
    for file, size in zip(entry.files, sizes, strict=True):
        if groups[-1] and used + size > room:
            groups.append([])
            used = 0
        groups[-1].append(file if size <= room else _without_ranges(file))
        used += min(size, room)
    if len(groups) == 1:
        return (replace(entry, files=tuple(groups[0])),)
    return tuple(
        replace(
            entry,
            files=tuple(group),
            more={**(entry.more or {}), "part": number, "parts": len(groups)},
        )
        for number, group in enumerate(groups, 1)
    )


def _marked(record: dict[str, Any], key: bytes) -> dict[str, Any]:
    own = record["metadata"]["orchestration"]
    if key:
        own["mac"] = signature(key, canonical(record))
    own["hash"] = leaf_hash(record)
    return record


def _standard_file(file: TracedFile, entry: LedgerEntry) -> dict[str, Any]:
    contributor: dict[str, str] = {"type": entry.contributor}
    if entry.model_id and entry.contributor != "human":
        contributor["model_id"] = entry.model_id[:250]
    talk = {
        "url": f"urn:task:{entry.task_id}",
        "contributor": contributor,
        "ranges": [_range(lines) for lines in file.ranges],
        "related": [{"type": each.type, "url": each.url} for each in _related(entry)],
    }
    return {"path": _path(file.path), "conversations": [talk]}


def _related(entry: LedgerEntry) -> Iterator[RelatedLink]:
    if entry.intent_id:
        yield RelatedLink(type="intent", url=f"urn:intent:{entry.intent_id}")
    yield from entry.related
    if entry.parent_task_id:
        yield RelatedLink(type="session", url=f"urn:task:{entry.parent_task_id}")


def _own(entry: LedgerEntry, link: Link) -> dict[str, Any]:
    own: dict[str, Any] = {
        "schema": SCHEMA,
        "stream": link.stream,
        "seq": link.seq,
        "prev": link.prev,
    }
    for field in fields(entry):
        held = getattr(entry, field.name)
        if field.name not in _TOLD_ELSEWHERE and held != field.default:
            own[field.name] = dict(held) if isinstance(held, Mapping) else held
    if not entry.intent_id and entry.kind not in OWN_KINDS:
        own["intent_id"] = None
    if entry.files:
        own["files"] = [_own_file(file) for file in entry.files]
    if not entry.enforced:
        own["enforced"] = False
    return {**own, **(entry.more or {})}


def _own_file(file: TracedFile) -> dict[str, Any]:
    own: dict[str, Any] = {
        "path": _path(file.path),
        "op": file.op,
        "before": _hash(file.before),
        "after": _hash(file.after),
        "lines_added": file.lines_added,
        "lines_deleted": file.lines_deleted,
    }
    told = {
        "from": _path(file.origin),
        "deleted_ranges": [_range(lines) for lines in file.deleted_ranges],
        "original_ranges": [_range(lines) for lines in file.original_ranges],
        "line_marks": file.line_marks,
        "word_marks": file.word_marks,
        "binary": file.binary,
        "stale": file.stale,
        "attribution": file.attribution,
    }
    return {**own, **{name: held for name, held in told.items() if held}}


def _hash(held: FileHash | None) -> dict[str, Any] | None:
    return {"sha256": held.sha256, "size": held.size} if held else None


def _range(lines: LineRange) -> dict[str, Any]:
    return {
        "start_line": lines.start,
        "end_line": lines.end,
        "content_hash": lines.content_hash,
    }


def _path(path: str) -> str:
    return unicodedata.normalize("NFC", path)


def _unicode(held: Any) -> Any:
    """The same with every lone surrogate spelled out."""
    if isinstance(held, str):
        return held.encode("utf-8", "backslashreplace").decode()
    if isinstance(held, Mapping):
        return {name: _unicode(each) for name, each in held.items()}
    return [_unicode(each) for each in held] if isinstance(held, list | tuple) else held


def _size(held: object) -> int:
    return len(canonical(_unicode(held)))


def _bare_size(entry: LedgerEntry) -> int:
    """Bytes that a record of the entry takes without its files, generously."""
    own = _own(replace(entry, files=()), Link(stream="0" * 26, seq=0, prev="0" * 71))
    return _size(own) + 1024


def _without_ranges(file: TracedFile) -> TracedFile:
    """A file whose changes are too many to be listed: its hashes still tell what it became."""
    return replace(
        file,
        ranges=(),
        deleted_ranges=(),
        original_ranges=(),
        line_marks="",
        word_marks="",
        attribution="whole",
    )
