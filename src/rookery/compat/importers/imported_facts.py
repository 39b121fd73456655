"""Entries of another agent's session as our events.

The log is one that our own loop could have written, so that every fold takes it: each answer
follows a request, and each call has one result, before the next answer. Tools keep the names that
the other agent gave them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from rookery.compat.importers.foreign_sessions import (
    AgentEntry,
    Entry,
    ForeignSession,
    Problems,
    ResultEntry,
    RewindEntry,
    SummaryEntry,
    UserEntry,
)
from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Condensed,
    Ending,
    Event,
    Fact,
    Gathered,
    Noted,
    Reminded,
    RequestStarted,
    Rewound,
    StopReason,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    next_event,
)
from rookery.core.folds.run_tallies import added
from rookery.core.instructions import points_somewhere

NO_RESULT = "No result of this call was recorded."
NO_PROMPT = "Imported session"
OTHER_AGENT = (
    "The conversation up to here was with another agent, {agent}. Its tools may have had other "
    "names: use only the tools you have now. Files may have changed since; read them again before "
    "you change them."
)
_LIMITS_START_AGAIN = (
    Asked(ask_id="imported", ask=AskKind.AUTO_APPROVAL_MAX_REQ_REACHED),
    Answered(
        ask_id="imported", ask=AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, reply="yes", by="policy"
    ),
)
"""What the other agent has used does not count towards the limits of a run here."""
_MAIN_ARGUMENTS = (
    *("command", "cmd", "file_path", "filePath", "absolute_path", "path", "pattern", "query"),
    *("url", "description"),
)
_COMMANDS = ("command", "cmd")
_LONGEST_TITLE = 200


def imported_events(
    session: ForeignSession, agent: str, entries: Iterable[Entry], workspace: str, note: Problems
) -> Iterator[Event]:
    """The events of a session; none if it has no message. Reads the entries one by one."""
    log = _ImportedLog(session, workspace, note)
    for entry in entries:
        yield from log.take(entry)
    yield from log.end(agent)


class _ImportedLog:
    def __init__(self, session: ForeignSession, workspace: str, problems: Problems) -> None:
        self._session = session
        self._workspace = workspace
        self._problems = problems
        self._last: Event | None = None
        self._ts = 0
        self._answer: list[AgentEntry] = []
        self._open: dict[str, ToolCall] = {}
        self._counted: set[str] = set()
        self._owed = Usage()
        self._requests = 0
        self._words = ""
        self._before_messages: list[int] = []
        """The last event before each of the user's messages."""

    def take(self, entry: Entry) -> Iterator[Event]:
        if isinstance(entry, AgentEntry):
            self._answer.append(entry)
            return
        yield from self._flush()
        self._ts = entry.ts or self._ts
        match entry:
            case UserEntry() if entry.text.strip() or entry.images:
                yield from self._say(entry)
            case ResultEntry(call_id=call_id) if call_id in self._open:
                yield from self._finish(self._open.pop(call_id), entry)
            case ResultEntry(call_id=call_id):
                self._problems.add(f"result of {call_id}", "its call is missing")
            case SummaryEntry():
                yield from self._condense(entry)
            case RewindEntry(messages=count) if count and self._last:
                yield from self._rewind(count)
            case _:
                pass

    def end(self, agent: str) -> Iterator[Event]:
        yield from self._flush()
        yield from self._close_calls()
        if self._last is None:
            return
        if self._words:
            yield self._event(CompletionOffered(result=self._words, spoken=True))
        for fact in _LIMITS_START_AGAIN:
            yield self._event(fact)
        yield self._event(Reminded(text=OTHER_AGENT.format(agent=agent)))
        yield self._event(Noted(text=f"Imported from {agent}, session {self._session.id}."))

    def _event(self, fact: Fact) -> Event:
        self._last = next_event(self._last, fact, self._ts or self._session.updated)
        return self._last

    def _open_task(self, entry: UserEntry | None = None) -> Iterator[Event]:
        """Begin the log, with the title if the first message is missing."""
        title = self._session.title.strip()
        said = entry or UserEntry(text=title or NO_PROMPT)
        opened = TaskOpened(
            text=said.text,
            images=said.images,
            workspace=self._workspace,
            title="" if title in said.text else title,
        )
        yield from self._with_mentions(opened, said.text)

    def _say(self, entry: UserEntry) -> Iterator[Event]:
        self._words = ""
        if self._last is None:
            yield from self._open_task(entry)
            return
        self._before_messages.append(self._last.seq)
        message_id = f"imported-{self._last.seq}"
        spoken = UserSpoke(message_id=message_id, text=entry.text, images=entry.images)
        yield from self._with_mentions(spoken, entry.text)

    def _with_mentions(self, fact: Fact, text: str) -> Iterator[Event]:
        """The other agent resolved its mentions. Without a fact about it, they would be resolved
        again."""
        yield self._event(fact)
        if points_somewhere(text):
            yield self._event(Gathered())

    def _flush(self) -> Iterator[Event]:
        """Write the answer that was collected, if it says anything."""
        parts, self._answer = self._answer, []
        blocks = tuple(block for part in parts for block in _without_blank(part.blocks))
        self._owed = added(self._owed, self._usage(parts))
        if not blocks:
            return
        yield from self._close_calls()
        self._ts = next((part.ts for part in parts if part.ts), self._ts)
        if self._last is None:
            yield from self._open_task()
        self._requests += 1
        request_id = f"imported-{self._requests}"
        model = next((part.model for part in parts if part.model), "")
        yield self._event(RequestStarted(request_id=request_id, model=model))
        calls = {block.id: block for block in blocks if isinstance(block, ToolCall)}
        yield self._event(
            AssistantSpoke(
                request_id=request_id,
                blocks=tuple(_once(blocks)),
                stop=StopReason.CALLS if calls else StopReason.END,
                usage=self._owed,
            )
        )
        self._open, self._owed = calls, Usage()
        texts = [block.text for block in blocks if isinstance(block, Text)]
        self._words = "" if calls else "\n\n".join(texts)

    def _usage(self, parts: Iterable[AgentEntry]) -> Usage:
        """What the parts have used. Of parts that repeat a request's usage, the last one counts."""
        used = {part.request or str(place): part for place, part in enumerate(parts)}
        total = Usage()
        for key, part in used.items():
            if not part.request or key not in self._counted:
                total = added(total, part.usage)
            if part.request:
                self._counted.add(key)
        return total

    def _finish(self, call: ToolCall, end: ResultEntry) -> Iterator[Event]:
        self._words = ""
        yield self._event(_started(call))
        ending = Ending.FAILED if end.failed else Ending.DONE
        yield self._event(
            ToolFinished(call_id=call.id, text=end.text, images=end.images, ending=ending)
        )

    def _close_calls(self) -> Iterator[Event]:
        """Give a result to calls that have none, so that nothing waits for them."""
        for call in self._open.values():
            yield self._event(_started(call))
            yield self._event(ToolFinished(call_id=call.id, text=NO_RESULT, ending=Ending.UNKNOWN))
        self._open = {}

    def _condense(self, entry: SummaryEntry) -> Iterator[Event]:
        yield from self._close_calls()
        if self._last is None:
            yield from self._open_task()
        assert self._last
        upto = self._last.seq
        self._words = ""
        yield self._event(Condensed(upto=upto, words=upto, summary=entry.text))

    def _rewind(self, count: int) -> Iterator[Event]:
        yield from self._close_calls()
        to = ([1] * count + self._before_messages)[-count]
        del self._before_messages[-count:]
        self._words = ""
        yield self._event(Rewound(to=to))


def _without_blank(blocks: Iterable[Text | ToolCall]) -> Iterator[Text | ToolCall]:
    return (block for block in blocks if not isinstance(block, Text) or block.text.strip())


def _once(blocks: Iterable[Text | ToolCall]) -> Iterator[Text | ToolCall]:
    """Without calls that repeat the id of an earlier one, which could not have a result."""
    known: set[str] = set()
    for block in blocks:
        if isinstance(block, ToolCall):
            if block.id in known:
                continue
            known.add(block.id)
        yield block


def _started(call: ToolCall) -> ToolStarted:
    command = _argument(call, _COMMANDS)
    return ToolStarted(
        call_id=call.id,
        tool=call.name,
        title=_title(call),
        ask=AskKind.COMMAND if command else AskKind.TOOL,
        text=command or json.dumps({**call.arguments, "tool": call.name}, default=str),
        command=command,
    )


def _title(call: ToolCall) -> str:
    """The tool's name and its main argument, for lists and searches."""
    main = _argument(call, _MAIN_ARGUMENTS)
    return f"{call.name}: {main}"[:_LONGEST_TITLE] if main else call.name


def _argument(call: ToolCall, names: Sequence[str]) -> str:
    """The first of these arguments that the call has, in words."""
    value = next((call.arguments[name] for name in names if name in call.arguments), "")
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else ""
