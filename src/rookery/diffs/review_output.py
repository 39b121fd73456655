"""A review as text, as JSON, and as SARIF 2.1.0 for code scanning."""

import json
import os
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from msgspec import Struct, to_builtins

from rookery import NAME, VERSION
from rookery.core.text.terminal_text import Paint, counted, harmless, harmless_line
from rookery.diffs.findings import SEVERITIES, ReviewFinding, Severity
from rookery.diffs.review_parts import LeftOut
from rookery.diffs.unified import DiffFile

FORMAT_VERSION = 1
WIDTH = 100
"""Columns, where no terminal says how many there are."""
_INDENT = "   "
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ABOUT = {
    "error": "The change breaks or endangers something.",
    "warning": "The change is probably faulty.",
    "note": "Something to look at.",
}


class ReviewResult(Struct, frozen=True, kw_only=True):
    title: str
    session_id: str
    findings: Sequence[ReviewFinding] = ()
    summary: str = ""
    files: Sequence[DiffFile] = ()
    left_out: Sequence[LeftOut] = ()
    moved: int = 0
    dropped: int = 0
    complete: bool = True
    """Whether everything that was not left out was reviewed."""
    reason: str = ""
    """Why it is not complete."""

    def at_least(self, severity: Severity) -> bool:
        """Whether a finding is this bad or worse."""
        bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(finding.severity in bad for finding in self.findings)


def as_text(result: ReviewResult, paint: Paint, width: int = WIDTH) -> str:
    blocks = [
        _text_of(number, each, paint, width) for number, each in enumerate(result.findings, 1)
    ]
    return "\n".join([*(f"{block}\n" for block in blocks), *_closing(result)])


def _text_of(number: int, finding: ReviewFinding, paint: Paint, width: int) -> str:
    colour = {"error": paint.red, "warning": paint.yellow, "note": paint.cyan}[finding.severity]
    where = f"{finding.path}:{_lines(finding)}"
    head = f"{number}. {paint.bold(where)}: {colour(finding.severity)}: {finding.title}"
    body = [finding.explanation]
    if finding.suggestion:
        body.append(f"Suggestion: {finding.suggestion}")
    return "\n".join([head, *(_indented(text, width) for text in body if text)])


def _lines(finding: ReviewFinding) -> str:
    last = finding.end_line or finding.line
    return str(finding.line) if last == finding.line else f"{finding.line}-{last}"


def _indented(text: str, width: int) -> str:
    """Wrap prose; lines that are indented already are code and stay."""
    lines = (
        [line]
        if line.startswith((" ", "\t"))
        else textwrap.wrap(line, max(20, width - len(_INDENT))) or [""]
        for line in text.splitlines()
    )
    return "\n".join(f"{_INDENT}{line}".rstrip() for some in lines for line in some)


def _closing(result: ReviewResult) -> Iterator[str]:
    if result.summary:
        yield harmless(result.summary)
    if result.findings or result.complete:
        yield f"{_tally(result.findings)} in {counted(len(result.files), 'file')}."
    for each in result.left_out:
        yield f"Left out: {harmless_line(each.path)} ({each.reason})."
    if result.dropped:
        about = counted(result.dropped, "finding")
        yield f"Dropped: {about} about files that are not in the change."
    if not result.complete:
        yield "The review is not complete."  # why, is said on standard error


def _tally(findings: Sequence[ReviewFinding]) -> str:
    count = Counter(finding.severity for finding in findings)
    named = [counted(count[each], each) for each in SEVERITIES if count[each]]
    return ", ".join(named) or "No findings"


def as_json(result: ReviewResult) -> str:
    return json.dumps(
        {
            "version": FORMAT_VERSION,
            "change": result.title,
            "session_id": result.session_id,
            "complete": result.complete,
            "reason": result.reason,
            "summary": harmless(result.summary),
            "findings": [
                to_builtins(each) | {"end_line": each.end_line or each.line}
                for each in result.findings
            ],
            "files": [file.name for file in result.files],
            "left_out": to_builtins(result.left_out),
            "moved": result.moved,
            "dropped": result.dropped,
        },
        indent=2,
        ensure_ascii=True,
    )


def as_sarif(result: ReviewResult) -> str:
    uris = {file.name: quote(os.fsencode(file.path)) for file in result.files}
    notes = [f"Left out: {each.path} ({each.reason})." for each in result.left_out] + (
        [result.reason] if result.reason else []
    )
    run = {
        "tool": {
            "driver": {
                "name": f"{NAME} review",
                "version": VERSION,
                "rules": [
                    {
                        "id": f"review-{each}",
                        "name": f"Review{each.capitalize()}",
                        "shortDescription": {"text": _ABOUT[each]},
                        "defaultConfiguration": {"level": each},
                    }
                    for each in SEVERITIES
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": result.complete,
                "toolExecutionNotifications": [
                    {"level": "note", "message": {"text": note}} for note in notes
                ],
            }
        ],
        "automationDetails": {"id": f"{NAME}-review/"},
        "results": [_sarif_result(each, uris[each.path]) for each in result.findings],
    }
    whole = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=2, ensure_ascii=True)


def _sarif_result(finding: ReviewFinding, uri: str) -> dict[str, Any]:
    text = "\n\n".join(filter(None, [finding.title, finding.explanation, finding.suggestion]))
    about = f"{finding.path}\0{finding.title.lower()}".encode("utf-8", "surrogatepass")
    mark = sha256(about).hexdigest()[:32]
    return {
        "ruleId": f"review-{finding.severity}",
        "ruleIndex": SEVERITIES.index(finding.severity),
        "level": finding.severity,
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri},
                    "region": {
                        "startLine": finding.line,
                        "endLine": finding.end_line or finding.line,
                    },
                }
            }
        ],
        "partialFingerprints": {"title/v1": mark},
    }
