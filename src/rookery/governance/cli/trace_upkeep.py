"""`rookery trace recover`, `seal` and `prune`: commands that add to the ledger."""

import json

import click
from msgspec import to_builtins

from rookery.governance.cli.trace_common import (
    TASK,
    CannotAnswer,
    Ending,
    OpenedLedger,
    journal_of,
    ledger_command,
    point_in_time,
)
from rookery.governance.ledger.ledger_file import Ledger
from rookery.governance.ledger.records import Entry
from rookery.governance.ledger.seal import Segment
from rookery.storage.cli.session_listing import confirmed, counted


@click.command("recover")
@ledger_command
def recover_command(opened: OpenedLedger) -> int:
    """Record the calls that a crash cut off, by comparing what they were about with the disk."""
    recording = opened.recording()
    found = recording.recover(opened.layout.root, journal_of)
    recording.close()
    if opened.as_json:
        print(json.dumps(to_builtins(found)))
        return Ending.FINE
    if found.put_away:
        entries = f"{found.put_away} entr{'y' if found.put_away == 1 else 'ies'} of the journal"
        opened.say(f"{entries} nobody here wrote; put away in .orchestration/.state/quarantine.")
    if not (found.changed or found.unchanged or found.known):
        opened.say("No call was cut off.")
    else:
        opened.say(
            f"{counted(found.changed, 'call')} had changed something and "
            f"{counted(found.unchanged, 'call')} nothing; {found.known} were recorded already."
        )
    return Ending.FINE


@click.command("seal")
@ledger_command
def seal_command(opened: OpenedLedger) -> int:
    """Close the ledger's file for good, and go on with a new one."""
    from rookery.governance.ledger.segments import sealed_files

    ledger = opened.recording().ledger
    before = set(sealed_files(opened.folder))
    ledger.seal(TASK)
    ledger.close()
    made = [path for path in sealed_files(opened.folder) if path not in before]
    names = [path.relative_to(opened.layout.root).as_posix() for path in made]
    if opened.as_json:
        print(json.dumps({"sealed": names}))
    else:
        opened.say(f"Sealed {', '.join(names)}." if names else "There is nothing to seal.")
    return Ending.FINE


@click.command("prune")
@click.option("--before", "before", required=True, metavar="WHEN", help="90d, or a date.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@ledger_command
def prune_command(opened: OpenedLedger, before: str, dry_run: bool, yes: bool) -> int:
    """Remove sealed files whose records are all older. What was in them is gone then.

    The ledger keeps a record of what was removed, so that verify can tell it from a loss. To
    have the present file among them, seal it first.
    """
    from rookery.governance.ledger.seal import segments_before
    from rookery.governance.ledger.verification import verified

    segments = segments_before(opened.folder, point_in_time(before))
    names = [segment.path.relative_to(opened.layout.root).as_posix() for segment in segments]
    records = sum(segment.records for segment in segments)
    told = f"{counted(len(names), 'file')} with {counted(records, 'record')}"
    if not verified(opened.folder, known=opened.known_head(), keys=opened.heads.trace_keys).whole:
        raise CannotAnswer(
            "Nothing was removed, because the ledger does not verify, and what is removed could "
            "not be examined later. Run `rookery trace verify` to see what is wrong.",
            Ending.FINDINGS,
        )
    if names and not dry_run:
        if not yes and not confirmed(f"Remove {told} for good?"):
            opened.say("Nothing was removed.")
            return Ending.FINDINGS
        prune(opened.recording().ledger, segments, task_id=TASK)
    if opened.as_json:
        print(json.dumps({"files": names, "records": records, "removed": not dry_run}))
    else:
        would = "would be removed" if dry_run else "removed"
        opened.say(f"{told} {would}: {', '.join(names)}" if names else "Nothing is as old as that.")
    return Ending.FINE


def prune(ledger: Ledger, segments: list[Segment], *, task_id: str) -> None:
    """The tombstones are in the ledger before anything is removed. Once cut off in between, it
    can be done again."""
    if segments:
        more = {"pruned": [segment.tombstone for segment in segments]}
        ledger.append(Entry(kind="checkpoint", task_id=task_id, more=more))
        ledger.checkpoint(task_id)
        ledger.close()
    for segment in segments:
        segment.path.unlink(missing_ok=True)
