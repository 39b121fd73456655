"""A record on one line: when, what, for which intent, by which call, on what, and how it ended."""

from collections.abc import Iterable, Iterator
from typing import Any

from rookery.core.ledger.records import TracedFile
from rookery.core.ledger.traced import TracedRecord
from rookery.core.ledger.verify_ledger import own_part
from rookery.core.values import value

_WIDTHS = (0, 9, 8, 16, 22)
"""Columns before the last one are at least so wide; longer texts push the rest aside."""
_CLASS_WORDS = {"INTENT_EVOLUTION": "evolution", "AST_REFACTOR": "refactor"}
_LONGEST_SUBJECT = 60


@value
class LogLine:
    """Its kind stands apart, because it may be coloured."""

    when: str
    kind: str
    intent: str
    tool: str
    subject: str
    result: str

    @property
    def text(self) -> str:
        cells = (self.when, self.kind, self.intent, self.tool, self.subject)
        padded = (cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
        return "  ".join((*padded, self.result)).rstrip()


def log_lines(records: Iterable[TracedRecord], *, today: str) -> Iterator[LogLine]:
    """Lines for records; those of another day than today say which."""
    for record in records:
        yield LogLine(
            when=when(record, today=today),
            kind=record.kind,
            intent=record.intent_id or "-",
            tool=record.tool_name or "-",
            subject=_shortened(subject(record)) or "-",
            result=result(record),
        )


def when(record: TracedRecord, *, today: str) -> str:
    day, time = record.time[:10], record.time[11:19]
    return time if day == today else f"{day} {time}".strip()


def subject(record: TracedRecord) -> str:
    """What it was about: a file, a command, or what a refused call was aimed at."""
    if record.files:
        more = len(record.files) - 1
        return record.files[0].path + (f" and {more} more" if more else "")
    return record.command or ", ".join(targets(record))


def targets(record: TracedRecord) -> tuple[str, ...]:
    """The paths that a call without files was aimed at."""
    named = own(record).get("targets")
    each = [
        target.get("path") if isinstance(target, dict) else target
        for target in (named if isinstance(named, list) else [])
    ]
    return tuple(path for path in each if isinstance(path, str))


def result(record: TracedRecord) -> str:
    match record.kind:
        case "decision":
            return _decided(record)
        case "blocked":
            return _refused(record)
        case "command":
            changed = f"{len(record.files)} file{'' if len(record.files) == 1 else 's'} changed"
            ended = "" if record.exit_code is None else f"exit {record.exit_code}, "
            return ended + changed
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


def _done(record: TracedRecord) -> Iterator[str]:
    if record.files:
        added = sum(file.lines_added for file in record.files)
        yield f"+{added} -{sum(file.lines_deleted for file in record.files)}"
    if record.outcome not in {"", "success"}:
        yield record.outcome
    yield scope_words(record.scope)
    yield _CLASS_WORDS.get(record.mutation_class, record.mutation_class.lower())
    yield "" if record.enforced else "not enforced"


def _refused(record: TracedRecord) -> str:
    why = " ".join(filter(None, (record.error_code, record.error_type.replace("_", " "))))
    return ": ".join(filter(None, (why, record.outcome)))


def _decided(record: TracedRecord) -> str:
    by = f" by {record.approved_by}" if record.approved_by else ""
    decided = "denied" if record.outcome == "denied" else record.approval
    return f"{decided or 'decided'}{by}{_quoted(feedback(record))}"


def feedback(record: TracedRecord) -> str:
    """What somebody said when they decided."""
    approval = own(record).get("approval")
    said = approval.get("text") or approval.get("reason") if isinstance(approval, dict) else None
    return said if isinstance(said, str) else ""


def _quoted(text: str) -> str:
    return f': "{text}"' if text else ""


def _shortened(text: str) -> str:
    first = text.split("\n", 1)[0]
    cut = first if len(first) <= _LONGEST_SUBJECT else first[: _LONGEST_SUBJECT - 1]
    return cut if cut == text else f"{cut}…"
