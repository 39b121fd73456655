"""`rookery trace export`, `finalize` and `install-hooks`: the ledger given to others.

Exported are Agent Trace records, one on each line. `finalize` puts those of a commit's lines into a
note of that commit; the hook does it for every new one.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from rookery.errors import StorageError
from rookery.governance.cli.trace_common import (
    CannotAnswer,
    Ending,
    OpenedLedger,
    ledger_command,
    write_out,
)
from rookery.governance.ledger.commit_notes import Finalised, json_line
from rookery.governance.ledger.git_history import GitFailed, GitHistory, history_of
from rookery.governance.ledger.ledger_reader import Query, oldest
from rookery.governance.ledger.traced import TracedRecord
from rookery.storage.cli.session_listing import counted

FORMATS = ("agent-trace",)


@click.command("export")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="agent-trace", help="In which form."
)
@click.option("--intent", default="", help="Only what was done for this intent.")
@click.option("--strip", is_flag=True, help="Leave out what is only ours.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file to write; else it is printed."
)
@ledger_command
def export_command(
    opened: OpenedLedger, form: str, intent: str, strip: bool, output: Path | None
) -> int:
    """Write the ledger out for other programs, as JSON Lines."""
    records = oldest(opened.folder, Query(intent=intent))
    write_out(output, agent_trace(records, strip=strip))
    return Ending.FINE


def agent_trace(records: Iterable[TracedRecord], *, strip: bool = False) -> Iterator[bytes]:
    """The records as lines; stripped, without our part."""
    for record in records:
        yield json_line(_stripped(record.raw) if strip else record.raw)


@click.command("finalize")
@click.argument("commit", default="HEAD")
@ledger_command
def finalize_command(opened: OpenedLedger, commit: str) -> int:
    """Put a note on a commit that says which of its lines were written for which intent.

    Lines are found by their content, so that a commit that was amended, squashed or rebased can
    be noted again. What is not found is counted, and never guessed.
    """
    from rookery.governance.ledger.commit_notes import finalise, recent_writers

    history = _needed_history(opened)
    try:
        meant = history.commit(commit)
    except GitFailed as error:
        raise CannotAnswer(str(error), Ending.NOT_FOUND) from error
    found = finalise(history, meant, recent_writers(opened.folder))
    if opened.as_json:
        print(json.dumps({"commit": meant.revision, **_counts(found)}))
    else:
        opened.say(f"{meant.revision[:12]}: {_told(found)}")
    return Ending.FINE


@click.command("install-hooks")
@ledger_command
def install_hooks_command(opened: OpenedLedger) -> int:
    """Have every new commit noted: install a hook that runs finalize after it.

    A hook that is there already is left alone, and you are told what to add to it.
    """
    from rookery.governance.ledger.commit_notes import HOOK, HOOK_LINE, install_hook

    folder = _needed_history(opened).hooks_folder
    try:
        outcome = install_hook(folder)
    except OSError as error:
        raise StorageError(
            f"The hook could not be written ({error.strerror}); nothing was changed."
        ) from error
    if opened.as_json:
        print(json.dumps({"hook": str(folder / HOOK), "outcome": outcome}))
    match outcome:
        case "installed":
            opened.say(f"Installed {folder / HOOK}.")
        case "there":
            opened.say(f"{folder / HOOK} does it already.")
        case "foreign":
            raise CannotAnswer(
                f"There is another {HOOK} hook, which is as it was. Add this line to "
                f"{folder / HOOK}: {HOOK_LINE}",
                Ending.FINDINGS,
            )
    return Ending.FINE


def _stripped(raw: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        name: held for name, held in raw.get("metadata", {}).items() if name != "orchestration"
    }
    rest = {name: held for name, held in raw.items() if name != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def _needed_history(opened: OpenedLedger) -> GitHistory:
    history = history_of(opened.layout.root)
    if history is None:
        raise CannotAnswer(
            f"{opened.layout.root} is in no git repository, or git is not installed.",
            Ending.NOT_FOUND,
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


def _told(found: Finalised) -> str:
    if not found.placed:
        return f"no line is known to the ledger ({found.unknown} are not), so there is no note"
    rest = f"{found.edited} were edited since, {found.unknown} are not known"
    gone = f"; {found.dropped} recorded lines are not in it" if found.dropped else ""
    noted = f"{counted(found.lines, 'line')} of {counted(len(found.placed), 'record')} noted"
    return f"{noted}; {rest}{gone}"
