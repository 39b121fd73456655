"""`rookery trace` commands that check, add to or export the ledger.

Exports are Agent Trace records as JSON Lines. `finalize` writes the records of a commit's lines to
a git note; the installed hook does this after every commit.
"""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins

from rookery import NAME
from rookery.core.text.terminal_text import counted, harmless, harmless_line
from rookery.errors import SettingsError, StorageError
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
from rookery.governance.git_history import require_history
from rookery.governance.ledger import verify_ledger
from rookery.governance.ledger.commit_notes import (
    HOOK,
    HOOK_LINE,
    Finalised,
    finalise,
    install_hook,
    json_line,
    recent_writers,
)
from rookery.governance.ledger.ledger_reader import Query, oldest
from rookery.governance.ledger.records import LedgerEntry
from rookery.governance.ledger.recovery import damaged_journal
from rookery.governance.ledger.segments import sealed_files, segments_before
from rookery.governance.ledger.verification import audit, lost_records, owner_report, repair_tail
from rookery.governance.ledger.verify_ledger import KnownHead, Report, parse_head, tips_json
from rookery.storage.cli.session_listing import confirmed

_STATE = re.compile(r"\b(?:sha256:)?([0-9a-f]{64})\b")


class RememberedHead(Struct, frozen=True, kw_only=True):
    """The known end of the ledger to compare with, and the day it was noted, if known."""

    head: KnownHead | None = None
    state: str = ""
    noted: str = ""


@click.command("verify")
@click.option("--since", metavar="WHEN", help="Skip sealed files that end before this time.")
@click.option("--expect", default="", metavar="STATE", help="A state that the ledger must contain.")
@click.option("--require-chain", is_flag=True, help="Reject records of other writers.")
@click.option("--strict", is_flag=True, help="Exit with 3 if there are warnings.")
@click.option("--fix-tail", is_flag=True, help="First repair a damaged last line.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare with a heads.json or a state kept elsewhere.",
)
@click.option("--accept", is_flag=True, help="Accept the ledger as it is now; asks first.")
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the stand-alone script that verifies a ledger, and exit.",
)
@ledger_command
def verify_command(
    opened: OpenedLedger,
    since: str | None,
    expect: str,
    require_chain: bool,
    strict: bool,
    fix_tail: bool,
    checkpoint: Path | None,
    accept: bool,
    script: Path | None,
) -> int:
    """Verify that no record was altered, removed or forged. The exit code is 0 only then."""
    if script:
        return _write_script(opened, script)
    if fix_tail and repair_tail(opened.recording().ledger, task_id=TASK):
        opened.echo("The last line was repaired.")
    known = _remembered_head(opened, checkpoint)
    unrecorded, damaged = opened.recording().unrecorded(opened.layout.root, journals())
    report = audit(
        opened.folder,
        since=point_in_time(since),
        known=known.head,
        expected=expect or known.state,
        require_chain=require_chain,
        keys=opened.heads.trace_keys,
        unrecorded=unrecorded,
        remarks=[
            f"{damaged_journal(each)}. To record that: {NAME} trace recover" for each in damaged
        ],
    )
    lost = 0 if since else lost_records(report, known.head)
    if opened.as_json:
        print(json.dumps(_as_json(report)))
    elif not opened.quiet:
        _print(opened, owner_report(report, lost=lost, noted=known.noted, strict=strict))
    if accept:
        return _accept(opened, report)
    return _exit_code(report, strict=strict)


def _exit_code(report: Report, *, strict: bool) -> int:
    if not report.whole:
        return TraceExit.FINDINGS
    warned = any(finding.level == "WARN" for finding in report.findings)
    return TraceExit.WARNINGS if strict and warned else TraceExit.FINE


def _remembered_head(opened: OpenedLedger, checkpoint: Path | None) -> RememberedHead:
    """The known end from the given file, or as remembered by this machine."""
    if checkpoint is None:
        head = opened.known_head()
        noted = _day_noted(opened.heads.path.read_text(encoding="utf-8")) if head else ""
        return RememberedHead(head=head, noted=noted)
    try:
        text = checkpoint.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{checkpoint} cannot be read ({error}).") from error
    try:
        return RememberedHead(head=parse_head(text), noted=_day_noted(text))
    except ValueError:
        if found := _STATE.search(text):
            return RememberedHead(state=found[1])
    raise SettingsError(f"{checkpoint} has neither heads nor a state of a ledger.")


def _day_noted(heads: str) -> str:
    return str(json.loads(heads).get("time", ""))[:10]


def _print(opened: OpenedLedger, text: str) -> None:
    colours = {"FAIL": opened.paint.red, "WARN": opened.paint.yellow}
    for line in map(harmless_line, text.splitlines()):
        colour = colours.get(line[:4])
        print(colour(line[:4]) + line[4:] if colour else line)


def _as_json(report: Report) -> dict[str, object]:
    return {
        "whole": report.whole,
        "segments": report.files,
        "records": report.records,
        "streams": report.streams,
        "broken_streams": report.broken_streams,
        "seals": report.seals,
        "tips": tips_json(report.tips),
        "state": report.state,
        "signed": report.signed,
        "known_head": report.known or None,
        "failures": report.failures,
        "unchained": report.unchained,
        "findings": [finding._asdict() for finding in report.findings],
    }


def _accept(opened: OpenedLedger, report: Report) -> int:
    """Accept the current end of the ledger. The remembered end is the only proof of missing
    records, so this needs a person at a terminal."""
    if report.failures:
        opened.echo("Nothing was accepted: this does not repair damaged records.")
        return TraceExit.FINDINGS
    if not sys.stdin.isatty():
        raise SettingsError("Not interactive: only a person at a terminal can accept a loss.")
    if not confirmed("Forget the missing records and continue with the ledger as it is?"):
        return TraceExit.FINDINGS
    opened.heads.accept(opened.recording().ledger.tail())
    opened.echo("The ledger was accepted as it is now.")
    return TraceExit.FINE


def _write_script(opened: OpenedLedger, target: Path) -> int:
    try:
        source = Path(verify_ledger.__file__).read_bytes()
        target.write_bytes(source)
        target.chmod(0o755)
    except OSError as error:
        raise StorageError(f"{target} could not be written ({error.strerror}).") from error
    words = [
        "python3",
        "-I",
        "-S",
        str(target),
        "--head",
        str(opened.heads.path),
        str(opened.folder),
    ]
    print(harmless(f"An auditor runs: {shlex.join(words)}"), file=sys.stderr)
    return TraceExit.FINE


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
        ledger = opened.recording().ledger
        # tombstones come first, so that an interrupted run can be repeated
        more = {"pruned": [segment.tombstone for segment in segments]}
        ledger.append(LedgerEntry(kind="checkpoint", task_id=TASK, more=more))
        ledger.checkpoint(TASK)
        ledger.close()
        for segment in segments:
            segment.path.unlink(missing_ok=True)
    opened.print_json({"files": names, "records": records, "removed": not dry_run})
    would = "would be removed" if dry_run else "removed"
    opened.echo(f"{text} {would}: {', '.join(names)}" if names else "No sealed file is that old.")
    return TraceExit.FINE


@click.command("export")
@click.option(
    "--format", type=click.Choice(["agent-trace"]), default="agent-trace", help="The format."
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
    opened: OpenedLedger, format: str, intent: str, strip: bool, output: Path | None
) -> int:
    """Export the ledger as JSON Lines."""
    records = oldest(opened.folder, Query(intent=intent))
    write_out(output, (json_line(_strip(each.raw) if strip else each.raw) for each in records))
    return TraceExit.FINE


@click.command("finalize")
@click.argument("commit", default="HEAD")
@ledger_command
def finalize_command(opened: OpenedLedger, commit: str) -> int:
    """Add a git note to a commit that says which lines were written for which intent.

    Lines are matched by content, so a commit that was amended, squashed or rebased can be noted
    again. Lines that are not found are counted, never guessed.
    """
    history = require_history(opened.layout.root)
    resolved = history.commit(commit)
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
    folder = require_history(opened.layout.root).hooks_folder
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
