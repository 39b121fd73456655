"""Whether a ledger is whole, with the ways out that only the product has.

The check itself is the auditor's script, `verify_ledger`; this module reads the files for it. If
the ledger is under version control, another branch has another version of it: a known head that git
holds elsewhere is not missing. What the checked-out commit holds must be in the file, though.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rookery import NAME
from rookery.governance.ledger.git_history import GitHistory, HistoryUnreadable, history_of
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
    WAYS_OUT,
    KnownHead,
    Remark,
    Report,
    Tip,
    Verifier,
    ledger_files,
    told,
)

_ACCEPT = f"{NAME} trace verify --accept"
_DAMAGED = (
    "Restore the file from a copy. To continue without it, move agent_trace.jsonl "
    f"and trace out of .orchestration, then accept the loss: {_ACCEPT}"
)
_OUR_WAYS_OUT = {
    **dict.fromkeys(WAYS_OUT, _DAMAGED),
    "expected": "Restore a ledger that had this state, or compare with the state of this one.",
    "unchained": WAYS_OUT["unchained"],
    "torn-tail": f"Repair the last line: {NAME} trace verify --fix-tail",
    "pruned-by-others": f"Restore what was pruned, or accept the loss: {_ACCEPT}",
}
MOST_REFS = 200


def told_here(report: Report, *, lost: int, noted: str, strict: bool) -> str:
    """The report for whoever has the ledger: how many records are lost, 0 if nobody can tell, and
    the day on which they were still there, if that is known."""
    many = f"{lost:,} record{'' if lost == 1 else 's'}" if lost > 0 else "Records"
    known = f"{many} known {f'on {noted}' if noted else 'earlier'}"
    missing = (
        f"{known} {'is' if lost == 1 else 'are'} missing. "
        f"Restore the file, or accept the loss: {_ACCEPT}"
    )
    return told(report, missing=missing, ways_out=_OUR_WAYS_OUT, strict=strict)


def lost_records(report: Report, known: KnownHead | None) -> int:
    """How many fewer there are than were known; 0 where pruning makes that unclear."""
    if known is None or any(finding.code == "pruned" for finding in report.findings):
        return 0
    return max(0, known.records - report.records)


def verified(
    folder: Path,
    *,
    since: str = "",
    known: KnownHead | None = None,
    expected: str = "",
    require_chain: bool = False,
    keys: Sequence[bytes] = (),
    unrecorded: int = 0,
) -> Report:
    """The report of a verification, as the auditor's script makes it. With `since`, sealed files
    that end before are passed over."""
    old = segments_before(folder, since) if since else []
    passed = {str(segment.path) for segment in old}
    files = [file for file in ledger_files(str(folder)) if file[0] not in passed]

    def verify(head: KnownHead | None) -> Report:
        verifier = Verifier(known=head, expected=expected, require_chain=require_chain, keys=keys)
        for segment in old:
            verifier.pass_over(segment.seal.tips)
        _read_into(verifier, folder, files)
        verifier.backlog(unrecorded)
        return verifier.report()

    return _verified_with_branches(folder, known, verify)


def mend_tail(ledger: Ledger, *, task_id: str) -> bool:
    """Complete or move away a torn last line, and record that. False if it is whole."""
    if not _is_torn(active_file(ledger.folder)):
        return False
    ledger.append(LedgerEntry(kind="checkpoint", task_id=task_id, more={"reason": "tail mended"}))
    ledger.close()
    return True


def _verified_with_branches(
    folder: Path, known: KnownHead | None, verify: Callable[[KnownHead | None], Report]
) -> Report:
    """The report on a ledger, in which heads on other branches are not missing."""
    report = verify(known)
    missing = any(finding.code == "known-head" for finding in report.findings)
    if known is None or not missing:
        return report
    away = _on_other_branches(folder, known.tips)
    if not away:
        return report
    here = tuple(tip for tip in known.tips if tip not in away)
    again = verify(known._replace(tips=here))
    text = f"{len(away)} known head{'' if len(away) == 1 else 's'} on another branch, not here"
    return again._replace(findings=(*again.findings, Remark("INFO", "other-branch", text)))


def _on_other_branches(folder: Path, tips: Sequence[Tip]) -> set[Tip]:
    """Those that are in a version of some branch, tag or stash, and not in the one of HEAD."""
    git = history_of(folder.parent)
    if git is None:
        return set()
    paths = (f"{folder.name}/{ACTIVE}", f"{folder.name}/trace/")
    try:
        held = set(git.blobs_at("HEAD", *paths))
        others = {blob for ref in git.refs(MOST_REFS) for blob in git.blobs_at(ref, *paths)}
        found = _named_in(git, others - held, tips)
        return found - _named_in(git, held, tips)
    except HistoryUnreadable:
        return set()


def _named_in(git: GitHistory, blobs: Iterable[str], tips: Sequence[Tip]) -> set[Tip]:
    found: set[Tip] = set()
    for blob in blobs:
        text = git.note_text(blob)
        found |= {tip for tip in tips if f'"hash":"{tip[2]}"'.encode() in text}
    return found


def _read_into(verifier: Verifier, folder: Path, files: Iterable[tuple[str, bool]]) -> None:
    """Let it hear these files of the ledger, each of which is sealed or not."""
    for name, sealed in files:
        shown = Path(name).relative_to(folder).as_posix()
        try:
            verifier.read(shown, lines(Path(name)), sealed=sealed)
        except LedgerUnreadable as error:
            verifier.unreadable(shown, error.why)
        except OSError as error:
            verifier.unreadable(shown, str(error))


def _is_torn(path: Path) -> bool:
    try:
        with open_ledger_file(path) as file:
            if not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except FileNotFoundError:
        return False
