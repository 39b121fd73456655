"""What became of a call that was started and that nobody saw end.

The process died, or the step was cancelled, between the effect and its record. Files tell
by their hashes; commands do not tell. Nothing is ever run again here.
"""

from enum import Enum

from rookery.core.facts import Change, Ending, ToolFinished, ToolStarted
from rookery.engine.ports import Files
from rookery.errors import ToolError


class Fate(Enum):
    DONE = "was done"
    NOT_DONE = "was not done"
    UNKNOWN = "may have been done; the file has changed meanwhile"


_ENDINGS = {
    frozenset({Fate.DONE}): Ending.DONE,
    frozenset({Fate.NOT_DONE}): Ending.FAILED,
}


async def reconcile(started: ToolStarted, files: Files) -> ToolFinished:
    """The result of a lost call, as far as it can be known."""
    if started.command:
        text = (
            f"The task was interrupted while this command ran: {started.command}\n"
            "It may have run wholly, in part, or not at all. Check before you run it again."
        )
        return ToolFinished(call_id=started.call_id, text=text, ending=Ending.UNKNOWN)
    if not started.changes:
        text = f"The task was interrupted during this call: {started.title}. It may have happened."
        return ToolFinished(call_id=started.call_id, text=text, ending=Ending.UNKNOWN)
    fates = {change.path: await _fate(change, files) for change in started.changes}
    lines = [f"{path}: the change {fate.value}." for path, fate in fates.items()]
    return ToolFinished(
        call_id=started.call_id,
        text="\n".join(["The task was interrupted during this call.", *lines]),
        ending=_ENDINGS.get(frozenset(fates.values()), Ending.UNKNOWN),
    )


async def _fate(change: Change, files: Files) -> Fate:
    try:
        await files.remove_unfinished(change)
        now = await files.sha(change.path)
    except ToolError:  # it has become something else, or is out of reach
        return Fate.UNKNOWN
    if now == change.after:
        return Fate.DONE
    return Fate.NOT_DONE if now == change.before else Fate.UNKNOWN
