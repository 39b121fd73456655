"""Ledger records: Agent Trace 0.1.0 with our chain entry in `metadata.orchestration`.

Records hold hashes and line numbers, never file content. Empty fields are left out.
"""

import secrets
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any, Literal

from msgspec import Struct, field, to_builtins
from msgspec.structs import fields, replace

from rookery import NAME
from rookery import VERSION as PRODUCT_VERSION
from rookery.core.text.text_lines import alike
from rookery.governance.intents.intent import Related
from rookery.governance.ledger.verify_ledger import canonical, leaf_hash, signature

COMPARED_LINES = 3_000
"""Above this many lines a change counts as one block, because a line diff would take too long."""
MARKED_LINES = 2_000
MARK = 8
"""Hex digits of a line's hash that are kept to find the line again."""


class LineRange(Struct, frozen=True):
    """Line numbers start at 1; both ends are included."""

    start: int = field(name="start_line")
    end: int = field(name="end_line")
    content_hash: str = ""


class LineChange(Struct, frozen=True, kw_only=True):
    written: tuple[LineRange, ...] = ()
    """Ranges in the new text."""
    removed: tuple[LineRange, ...] = ()
    """Ranges in the old text."""
    added: int = 0
    deleted: int = 0
    marks: str = ""
    """The line marks of all written lines, concatenated; empty if there are too many."""
    words: str = ""
    """The same with `word_mark`, which ignores white space."""


def plain_lines(text: str) -> list[str]:
    """Split text at any kind of line end. A final line end does not start another line."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def content_hash(lines: Sequence[str]) -> str:
    return "sha256:" + sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def line_mark(line: str) -> str:
    return sha256(f"{line}\n".encode()).hexdigest()[:MARK]


def word_mark(line: str) -> str:
    """Mark of a line that ignores white space."""
    return sha256("".join(line.split()).encode()).hexdigest()[:MARK]


def line_change(old: str, new: str) -> LineChange:
    """Compare two texts line by line."""
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
"""Maximum bytes of a line; a larger entry is recorded in several parts."""
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
"""Kinds that the ledger writes for its own chain."""
Outcome = Literal["success", "failure", "blocked", "denied", "cancelled", "interrupted"]
FileOperation = Literal["create", "modify", "delete", "rename", "mode"]
Contributor = Literal["ai", "human", "mixed", "unknown"]
_OTHER_FIELDS = frozenset({"files", "contributor", "model_id", "related", "more", "enforced"})


_ALWAYS_PRESENT = frozenset({"path", "op", "before", "after", "lines_added", "lines_deleted"})


class FileHash(Struct, frozen=True, kw_only=True):
    """Hash and size of a file's raw bytes."""

    sha256: str
    size: int


class TracedFile(Struct, frozen=True, kw_only=True):
    """What a call did to one file."""

    path: str
    op: FileOperation
    before: FileHash | None = None
    after: FileHash | None = None
    origin: str = field(default="", name="from")
    """Previous path of a renamed file."""
    ranges: tuple[LineRange, ...] = ()
    deleted_ranges: tuple[LineRange, ...] = ()
    original_ranges: tuple[LineRange, ...] = ()
    lines_added: int = 0
    lines_deleted: int = 0
    line_marks: str = ""
    word_marks: str = ""
    """Written instead of `line_marks` since matching ignores white space."""
    binary: bool = False
    attribution: str = ""


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """Something to record. The ledger adds the id, the time and the chain."""

    kind: Kind
    task_id: str
    parent_task_id: str = ""
    turn: int | None = None
    intent_id: str = ""
    intent_rev: int | None = None
    intent_digest: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    input_digest: str = ""
    outcome: Outcome | None = None
    error: Mapping[str, str] | None = None
    """With the keys `code` and `type`."""
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
    """Number of the journal event that the record of a call belongs to."""
    related: tuple[Related, ...] = ()
    """Links from the intent; links to the intent and the parent task are added."""
    more: Mapping[str, Any] | None = None
    """Fields that only some kinds have."""


class Link(Struct, frozen=True, kw_only=True):
    """A record's position in its stream."""

    stream: str
    seq: int
    prev: str | None


class Writer(Struct, frozen=True, kw_only=True):
    """The program that writes, which Agent Trace calls a tool."""

    name: str
    version: str


OURS = Writer(name=NAME, version=PRODUCT_VERSION)


def new_ulid() -> str:
    number = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(26)))


def build_record(
    entry: LedgerEntry, *, id: str, timestamp: str, writer: Writer, link: Link, key: bytes = b""
) -> dict[str, Any]:
    """Build the complete record with its hash, signed if there is a key. Raises ValueError if a
    value has no canonical form."""
    record: dict[str, Any] = {
        "version": VERSION,
        "id": id,
        "timestamp": timestamp,
        "tool": {"name": writer.name, "version": writer.version},
        "files": [_standard_file(file, entry) for file in entry.files],
        "metadata": {"orchestration": _chain_entry(entry, link)},
    }
    try:
        return _sign_and_hash(record, key)
    except UnicodeEncodeError:  # file names and commands may hold surrogates
        return _sign_and_hash(_escape_surrogates(record), key)


def encode_line(record: Mapping[str, Any]) -> bytes:
    return canonical(record) + b"\n"


def split_entry(entry: LedgerEntry, limit: int = LONGEST_LINE) -> tuple[LedgerEntry, ...]:
    """The entry; or, if it does not fit in one line, several with some of its files each."""
    sizes = [_size([_standard_file(file, entry), _file_entry(file)]) for file in entry.files]
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


def _sign_and_hash(record: dict[str, Any], key: bytes) -> dict[str, Any]:
    own = record["metadata"]["orchestration"]
    if key:
        own["mac"] = signature(key, canonical(record))
    own["hash"] = leaf_hash(record)
    return record


def _standard_file(file: TracedFile, entry: LedgerEntry) -> dict[str, Any]:
    contributor: dict[str, str] = {"type": entry.contributor}
    if entry.model_id and entry.contributor != "human":
        contributor["model_id"] = entry.model_id[:250]
    conversation = {
        "url": f"urn:task:{entry.task_id}",
        "contributor": contributor,
        "ranges": to_builtins([*file.ranges]),
        "related": to_builtins([*_related(entry)]),
    }
    return {"path": _path(file.path), "conversations": [conversation]}


def _related(entry: LedgerEntry) -> Iterator[Related]:
    if entry.intent_id:
        yield Related(type="intent", url=f"urn:intent:{entry.intent_id}")
    yield from entry.related
    if entry.parent_task_id:
        yield Related(type="session", url=f"urn:task:{entry.parent_task_id}")


def _chain_entry(entry: LedgerEntry, link: Link) -> dict[str, Any]:
    own: dict[str, Any] = {
        "schema": SCHEMA,
        "stream": link.stream,
        "seq": link.seq,
        "prev": link.prev,
    }
    for each in fields(entry):
        value = getattr(entry, each.name)
        if each.name not in _OTHER_FIELDS and value != each.default:
            own[each.name] = dict(value) if isinstance(value, Mapping) else value
    if not entry.intent_id and entry.kind not in OWN_KINDS:
        own["intent_id"] = None
    if entry.files:
        own["files"] = [_file_entry(file) for file in entry.files]
    if not entry.enforced:
        own["enforced"] = False
    return {**own, **(entry.more or {})}


def _file_entry(file: TracedFile) -> dict[str, Any]:
    """Our entry for a file. Ranges are left out, as they are in the standard part."""
    named = replace(file, path=_path(file.path), origin=_path(file.origin), ranges=())
    entry: dict[str, Any] = to_builtins(named)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in entry.items()
        if value or name in _ALWAYS_PRESENT
    }


def _path(path: str) -> str:
    return unicodedata.normalize("NFC", path)


def _escape_surrogates(value: Any) -> Any:
    """The same value with lone surrogates escaped."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {name: _escape_surrogates(each) for name, each in value.items()}
    return [*map(_escape_surrogates, value)] if isinstance(value, list | tuple) else value


def _size(value: object) -> int:
    return len(canonical(_escape_surrogates(value)))


def _bare_size(entry: LedgerEntry) -> int:
    """Upper bound of the bytes of a record without its files."""
    own = _chain_entry(replace(entry, files=()), Link(stream="0" * 26, seq=0, prev="0" * 71))
    return _size(own) + 1024


def _without_ranges(file: TracedFile) -> TracedFile:
    """The file with only its hashes, for changes that are too many to list."""
    return replace(
        file,
        ranges=(),
        deleted_ranges=(),
        original_ranges=(),
        line_marks="",
        word_marks="",
        attribution="whole",
    )
