"""Records as text: one line in a log, or a page with the chain's status.

Records of other writers and of older versions are shown too, so any field can be missing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from rookery.core.text.terminal_text import counted
from rookery.governance.ledger.records import FileHash, LineRange, TracedFile
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verify_ledger import chain_entry, leaf_hash

_MIN_WIDTHS = (8, 8, 8, 8, 12, 20)
"""Minimum widths of the columns before the last one."""
_LONGEST_SUBJECT = 60
SHOWN_ID = 8
"""Digits shown of a record id; enough to find it again."""
Chain = Literal["ok", "hash differs", "prev differs", "prev not found", "unchained"]


class LogLine(NamedTuple):
    """The cells of one log row. `kind` has a cell of its own because it may be coloured."""

    id: str
    when: str
    kind: str
    intent: str
    tool: str
    subject: str
    result: str


class Columns:
    """Column widths that fit all lines so far. They only grow, as printed rows stay."""

    def __init__(self) -> None:
        self._widths = list(_MIN_WIDTHS)

    def rows(self, lines: Sequence[LogLine]) -> Iterator[str]:
        for line in lines:
            self._widths = [
                max(width, len(cell)) for cell, width in zip(line, self._widths, strict=False)
            ]
        for line in lines:
            padded = (cell.ljust(width) for cell, width in zip(line, self._widths, strict=False))
            yield "  ".join((*padded, line.result)).rstrip()


def log_lines(records: Sequence[TracedRecord], *, today: str) -> Iterator[LogLine]:
    """Yield a log line for each record; the date is shown unless it is today. A record without a
    subject gets that of another record of the same call."""
    about = {_call(record): subject(record) for record in records if subject(record)}
    for record in records:
        text = subject(record) or (about.get(_call(record), "") if record.tool_use_id else "")
        yield LogLine(
            id=record.id[:SHOWN_ID] or "-",
            when=when(record, today=today),
            kind=record.kind,
            intent=record.intent_id or "-",
            tool=record.tool_name or "-",
            subject=_shorten(text) or "-",
            result=result(record),
        )


def when(record: TracedRecord, *, today: str) -> str:
    day, time = record.time[:10], record.time[11:19]
    return time if day == today else f"{day} {time}".strip()


def subject(record: TracedRecord) -> str:
    """What the record is about: files, a command, targets of a refused call, or a changed text."""
    if record.files:
        more = len(record.files) - 1
        return record.files[0].path + (f" and {more} more" if more else "")
    return record.command or ", ".join(record.targets) or _changed_text(record)


def result(record: TracedRecord) -> str:
    match record.kind:
        case "decision":
            return _decision_text(record)
        case "blocked":
            return _refusal_text(record)
        case "command":
            changed = f"{counted(len(record.files), 'file')} changed"
            ended = "" if record.exit_code is None else f"exit {record.exit_code}, "
            return ended + changed
        case "rewind":
            return _restored_text(record)
        case "intent_change":
            return _intent_change_text(record)
        case "intent_selected" | "intent_cleared" | "intent_invalidated":
            by = _text_field(record, "by")
            return f"by {by}" if by else _shorten(_text_field(record, "reason"))
        case "lesson":
            count = entry_of(record).get("count")
            return (
                f"{count} times" if isinstance(count, int) and count > 1 else "for the first time"
            )
        case "stream_start" | "checkpoint" | "seal" | "repair":
            return f"stream {record.stream[:8]}… #{record.seq}"
        case _:
            return "  ".join(word for word in _change_parts(record) if word)


def entry_of(record: TracedRecord) -> dict[str, Any]:
    """The chain entry of the record; empty if it has none."""
    return chain_entry(record.raw) or {}


def lines_of(file: TracedFile) -> str:
    return f"+{file.lines_added} -{file.lines_deleted}"


def scope_text(scope: str) -> str:
    return "" if scope == "none" else scope.replace("_", " ")


def feedback(record: TracedRecord) -> str:
    """The message that came with an approval or a denial."""
    approval = entry_of(record).get("approval")
    text = approval.get("text") or approval.get("reason") if isinstance(approval, dict) else None
    return text if isinstance(text, str) else ""


def chain_of(record: TracedRecord, before: TracedRecord | None) -> Chain:
    """Whether the record matches its hash and follows its predecessor in the stream."""
    if not record.chained:
        return "unchained"
    try:
        if leaf_hash(record.raw) != record.hash:
            return "hash differs"
    except ValueError:
        return "hash differs"
    if record.seq == 0:
        return "prev differs" if record.prev else "ok"
    if before is None:
        return "prev not found"
    return "ok" if before.hash == record.prev else "prev differs"


def record_page(record: TracedRecord, chain: Chain) -> str:
    rows = [row for row in _rows(record, chain) if row[1]]
    return "\n".join(f"{name:<8} {text}".rstrip() for name, text in rows)


def _call(record: TracedRecord) -> tuple[str, str]:
    return record.task_id, record.tool_use_id


def _restored_text(record: TracedRecord) -> str:
    removed = sum(file.op == "delete" for file in record.files)
    restored = f"{counted(len(record.files) - removed, 'file')} restored"
    return f"{restored}, {removed} removed" if removed else restored


def _intent_change_text(record: TracedRecord) -> str:
    """The command, the status change, who made it and why."""
    change = entry_of(record).get("change")
    fields = change if isinstance(change, dict) else {"command": change}
    before, after = fields.get("from"), fields.get("to")
    status = f" ({before} -> {after})" if before and after and before != after else ""
    by = f" by {record.approved_by}" if record.approved_by else ""
    return f"{fields.get('command') or 'changed'}{status}{by}{_quoted(feedback(record))}"


def _changed_text(record: TracedRecord) -> str:
    """Name of a new intent, paths added to a scope, or the pattern or file of a lesson."""
    change = entry_of(record).get("change")
    if isinstance(change, dict):
        added = change.get("scope_added")
        text = ", ".join(map(str, added)) if isinstance(added, list) else change.get("name")
        return text if isinstance(text, str) else ""
    return _text_field(record, "pattern") or _text_field(record, "file")


def _text_field(record: TracedRecord, name: str) -> str:
    text = entry_of(record).get(name)
    return text if isinstance(text, str) else ""


def _change_parts(record: TracedRecord) -> Iterator[str]:
    if record.files:
        added = sum(file.lines_added for file in record.files)
        yield f"+{added} -{sum(file.lines_deleted for file in record.files)}"
    if record.outcome not in {"", "success"}:
        yield record.outcome
    yield scope_text(record.scope)
    yield "" if record.enforced else "not enforced"


def _refusal_text(record: TracedRecord) -> str:
    why = " ".join(filter(None, (record.error_code, record.error_type.replace("_", " "))))
    return ": ".join(filter(None, (why, record.outcome)))


def _decision_text(record: TracedRecord) -> str:
    by = f" by {record.approved_by}" if record.approved_by else ""
    decided = "denied" if record.outcome == "denied" else record.approval
    return f"{decided or 'decided'}{by}{_reasons(record)}{_quoted(feedback(record))}"


def _reasons(record: TracedRecord) -> str:
    """The reasons why approval was needed."""
    approval = entry_of(record).get("approval")
    reasons = approval.get("reasons") if isinstance(approval, dict) else None
    codes = [each for each in reasons if isinstance(each, str)] if isinstance(reasons, list) else []
    return f" about {', '.join(codes)}" if codes else ""


def _quoted(text: str) -> str:
    return f': "{text}"' if text else ""


def _shorten(text: str) -> str:
    first = text.split("\n", 1)[0]
    cut = first if len(first) <= _LONGEST_SUBJECT else first[: _LONGEST_SUBJECT - 1]
    return cut if cut == text else f"{cut}…"


def _rows(record: TracedRecord, chain: Chain) -> Iterator[tuple[str, str]]:
    day, _, time = record.time.partition("T")
    yield "record", f"{record.id}   {day} {time}"
    yield "stream", _stream(record, chain)
    yield "kind", f"{record.kind} {record.outcome}".strip()
    yield "intent", _intent(record)
    yield "call", _call_row(record)
    for file in record.files:
        yield "file", _file(file)
    yield "target", ", ".join(record.targets)
    yield "command", _command(record)
    yield "scope", scope_text(record.scope) + ("" if record.enforced else " (not enforced)")
    yield "error", f"{record.error_code} {record.error_type}".strip()
    yield "decision", _decision(record)
    yield "base", _base(record)


def _stream(record: TracedRecord, chain: Chain) -> str:
    if not record.chained:
        return f'unchained, by "{record.writer or "unknown"}"'
    prev = _short(record.prev) if record.prev else "none"
    text = f"{record.stream[:8]}… #{record.seq}  prev {prev}  hash {_short(record.hash)}"
    return f"{text}  chain {chain}" if chain == "ok" else f"{text}  chain broken: {chain}"


def _intent(record: TracedRecord) -> str:
    if not record.intent_id:
        return ""
    revision = "" if record.intent_rev is None else f" rev {record.intent_rev}"
    digest = f" (digest {record.intent_digest[:12]})" if record.intent_digest else ""
    return f"{record.intent_id}{revision}{digest}"


def _call_row(record: TracedRecord) -> str:
    named = f"{record.tool_name} ({record.tool_use_id})" if record.tool_use_id else record.tool_name
    by = record.model_id or record.contributor
    turn = "" if record.turn is None else f", turn {record.turn}"
    task = f"in task {record.task_id}{turn}" if record.task_id else ""
    return " ".join(word for word in (named, f"by {by}" if by else "", task) if word)


def _file(file: TracedFile) -> str:
    moved = f" from {file.origin}" if file.origin else ""
    hashes = f"{_hash_text(file.before)} -> {_hash_text(file.after)}"
    spans = [
        f"lines {_spans(ranges)} {what}"
        for ranges, what in ((file.ranges, "written"), (file.deleted_ranges, "removed"))
        if ranges
    ]
    lines = ", ".join(spans) or lines_of(file)
    return f"{file.path}  {file.op}{moved}  {hashes}   {lines}"


def _command(record: TracedRecord) -> str:
    if not record.command:
        return ""
    ended = "" if record.exit_code is None else f"   exit {record.exit_code}"
    return record.command.replace("\n", "␊") + ended


def _decision(record: TracedRecord) -> str:
    if not record.approval:
        return ""
    by = f" by {record.approved_by}" if record.approved_by else ""
    return f"{record.approval}{by}{_quoted(feedback(record))}"


def _base(record: TracedRecord) -> str:
    base = entry_of(record).get("base")
    if not isinstance(base, dict) or not base.get("revision"):
        return ""
    dirty = " (dirty)" if base.get("dirty") else ""
    return f"{base.get('type', '')} {str(base['revision'])[:12]}{dirty}"


def _spans(ranges: tuple[LineRange, ...]) -> str:
    return ", ".join(
        f"{each.start}" if each.start == each.end else f"{each.start}-{each.end}" for each in ranges
    )


def _hash_text(file_hash: FileHash | None) -> str:
    return f"{file_hash.sha256[:8]}…" if file_hash else "nothing"


def _short(mark: str) -> str:
    bare = mark.removeprefix("sha256:")
    return f"{bare[:4]}…{bare[-4:]}"
