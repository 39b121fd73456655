"""What is told of the words that wait for the model."""

from collections.abc import Mapping, Sequence

from rookery.compat.structured_output.output_rows import Output, output
from rookery.core.facts import UserSpoke

LONGEST_TEXT = 180
_CUT = "..."


def queue_event(
    subtype: str, task_id: str, queue: Sequence[UserSpoke], times: Mapping[str, int]
) -> Output:
    """`times` are when the messages were queued."""
    waiting = "1 message waits" if len(queue) == 1 else f"{len(queue)} messages wait"
    return output(
        type="queue",
        subtype=subtype,
        taskId=task_id,
        content=f"{waiting} for the model.",
        queueDepth=len(queue),
        queue=[_item(spoken, times.get(spoken.message_id)) for spoken in queue],
    )


def change_between(before: Sequence[UserSpoke], after: Sequence[UserSpoke]) -> str | None:
    """What a queue event that tells this change is called; None if there is none to tell."""
    if before == after:
        return None
    if len(after) > len(before):
        return "enqueued"
    if not after:
        return "drained"
    return "dequeued" if len(after) < len(before) else "updated"


def _item(spoken: UserSpoke, at: int | None) -> Output:
    return output(
        id=spoken.message_id,
        text=_shortened(spoken.text) or None,
        imageCount=len(spoken.images) or None,
        timestamp=at,
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - len(_CUT)] + _CUT
