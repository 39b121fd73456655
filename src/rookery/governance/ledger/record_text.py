"""A record as text: on one line of a log, and on a page of its own.

A page also says whether the record's chain holds. Records of other writers and of older versions
are shown too, so whatever a record does not tell is left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from rookery.governance.ledger.records import FileHash, LineRange, TracedFile
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verify_ledger import leaf_hash, own_part

_LEAST = (8, 8, 8, 8, 12, 20)
"""How wide the columns before the last one are at least."""
_LONGEST_SUBJECT = 60
SHOWN_ID = 8
"""Digits of an id by which a record is found again."""
Chain = Literal["ok", "hash differs", "prev differs", "prev not found", "unchained"]


class LogLine(Struct, frozen=True, kw_only=True):
    """Its kind stands apart, because it may be coloured."""

    id: str
    when: str
    kind: str
    intent: str
    tool: str
    subject: str
    result: str

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.id, self.when, self.kind, self.intent, self.tool, self.subject)


class Columns:
    """Widths that fit all lines so far. They only grow, because what is printed stays."""

    def __init__(self) -> None:
        self._widths = list(_LEAST)

    def rows(self, lines: Sequence[LogLine]) -> Iterator[str]:
        for line in lines:
            self._widths = [
                max(width, len(cell)) for cell, width in zip(line.cells, self._widths, strict=True)
            ]
        for line in lines:
            padded = (
                cell.ljust(width) for cell, width in zip(line.cells, self._widths, strict=True)
            )
            yield "  ".join((*padded, line.result)).rstrip()


def log_lines(records: Sequence[TracedRecord], *, today: str) -> Iterator[LogLine]:
    """Lines for records; those of another day than today say which. What was decided is told with
    what the call was about, if another of the records says that."""
    about = {_call(record): subject(record) for record in records if subject(record)}
    for record in records:
        said = subject(record) or (about.get(_call(record), "") if record.tool_use_id else "")
        yield LogLine(
            id=record.id[:SHOWN_ID] or "-",
            when=when(record, today=today),
            kind=record.kind,
            intent=record.intent_id or "-",
            tool=record.tool_name or "-",
            subject=_shortened(said) or "-",
            result=result(record),
        )


def when(record: TracedRecord, *, today: str) -> str:
    day, time = record.time[:10], record.time[11:19]
    return time if day == today else f"{day} {time}".strip()


def subject(record: TracedRecord) -> str:
    """What it was about: a file, a command, what a refused call was aimed at, or what was
    written down."""
    if record.files:
        more = len(record.files) - 1
        return record.files[0].path + (f" and {more} more" if more else "")
    return record.command or ", ".join(record.targets) or _written_down(record)


def result(record: TracedRecord) -> str:
    match record.kind:
        case "decision":
            return _decided(record)
        case "blocked":
            return _refused(record)
        case "command":
            changed = f"{_counted(len(record.files))} changed"
            ended = "" if record.exit_code is None else f"exit {record.exit_code}, "
            return ended + changed
        case "rewind":
            return _put_back(record)
        case "intent_change":
            return _intent_changed(record)
        case "intent_selected" | "intent_cleared" | "intent_invalidated":
            by = _said(record, "by")
            return f"by {by}" if by else _shortened(_said(record, "reason"))
        case "lesson":
            count = own(record).get("count")
            return (
                f"{count} times" if isinstance(count, int) and count > 1 else "for the first time"
            )
        case "stream_start" | "checkpoint" | "seal" | "repair":
            return f"stream {record.stream[:8]}… #{record.seq}"
        case _:
            return "  ".join(word for word in _done(record) if word)


def own(record: TracedRecord) -> dict[str, Any]:
    """Our part of the record, if it has one."""
    return own_part(record.raw) or {}


def lines_of(file: TracedFile) -> str:
    return f"+{file.lines_added} -{file.lines_deleted}"


def scope_words(scope: str) -> str:
    return "" if scope == "none" else scope.replace("_", " ")


def feedback(record: TracedRecord) -> str:
    """What somebody said when they decided."""
    approval = own(record).get("approval")
    said = approval.get("text") or approval.get("reason") if isinstance(approval, dict) else None
    return said if isinstance(said, str) else ""


def chain_of(record: TracedRecord, before: TracedRecord | None) -> Chain:
    """Whether the record is as it was written and follows the one before it in its stream."""
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


def _put_back(record: TracedRecord) -> str:
    removed = sum(file.op == "delete" for file in record.files)
    put_back = f"{_counted(len(record.files) - removed)} restored"
    return f"{put_back}, {removed} removed" if removed else put_back


def _intent_changed(record: TracedRecord) -> str:
    """By which command, from which status to which, by whom and why."""
    change = own(record).get("change")
    told = change if isinstance(change, dict) else {"command": change}
    before, after = told.get("from"), told.get("to")
    status = f" ({before} -> {after})" if before and after and before != after else ""
    by = f" by {record.approved_by}" if record.approved_by else ""
    return f"{told.get('command') or 'changed'}{status}{by}{_quoted(feedback(record))}"


def _written_down(record: TracedRecord) -> str:
    """The name of a new intent, what a scope got, or where a lesson went."""
    change = own(record).get("change")
    if isinstance(change, dict):
        added = change.get("scope_added")
        said = ", ".join(map(str, added)) if isinstance(added, list) else change.get("name")
        return said if isinstance(said, str) else ""
    return _said(record, "pattern") or _said(record, "file")


def _said(record: TracedRecord, name: str) -> str:
    said = own(record).get(name)
    return said if isinstance(said, str) else ""


def _counted(files: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}"


def _done(record: TracedRecord) -> Iterator[str]:
    if record.files:
        added = sum(file.lines_added for file in record.files)
        yield f"+{added} -{sum(file.lines_deleted for file in record.files)}"
    if record.outcome not in {"", "success"}:
        yield record.outcome
    yield scope_words(record.scope)
    yield "" if record.enforced else "not enforced"


def _refused(record: TracedRecord) -> str:
    why = " ".join(filter(None, (record.error_code, record.error_type.replace("_", " "))))
    return ": ".join(filter(None, (why, record.outcome)))


def _decided(record: TracedRecord) -> str:
    by = f" by {record.approved_by}" if record.approved_by else ""
    decided = "denied" if record.outcome == "denied" else record.approval
    return f"{decided or 'decided'}{by}{_reasons(record)}{_quoted(feedback(record))}"


def _reasons(record: TracedRecord) -> str:
    """What somebody was asked about."""
    approval = own(record).get("approval")
    told = approval.get("reasons") if isinstance(approval, dict) else None
    codes = [each for each in told if isinstance(each, str)] if isinstance(told, list) else []
    return f" about {', '.join(codes)}" if codes else ""


def _quoted(text: str) -> str:
    return f': "{text}"' if text else ""


def _shortened(text: str) -> str:
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
    yield "scope", scope_words(record.scope) + ("" if record.enforced else " (not enforced)")
    yield "error", f"{record.error_code} {record.error_type}".strip()
    yield "decision", _decision(record)
    yield "base", _base(record)


def _stream(record: TracedRecord, chain: Chain) -> str:
    if not record.chained:
        return f'unchained, by "{record.writer or "unknown"}"'
    prev = _short(record.prev) if record.prev else "none"
    said = f"{record.stream[:8]}… #{record.seq}  prev {prev}  hash {_short(record.hash)}"
    return f"{said}  chain {chain}" if chain == "ok" else f"{said}  chain broken: {chain}"


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
    hashes = f"{_mark(file.before)} -> {_mark(file.after)}"
    spans = [
        f"lines {_spans(ranges)} {what}"
        for ranges, what in ((file.ranges, "written"), (file.deleted_ranges, "removed"))
        if ranges
    ]
    told = ", ".join(spans) or lines_of(file)
    return f"{file.path}  {file.op}{moved}  {hashes}   {told}"


def _command(record: TracedRecord) -> str:
    if not record.command:
        return ""
    ended = "" if record.exit_code is None else f"   exit {record.exit_code}"
    return record.command.replace("\n", "␊") + ended


def _decision(record: TracedRecord) -> str:
    if not record.approval:
        return ""
    by = f" by {record.approved_by}" if record.approved_by else ""
    said = feedback(record)
    return f"{record.approval}{by}" + (f': "{said}"' if said else "")


def _base(record: TracedRecord) -> str:
    base = own(record).get("base")
    if not isinstance(base, dict) or not base.get("revision"):
        return ""
    dirty = " (dirty)" if base.get("dirty") else ""
    return f"{base.get('type', '')} {str(base['revision'])[:12]}{dirty}"


def _spans(ranges: tuple[LineRange, ...]) -> str:
    return ", ".join(
        f"{each.start}" if each.start == each.end else f"{each.start}-{each.end}" for each in ranges
    )


def _mark(held: FileHash | None) -> str:
    return f"{held.sha256[:8]}…" if held else "nothing"


def _short(mark: str) -> str:
    bare = mark.removeprefix("sha256:")
    return f"{bare[:4]}…{bare[-4:]}"
