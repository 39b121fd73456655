"""Whether a ledger is whole: the auditor's script, under the product's names and with the ways out
that only the product has."""

from rookery import NAME
from rookery.governance.ledger.verify_ledger import WAYS_OUT, told
from rookery.governance.ledger.verify_ledger import Finding as Finding
from rookery.governance.ledger.verify_ledger import KnownHead as KnownHead
from rookery.governance.ledger.verify_ledger import Report as Report
from rookery.governance.ledger.verify_ledger import Verifier as Verifier
from rookery.governance.ledger.verify_ledger import calls_in_journal as calls_in_journal
from rookery.governance.ledger.verify_ledger import exit_code as exit_code
from rookery.governance.ledger.verify_ledger import known_head as known_head
from rookery.governance.ledger.verify_ledger import ledger_files as ledger_files
from rookery.governance.ledger.verify_ledger import read_files as read_files

_ACCEPT = f"{NAME} trace verify --accept"
_DAMAGED = (
    "Restore the file from a copy. To go on without: move agent_trace.jsonl and trace out of "
    f".orchestration, then accept the loss: {_ACCEPT}"
)
_OUR_WAYS_OUT = {
    **dict.fromkeys(WAYS_OUT, _DAMAGED),
    "expected": "Restore a ledger that had this state, or compare with the state of this one.",
    "unchained": WAYS_OUT["unchained"],
    "torn-tail": f"Mend the last line: {NAME} trace verify --fix-tail",
    "pruned-by-others": f"Restore what was pruned, or accept the loss: {_ACCEPT}",
}


def told_here(report: Report, *, lost: int, noted: str, strict: bool) -> str:
    """The report for whoever has the ledger: how many records are lost, 0 if nobody can tell, and
    the day on which they were still there, if that is known."""
    if lost > 0:
        many = "1 record that was" if lost == 1 else f"{lost:,} records that were"
    else:
        many = "Records that were"
    known = f"{many} known{f' on {noted}' if noted else ''}"
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
