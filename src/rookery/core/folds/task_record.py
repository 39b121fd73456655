"""A task's events, and what is known from them without reading them again.

It is complete in itself, so it can be stored beside the events and continued from there.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from rookery.core.blocks import ToolCall
from rookery.core.event_list import EventList, live, of_kind
from rookery.core.facts import (
    AgentTask,
    AssistantSpoke,
    Change,
    Ending,
    Event,
    Gathered,
    PromptRefused,
    Rewound,
    Seen,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.task_state import TaskState, advance, fold


class TaskRecord:
    def __init__(
        self,
        events: EventList | None = None,
        state: TaskState = TaskState(),  # noqa: B008 (it never changes)
        call_ids: Iterable[str] = (),
        agents: Iterable[tuple[str, AgentTask]] = (),
        files: "KnownFiles | None" = None,
    ) -> None:
        self.events = EventList() if events is None else events
        self._state: TaskState | None = state
        self.call_ids = set(call_ids)
        """The ids of all calls, condensed and rewound ones too. Some servers repeat theirs."""
        self.agents = list(agents)
        """The agents of all calls with the calls' ids, rewound ones too."""
        self._files: KnownFiles | None = KnownFiles() if files is None else files

    @classmethod
    def of(cls, events: Iterable[Event]) -> "TaskRecord":
        record = cls()
        for event in events:
            record.append(event)
        return record

    @property
    def state(self) -> TaskState:
        if self._state is None:
            self._state = fold(self.events)
        return self._state

    @property
    def files(self) -> "KnownFiles":
        if self._files is None:
            self._files = KnownFiles.of(self.events)
        return self._files

    def append(self, event: Event) -> None:
        self.events.append(event)
        match event.fact:
            case Rewound() | PromptRefused():
                self._state = self._files = None
            case AssistantSpoke(blocks=blocks):
                self.call_ids |= {each.id for each in blocks if isinstance(each, ToolCall)}
            case ToolStarted(call_id=call_id, agents=agents):
                self.agents += ((call_id, agent) for agent in agents)
            case _:
                pass
        if self._state is not None:
            self._state = advance(self._state, event.fact)
        if self._files is not None:
            self._files.add(event)


class KnownFile(Struct, frozen=True):
    """`sha` is empty for a file too large to read."""

    sha: str
    whole: bool


class KnownFiles(Struct):
    """The files as the model last saw them: those it read and those it changed."""

    by_path: dict[str, KnownFile] = {}
    started: dict[str, tuple[Change, ...]] = {}
    """What calls without an end change."""

    @classmethod
    def of(cls, events: Sequence[Event]) -> "KnownFiles":
        files = cls()
        for event in of_kind(live(events), ToolStarted, ToolFinished, Gathered):
            files.add(event)
        return files

    def add(self, event: Event) -> None:
        match event.fact:
            case ToolStarted(call_id=call_id, changes=changes) if changes:
                self.started[call_id] = changes
            case ToolFinished(call_id=call_id, ending=ending, seen=seen):
                changes = self.started.pop(call_id, ())
                moves = any(not change.after for change in changes)
                for change in changes if ending is Ending.DONE else ():
                    self._learn_change(change, moves=moves)
                for each in seen:
                    self._learn_seen(each)
            case Gathered(seen=seen):
                for each in seen:
                    self._learn_seen(each)
            case _:
                pass

    def _learn_change(self, change: Change, *, moves: bool) -> None:
        """An edit does not show the rest of a file. The model knows a file it created as a whole,
        unless the file may have been moved there."""
        known = self.by_path.pop(change.path, None)
        if change.after:
            made = not change.before and not moves
            followed = known is not None and known.sha == change.before
            whole = made or (known is not None and known.whole and followed)
            self.by_path[change.path] = KnownFile(change.after, whole)

    def _learn_seen(self, seen: Seen) -> None:
        known = self.by_path.get(seen.path)
        follows = known is not None and (known.sha == seen.sha or seen.amended)
        seen_before = known is not None and known.whole and follows
        self.by_path[seen.path] = KnownFile(seen.sha, seen.whole or seen_before)
