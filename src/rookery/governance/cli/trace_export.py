"""`rookery trace export`: the ledger in the words of others."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from rookery.errors import SettingsError
from rookery.governance.cli.trace_commits import counts, needed_history
from rookery.governance.cli.trace_common import (
    CannotAnswer,
    Desk,
    Ending,
    ledger_command,
    write_out,
)
from rookery.governance.ledger.commit_records import Finalised
from rookery.governance.ledger.exports import agent_trace, csv_rows, markdown
from rookery.governance.ledger.ledger_query import Query
from rookery.governance.ledger.traced import TracedRecord
from rookery.storage.cli.session_listing import counted

FORMATS = ("agent-trace", "csv", "md", "in-toto", "git-notes", "git-ai")
MOST_COMMITS = 1_000


@click.command("export")
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="In which form.")
@click.option("--intent", default="", help="Only what was done for this intent.")
@click.option("--strip", is_flag=True, help="With agent-trace: leave out what is only ours.")
@click.option("--key", type=click.Path(path_type=Path), help="With in-toto: the key to sign with.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file to write; else it is printed."
)
@ledger_command
def export_command(
    desk: Desk, form: str, intent: str, strip: bool, key: Path | None, output: Path | None
) -> int:
    """Write the ledger out for other programs, for a report, or as notes in git.

    A ledger that does not verify is not signed, and no statement is made about it.
    """
    if strip and form != "agent-trace":
        raise SettingsError("--strip belongs to --format agent-trace.")
    if form in ("git-notes", "git-ai"):
        return _noted(desk, form, intent)
    if form == "in-toto":
        return _stated(desk, intent, key, output)
    from rookery.governance.ledger.ledger_reader import oldest

    records = oldest(desk.folder, Query(intent=intent))
    write_out(output, _pieces(form, records, strip=strip))
    return Ending.FINE


def _pieces(form: str, records: Iterable[TracedRecord], *, strip: bool) -> Iterable[bytes]:
    match form:
        case "agent-trace":
            return agent_trace(records, strip=strip)
        case "csv":
            return (row.encode() for row in csv_rows(records))
        case _:
            return [markdown(records).encode()]


def _stated(desk: Desk, intent: str, key: Path | None, output: Path | None) -> int:
    from rookery.governance.ledger.ledger_reader import in_toto, oldest, verified
    from rookery.governance.ledger.signatures import Signer

    if not intent:
        raise SettingsError("A statement is about one intent: name it with --intent.")
    report = verified(desk.folder, known=desk.known_head(), keys=desk.heads.trace_keys)
    if not report.whole:
        raise CannotAnswer(
            "Nothing was exported, because the ledger does not verify. Run `rookery trace verify` "
            "to see what is wrong.",
            Ending.FINDINGS,
        )
    records = list(oldest(desk.folder, Query(intent=intent)))
    if not records:
        raise CannotAnswer(f"Nothing is recorded for {intent}.", Ending.NOT_FOUND)
    chosen = key or desk.settings.trace.signing_key
    signer = Signer(Path(chosen).expanduser()) if chosen else None
    write_out(output, [in_toto(desk.folder, intent, report, signer).encode()])
    files = len({file.path for record in records for file in record.files})
    signed = f"signed with key {signer.key_id[:4]}…" if signer else "not signed"
    if output:
        said = f"verified {counted(len(records), 'record')}, {counted(files, 'file')}"
        desk.say(f"{said}; {signed}")
    return Ending.FINE


def _noted(desk: Desk, form: str, intent: str) -> int:
    """Notes on every commit since the ledger began."""
    from rookery.governance.ledger.commit_notes import finalise, note_for_git_ai, recent_writers

    if intent:
        raise SettingsError("A note tells of a whole commit; leave out --intent.")
    history = needed_history(desk)
    records = recent_writers(desk.folder)
    oldest_time = records[-1].time if records else ""
    names = history.commits_since(oldest_time, most=MOST_COMMITS) if records else []
    make: Callable[..., Finalised | None] = finalise if form == "git-notes" else note_for_git_ai
    noted, kept = {}, 0
    for commit in map(history.commit, names):
        found = make(history, commit, records)
        if found is None:
            kept += 1
        elif found.placed:
            noted[commit.revision] = counts(found)
    if desk.as_json:
        print(json.dumps({"commits": noted, "left_alone": kept}))
    else:
        others = f"; {counted(kept, 'note')} of others left alone" if kept else ""
        desk.say(f"{counted(len(noted), 'commit')} noted{others}")
    return Ending.FINE
