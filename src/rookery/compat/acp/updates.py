"""Facts of a session as `session/update` notifications.

Streamed text is passed on piece by piece; a whole answer adds only what was not streamed. When a
stored session is loaded, the messages of the user are repeated too. Sub-tasks appear as calls of
their session, and their words as thoughts.
"""

from collections.abc import Iterator, Sequence

from rookery.compat.acp.questions import question_notes
from rookery.compat.acp.requests import ClientCapabilities
from rookery.compat.acp.tool_calls import (
    LONGEST_OUTPUT,
    EditorCall,
    Wire,
    announced,
    content,
    ended,
    image_block,
    output_content,
    prepared,
    terminal_begin,
    terminal_content,
    terminal_end,
    terminal_output,
    text_block,
)
from rookery.core.blocks import Text, Thinking, ToolCall
from rookery.core.event_list import EventList, events_after, live, of_kind
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Condensed,
    Condensing,
    Event,
    Fact,
    FilesRestored,
    Noted,
    OutputStreamed,
    Pausing,
    RequestFailed,
    RequestStarted,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TextStreamed,
    ThinkingStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.folds.view import View, see, take, view_from, without_rows
from rookery.core.folds.view_start import view_start
from rookery.core.tool_traits import SPEAKING

PAUSE = 200
"""Milliseconds between two updates of a call's output."""
_UNSEEN_CALLS = {*SPEAKING, "update_todo_list", "present_plan"}
"""Calls that are shown as text or as the plan."""


def update(kind: str, /, **fields: object) -> Wire:
    return {"sessionUpdate": kind, **fields}


def said(text: str, message_id: str = "", *, thought: bool = False) -> Wire:
    kind = "agent_thought_chunk" if thought else "agent_message_chunk"
    known = {"messageId": message_id} if message_id else {}
    return update(kind, content=text_block(text), **known)


def plan(todos: Sequence[Todo]) -> Wire:
    entries = [
        {"content": each.content, "status": each.status, "priority": "medium"} for each in todos
    ]
    return update("plan", entries=entries)


class TaskUpdates:
    """The updates of one task: the session's own, or one of its sub-tasks."""

    def __init__(self, cwd: str, client: ClientCapabilities, *, child: str = "") -> None:
        """`child` is the id of a sub-task."""
        self._cwd = cwd
        self._client = client
        self._child = child
        self._streamed: set[tuple[str, bool]] = set()
        self._calls: dict[str, EditorCall] = {}
        self._told_usage: Wire = {}
        self._compactions = 0
        self._is_compacting = False
        self.view = View()

    def call_id(self, call_id: str) -> str:
        """The id of a call in the session: sub-tasks may repeat the ids of others."""
        return f"{self._child}/{call_id}" if self._child else call_id

    def load(self, stored: EventList, *, replay: bool) -> Iterator[Wire]:
        """Take over a stored session. With `replay`, return the updates of the conversation.
        Without it, only the end of a long one is read."""
        start, events = view_start(stored), live(stored)
        if not replay:
            self.view = view_from(start)
            cuts = of_kind(events, Condensed) if self._client.shows_compaction else ()
            self._compactions = sum(event.seq <= start.seq for event in cuts)
        for event in events if replay else events_after(events, start.seq):
            if event.seq <= start.seq + 1 and isinstance(event.fact, RequestStarted):
                self.view = without_rows(self.view)  # no update depends on them
            self.view = (take if event.seq <= start.seq else see)(self.view, event)
            updates = [*_user_said(event.fact), *self._updates(event)]
            yield from updates if replay else ()

    def see(self, event: Event) -> Iterator[Wire]:
        """Take an event and return its updates."""
        self.view = see(self.view, event)
        yield from self._updates(event)

    def _updates(self, event: Event) -> Iterator[Wire]:
        yield from self._from_model(event.fact)
        yield from self._from_tools(event)
        yield from self._from_engine(event.fact)

    def permission(self, asked: Asked) -> Wire:
        """The whole call that a question is about; a client may not have seen it before."""
        call = self._calls.get(asked.call_id)
        known = prepared(asked, self._cwd)
        shown = [*known.pop("content", ())]
        if notes := question_notes(asked):
            shown.append(content(text_block(notes)))
        if call and call.terminal:
            shown.append(terminal_content(call.terminal))
        return {
            **(call.about if call else {"title": asked.text, "kind": "other"}),
            **known,
            "toolCallId": self.call_id(asked.call_id or asked.ask_id),
            "status": "pending",
            **({"content": shown} if shown else {}),
        }

    def lacks_terminal(self, call_id: str) -> bool:
        """Whether a call is about to run a command whose output is sent as text."""
        call = self._calls.get(call_id)
        return call is not None and call.about["kind"] == "execute" and not call.terminal

    def show_in(self, call_id: str, terminal: str) -> None:
        """A terminal of the client shows the output of a call; if empty, it is sent as text."""
        if call := self._calls.get(call_id):
            call.viewer = terminal

    @property
    def holds_output(self) -> bool:
        return any(call.is_unsent for call in self._calls.values())

    def held_output(self) -> Iterator[Wire]:
        """Output that came too soon after an update."""
        for call_id, call in self._calls.items():
            if call.is_unsent:
                call.is_unsent = False
                yield self._update(call_id, **_live_output(call))

    def usage(self) -> list[Wire]:
        """The use of the context window, if it changed and its size is known."""
        used = self.view.usage
        if self._child or not (self.view.window and used.context_tokens):
            return []
        cost = {"cost": {"amount": round(used.cost, 6), "currency": "USD"}} if used.cost else {}
        told = update("usage_update", used=used.context_tokens, size=self.view.window, **cost)
        if told == self._told_usage:
            return []
        self._told_usage = told
        return [told]

    def _from_model(self, fact: Fact) -> Iterator[Wire]:
        match fact:
            case TextStreamed(request_id=request_id, text=text):
                self._streamed.add((request_id, False))
                yield self._said(text, request_id)
            case ThinkingStreamed(request_id=request_id, text=text):
                self._streamed.add((request_id, True))
                yield said(text, f"{request_id}-thought", thought=True)
            case AssistantSpoke(request_id=request_id) as answer:
                yield from self._unstreamed(answer)
                self._streamed -= {(request_id, False), (request_id, True)}
                if not answer.interrupted:
                    calls = (block for block in answer.blocks if isinstance(block, ToolCall))
                    shown = (each for each in calls if each.name not in _UNSEEN_CALLS)
                    yield from map(self._announce, shown)
                yield from self.usage()
            case CompletionOffered(result=result, spoken=False) if not self._child:
                yield said(result)
            case _:
                pass

    def _unstreamed(self, answer: AssistantSpoke) -> Iterator[Wire]:
        for block in answer.blocks:
            match block:
                case Text(text=text) if (answer.request_id, False) not in self._streamed:
                    yield self._said(text, answer.request_id)
                case Thinking(text=text) if text:
                    if (answer.request_id, True) not in self._streamed:
                        yield said(text, f"{answer.request_id}-thought", thought=True)
                case _:
                    pass

    def _said(self, text: str, request_id: str) -> Wire:
        return said(text, request_id, thought=bool(self._child))

    def _announce(self, call: ToolCall) -> Wire:
        shown = announced(call, self.call_id(call.id), self._cwd)
        made = self._calls[call.id] = EditorCall(about=shown, diffs=[])
        if not (self._client.shows_terminals and shown["kind"] == "execute"):
            return update("tool_call", **shown)
        made.terminal = shown["toolCallId"]
        return update("tool_call", **shown, **terminal_begin(made.terminal, self._cwd))

    def _from_tools(self, event: Event) -> Iterator[Wire]:
        match event.fact:
            case Asked(call_id=call_id) | ToolStarted(call_id=call_id) as about if (
                call := self._calls.get(call_id)
            ):
                known = prepared(about, self._cwd)
                call.diffs = known.get("content", call.diffs)
                if isinstance(about, ToolStarted):
                    known["status"] = "in_progress"
                    call.began = True
                    if terminal := call.terminal or call.viewer:
                        known["content"] = [terminal_content(terminal)]
                yield self._update(call_id, **known)
            case OutputStreamed(call_id=call_id, text=text) if call := self._calls.get(call_id):
                call.output = (call.output + text)[-LONGEST_OUTPUT:]
                call.is_unsent = not call.viewer
                if call.is_unsent and event.ts - call.sent_at >= PAUSE:
                    call.sent_at = event.ts
                    yield from self.held_output()
            case ToolFinished(call_id=call_id) as end if call_id in self._calls:
                yield self._update(call_id, **ended(self._calls.pop(call_id), end))
            case StepCancelled() | TaskClosed() | TaskFailed():
                yield from self._stopped()
            case _:
                pass

    def _update(self, call_id: str, **fields: object) -> Wire:
        return update("tool_call_update", toolCallId=self.call_id(call_id), **fields)

    def _stopped(self) -> Iterator[Wire]:
        """Calls that have no result, and never get one from this turn."""
        calls, self._calls = self._calls, {}
        for call_id, call in calls.items():
            shown = terminal_end(call.terminal, call.output, None) if call.terminal else {}
            yield self._update(call_id, status="failed", **shown)

    def _from_engine(self, fact: Fact) -> Iterator[Wire]:
        match fact:
            case TodosChanged(todos=todos) if not self._child:
                yield plan(todos)
            case FilesRestored(paths=paths, count=count, kept=kept):
                yield said(_restored(paths, count, kept))
            case Noted(text=text):
                yield self._notice(text)
            case RequestFailed(message=message):
                yield self._notice(message, "warning")
            case Pausing(seconds=seconds, paced=False) if seconds >= 1:
                yield self._notice(f"Trying again in {round(seconds)} s.")
            case Condensing() if self._client.shows_compaction:
                yield self._compaction("in_progress")
            case Condensed(summary=summary) if self._client.shows_compaction:
                shown = {"summary": [text_block(summary)]} if summary else {}
                yield self._compaction("completed", **shown)
            case StepCancelled() if self._is_compacting:
                yield self._compaction("cancelled")
            case _:
                pass

    def _notice(self, text: str, severity: str = "info") -> Wire:
        if self._client.shows_notices:
            return update("notice", severity=severity, title=text)
        return said(f"{text}\n\n", thought=True)

    def _compaction(self, status: str, **fields: object) -> Wire:
        self._compactions += 0 if self._is_compacting else 1
        self._is_compacting = status == "in_progress"
        name = f"compaction-{self._compactions}"
        return update("compaction_update", compactionId=name, status=status, **fields)


def _live_output(call: EditorCall) -> Wire:
    if call.terminal:
        text, call.output = call.output, ""
        return terminal_output(call.terminal, text)
    return {"content": [*call.diffs, *output_content(call.output, plain=call.is_plain)]}


def _restored(paths: Sequence[str], count: int, kept: Sequence[str]) -> str:
    more = count - len(paths)
    names = ", ".join([*paths, *([f"{more} more"] if more > 0 else [])]) or "nothing"
    left = f" Skipped, because someone else changed them: {', '.join(kept)}."
    return f"Restored: {names}.{left if kept else ''}\n\n"


def _user_said(fact: Fact) -> Iterator[Wire]:
    match fact:
        case (
            TaskOpened(text=text, images=images)
            | UserSpoke(text=text, images=images)
            | Answered(by="user", text=text, images=images)
        ):
            blocks = [text_block(text)] if text.strip() else []
            for block in (*blocks, *map(image_block, images)):
                yield update("user_message_chunk", content=block)
        case _:
            pass
