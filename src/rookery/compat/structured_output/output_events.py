"""Translates a task's facts into the events of `--output-format json` and `stream-json`.

Both formats have the same rows with the same ids. `stream-json` streams the parts of each row and
reports when an answer is needed; `json` has only complete rows.
"""

from collections.abc import Iterator, Sequence

from rookery.compat.json_io.row_messages import tool_name
from rookery.compat.structured_output.call_rows import CallRows, Ids, Output, Speech, output
from rookery.core.asks import AskKind, as_json, required_action
from rookery.core.blocks import ToolCall
from rookery.core.event_list import events_after, newest, of_kind
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    CompletionOffered,
    Condensed,
    Event,
    Fact,
    Governed,
    Noted,
    OutputStreamed,
    RequestFailed,
    RequestStarted,
    Rewound,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.folds.run_tallies import Denials, GovernanceTally, added, paid_in

SCHEMA_VERSION = 1
PROTOCOL = "roo-cli-stream"
REASONS = {
    "task_aborted": "The run was ended before the task was complete.",
    "task_failed": "The task ended without being completed.",
    "timeout": "The run reached its time limit before the task was complete.",
}


def init(task_id: str = "", capabilities: Sequence[str] = ()) -> Output:
    """Return the first event of a process. `capabilities` are the commands that it accepts."""
    return output(
        type="system",
        subtype="init",
        taskId=task_id or None,
        content="Ready.",
        schemaVersion=SCHEMA_VERSION,
        protocol=PROTOCOL,
        capabilities=list(capabilities),
    )


class StructuredOutput:
    """The output of one task. Events up to `after` are read but not reported.

    An `automatic` run never reports that it waits. Tasks in one stream share `ids`.
    """

    def __init__(
        self,
        *,
        session_id: str,
        stream: bool,
        automatic: bool = False,
        after: int = 0,
        ids: Ids | None = None,
    ) -> None:
        self._session_id = session_id
        self._stream = stream
        self._automatic = automatic
        self._after = after
        self._ids = ids or Ids()
        self._speech = Speech(self._ids)
        self._calls = CallRows(self._ids, stream=stream)
        self._usage = Usage()
        self._completion: tuple[int, str] | None = None
        self._failure = ""
        self._governance = GovernanceTally()
        self._denials = Denials()
        self._ts = 0
        self.question_id: int | None = None
        """The row id of the latest question that blocks the task."""

    def see(self, event: Event) -> list[Output]:
        """Return the output for an event."""
        self._ts = event.ts
        self._count(event.fact)
        rows = list(self._outputs_for(event))
        if (event.seq, event.sub) <= (self._after, 0):
            self._denials.forget()
            self._calls.reannounce()
            return []
        return rows if self._stream else [one for one in rows if _is_complete(one)]

    def resume(self, stored: Sequence[Event]) -> None:
        """Take over what earlier runs stored. There may be very many events, so of those before
        the model's last words only the usage is read."""
        start = _last_words(stored)
        for event in of_kind(stored, AssistantSpoke, Condensed, Noted, RequestFailed):
            if event.seq > start:
                break
            self.see_of_child(event)
        for event in events_after(stored, start):
            self.see(event)

    def see_of_child(self, event: Event) -> None:
        """Count usage and denials of a sub-task, or of an earlier run. Its rows are not in this
        output."""
        self._count(event.fact)
        if isinstance(event.fact, AssistantSpoke):
            self._speech.latest = event.fact.words or self._speech.latest

    def _count(self, fact: Fact) -> None:
        self._governance.see(fact)
        self._denials.see(fact)
        if usage := paid_in(fact):
            self._usage = added(self._usage, usage)

    def settle(self, code: str | None = None, reason: str = "") -> list[Output]:
        """Return what is left before the result: ends of open rows, and the error, if any."""
        rows = list(self._close_all(self._ts))
        if code and not (code == "task_failed" and self._failure):
            rows.append(output(type="error", code=code, content=self._why(code, reason)))
        return rows

    def result(self, success: bool, code: str | None = None, reason: str = "") -> Output:
        """Return the last event of a run. Later results do not repeat its content."""
        ts, completion = self._completion or (None, "")
        content = completion or self._speech.latest
        self._completion, self._speech.latest = None, ""
        denials = self._denials.as_json()
        self._denials.forget()
        return output(
            type="result",
            id=ts,
            taskId=self._session_id or None,
            content=content or None,
            done=True,
            success=success,
            code=code,
            error=self._why(code, reason) if code else None,
            cost=_cost(self._usage),
            governance=self._governance.as_json(),
            permission_denials=denials,
        )

    def refusal(self, reason: str) -> Output:
        """Return the result of a message that a hook refused. It has no content: what the task
        wrote meanwhile belongs to other requests."""
        return output(
            type="result",
            taskId=self._session_id,
            done=True,
            success=False,
            code="governance_refused",
            error=reason,
            cost=_cost(self._usage),
            governance=self._governance.as_json(),
        )

    def _why(self, code: str, reason: str) -> str:
        """Return the reason for the failure as a sentence."""
        failure = self._failure if code == "task_failed" else ""
        return reason or failure or REASONS.get(code, f"The run ended with {code}.")

    def _outputs_for(self, event: Event) -> Iterator[Output]:
        ts = event.ts
        match event.fact:
            case TaskOpened(text=text) | UserSpoke(text=text):
                yield self.row(ts, "user", text)
            case Answered(text=text, by="user") if text:
                yield self.row(ts, "user", text)
            case RequestStarted():
                self._completion = None
                yield from self._close_all(ts)
            case TextStreamed(text=text):
                yield from self._speech.add("assistant", ts, text)
            case ThinkingStreamed(text=text):
                yield from self._speech.add("thinking", ts, text)
            case CallStreamed() as piece:
                self._speech.pause()
                yield from self._calls.add(ts, piece)
            case AssistantSpoke() as answer:
                yield from self._take_answer(ts, answer)
            case RequestFailed(error=error, message=message):
                yield from self._speech.close(ts)
                yield from self._calls.break_off(ts)
                yield self._error(ts, error, message)
            case Asked() as question:
                yield from self._ask(ts, question)
            case ToolStarted() as started:
                yield from self._calls.start(ts, started)
            case OutputStreamed(call_id=call_id, text=text):
                yield from self._calls.add_output(ts, call_id, text)
            case ToolFinished() as end:
                yield from self._calls.finish(ts, end)
            case CompletionOffered(result=result, spoken=spoken):
                # a text that was already reported keeps its id
                self._completion = ((spoken and self._speech.latest_id) or ts, result)
            case TaskReopened():
                self._failure = ""
            case TaskFailed(message=message):
                self._failure = message or REASONS["task_failed"]
                yield self._error(ts, "task_failed", message)
            case Noted(text=text):
                yield self.row(ts, "assistant", text, "note")
            case Rewound():
                self._completion = None
                yield from self._close_all(ts)
                self._calls.go_back()
            case _:
                pass

    def _close_all(self, ts: int) -> Iterator[Output]:
        yield from self._speech.close(ts)
        yield from self._calls.drop_all(ts)

    def _take_answer(self, ts: int, answer: AssistantSpoke) -> Iterator[Output]:
        yield from self._speech.close(ts, answer.blocks)
        calls = [block for block in answer.blocks if isinstance(block, ToolCall)]
        yield from self._calls.take(ts, () if answer.interrupted else calls)

    def _ask(self, ts: int, question: Asked) -> Iterator[Output]:
        match question:
            case Asked(ask=AskKind.COMMAND_OUTPUT):
                pass
            case Asked(call_id=call_id) if call_id and not self._is_text(question):
                yield from self._calls.ask(ts, question)
                yield from self._wait(self._calls.id_of(call_id), question.ask, question)
            case Asked(ask=AskKind.COMPLETION_RESULT, text=text):
                self._completion = (ts, text) if text else self._completion
                self.question_id = self._completion[0] if self._completion else ts
            case Asked(ask=ask, text=text):
                row = self.row(ts, "assistant", text, ask.value)
                yield row
                yield from self._wait(row["id"], ask)

    def _is_text(self, question: Asked) -> bool:
        """Whether a question of a call is reported as text. If a rule answers it, the call is
        reported instead, with the answer as its result."""
        return False

    def _wait(
        self, id: int | None, ask: AskKind, question: Asked | None = None
    ) -> Iterator[Output]:
        self.question_id = id
        if not self._automatic:
            action = required_action(ask)
            yield output(
                type="system",
                subtype="waiting",
                id=id,
                code=ask.value,
                content=action.value,
                asks=_governance(question) if question else None,
            )

    def row(self, ts: int, type: str, content: str, subtype: str | None = None) -> Output:
        id = self._ids.mint(ts)
        return output(type=type, subtype=subtype, id=id, content=content, done=True)

    def _error(self, ts: int, code: str, content: str) -> Output:
        return output(type="error", id=self._ids.mint(ts), code=str(code), content=content)


class DrivenOutput(StructuredOutput):
    """The output for a program that answers questions. Tools have the names that drivers of the
    Roo CLI know, such as `readFile`."""

    def __init__(self, *, session_id: str, after: int, ids: Ids) -> None:
        super().__init__(session_id=session_id, stream=True, after=after, ids=ids)
        self._names: dict[int, str] = {}
        """The names of open calls, by row id."""

    def see(self, event: Event) -> list[Output]:
        return [self._renamed(one) for one in super().see(event)]

    def settle(self, code: str | None = None, reason: str = "") -> list[Output]:
        return [self._renamed(one) for one in super().settle(code, reason)]

    def _renamed(self, row: Output) -> Output:
        if use := row.get("tool_use"):
            name = self._names[row["id"]] = tool_name(use["name"], use.get("input"))
            return {**row, "tool_use": {**use, "name": name}}
        if result := row.get("tool_result"):
            take = self._names.pop if "done" in row else self._names.get
            return {**row, "tool_result": {**result, "name": take(row["id"], result["name"])}}
        return row

    def _is_text(self, question: Asked) -> bool:
        return question.ask is AskKind.FOLLOWUP


def _last_words(stored: Sequence[Event]) -> int:
    """The event before the request that the model's last words answer; 0 if all events count."""
    if any(of_kind(stored, Governed)):
        return 0
    spoken = (event.seq for event in newest(stored, AssistantSpoke) if _has_words(event.fact))
    last = next(spoken, 0)
    return next((each.seq - 1 for each in newest(stored, RequestStarted) if each.seq < last), 0)


def _has_words(fact: Fact) -> bool:
    return isinstance(fact, AssistantSpoke) and bool(fact.words)


def _governance(question: Asked) -> Output | None:
    if question.governance is None:
        return None
    fields: Output = as_json(
        question.governance,
        approval_id=question.ask_id,
        binding=question.digest,
        diff=question.diff,
    )
    return fields


def _is_complete(row: Output) -> bool:
    return "done" in row or row["type"] == "error"


def _cost(usage: Usage) -> Output | None:
    if usage == Usage():
        return None
    return output(
        totalCost=None if usage.cost is None else round(usage.cost, 8),
        inputTokens=usage.tokens_in,
        outputTokens=usage.tokens_out,
        cacheWrites=usage.cache_writes or None,
        cacheReads=usage.cache_reads or None,
    )
