"""What a reviewer found, and where it is in the diff.

A finding of a file that is not in the diff is dropped. A line that the diff does not show is moved
to the nearest changed one. Two findings with the same title at overlapping lines are one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from rookery.core.text.terminal_text import counted, harmless, harmless_line
from rookery.core.tool_traits import ToolGroup
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
