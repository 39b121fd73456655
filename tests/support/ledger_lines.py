"""The raw lines of a ledger, for tests that check their content."""

import json
from pathlib import Path
from typing import Any


def lines_of(workspace: Path) -> list[dict[str, Any]]:
    text = (workspace / ".orchestration" / "agent_trace.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def own_records(workspace: Path, *kinds: str) -> list[dict[str, Any]]:
    """Our own part of the records, optionally of some kinds only."""
    own = [each["metadata"]["orchestration"] for each in lines_of(workspace)]
    return [each for each in own if not kinds or each["kind"] in kinds]


def paths(record: dict[str, Any]) -> list[str]:
    return [each["path"] for each in record.get("files", ())]
