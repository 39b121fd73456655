"""The records of a workspace's ledger, for whoever asks; streamed, never held as a whole."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rookery.governance.ledger.ledger_errors import LedgerUnreadable
from rookery.governance.ledger.ledger_query import Query
from rookery.governance.ledger.other_branches import verified_with_branches
from rookery.governance.ledger.segments import lines, newest_first, oldest_first
from rookery.governance.ledger.traced import TracedRecord, records_in
from rookery.governance.ledger.verification import (
    KnownHead,
    Report,
    Verifier,
    calls_in_journal,
    ledger_files,
)


def newest(folder: Path, query: Query | None = None) -> Iterator[TracedRecord]:
    """The records that match, the last one written first."""
    wanted = query or Query()
    return (record for record in records_in(newest_first(folder)) if wanted.matches(record))


def oldest(folder: Path, query: Query | None = None) -> Iterator[TracedRecord]:
    wanted = query or Query()
    return (record for record in records_in(oldest_first(folder)) if wanted.matches(record))


def record_named(folder: Path, id: str) -> TracedRecord | None:
    """The record with this id, or the newest whose id begins so."""
    return next((record for record in newest(folder) if record.id.startswith(id)), None)


def verified(
    folder: Path,
    *,
    known: KnownHead | None = None,
    expected: str = "",
    require_chain: bool = False,
    keys: Sequence[bytes] = (),
) -> Report:
    """The report of a verification, as the auditor's script makes it."""

    def verify(head: KnownHead | None) -> Report:
        verifier = Verifier(known=head, expected=expected, require_chain=require_chain, keys=keys)
        read_into(verifier, folder, ledger_files(str(folder)))
        verifier.backlog(calls_in_journal(str(folder)))
        return verifier.report()

    return verified_with_branches(folder, known, verify)


def read_into(verifier: Verifier, folder: Path, files: Iterable[tuple[str, bool]]) -> None:
    """Let it hear these files of the ledger, each of which is sealed or not."""
    for name, sealed in files:
        shown = Path(name).relative_to(folder).as_posix()
        try:
            verifier.read(shown, lines(Path(name)), sealed=sealed)
        except LedgerUnreadable as error:
            verifier.unreadable(shown, error.why)
        except OSError as error:
            verifier.unreadable(shown, str(error))
