"""The transcript that clients show, folded from a task's events.

After every event, for any log: an open question that stops the loop is the last row; once a task
has stopped, no row is incomplete; and the row of an ended request says that it ended. So clients
can derive the state of a task from its last row.

A row's `ts` is that of the event that made it, or slightly later if one event makes several rows,
and never changes.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from rookery.core.asks import is_non_blocking_ask
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CallStreamed,
    CheckpointSaved,
    CommandEnded,
    CompletionOffered,
    Condensed,
    Ending,
    Event,
    Fact,
    FilesRestored,
    Noted,
    OfferWithdrawn,
    OutputStreamed,
    Pausing,
    QueueChange,
    QueueEdited,
    RequestFailed,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    queue_after,
    queue_with,
)
from rookery.core.folds.answer_rows import (
    Request,
    begin_request,
    break_off,
    end_request,
    is_worth_showing,
    last_words,
    settle_answer,
    settles,
    stream_call,
    stream_text,
)
from rookery.core.folds.rows import NOTHING, Rows, Sheet, without
from rookery.core.folds.run_tallies import Totals, plus
from rookery.core.folds.view_start import state_with
from rookery.core.message import Message, Outcome, Pieces, call_text
from rookery.core.queries import ViewState
from rookery.core.replies import restored_files, sentence_in
from rookery.core.tool_traits import SPEAKING

BROWSER_TOOL = "browser_action"
PROCESS_ENDED = "The process ended before the answer was complete."
ANSWER_MISSING = "The answer was never completed."
_OUTCOMES: dict[Ending, Outcome] = {
    Ending.DENIED: "denied",
    Ending.FAILED: "failed",
    Ending.MISTAKEN: "failed",
    Ending.UNKNOWN: "failed",
}


class Transcript:
    """The rows so far, the queued messages, the usage, and what else a view has.

    Copying is cheap. The data for rewinding is kept per lasting event.
    """

    __slots__ = (
        "_outputs",
        "_past",
        "_request",
        "_running",
        "_said",
        "_sheet",
        "_shown",
        "_spoken",
        "_waiting",
        "state",
        "usage",
    )

    def __init__(self) -> None:
        self.usage = Totals()
        self.state = ViewState()
        self._sheet = Sheet()
        self._past: tuple[int, Transcript] | None = None
        self._request: Request | None = None
        self._said: QueueChange | None = None
        self._waiting: Mapping[str, UserSpoke] = {}
        self._shown: Mapping[str, int] = {}
        self._spoken: int | None = None
        """The row with the last text of the last answer."""
        self._outputs: Mapping[str, int] = {}
        self._running: Mapping[str, ToolStarted] = {}

    @property
    def messages(self) -> Rows[Message]:
        return self._sheet.rows

    @property
    def queue(self) -> tuple[UserSpoke, ...]:
        """The messages that the model has not got yet."""
        return tuple(self._waiting.values())

    @property
    def speaking(self) -> bool:
        """Whether a request is in progress."""
        return self._request is not None

    @property
    def open_ask(self) -> Message | None:
        """The question that stops the loop, or else an offer that can be answered."""
        if self._sheet.question is not None:
            return self._sheet.row(self._sheet.question)
        return next((row for row in reversed(self._sheet.open_rows()) if not row.partial), None)

    def copy(self) -> "Transcript":
        other = Transcript()
        other._copy_from(self)
        return other

    def add(self, event: Event, *, going_back: bool = True) -> None:
        self._sheet.event = event
        question = self._sheet.question
        if question is not None and settles(event.fact, row := self._sheet.row(question)):
            self._sheet.close(row)
            if isinstance(event.fact, Condensed) and row.call_id:
                self._forget_row(row)  # the call is asked about again
        self._apply(event.fact)
        self.state = state_with(self.state, event.fact)
        if event.fact.lasting:
            self._past = (event.seq, self._kept()) if going_back else None

    def let_go(self) -> list[Message]:
        """Remove all rows but the last one, and return them."""
        return self._sheet.let_go()

    def _apply(self, fact: Fact) -> None:
        sheet = self._sheet
        match fact:  # the most frequent of a stored session first
            case RequestStarted():
                self._begin_request(fact)
            case AssistantSpoke():
                self._end_answer(fact)
            case ToolStarted():
                self._start_tool(fact)
            case ToolFinished():
                self._finish_tool(fact)
            case CheckpointSaved(id=id):
                sheet.say("checkpoint_saved", id)
            case TaskOpened(text=text, images=images):
                sheet.say("text", text, images=images)
            case UserSpoke() | QueueEdited():
                self._waiting = queue_with(self._waiting, fact)
                self._said = QueueChange(fact, self._said) if self._waiting else None
            case TextStreamed(request_id=request_id, text=text):
                if request := self._under_way(request_id):
                    self._request = stream_text(sheet, request, "text", text)
            case ThinkingStreamed(request_id=request_id, text=text):
                if request := self._under_way(request_id):
                    self._request = stream_text(sheet, request, "reasoning", text)
            case CallStreamed(request_id=request_id):
                if request := self._under_way(request_id):
                    self._request = stream_call(sheet, request, fact)
            case RequestFailed(request_id=request_id):
                if self._under_way(request_id):
                    self._end_request(fact.usage, "streaming_failed", fact.message)
            case Asked():
                self._put_question(fact)
            case Answered():
                self._take_answer(fact)
            case OfferWithdrawn(ask_id=ask_id):
                self._close_ask(ask_id)
            case OutputStreamed(call_id=call_id, text=text):
                self._append_output(call_id, text)
            case CompletionOffered(spoken=True) if self._spoken is not None:
                sheet.rewrite(replace(sheet.row(self._spoken), say="completion_result"))
                self._spoken = None
            case CompletionOffered(result=result):
                self._offer_completion(result)
            case Pausing(seconds=seconds, paced=True):
                sheet.pace(seconds)
            case Pausing(reason=reason, seconds=seconds):
                sheet.count_down(reason, seconds)
            case Condensed(summary=summary, usage=usage):
                self.usage = plus(self.usage, replace(usage, tokens_in=0, tokens_out=0))
                kind = "condense_context" if summary else "sliding_window_truncation"
                sheet.say(kind, summary or None)
            case Noted(text=text) | CommandEnded(text=text):
                if isinstance(fact, Noted) and fact.usage:
                    self.usage = plus(self.usage, replace(fact.usage, tokens_in=0, tokens_out=0))
                sheet.say("note", text)
            case FilesRestored():
                sheet.say("note", restored_files(fact))
            case StepCancelled() | TaskClosed():
                self._stop("user_cancelled")
            case TaskReopened():
                self._stop("streaming_failed", PROCESS_ENDED)
            case TaskFailed(message=message):
                self._stop("streaming_failed", message)
                sheet.say("error", message)
            case Rewound(to=to):
                self._rewind(to)
            case _:
                pass

    def _under_way(self, request_id: str) -> Request | None:
        request = self._request
        return request if request and request.id == request_id else None

    def _begin_request(self, fact: RequestStarted) -> None:
        self._stop("streaming_failed", ANSWER_MISSING)
        for spoken in self.queue:
            self._sheet.say("user_feedback", spoken.text, images=spoken.images)
        self._said, self._waiting, self._spoken = None, {}, None
        self._request = begin_request(self._sheet, fact)

    def _end_answer(self, fact: AssistantSpoke) -> None:
        request = self._under_way(fact.request_id)
        row = settle_answer(self._sheet, request.streamed if request else (), fact)
        self._shown = {row.call_id: row.ts} if row else {}
        self._spoken = last_words(self._sheet, fact)
        if request:
            self._request = replace(request, streamed=())
            self._end_request(fact.usage, "user_cancelled" if fact.interrupted else None)

    def _end_request(
        self, usage: Usage, reason: str | None = None, message: str | None = None
    ) -> None:
        assert self._request
        break_off(self._sheet, self._request)
        end_request(self._sheet, self._request, usage, reason, message)
        self.usage = plus(self.usage, usage)
        self._request = None

    def _put_question(self, fact: Asked) -> None:
        sheet = self._sheet
        row = replace(
            sheet.new("ask", fact.ask, fact.text),
            ask_id=fact.ask_id,
            call_id=fact.call_id,
            digest=fact.digest,
            title=fact.title,
            diff=fact.diff,
            where=fact.where,
            notes=fact.notes,
            rule=fact.rule,
            governance=fact.governance,
        )
        begun = self._begun_question(fact)
        if begun and begun is sheet.last:
            row = replace(row, ts=begun.ts, seq=begun.seq)
            sheet.rewrite(row)
        else:
            if begun:
                sheet.remove(begun.ts)
            row = sheet.append(row)
        if fact.call_id:
            self._shown = {**self._shown, fact.call_id: row.ts}
        if not is_non_blocking_ask(fact.ask):
            sheet.question = row.ts

    def _begun_question(self, fact: Asked) -> Message | None:
        """The row in which this question has been streaming, if any."""
        if self._request:
            return None  # its rows belong to an answer that is not complete
        shown, last = self._shown_row(fact.call_id), self._sheet.last
        if shown and shown.partial and shown.type == "ask":
            return shown
        return last if last and last.partial and last.ask == fact.ask else None

    def _take_answer(self, fact: Answered) -> None:
        self._close_ask(fact.ask_id)
        if fact.by == "user" and (fact.text or fact.images):
            self._sheet.say("user_feedback", fact.text, images=fact.images)

    def _close_ask(self, ask_id: str) -> None:
        for row in self._sheet.open_rows():
            if row.type == "ask" and not row.partial and row.ask_id == ask_id:
                self._sheet.close(row)

    def _shown_row(self, call_id: str) -> Message | None:
        ts = self._shown.get(call_id)
        return None if ts is None else self._sheet.row(ts)

    def _start_tool(self, fact: ToolStarted) -> None:
        sheet = self._sheet
        self._running = {**self._running, fact.call_id: fact}
        if fact.tool in SPEAKING:
            return  # a question or a result in words is shown when it is put
        row = self._shown_row(fact.call_id)
        if row and row.open:
            content = (fact.text or row.content) if row.partial else row.content
            sheet.close(replace(row, content=content, title=fact.title))
        elif row is None:
            text = fact.text or fact.command or call_text(fact.tool, {})
            row = replace(sheet.new("ask", fact.ask, text), call_id=fact.call_id, title=fact.title)
            row = sheet.append(replace(row, answered=True))
            if sheet.last is row:
                self._shown = {**self._shown, fact.call_id: row.ts}

    def _append_output(self, call_id: str, text: str) -> None:
        if call_id in self._outputs:
            self._sheet.extend(self._outputs[call_id], text)
        elif text and call_id in self._running and self._sheet.question is None:
            row = self._sheet.say("command_output", Pieces(text), partial=True, call_id=call_id)
            self._outputs = {**self._outputs, call_id: row.ts}

    def _finish_tool(self, fact: ToolFinished) -> None:
        sheet, asked = self._sheet, self._shown_row(fact.call_id)
        started = self._running.get(fact.call_id)
        if asked and asked.partial:
            self._drop_unfinished(asked)
        self._note_outcome(fact)
        if fact.call_id in self._outputs:
            sheet.close(sheet.row(self._outputs[fact.call_id]))
        elif started and started.command and fact.text:
            sheet.say("command_output", fact.text, call_id=fact.call_id)
        elif started and started.tool == BROWSER_TOOL and fact.ending is Ending.DONE:
            sheet.say("browser_action_result", fact.text, images=fact.images, call_id=fact.call_id)
        elif is_worth_showing(fact, asked):
            sheet.say("error", sentence_in(fact.text) or fact.text, call_id=fact.call_id)
        self._shown = without(self._shown, fact.call_id)
        self._running = without(self._running, fact.call_id)
        self._outputs = without(self._outputs, fact.call_id)

    def _note_outcome(self, fact: ToolFinished) -> None:
        row, outcome = self._shown_row(fact.call_id), _OUTCOMES.get(fact.ending, "")
        if row and row.type == "ask" and outcome:
            self._sheet.rewrite(replace(row, outcome=outcome))

    def _drop_unfinished(self, row: Message) -> None:
        """Drop the row of a call that ended before it was shown as a question."""
        if row.type == "ask":
            self._sheet.close(row)
        else:
            self._forget_row(row)

    def _forget_row(self, row: Message) -> None:
        self._sheet.remove(row.ts)
        self._shown = without(self._shown, row.call_id)

    def _offer_completion(self, result: str) -> None:
        last = self._sheet.last
        if last and last.partial and last.say == "completion_result" and not self._request:
            self._sheet.close(replace(last, content=result))
        else:
            self._sheet.say("completion_result", result)

    def _stop(self, reason: str, message: str | None = None) -> None:
        """Complete all rows and close all questions."""
        if self._request:
            self._end_request(Usage(), reason, message)
        self._sheet.close_all()
        self._shown, self._outputs, self._running = {}, {}, {}

    def _kept(self) -> "Transcript":
        """A copy without what a rewind stops anyway or can rebuild."""
        kept = self.copy()
        kept._shown = kept._outputs = kept._running = kept._waiting = NOTHING
        return kept

    def _rewind(self, to: int) -> None:
        """Show what was shown after event `to`. Later rows stay in the past, so that one can go
        back to them."""
        everything = past = self._past
        while past and past[0] > to:
            past = past[1]._past
        before = past[1] if past else Transcript()
        sheet = self._sheet.as_it_was(before._sheet)
        self._copy_from(before)
        self._sheet, self._past = sheet, everything
        self._waiting = queue_after(self._said)
        self._stop("user_cancelled")

    def _copy_from(self, other: "Transcript") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))
        self._sheet = other._sheet.copy()
