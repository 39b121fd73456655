"""Sessions of any length, made from a short one that was really run.

The turns of the run are repeated with new numbers and ids, and the conversation is condensed as
often as an engine would condense it, so that what the model is sent stays as large as before.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    CheckpointSaved,
    Condensed,
    Event,
    Fact,
    FilesChanged,
    RequestStarted,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    next_event,
)
from rookery.storage.journal import read_events
from rookery.storage.journal_lines import JOURNAL, Blobs, line_from

KEPT_TURNS = 100
BETWEEN_CUTS = 1_500
"""Events after which the conversation is condensed."""


def write_session(folder: Path, sample: Path, count: int, workspace: Path) -> int:
    """Write a journal of about `count` events, made from the one in `sample`, and return its
    size."""
    folder.mkdir(parents=True, mode=0o700)
    blobs = Blobs(folder / "blobs")
    (folder / JOURNAL).touch(mode=0o600)
    with (folder / JOURNAL).open("wb") as file:
        for event in events(list(read_events(sample)), count, workspace):
            file.write(line_from(event, blobs))
        return file.tell()


def events(sample: Sequence[Event], count: int, workspace: Path) -> Iterator[Event]:
    opened = sample[0].fact
    assert isinstance(opened, TaskOpened)
    last = next_event(None, replace(opened, workspace=str(workspace)), sample[0].ts)
    yield last
    cut, laps = 1, 0
    while last.seq < count:
        laps += 1
        for fact in _lap(sample, laps, last.seq):
            last = next_event(last, fact, last.ts + 50)
            yield last
        if last.seq - cut > BETWEEN_CUTS:
            cut = last.seq
            summary = f"{laps} rounds of the work are done. " * 20
            last = next_event(last, Condensed(upto=cut - KEPT_TURNS, summary=summary), last.ts + 50)
            yield last


def _lap(sample: Sequence[Event], lap: int, start: int) -> Iterator[Fact]:
    """The turns of the sample once more, after event `start`."""
    kinds = RequestStarted, AssistantSpoke, CheckpointSaved, ToolStarted, ToolFinished, FilesChanged
    work = [event for event in sample if isinstance(event.fact, kinds)][:-5]
    moved = {event.seq: start + place for place, event in enumerate(work, 1)}
    for event in work:
        match event.fact:
            case RequestStarted() as fact:
                yield replace(fact, request_id=f"{fact.request_id}{lap}")
            case AssistantSpoke(blocks=blocks) as fact:
                renamed = (
                    replace(each, id=f"{each.id}_{lap}") if isinstance(each, ToolCall) else each
                    for each in blocks
                )
                request_id = f"{fact.request_id}{lap}"
                yield replace(fact, request_id=request_id, blocks=tuple(renamed))
            case FilesChanged(since=since) as fact:
                call_id = f"{fact.call_id}_{lap}"
                yield replace(fact, call_id=call_id, since=moved.get(since, start + 1))
            case CheckpointSaved() | ToolStarted() | ToolFinished() as fact:
                yield replace(fact, call_id=f"{fact.call_id}_{lap}")
            case _:
                raise AssertionError(event.fact)
