"""Verification of a workspace's ledger, with advice that only the product can give.

The check itself is the auditor's script, `verify_ledger`; this module reads the files for it. If
the ledger is under version control, other branches have other versions of it: a known head that
another branch holds is not missing. Heads in the checked-out commit must be in the file, though.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rookery import NAME
from rookery.governance.ledger.ledger_file import Ledger
from rookery.governance.ledger.records import LedgerEntry
from rookery.governance.ledger.segments import (
    ACTIVE,
    active_file,
    lines,
    open_ledger_file,
    segments_before,
)
from rookery.governance.ledger.state_files import LedgerUnreadable
from rookery.governance.ledger.verify_ledger import (
    ADVICE,
    KnownHead,
    LedgerFinding,
    Report,
    Tip,
    Verifier,
    format_report,
    ledger_files,
)

if TYPE_CHECKING:
    from rookery.governance.git_history import GitHistory

_ACCEPT = f"{NAME} trace verify --accept"
_DAMAGED = (
    "Restore the file from a copy. To continue without it, move agent_trace.jsonl "
    f"and trace out of .orchestration, then accept the loss: {_ACCEPT}"
)
_OWNER_ADVICE = {
    **dict.fromkeys(ADVICE, _DAMAGED),
    "expected": "Restore a ledger that had this state, or compare with the state of this one.",
    "unchained": ADVICE["unchained"],
    "torn-tail": f"Repair the last line: {NAME} trace verify --fix-tail",
    "pruned-by-others": f"Restore what was pruned, or accept the loss: {_ACCEPT}",
}
MAX_REFS = 200


def owner_report(report: Report, *, lost: int, noted: str, strict: bool) -> str:
    """Format the report for the owner of the ledger. `lost` is the number of missing records, 0
    if unknown; `noted` the day when they were last known, if any."""
    many = f"{lost:,} record{'' if lost == 1 else 's'}" if lost > 0 else "Records"
    known = f"{many} known {f'on {noted}' if noted else 'earlier'}"
    missing = (
        f"{known} {'is' if lost == 1 else 'are'} missing. "
        f"Restore the file, or accept the loss: {_ACCEPT}"
    )
    return format_report(report, missing=missing, advice=_OWNER_ADVICE, strict=strict)


def lost_records(report: Report, known: KnownHead | None) -> int:
    """How many records fewer than known there are; 0 if pruning makes that unclear."""
    if known is None or any(finding.code == "pruned" for finding in report.findings):
        return 0
    return max(0, known.records - report.records)


def audit(
    folder: Path,
    *,
    since: str = "",
    known: KnownHead | None = None,
    expected: str = "",
    require_chain: bool = False,
    keys: Sequence[bytes] = (),
    unrecorded: int = 0,
    remarks: Sequence[str] = (),
) -> Report:
    """Verify a ledger with the auditor's script. With `since`, sealed files that end earlier are
    skipped. `remarks` are warnings about damaged journals."""
    old = segments_before(folder, since) if since else []
    passed = {str(segment.path) for segment in old}
    files = [file for file in ledger_files(str(folder)) if file[0] not in passed]

    def run(head: KnownHead | None) -> Report:
        verifier = Verifier(known=head, expected=expected, require_chain=require_chain, keys=keys)
        for segment in old:
            verifier.skip(segment.tips)
        _read_into(verifier, folder, files)
        verifier.warn_unrecorded(unrecorded, remarks)
        return verifier.report()

    return _verify_with_branches(folder, known, run)


def repair_tail(ledger: Ledger, *, task_id: str) -> bool:
    """Complete or quarantine a torn last line, and record that. Returns False if there is none."""
    if not _is_torn(active_file(ledger.folder)):
        return False
    ledger.append(LedgerEntry(kind="checkpoint", task_id=task_id, more={"reason": "tail mended"}))
    ledger.close()
    return True


def _verify_with_branches(
    folder: Path, known: KnownHead | None, run: Callable[[KnownHead | None], Report]
) -> Report:
    """Verify a ledger; known heads that are on other branches do not count as missing."""
    report = run(known)
    missing = any(finding.code == "known-head" for finding in report.findings)
    if known is None or not missing:
        return report
    away = _on_other_branches(folder, known.tips)
    if not away:
        return report
    here = tuple(tip for tip in known.tips if tip not in away)
    again = run(known._replace(tips=here))
    text = f"{len(away)} known head{'' if len(away) == 1 else 's'} on another branch, not here"
    return again._replace(findings=(*again.findings, LedgerFinding("INFO", "other-branch", text)))


def _on_other_branches(folder: Path, tips: Sequence[Tip]) -> set[Tip]:
    """The tips that are on some branch, tag or stash, and not in HEAD."""
    from rookery.governance.git_history import HistoryUnreadable, history_of

    git = history_of(folder.parent)
    if git is None:
        return set()
    paths = (f"{folder.name}/{ACTIVE}", f"{folder.name}/trace/")
    try:
        in_head = set(git.blobs_at("HEAD", *paths))
        others = {blob for ref in git.refs(MAX_REFS) for blob in git.blobs_at(ref, *paths)}
        found = _named_in(git, others - in_head, tips)
        return found - _named_in(git, in_head, tips)
    except HistoryUnreadable:
        return set()


def _named_in(git: "GitHistory", blobs: Iterable[str], tips: Sequence[Tip]) -> set[Tip]:
    found: set[Tip] = set()
    for blob in blobs:
        text = git.note_text(blob)
        found |= {tip for tip in tips if f'"hash":"{tip[2]}"'.encode() in text}
    return found


def _read_into(verifier: Verifier, folder: Path, files: Iterable[tuple[str, bool]]) -> None:
    """Read these files of the ledger, given with whether each is sealed."""
    for name, sealed in files:
        shown = Path(name).relative_to(folder).as_posix()
        try:
            verifier.read(shown, lines(Path(name)), sealed=sealed)
        except LedgerUnreadable as error:
            verifier.add_unreadable(shown, error.why)
        except OSError as error:
            verifier.add_unreadable(shown, str(error))


def _is_torn(path: Path) -> bool:
    try:
        with open_ledger_file(path) as file:
            if not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except FileNotFoundError:
        return False
