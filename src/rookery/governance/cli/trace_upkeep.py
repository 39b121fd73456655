"""`rookery trace recover`, `seal`, `import` and `prune`: commands that add to the ledger."""

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
from msgspec.structs import asdict

from rookery.governance.cli.trace_common import (
    TASK,
    CannotAnswer,
    Desk,
    Ending,
    ledger_command,
    point_in_time,
)
from rookery.governance.ledger.imports import imported, imported_id
from rookery.governance.ledger.traced import TracedRecord, records_in
from rookery.storage.cli.session_listing import confirmed, counted


@click.command("recover")
@ledger_command
def recover_command(desk: Desk) -> int:
    """Record the calls that a crash cut off, by comparing what they were about with the disk."""
    recording = desk.recording()
    found = recording.recover(desk.layout.root)
    recording.close()
    if desk.as_json:
        print(json.dumps(asdict(found)))
        return Ending.FINE
    if found.put_away:
        entries = f"{found.put_away} entr{'y' if found.put_away == 1 else 'ies'} of the journal"
        desk.say(f"{entries} nobody here wrote; put away in .orchestration/.state/quarantine.")
    if not (found.changed or found.unchanged or found.known):
        desk.say("No call was cut off.")
    else:
        desk.say(
            f"{counted(found.changed, 'call')} had changed something and "
            f"{counted(found.unchanged, 'call')} nothing; {found.known} were recorded already."
        )
    return Ending.FINE


@click.command("seal")
@ledger_command
def seal_command(desk: Desk) -> int:
    """Close the ledger's file for good, and go on with a new one."""
    from rookery.governance.ledger.segments import sealed_files

    ledger = desk.recording().ledger
    before = set(sealed_files(desk.folder))
    ledger.seal(TASK)
    ledger.close()
    made = [path for path in sealed_files(desk.folder) if path not in before]
    names = [path.relative_to(desk.layout.root).as_posix() for path in made]
    if desk.as_json:
        print(json.dumps({"sealed": names}))
    else:
        desk.say(f"Sealed {', '.join(names)}." if names else "There is nothing to seal.")
    return Ending.FINE


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@ledger_command
def import_command(desk: Desk, file: Path) -> int:
    """Record what another program's trace says. Its file stays as it is.

    Read are Agent Trace records and the lines of its forerunners. What was imported before is
    left out, and so are records that have a chain of their own.
    """
    try:
        held = file.read_bytes()
    except OSError as error:
        raise CannotAnswer(
            f"{file} cannot be read ({error.strerror}).", Ending.NOT_FOUND
        ) from error
    source = f"{file.name} sha256:{sha256(held).hexdigest()}"
    lines = held.splitlines(keepends=True)
    done = _imported(desk, list(records_in(lines)), source)
    done["unreadable"] = sum(1 for line in lines if line.strip() and not list(records_in([line])))
    if desk.as_json:
        print(json.dumps(dict(done)))
    else:
        left = ", ".join(
            f"{done[what]} {words}"
            for what, words in (
                ("known", "known already"),
                ("chained", "chained elsewhere"),
                ("unreadable", "unreadable"),
            )
            if done[what]
        )
        rest = f"; left out: {left}" if left else ""
        desk.say(f"{counted(done['imported'], 'record')} imported{rest}")
    return Ending.FINDINGS if done["unreadable"] else Ending.FINE


def _imported(desk: Desk, records: list[TracedRecord], source: str) -> Counter[str]:
    done = Counter(imported=0, known=0, chained=0)
    known = set(_imported_before(desk))
    recording = desk.recording()
    for record in records:
        if record.chained:
            done["chained"] += 1
        elif record.id and record.id in known:
            done["known"] += 1
        else:
            recording.note(imported(record, task_id=TASK, source=source))
            known.add(record.id)
            done["imported"] += 1
    recording.close(TASK)
    return done


def _imported_before(desk: Desk) -> Iterator[str]:
    from rookery.governance.ledger.segments import newest_first

    told = (line for line in newest_first(desk.folder) if b'"imported"' in line)
    return (id for record in records_in(told) if (id := imported_id(record)))


@click.command("prune")
@click.option("--before", "before", required=True, metavar="WHEN", help="90d, or a date.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@ledger_command
def prune_command(desk: Desk, before: str, dry_run: bool, yes: bool) -> int:
    """Remove sealed files whose records are all older. What was in them is gone then.

    The ledger keeps a record of what was removed, so that verify can tell it from a loss. To
    have the present file among them, seal it first.
    """
    from rookery.governance.ledger.ledger_reader import verified
    from rookery.governance.ledger.prune import prune, segments_before

    segments = segments_before(desk.folder, point_in_time(before))
    names = [segment.path.relative_to(desk.layout.root).as_posix() for segment in segments]
    records = sum(segment.records for segment in segments)
    told = f"{counted(len(names), 'file')} with {counted(records, 'record')}"
    if not verified(desk.folder, known=desk.known_head(), keys=desk.heads.trace_keys).whole:
        raise CannotAnswer(
            "Nothing was removed, because the ledger does not verify, and what is removed could "
            "not be examined later. Run `rookery trace verify` to see what is wrong.",
            Ending.FINDINGS,
        )
    if names and not dry_run:
        if not yes and not confirmed(f"Remove {told} for good?"):
            desk.say("Nothing was removed.")
            return Ending.FINDINGS
        prune(desk.recording().ledger, segments, task_id=TASK)
    if desk.as_json:
        print(json.dumps({"files": names, "records": records, "removed": not dry_run}))
    else:
        would = "would be removed" if dry_run else "removed"
        desk.say(f"{told} {would}: {', '.join(names)}" if names else "Nothing is as old as that.")
    return Ending.FINE
