"""Checks the invariants of a stored task. Problems are reported as sentences."""

import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, field

from rookery.core.blocks import ToolCall, ToolResult
from rookery.core.event_list import live
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CheckpointSaved,
    CommandDetached,
    CommandEnded,
    Ending,
    Event,
    FilesChanged,
    FilesRestored,
    Noted,
    Reminded,
    RequestFailed,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.history import Turn, history
from rookery.errors import StorageError
from rookery.platform.disk import reason
from rookery.storage.journal_lines import (
    JOURNAL,
    LONGEST,
    Blobs,
    counting_lines,
    flaw,
    opened_journal,
)

_EXECUTED = {Ending.DONE, Ending.UNKNOWN}
_AFTER_THE_END = (FilesChanged, FilesRestored, Noted, Reminded)
"""What `rewind` may record without reopening a task."""


def verify(folder: Path) -> list[str]:
    """Every problem of the task in `folder`. Changes nothing."""
    try:
        events, problems = _read(folder)
    except OSError as error:
        return [f"The journal cannot be read ({reason(error)})."]
    except StorageError as error:
        return [str(error)]
    return [
        *problems,
        *_exposed(folder),
        *_problems_of_order(events),
        *_problems_of_turns(events),
        *_problems_of_deeds(events),
        *_problems_of_history(history(events)),
    ]


def _read(folder: Path) -> tuple[list[Event], list[str]]:
    """The valid events, and problems with how they are stored."""
    events: list[Event] = []
    problems: list[str] = []
    blobs, end = Blobs(folder / "blobs"), 0
    with opened_journal(folder / JOURNAL) as file:
        for line in counting_lines(file):
            events.append(line.event)
            end = line.end
            if line.blob and blobs.fetch(line.blob.sha256) is None:
                problems.append(f"The output of event {line.event.seq} is missing or damaged.")
        file.seek(end)
        rest = file.readline(LONGEST)
    number = len(events) + 1
    if rest:
        why = flaw(rest, expected=number)
        problems.append(
            f"Line {number}, at byte {end:,}, of its journal is damaged: {why}. What comes before "
            "can be read."
        )
    elif not events:
        problems.append("The journal is empty: the session never started.")
    return events, problems


def _exposed(folder: Path) -> Iterator[str]:
    for path in (folder, *folder.rglob("*")):
        if stat.S_IMODE(path.lstat().st_mode) & 0o077:
            yield f"{path.name} can be reached by other users."


def _problems_of_order(events: Sequence[Event]) -> Iterator[str]:
    if events and not isinstance(events[0].fact, TaskOpened):
        yield "The first event does not open the session."
    for before, event in pairwise(events):
        if event.ts <= before.ts:
            yield f"Event {event.seq} is not later than the one before it."
    for event in events:
        match event.fact:
            case TaskOpened() if event.seq > 1:
                yield f"Event {event.seq} opens the session again."
            case Rewound(to=to) if not 1 <= to < event.seq:
                yield f"Event {event.seq} rewinds to event {to}, which is not before it."
            case FilesRestored(to=to) if not 1 <= to < event.seq:
                yield f"Event {event.seq} restores files as of event {to}, which is not before it."
            case _:
                pass
        if event.sub or not event.fact.lasting:
            yield f"Event {event.seq} is temporary and should not be stored."


class _Ledger(Struct):
    """What was said and done so far in the valid part of a log."""

    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    requested: set[str] = field(default_factory=set)
    request_open: bool = False
    calls: set[str] = field(default_factory=set)
    started: dict[str, ToolStarted] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)

    def enter(self, event: Event) -> Iterator[str]:
        """Process one more event; yields its problems."""
        match event.fact:
            case Asked(ask_id=ask_id):
                self.asked.add(ask_id)
            case Answered(ask_id=ask_id):
                if ask_id not in self.asked:
                    yield f"Event {event.seq} answers {ask_id}, which was never asked."
                if ask_id in self.answered:
                    yield f"Event {event.seq} answers {ask_id} a second time."
                self.answered.add(ask_id)
            case RequestStarted(request_id=request_id):
                if self.request_open:
                    yield f"Event {event.seq} starts a request while another is open."
                self.requested.add(request_id)
                self.request_open = True
            case AssistantSpoke() | RequestFailed() as end:
                yield from self._end_request(event.seq, end)
            case TaskReopened() | StepCancelled() | TaskFailed() | TaskClosed() | Rewound():
                self.request_open = False
            case ToolStarted() as start:
                yield from self._start(event.seq, start)
            case ToolFinished() as finish:
                yield from self._finish(event.seq, finish)
            case _:
                pass

    def _end_request(self, seq: int, end: AssistantSpoke | RequestFailed) -> Iterator[str]:
        if end.request_id not in self.requested:
            yield f"Event {seq} ends request {end.request_id}, which was never started."
        self.request_open = False
        if isinstance(end, AssistantSpoke) and not end.interrupted:
            self.calls = {block.id for block in end.blocks if isinstance(block, ToolCall)}
            self.started, self.finished = {}, set()

    def _start(self, seq: int, start: ToolStarted) -> Iterator[str]:
        if start.call_id not in self.calls:
            yield f"Event {seq} starts call {start.call_id}, which the model did not make."
        if start.call_id in self.finished:
            yield f"Event {seq} starts call {start.call_id}, which had already ended."
        elif start.call_id in self.started and not self.started[start.call_id].harmless:
            yield f"Event {seq} starts call {start.call_id} a second time."
        self.started[start.call_id] = start

    def _finish(self, seq: int, finish: ToolFinished) -> Iterator[str]:
        if finish.call_id not in self.calls:
            yield f"Event {seq} ends call {finish.call_id}, which the model did not make."
        if finish.call_id in self.finished:
            yield f"Event {seq} ends call {finish.call_id} a second time."
        if finish.ending in _EXECUTED and finish.call_id not in self.started:
            yield f"Event {seq} says call {finish.call_id} was carried out, but it never started."
        self.finished.add(finish.call_id)


def _problems_of_turns(events: Sequence[Event]) -> Iterator[str]:
    ledger = _Ledger()
    for event in live(events):
        yield from ledger.enter(event)


class _FileChanges(Struct):
    """What calls did to files, and which commands continue in the background. Rewinding a
    conversation undoes neither, so every event counts."""

    calls: set[str] = field(default_factory=set)
    saved: dict[int, str] = field(default_factory=dict)
    """By event: the newest checkpoint at that time."""
    handed_on: dict[int, str] = field(default_factory=dict)
    """By event: the call for which a sub-task started."""
    running: Counter[str] = field(default_factory=Counter)
    closed: bool = False

    def enter(self, event: Event) -> Iterator[str]:
        """Process one more event; yields its problems."""
        match event.fact:
            case AssistantSpoke(blocks=blocks, interrupted=False):
                self.calls |= {block.id for block in blocks if isinstance(block, ToolCall)}
            case CheckpointSaved(id=checkpoint, call_id=call_id):
                if call_id:
                    yield from self._of_a_known_call(event.seq, call_id)
                self.saved[event.seq] = checkpoint
            case ToolStarted(call_id=call_id, child=child) if child:
                self.handed_on[event.seq] = call_id
            case FilesChanged() as change:
                yield from self._change(event.seq, change)
            case FilesRestored(after=after):
                self.saved[event.seq] = after
            case CommandDetached(call_id=call_id):
                yield from self._of_a_known_call(event.seq, call_id)
                self.running[call_id] += 1
            case CommandEnded(call_id=call_id):
                if not self.running[call_id]:
                    yield f"Event {event.seq} ends an unknown background command of call {call_id}."
                self.running[call_id] -= 1
            case _:
                pass
        yield from self._after_the_end(event)

    def _change(self, seq: int, change: FilesChanged) -> Iterator[str]:
        yield from self._of_a_known_call(seq, change.call_id)
        by_a_child = self.handed_on.get(change.since) == change.call_id
        if not by_a_child and self.saved.get(change.since) != change.before:
            yield f"Event {seq} changes files since event {change.since}, which did not save them."
        self.saved[seq] = change.after

    def _of_a_known_call(self, seq: int, call_id: str) -> Iterator[str]:
        if call_id not in self.calls:
            yield f"Event {seq} is about call {call_id}, which the model did not make."

    def _after_the_end(self, event: Event) -> Iterator[str]:
        match event.fact:
            case TaskClosed():
                if self.closed:
                    yield f"Event {event.seq} closes the session a second time."
                self.closed = True
            case TaskReopened() | Rewound():
                self.closed = False
            case fact if self.closed and not isinstance(fact, _AFTER_THE_END):
                yield f"Event {event.seq} comes after the end of the session."
            case _:
                pass


def _problems_of_deeds(events: Sequence[Event]) -> Iterator[str]:
    deeds = _FileChanges()
    for event in events:
        yield from deeds.enter(event)


def _problems_of_history(turns: Sequence[Turn]) -> Iterator[str]:
    if turns[0].role != "user":
        yield "The history does not begin with the user."
    owed: list[str] = []
    for number, turn in enumerate(turns, start=1):
        if number > 1 and turn.role == turns[number - 2].role:
            yield f"Turns {number - 1} and {number} of the history are both the {turn.role}'s."
        results = [block.call_id for block in turn.blocks if isinstance(block, ToolResult)]
        first = [isinstance(block, ToolResult) for block in turn.blocks[: len(results)]]
        if results != owed or not all(first):
            yield f"Turn {number} of the history does not answer the calls of the turn before."
        owed = [block.id for block in turn.blocks if isinstance(block, ToolCall)]
    if owed:
        yield "The history ends with calls that have no result."
