"""`rookery trace verify`: whether the ledger is complete and unaltered."""

import json
import re
import shlex
import sys
from pathlib import Path

import click
from msgspec import Struct

from rookery import NAME
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.errors import SettingsError, StorageError
from rookery.governance.cli.common import (
    TASK,
    OpenedLedger,
    TraceExit,
    journals,
    ledger_command,
    point_in_time,
)
from rookery.governance.ledger.recovery import damaged_journal
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
    from rookery.governance.ledger import verify_ledger

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
