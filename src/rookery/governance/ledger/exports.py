"""A ledger in the words of others: Agent Trace, CSV, a report for people, in-toto."""

import base64
import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any

from rookery.governance.ledger.traced import TracedRecord

PAYLOAD_TYPE = "application/vnd.in-toto+json"
PREDICATE_TYPE = "urn:rookery:intent-trace:v1"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
COLUMNS = (
    *("time", "intent", "task", "kind", "tool", "outcome", "scope", "model"),
    *("path", "op", "before", "after", "lines_added", "lines_deleted", "record"),
)


def agent_trace(records: Iterable[TracedRecord], *, strip: bool = False) -> Iterator[bytes]:
    """The records as lines; stripped, without our part."""
    for record in records:
        yield json_line(_stripped(record.raw) if strip else record.raw)


def json_line(record: dict[str, Any]) -> bytes:
    said = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return said.encode() + b"\n"


class _Rows:
    """Takes what the CSV writer writes."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text = text


def csv_rows(records: Iterable[TracedRecord]) -> Iterator[str]:
    """One row for every file of every change, after a row of names."""
    rows = _Rows()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(COLUMNS)
    yield rows.text
    for record in records:
        for row in _table(record):
            writer.writerow(map(_harmless, row))
            yield rows.text


def markdown(records: Iterable[TracedRecord]) -> str:
    """A report for people: for each intent what was changed, and what was refused."""
    by_intent: dict[str, list[TracedRecord]] = {}
    for record in records:
        if record.files or record.error_code:
            by_intent.setdefault(record.intent_id or "no intent", []).append(record)
    parts = [_chapter(name, found) for name, found in sorted(by_intent.items())]
    return "# What agents changed, and why\n\n" + "\n".join(parts)


def in_toto_statement(
    records: Sequence[TracedRecord], *, intent_id: str, state: str, verified: str
) -> dict[str, Any]:
    """The statement about the files that were changed, as the last record left each."""
    after: dict[str, str] = {}
    for record in records:
        for file in record.files:
            after.pop(file.path, None)
            if file.after:
                after[file.path] = file.after.sha256
    subjects = [{"name": path, "digest": {"sha256": mark}} for path, mark in sorted(after.items())]
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "intent": intent_id,
            "state": state,
            "verification": verified,
            "records": [record.raw for record in records],
        },
    }


def signed_bytes(payload: bytes) -> bytes:
    """What a signature of DSSE is made over."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def envelope(payload: bytes, signatures: Sequence[tuple[str, bytes]] = ()) -> str:
    """A DSSE envelope around a statement; the signatures with the ids of their keys."""
    said = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {"keyid": key, "sig": base64.b64encode(signature).decode()}
            for key, signature in signatures
        ],
    }
    return json.dumps(said, indent=2) + "\n"


def _stripped(raw: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        name: held for name, held in raw.get("metadata", {}).items() if name != "orchestration"
    }
    rest = {name: held for name, held in raw.items() if name != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def _table(record: TracedRecord) -> Iterator[tuple[object, ...]]:
    shared = (
        *(record.time, record.intent_id, record.task_id, record.kind, record.tool_name),
        *(record.outcome, record.scope, record.model_id),
    )
    for file in record.files:
        before = file.before.sha256 if file.before else ""
        after = file.after.sha256 if file.after else ""
        lines = (file.lines_added, file.lines_deleted)
        yield (*shared, file.path, file.op, before, after, *lines, record.id)


def _harmless(cell: object) -> object:
    """A spreadsheet takes what begins like a formula for one."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in {"=", "+", "-", "@"} else cell


def _chapter(name: str, records: Sequence[TracedRecord]) -> str:
    changes = [record for record in records if record.files]
    refused = _refusals(records)
    rows = [f"## {_cell(name)}", "", f"{len(changes)} changes, {len(refused)} refusals.", ""]
    if changes:
        rows += ["| when | file | what | lines | by | scope |", "|---|---|---|---|---|---|"]
        rows += [_change_row(record, at) for record in changes for at in range(len(record.files))]
        rows.append("")
    if refused:
        rows += ["| when | tool | code | why |", "|---|---|---|---|"]
        rows += [
            f"| {_when(record)} | {_cell(record.tool_name)} | {_cell(record.error_code)} "
            f"| {_cell(record.error_type)} |"
            for record in refused
        ]
        rows.append("")
    return "\n".join(rows)


def _refusals(records: Sequence[TracedRecord]) -> list[TracedRecord]:
    """Once for each call, though a person's no is a record of its own besides."""
    blocked = {
        _call(record) for record in records if record.kind == "blocked" and record.error_code
    }
    return [
        record
        for record in records
        if record.error_code and not (record.kind == "decision" and _call(record) in blocked)
    ]


def _call(record: TracedRecord) -> tuple[str, str]:
    return record.task_id, record.tool_use_id


def _change_row(record: TracedRecord, at: int) -> str:
    file = record.files[at]
    lines = f"+{file.lines_added} -{file.lines_deleted}"
    by = record.model_id or record.contributor
    cells = (_when(record), file.path, file.op, lines, by, record.scope)
    return f"| {' | '.join(map(_cell, cells))} |"


def _when(record: TracedRecord) -> str:
    try:
        return f"{date.fromisoformat(record.time[:10])} {record.time[11:16]}"
    except ValueError:
        return "unknown"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
