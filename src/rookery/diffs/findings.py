"""What a reviewer found, where it is in the diff, and the result as text, JSON, and SARIF 2.1.0 for
code scanning.

A finding of a file that is not in the diff is dropped. A line that the diff does not show is moved
to the nearest changed one. Two findings with the same title at overlapping lines are one.
"""

import json
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.core.text.terminal_text import Paint, counted, harmless, harmless_line
from rookery.core.tool_traits import ToolGroup
from rookery.diffs.review_parts import LeftOut
from rookery.diffs.unified import DiffFile
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The worst first."""
LONGEST_TITLE, LONGEST_TEXT = 200, 4000
MOST_FINDINGS = 500

_NOT_LETTERS = re.compile(r"[\W_]+")


class ReviewFinding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    severity: Annotated[
        Severity, Meta(description="error: breaks or endangers something; warning: likely a fault.")
    ]
    path: Annotated[str, Meta(description="File, as the diff names it.")]
    line: Annotated[int, Meta(description="Line in the new file, as numbered in the diff.")]
    end_line: Annotated[int | None, Meta(description="Last line, if several.")] = None
    title: Annotated[str, Meta(description="The fault in one line.")]
    explanation: Annotated[str, Meta(description="When it fails, and why.")]
    suggestion: Annotated[str, Meta(description="How to repair it.")] = ""


class SubmitReviewArgs(Struct, forbid_unknown_fields=True):
    findings: Annotated[
        list[ReviewFinding], Meta(description="All faults you found; empty if none.")
    ]
    summary: Annotated[str, Meta(description="Your judgement in one or two sentences.")] = ""


class SubmitReview:
    """The tool that takes the findings. It keeps them and changes nothing."""

    name: ClassVar[str] = "submit_review"
    description: ClassVar[str] = "Submit the findings of your review, also if there are none."
    arguments: ClassVar[type[msgspec.Struct]] = SubmitReviewArgs
    group: ClassVar[ToolGroup] = ToolGroup.READ

    def __init__(self) -> None:
        self.findings: list[ReviewFinding] = []
        self.summaries: list[str] = []
        self.times = 0

    async def prepare(self, args: SubmitReviewArgs, ctx: ToolContext) -> Action:
        number = counted(len(args.findings), "finding")

        async def perform(permit: Permit) -> Outcome:
            self.times += 1
            self.findings += args.findings[: MOST_FINDINGS - len(self.findings)]
            self.summaries += filter(None, [args.summary.strip()])
            return Outcome(text=f"Received {number}.")

        return Action(title=f"Submit {number}", perform=perform, payload={"tool": "submitReview"})


class PlacedFindings(Struct, frozen=True, kw_only=True):
    findings: tuple[ReviewFinding, ...] = ()
    moved: int = 0
    """How many were at lines that the diff does not show."""
    dropped: int = 0
    """How many were about files that are not in the diff."""


def place(found: Iterable[ReviewFinding], files: Sequence[DiffFile]) -> PlacedFindings:
    """The findings in the order of the diff, the worst first of those at one line."""
    known = {name: file for file in reversed(files) for name in (_old_name(file), file.name)}
    order = {file.name: at for at, file in enumerate(files)}
    placed: list[ReviewFinding] = []
    moved = dropped = 0
    for finding in map(cleaned, found):
        file = known.get(_plain_path(finding.path)) or known.get(finding.path)
        if file is None:
            dropped += 1
            continue
        at_line = _moved(finding, file)
        moved += at_line.line != finding.line
        placed.append(at_line)

    def position(each: ReviewFinding) -> tuple[int, int, int]:
        return order[each.path], each.line, SEVERITIES.index(each.severity)

    once = sorted(_merged(placed), key=position)
    return PlacedFindings(findings=tuple(once), moved=moved, dropped=dropped)


def _old_name(file: DiffFile) -> str:
    return replace(file, path=file.old_path).name


def cleaned(finding: ReviewFinding) -> ReviewFinding:
    """The finding without characters that a terminal obeys or that hide text."""
    return replace(
        finding,
        path=harmless_line(finding.path),
        title=harmless_line(" ".join(finding.title.split()))[:LONGEST_TITLE] or "Untitled",
        explanation=harmless(finding.explanation).strip()[:LONGEST_TEXT],
        suggestion=harmless(finding.suggestion).strip()[:LONGEST_TEXT],
    )


def _plain_path(path: str) -> str:
    return re.sub(r"^(?:\./|[ab]/)", "", path.strip())


def _moved(finding: ReviewFinding, file: DiffFile) -> ReviewFinding:
    """The finding at lines that the diff shows; a removed file counts by its old lines."""
    line, last = finding.line, max(finding.line, finding.end_line or 0)
    shown = [(start, end) for start, end in _shown_ranges(file) if start <= line <= end]
    if shown:
        end = min(last, shown[0][1])
    else:
        line = end = min(_changed_lines(file), key=lambda each: abs(each - line), default=1)
    return replace(finding, path=file.name, line=line, end_line=end)


def _shown_ranges(file: DiffFile) -> Iterator[tuple[int, int]]:
    for hunk in file.hunks:
        if file.kind == "removed":
            yield hunk.old_start, hunk.old_start + hunk.old_count - 1
        elif hunk.new_count:
            yield hunk.new_start, hunk.new_start + hunk.new_count - 1


def _changed_lines(file: DiffFile) -> Iterator[int]:
    """Lines that were added; where lines were only removed, the line before them."""
    for hunk in file.hunks:
        at = hunk.old_start if file.kind == "removed" else hunk.new_start
        for line in hunk.lines:
            sign = line[:1]
            if sign == b"+" or (sign == b"-" and file.kind == "removed"):
                yield at
            elif sign == b"-":
                yield max(1, at - 1)
            at += sign != b"-" or file.kind == "removed"


def _merged(findings: Sequence[ReviewFinding]) -> Iterator[ReviewFinding]:
    """Each fault once, with the longer explanation of its duplicates."""
    kept: dict[tuple[str, str], list[ReviewFinding]] = {}
    for finding in findings:
        same = kept.setdefault((finding.path, _NOT_LETTERS.sub(" ", finding.title.lower())), [])
        twin = next((at for at, each in enumerate(same) if _overlap(each, finding)), None)
        if twin is None:
            same.append(finding)
        else:
            same[twin] = _joined(same[twin], finding)
    for same in kept.values():
        yield from same


def _overlap(one: ReviewFinding, other: ReviewFinding) -> bool:
    return one.line <= (other.end_line or other.line) and other.line <= (one.end_line or one.line)


def _joined(one: ReviewFinding, other: ReviewFinding) -> ReviewFinding:
    return replace(
        one,
        severity=min(one.severity, other.severity, key=SEVERITIES.index),
        end_line=max(one.end_line or one.line, other.end_line or other.line),
        explanation=max(one.explanation, other.explanation, key=len),
        suggestion=one.suggestion or other.suggestion,
    )


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
        yield "The review is not complete."  # standard error has the reason


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
