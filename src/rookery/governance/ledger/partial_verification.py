"""A verification that begins somewhere, and the mending of a torn end."""

import os
from collections.abc import Sequence
from pathlib import Path

from rookery.governance.ledger.ledger_file import Ledger
from rookery.governance.ledger.ledger_reader import read_into
from rookery.governance.ledger.other_branches import verified_with_branches
from rookery.governance.ledger.prune import segments_before
from rookery.governance.ledger.records import Entry
from rookery.governance.ledger.segments import active_file, open_ledger_file
from rookery.governance.ledger.verification import (
    KnownHead,
    Report,
    Verifier,
    calls_in_journal,
    ledger_files,
)


def verified_since(
    folder: Path,
    since: str,
    *,
    known: KnownHead | None = None,
    expected: str = "",
    require_chain: bool = False,
    keys: Sequence[bytes] = (),
) -> Report:
    """Sealed files that end before are passed over; with nothing given, none is."""
    old = segments_before(folder, since) if since else []
    passed = {str(segment.path) for segment in old}
    files = [file for file in ledger_files(str(folder)) if file[0] not in passed]

    def verify(head: KnownHead | None) -> Report:
        verifier = Verifier(known=head, expected=expected, require_chain=require_chain, keys=keys)
        for segment in old:
            verifier.pass_over(segment.seal.tips)
        read_into(verifier, folder, files)
        verifier.backlog(calls_in_journal(str(folder)))
        return verifier.report()

    return verified_with_branches(folder, known, verify)


def mend_tail(ledger: Ledger, *, task_id: str) -> bool:
    """Complete or move away a torn last line, and record that. False if it is whole."""
    if not _is_torn(active_file(ledger.folder)):
        return False
    ledger.append(Entry(kind="checkpoint", task_id=task_id, more={"reason": "tail mended"}))
    ledger.close()
    return True


def _is_torn(path: Path) -> bool:
    try:
        with open_ledger_file(path) as file:
            if not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except FileNotFoundError:
        return False
