"""One record on a page: what it says, and whether its chain holds."""

from collections.abc import Iterator
from typing import Literal

from rookery.governance.ledger.canonical import leaf_hash
from rookery.governance.ledger.line_ranges import LineRange
from rookery.governance.ledger.log_lines import feedback, lines_of, own, scope_words
from rookery.governance.ledger.records import FileHash, TracedFile
from rookery.governance.ledger.traced import TracedRecord

Chain = Literal["ok", "hash differs", "prev differs", "prev not found", "unchained"]


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


def _rows(record: TracedRecord, chain: Chain) -> Iterator[tuple[str, str]]:
    day, _, time = record.time.partition("T")
    yield "record", f"{record.id}   {day} {time}"
    yield "stream", _stream(record, chain)
    yield "kind", f"{record.kind} {record.outcome}".strip()
    yield "intent", _intent(record)
    yield "call", _call(record)
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


def _call(record: TracedRecord) -> str:
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
