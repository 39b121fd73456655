"""The lines of a ledger as they are written, for tests that look at what is in them."""

import json
from pathlib import Path
from typing import Any


def lines_of(workspace: Path) -> list[dict[str, Any]]:
    text = (workspace / ".orchestration" / "agent_trace.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def told_of(workspace: Path, *kinds: str) -> list[dict[str, Any]]:
    """Our own part of the records, of some kinds if any are named."""
    own = [each["metadata"]["orchestration"] for each in lines_of(workspace)]
    return [each for each in own if not kinds or each["kind"] in kinds]
