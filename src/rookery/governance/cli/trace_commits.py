"""`rookery trace finalize` and `install-hooks`: what the ledger knows, tied to commits."""

import json

import click

from rookery.errors import StorageError
from rookery.governance.cli.trace_common import CannotAnswer, Desk, Ending, ledger_command
from rookery.governance.ledger.commit_records import Finalised
from rookery.governance.ledger.git_history import GitFailed, GitHistory, history_of
from rookery.storage.cli.session_listing import counted


@click.command("finalize")
@click.argument("commit", default="HEAD")
@ledger_command
def finalize_command(desk: Desk, commit: str) -> int:
    """Put a note on a commit that says which of its lines were written for which intent.

    Lines are found by their content, so that a commit that was amended, squashed or rebased can
    be noted again. What is not found is counted, and never guessed.
    """
    from rookery.governance.ledger.commit_notes import finalise, recent_writers

    history = _needed_history(desk)
    try:
        meant = history.commit(commit)
    except GitFailed as error:
        raise CannotAnswer(str(error), Ending.NOT_FOUND) from error
    found = finalise(history, meant, recent_writers(desk.folder))
    if desk.as_json:
        print(json.dumps({"commit": meant.revision, **_counts(found)}))
    else:
        desk.say(f"{meant.revision[:12]}: {_told(found)}")
    return Ending.FINE


def _needed_history(desk: Desk) -> GitHistory:
    history = history_of(desk.layout.root)
    if history is None:
        raise CannotAnswer(
            f"{desk.layout.root} is in no git repository, or git is not installed.",
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


@click.command("install-hooks")
@ledger_command
def install_hooks_command(desk: Desk) -> int:
    """Have every new commit noted: install a hook that runs finalize after it.

    A hook that is there already is left alone, and you are told what to add to it.
    """
    from rookery.governance.ledger.commit_hooks import LINE, NAME, install_hook

    folder = _needed_history(desk).hooks_folder
    try:
        outcome = install_hook(folder)
    except OSError as error:
        raise StorageError(
            f"The hook could not be written ({error.strerror}); nothing was changed."
        ) from error
    if desk.as_json:
        print(json.dumps({"hook": str(folder / NAME), "outcome": outcome}))
    match outcome:
        case "installed":
            desk.say(f"Installed {folder / NAME}.")
        case "there":
            desk.say(f"{folder / NAME} does it already.")
        case "foreign":
            raise CannotAnswer(
                f"There is another {NAME} hook, which is as it was. Add this line to "
                f"{folder / NAME}: {LINE}",
                Ending.FINDINGS,
            )
    return Ending.FINE
