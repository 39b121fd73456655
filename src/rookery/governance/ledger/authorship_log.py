"""A commit's authorship log in the form of the Git AI Standard, 3.0.0: files with the lines that
sessions wrote, a divider, and what the sessions were. No prompt is ever in it."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from rookery.governance.ledger.commit_records import PlacedRecord
from rookery.governance.ledger.line_ranges import LineRange

AUTHORSHIP = "authorship/3.0.0"
_DIGITS = 14


def authorship_log(placed: Sequence[PlacedRecord], revision: str) -> str:
    """Empty if no agent wrote anything that is in the commit."""
    files: dict[str, dict[str, list[LineRange]]] = {}
    sessions: dict[str, Any] = {}
    for each in placed:
        record = each.record
        if record.contributor == "human":
            continue
        tool = record.writer or "unknown"
        session = f"s_{_mark(f'{tool}:{record.task_id}')}"
        agent = {"tool": tool, "id": record.task_id, "model": record.model_id or "unknown"}
        sessions[session] = {"agent_id": agent}
        key = f"{session}::t_{_mark(record.id)}"
        for path, spans in each.files:
            files.setdefault(path, {}).setdefault(key, []).extend(spans)
    if not files:
        return ""
    about = {
        "schema_version": AUTHORSHIP,
        "base_commit_sha": revision,
        "prompts": {},
        "sessions": sessions,
        "humans": {},
    }
    rows = [row for path, lines in sorted(files.items()) for row in _attested(path, lines)]
    return "\n".join((*rows, "---", json.dumps(about, indent=2, ensure_ascii=False))) + "\n"


def _attested(path: str, lines: dict[str, list[LineRange]]) -> list[str]:
    named = f'"{path}"' if any(each.isspace() for each in path) else path
    return [named, *(f"  {key} {_spans(spans)}" for key, spans in lines.items())]


def _spans(spans: Sequence[LineRange]) -> str:
    ordered = sorted(spans, key=lambda each: each.start)
    return ",".join(
        f"{each.start}" if each.start == each.end else f"{each.start}-{each.end}"
        for each in ordered
    )


def _mark(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGITS]
