"""Files that were changed again right after a call wrote them: by a formatter hook, or a watcher.

What is there then is what the model must know, or its next edit would be refused as stale, and
what it was told would not be true. It is shown the difference.
"""

from collections.abc import Mapping

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery.core.facts import Change, Ending, Seen
from rookery.core.replies import AMENDED, AS_SPECIFIED, NOT_AS_SPECIFIED
from rookery.core.text.text_lines import shown_difference
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.workspace import Files, FileText
from rookery.errors import ToolError

NOT_SHOWN = "(The changes are not known.)"
WITHHELD = "(The changes are not shown: a rule does not let you read this file.)"


async def texts_of(files: Files, action: Action) -> dict[str, FileText]:
    """The files that a call wrote, as they are now; without those that cannot be shown.

    Cancelling does not reach it: what the call did must still come on record.
    """
    paths = [change.path for change in action.changes if change.after]
    with anyio.CancelScope(shield=True):
        found = [await _text_of(files, path) for path in paths]
    return {file.path: file for file in found if file}


async def with_amendments(
    files: Files,
    action: Action,
    permit: Permit,
    written: Mapping[str, FileText],
    outcome: Outcome,
) -> Outcome:
    """The outcome, with what others have changed about the files since they were written.

    Cancelling does not reach it either.
    """
    if outcome.ending is not Ending.DONE:
        return outcome
    with anyio.CancelScope(shield=True):
        for change in action.changes:
            outcome = await _amended(files, change, permit, written.get(change.path), outcome)
    return outcome


async def _amended(
    files: Files, change: Change, permit: Permit, before: FileText | None, outcome: Outcome
) -> Outcome:
    sha = await _sha_of(files, change.path) if change.after else ""
    if sha in ("", change.after):
        return outcome
    seen = Seen(change.path, sha, whole=False)
    if permit.withheld and permit.withheld(change.path):
        return _told(outcome, seen, WITHHELD)
    own = before if before and before.sha == change.after else None
    shown, all_of_it = await _difference(own, await _text_of(files, change.path))
    return _told(outcome, replace(seen, amended=all_of_it), shown)


async def _sha_of(files: Files, path: str) -> str:
    try:
        return await files.sha(path) if files.locate(path) == path else ""
    except ToolError:
        return ""


async def _text_of(files: Files, path: str) -> FileText | None:
    try:
        file = await files.examine(path)
    except ToolError:
        return None
    return file if file and file.path == path else None  # a link may have taken its place


def _told(outcome: Outcome, seen: Seen, shown: str) -> Outcome:
    text = outcome.text
    for said in AS_SPECIFIED:
        text = text.replace(said, NOT_AS_SPECIFIED)
    told = AMENDED.format(path=seen.path, difference=shown)
    return replace(outcome, text=f"{text}\n\n{told}", seen=(*outcome.seen, seen))


async def _difference(before: FileText | None, now: FileText | None) -> tuple[str, bool]:
    """What differs, and whether that is all of it."""
    if before is None or now is None:
        return NOT_SHOWN, False
    return await anyio.to_thread.run_sync(shown_difference, before.text, now.text)
