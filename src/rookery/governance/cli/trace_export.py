"""`rookery trace` commands that add to the ledger (`recover`, `seal`, `prune`) or export from it
(`export`, `finalize`, `install-hooks`).

Exports are Agent Trace records as JSON Lines. `finalize` writes the records of a commit's lines to
a git note; the installed hook does this after every commit.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from rookery.core.text.terminal_text import counted
from rookery.errors import StorageError
from rookery.governance.cli.common import (
    TASK,
    CommandFailed,
    OpenedLedger,
    TraceExit,
    journals,
    ledger_command,
    point_in_time,
    write_out,
)
from rookery.governance.ledger.commit_notes import Finalised, json_line
from rookery.governance.ledger.git_history import GitHistory, HistoryUnreadable, history_of
from rookery.governance.ledger.ledger_file import Ledger
from rookery.governance.ledger.ledger_reader import Query, oldest
from rookery.governance.ledger.records import LedgerEntry
from rookery.governance.ledger.recovery import damaged_journal
from rookery.governance.ledger.segments import Segment
from rookery.governance.ledger.traced import TracedRecord
from rookery.storage.cli.session_listing import confirmed


@click.command("recover")
@ledger_command
def recover_command(opened: OpenedLedger) -> int:
    """Record calls that a crash interrupted, by comparing the journal with the files."""
    recording = opened.recording()
    found = recording.recover(opened.layout.root, journals())
    recording.close()
    opened.print_json(to_builtins(found))
    if found.put_away:
        entries = f"{found.put_away} entr{'y' if found.put_away == 1 else 'ies'} of the journal"
        opened.echo(
            f"Moved {entries} not written on this machine to .orchestration/.state/quarantine."
        )
    for task_id in found.damaged:
        opened.echo(f"{damaged_journal(task_id)}. The ledger says so.")
    if not (found.changed or found.unchanged or found.known):
        opened.echo("No call was interrupted.")
    else:
        opened.echo(
            f"{counted(found.changed, 'call')} had changed something and "
            f"{counted(found.unchanged, 'call')} nothing; {found.known} were already recorded."
        )
    return TraceExit.FINE


@click.command("seal")
@ledger_command
def seal_command(opened: OpenedLedger) -> int:
    """Seal the ledger file and start a new one."""
    from rookery.governance.ledger.segments import sealed_files

    ledger = opened.recording().ledger
    before = set(sealed_files(opened.folder))
    ledger.seal(TASK)
    ledger.close()
    made = [path for path in sealed_files(opened.folder) if path not in before]
    names = [path.relative_to(opened.layout.root).as_posix() for path in made]
    opened.print_json({"sealed": names})
    opened.echo(f"Sealed {', '.join(names)}." if names else "Nothing to seal.")
    return TraceExit.FINE


@click.command("prune")
@click.option("--before", "before", required=True, metavar="WHEN", help="90d, or a date.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@ledger_command
def prune_command(opened: OpenedLedger, before: str, dry_run: bool, yes: bool) -> int:
    """Delete sealed ledger files in which every record is older than a date.

    The ledger records what was removed, so that verify can tell it from a loss. To include the
    current file, seal it first.
    """
    from rookery.governance.ledger.segments import segments_before
    from rookery.governance.ledger.verification import audit

    segments = segments_before(opened.folder, point_in_time(before))
    names = [segment.path.relative_to(opened.layout.root).as_posix() for segment in segments]
    records = sum(segment.records for segment in segments)
    text = f"{counted(len(names), 'file')} with {counted(records, 'record')}"
    if not audit(opened.folder, known=opened.known_head(), keys=opened.heads.trace_keys).whole:
        raise CommandFailed(
            "Nothing was removed, because the ledger is not valid. Run `rookery "
            "trace verify` for details.",
            TraceExit.FINDINGS,
        )
    if names and not dry_run:
        if not yes and not confirmed(f"Remove {text} permanently?"):
            opened.echo("Nothing was removed.")
            return TraceExit.FINDINGS
        prune(opened.recording().ledger, segments, task_id=TASK)
    opened.print_json({"files": names, "records": records, "removed": not dry_run})
    would = "would be removed" if dry_run else "removed"
    opened.echo(f"{text} {would}: {', '.join(names)}" if names else "No sealed file is that old.")
    return TraceExit.FINE


def prune(ledger: Ledger, segments: list[Segment], *, task_id: str) -> None:
    """Remove segments. Tombstones come first, so that an interrupted run can be repeated."""
    if segments:
        more = {"pruned": [segment.tombstone for segment in segments]}
        ledger.append(LedgerEntry(kind="checkpoint", task_id=task_id, more=more))
        ledger.checkpoint(task_id)
        ledger.close()
    for segment in segments:
        segment.path.unlink(missing_ok=True)


FORMATS = ("agent-trace",)


@click.command("export")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="agent-trace", help="The format."
)
@click.option("--intent", default="", help="Only records of this intent.")
@click.option("--strip", is_flag=True, help="Leave out the fields of rookery.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file to write; default standard output.",
)
@ledger_command
def export_command(
    opened: OpenedLedger, form: str, intent: str, strip: bool, output: Path | None
) -> int:
    """Export the ledger as JSON Lines."""
    records = oldest(opened.folder, Query(intent=intent))
    write_out(output, agent_trace(records, strip=strip))
    return TraceExit.FINE


def agent_trace(records: Iterable[TracedRecord], *, strip: bool = False) -> Iterator[bytes]:
    """The records as lines; with `strip`, without rookery's own fields."""
    for record in records:
        yield json_line(_strip(record.raw) if strip else record.raw)


@click.command("finalize")
@click.argument("commit", default="HEAD")
@ledger_command
def finalize_command(opened: OpenedLedger, commit: str) -> int:
    """Add a git note to a commit that says which lines were written for which intent.

    Lines are matched by content, so a commit that was amended, squashed or rebased can be noted
    again. Lines that are not found are counted, never guessed.
    """
    from rookery.governance.ledger.commit_notes import finalise, recent_writers

    history = _require_history(opened)
    try:
        resolved = history.commit(commit)
    except HistoryUnreadable as error:
        raise CommandFailed(str(error), TraceExit.NOT_FOUND) from error
    found = finalise(history, resolved, recent_writers(opened.folder))
    opened.print_json({"commit": resolved.revision, **_counts(found)})
    opened.echo(f"{resolved.revision[:12]}: {_summary(found)}")
    return TraceExit.FINE


@click.command("install-hooks")
@ledger_command
def install_hooks_command(opened: OpenedLedger) -> int:
    """Install a git hook that runs finalize after every commit.

    An existing hook is left alone, and you are told what to add to it.
    """
    from rookery.governance.ledger.commit_notes import HOOK, HOOK_LINE, install_hook

    folder = _require_history(opened).hooks_folder
    try:
        outcome = install_hook(folder)
    except OSError as error:
        raise StorageError(
            f"The hook could not be written ({error.strerror}); nothing was changed."
        ) from error
    opened.print_json({"hook": str(folder / HOOK), "outcome": outcome})
    match outcome:
        case "installed":
            opened.echo(f"Installed {folder / HOOK}.")
        case "there":
            opened.echo(f"{folder / HOOK} is already installed.")
        case "foreign":
            raise CommandFailed(
                f"There is another {HOOK} hook, which was not changed. Add this line "
                f"to {folder / HOOK}: {HOOK_LINE}",
                TraceExit.FINDINGS,
            )
    return TraceExit.FINE


def _strip(raw: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        name: value for name, value in raw.get("metadata", {}).items() if name != "orchestration"
    }
    rest = {name: value for name, value in raw.items() if name != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def _require_history(opened: OpenedLedger) -> GitHistory:
    history = history_of(opened.layout.root)
    if history is None:
        raise CommandFailed(
            f"{opened.layout.root} is not in a git repository, or git is not installed.",
            TraceExit.NOT_FOUND,
        )
    return history


def _counts(found: Finalised) -> dict[str, int]:
    return {
        "records": len(found.placed),
        "lines": found.lines,
        "edited_since": found.edited,
        "unknown": found.unknown,
        "dropped": found.dropped,
    }


def _summary(found: Finalised) -> str:
    if not found.placed:
        return f"none of the {found.unknown} lines is in the ledger, so no note was written"
    rest = f"{found.edited} edited since, {found.unknown} unknown"
    dropped = f"; {found.dropped} recorded lines are not in the commit" if found.dropped else ""
    noted = f"{counted(found.lines, 'line')} of {counted(len(found.placed), 'record')} noted"
    return f"{noted}; {rest}{dropped}"
