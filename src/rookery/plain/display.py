"""Prints the facts of a session line by line, on a terminal or to a file.

Text from the model, a tool or a command must pass through `harmless` or `harmless_line` before it
is written.
"""

import json
from functools import cached_property
from typing import TYPE_CHECKING

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Asked,
    AssistantSpoke,
    CallStreamed,
    CommandDetached,
    CommandEnded,
    CommandQuiet,
    CompletionOffered,
    Condensing,
    Ending,
    Event,
    Fact,
    FilesChanged,
    FilesRestored,
    ModelSwitched,
    ModeSwitched,
    Noted,
    OutputStreamed,
    Pausing,
    RequestFailed,
    RequestStarted,
    Rewound,
    SavingFiles,
    StepCancelled,
    TaskFailed,
    TaskOpened,
    TextStreamed,
    ThinkingStreamed,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    Waiting,
)
from rookery.core.folds.run_tallies import added, paid_in
from rookery.core.modes import GUARD, Level
from rookery.core.replies import STOPPED_BY_USER, denied, new_problems, restored_files, sentence_in
from rookery.core.text.terminal_text import harmless, harmless_line, lines_in_gap, shortened
from rookery.core.tool_traits import SPEAKING
from rookery.first_use import lazy_pattern
from rookery.plain.screen import LINE_LENGTH, OUTPUT_LINES, ModelText, OutputExcerpt, Screen
from rookery.protocol.attend import BESIDE_A_QUESTION
from rookery.protocol.codec import followup

if TYPE_CHECKING:
    from rookery.plain.agent_lines import AgentLines
    from rookery.plain.markdown_stream import MarkdownStream, StyledSpan

MAX_CALL_LENGTH = 120

_TEXT_TOOLS = SPEAKING | {"update_todo_list"}
"""Tools that only produce text, which is shown anyway, so their calls are not."""

_CARRIAGE_RETURN = lazy_pattern(r"\r+\n?")
"""A progress line that overwrites itself with carriage returns is shown as one line per update."""

_BOXES = {"completed": "[x]", "in_progress": "[-]", "pending": "[ ]"}


class PlainDisplay:
    """Prints facts as they arrive."""

    def __init__(
        self, screen: Screen, *, shows_result: bool, output_lines: int = OUTPUT_LINES
    ) -> None:
        """`output_lines` of a command are shown as they arrive, and of the others the last."""
        self._screen = screen
        self._agents: AgentLines | None = None
        """Set once the session has started agents."""
        self._output_lines = output_lines
        self._shows_result = shows_result
        self._arguments = 0
        self._output = OutputExcerpt()
        self._retry_announced = False
        """Whether the next attempt of the request was already announced."""
        self._attempt = 1
        self._title = ""
        """Title of the last question."""
        self._pending_calls: dict[str, str] = {}
        """Description of each call of the last answer that has not started, by call id."""
        self._result_pending = False
        """Whether a result was offered that is not shown yet."""
        self._is_idle = False
        """Whether the task is completed and asks what else to do."""
        self._question = ""
        """The last follow-up question of the model."""
        self._seq = 0
        self._busy = ""
        self._busy_since: float | None = None
        self.model_text = ModelText()
        self.result = ""
        self.failure = ""
        """The last failure that was shown."""
        self.usage = Usage()

    def show(self, event: Event, child: str = "") -> None:
        if child:
            self._show_of_child(child, event)
            return
        self._seq = event.seq
        self._update_busy(event.fact)
        self._write_or_hold(event.fact)
        self._show_agents(event.fact)
        if isinstance(event.fact, BESIDE_A_QUESTION):
            self._screen.repeat_question()
        else:
            asked = event.fact
            self._is_idle = isinstance(asked, Asked) and asked.ask is AskKind.COMPLETION_RESULT

    def _write_or_hold(self, fact: Fact) -> None:
        """Print a fact; if the result is printed elsewhere, hold back streamed text until a
        later fact shows that it is not the result."""
        self.model_text.update(fact)
        if released := self.model_text.release(fact):
            self._screen.prose("text", harmless(released))
            self._screen.end_line()
        if isinstance(fact, TextStreamed) and not self._shows_result:
            self.model_text.hold(fact.text)
        else:
            self._write(fact)

    def _show_of_child(self, task_id: str, event: Event) -> None:
        screen, paint = self._screen, self._screen.paint
        if self._agents and self._agents.show_of(task_id, event.fact):
            self._count(event.fact)
            return
        self.model_text.update(event.fact)
        match event.fact:
            case TaskOpened(text=text, mode=mode):
                first = harmless_line(text.strip().partition("\n")[0])[:LINE_LENGTH]
                screen.line(paint.cyan(f"▸ sub-task in {harmless_line(mode)} mode: {first}"))
            case CompletionOffered(result=result, spoken=spoken):
                outcome = "sub-task done" if spoken else harmless(result)
                screen.line(f"{paint.cyan('◂')} {outcome}")
            case fact:
                self._update_busy(fact)
                self._write(fact)

    def _show_agents(self, fact: Fact) -> None:
        if isinstance(fact, ToolStarted) and fact.agents and self._agents is None:
            from rookery.plain.agent_lines import AgentLines

            self._agents = AgentLines(self._screen)
        if self._agents:
            self._agents.show(fact)

    def _count(self, fact: Fact) -> None:
        if usage := paid_in(fact):
            self.usage = added(self.usage, usage)

    def tick(self, now: float) -> None:
        """Show what the session is waiting for and for how long. Called at regular intervals."""
        if not self._busy or self._screen.busy:
            self._busy_since = None
            return
        self._busy_since = self._busy_since or now
        if seconds := int(now - self._busy_since):
            self._screen.status(f"  {self._busy} … {seconds} s (Ctrl-C stops)")

    def _update_busy(self, fact: Fact) -> None:
        match fact:
            case RequestStarted(model=model):
                self._busy = f"waiting for {harmless_line(model)}"
            case ToolStarted(command=command) if command:
                self._busy = "running"
            case SavingFiles():
                self._busy = "saving files for undo"
            case TextStreamed() if not self._shows_result:
                if self._busy == "answering":
                    return
                self._busy = "answering"
            case Waiting() | OutputStreamed() | CommandQuiet() | FilesChanged() | Noted():
                return
            case _:
                self._busy = ""
        self._busy_since = None

    def _write_text(self, text: str) -> None:
        """Print text of the model; on a terminal its Markdown is styled."""
        if not self._screen.is_live:
            self._screen.prose("text", harmless(text))
            return
        self._write_spans(self._markdown.add(harmless(text), self._screen.width))

    def _end_text(self) -> None:
        if self._screen.is_live:
            self._write_spans(self._markdown.finish(self._screen.width))

    @cached_property
    def _markdown(self) -> "MarkdownStream":
        from rookery.plain.markdown_stream import MarkdownStream

        return MarkdownStream(self._screen.paint)

    def _write_spans(self, spans: "list[StyledSpan]") -> None:
        for span in spans:
            put = self._screen.verbatim if span.verbatim else self._screen.prose
            put("text", span.text)

    def _write(self, fact: Fact) -> None:
        screen, paint = self._screen, self._screen.paint
        if not isinstance(fact, TextStreamed | Waiting):
            self._end_text()
        self._count(fact)
        match fact:
            case TextStreamed(text=text) if text:
                self._write_text(text)
            case ThinkingStreamed(text=text) if text:
                screen.prose("thinking", harmless(text), paint.dim)
            case CallStreamed(name=name, arguments=arguments):
                self._arguments += len(arguments)
                screen.status(f"  preparing {harmless_line(name)}{_size_text(self._arguments)}")
            case AssistantSpoke(blocks=blocks):
                calls = [each for each in blocks if isinstance(each, ToolCall)]
                self._pending_calls = {call.id: _call_title(call) for call in calls}
                screen.end_line()
            case ToolStarted(tool=tool) if tool not in _TEXT_TOOLS:
                self._begin_call(fact)
            case OutputStreamed(text=text):
                self._show_output(text)
            case Asked(ask=AskKind.COMPLETION_RESULT) if self._result_pending:
                # shown only now: checks may have rejected the result before
                self._result_pending = False
                self._show_result(paint.green("✔"))
            case Asked(ask=AskKind.FOLLOWUP, text=text):
                self._question, _ = followup(text)
            case Asked(ask=AskKind.API_REQ_FAILED, text=text) if self._attempt > 1:
                screen.sentence(paint.red(f"✗ {harmless(text)} (tried {self._attempt} times)"))
            case Asked(title=title):
                self._title = title
            case Answered(ask=AskKind.FOLLOWUP, by="policy", text=text) if text:
                asked, answer = harmless_line(self._question), harmless_line(text)
                note = f"The model asked: {asked} Answered automatically: {answer}"
                screen.sentence(paint.yellow(note))
            case ToolFinished():
                self._end_call(fact)
            case TodosChanged(todos=todos):
                for todo in todos:
                    screen.line(f"  {_BOXES[todo.status]} {harmless_line(todo.content)}")
            case CompletionOffered(result=result, spoken=spoken):
                self.result = result
                self._result_pending = self._shows_result and not spoken
            case RequestFailed(message=message):
                if not (self._attempt > 1 and message == self.failure):
                    screen.sentence(paint.red(f"✗ {harmless(message)}"))
                self.failure = message
            case Condensing(tokens=tokens):
                screen.status(f"  summarising {tokens:,} tokens that no longer fit")
            case Pausing(seconds=seconds, paced=True):
                screen.line(paint.dim(f"  next request in {seconds:.3g} s"))
            case Pausing(seconds=seconds):
                when = f"in {seconds:.0f} s" if seconds >= 1 else "at once"
                screen.line(paint.yellow(f"  trying again {when} (attempt {self._attempt + 1})"))
                self._retry_announced = True
            case RequestStarted(attempt=attempt):
                self.result = ""
                self._arguments = 0
                self._attempt = attempt
                if attempt > 1 and not self._retry_announced:
                    screen.line(paint.yellow(f"  trying again at once (attempt {attempt})"))
                self._retry_announced = False
            case Waiting(seconds=seconds, what=what):
                screen.waiting(harmless_line(what), seconds)
            case UserSpoke():
                screen.line(paint.cyan("  queued for the model's next step"))
            case ModeSwitched(mode=mode):
                screen.line(paint.cyan(f"  now in {harmless_line(mode)} mode"))
            case ModelSwitched(model=model):
                screen.line(paint.cyan(f"  now using {harmless_line(model)}"))
            case ApprovalSwitched(to=Level() as level) | Answered(level=Level() as level):
                guard = f" {GUARD}" if level is Level.AUTO else ""
                screen.line(paint.cyan(f"  level {level}: {level.sentence}.{guard}"))
            case StepCancelled():
                what = "Nothing is running." if self._is_idle else "Stopped."
                screen.line(paint.yellow(f"{what} Press Ctrl-C again to exit."))
            case Noted(text=text):
                screen.sentence(paint.yellow(f"note: {harmless(text)}"))
            case CommandQuiet(seconds=seconds):
                screen.status(f"  no output for {seconds:.0f} s; it may be waiting for input")
            case CommandDetached(command=command):
                screen.line(
                    paint.yellow(f"  still running: {harmless_line(command)} (/stop ends it)")
                )
            case CommandEnded(text=text):
                screen.line(paint.yellow(f"note: {harmless_line(text.partition(chr(10))[0])}"))
            case FilesRestored():
                back = f" /rewind {self._seq - 1} undoes that." if fact.count else ""
                screen.sentence(paint.yellow(f"{harmless(restored_files(fact))}{back}"))
            case Rewound(to=to):
                screen.line(paint.yellow(f"The conversation was rewound to {to}."))
            case TaskFailed(message=message):
                self.failure = message
                screen.sentence(paint.red(f"✗ The task failed: {harmless(message)}"))
            case _:
                pass

    def _show_result(self, mark: str) -> None:
        if not self._screen.is_live:
            self._screen.sentence(f"{mark} {harmless(self.result)}")
            return
        self._screen.end_line()
        self._screen.prose("text", f"{mark} ")
        self._write_text(self.result)
        self._end_text()
        self._screen.end_line()

    def _begin_call(self, started: ToolStarted) -> None:
        self._pending_calls.pop(started.call_id, None)
        self._output = OutputExcerpt()
        mark = self._screen.paint.cyan("●")
        self._screen.line(f"{mark} {harmless_line(started.title)}{_diff_stats(started.text)}")

    def _show_output(self, text: str) -> None:
        screen, output = self._screen, self._output
        skipped = lines_in_gap(text)
        if skipped is not None:
            output.skip(skipped)
            text = ""
        for piece in harmless(_CARRIAGE_RETURN.sub("\n", text)).splitlines(keepends=True):
            words = output.clip(piece)
            if output.shown < self._output_lines:
                screen.stream("output", screen.paint.dim(words), margin="  ")
                if piece.endswith("\n"):
                    screen.end_line()
                    output.shown += 1
            else:
                output.hide(words, ends=piece.endswith("\n"))
        if output.hidden:
            screen.status(f"  … {output.hidden} more lines")

    def _end_call(self, end: ToolFinished) -> None:
        screen, paint = self._screen, self._screen.paint
        for line in self._output.rest():
            screen.line(paint.dim(f"  {line}"))
        self._output = OutputExcerpt()
        if end.ending is Ending.DENIED and self._title:
            screen.line(paint.red(f"✗ {harmless_line(self._title)}: {harmless(_reason(end))}"))
        elif end.ending is not Ending.DONE and (what := self._pending_calls.get(end.call_id)):
            screen.line(paint.red(f"✗ {harmless_line(what)}: {harmless(_reason(end))}"))
        elif end.ending is not Ending.DONE:
            screen.line(paint.red(f"  ✗ {harmless(_reason(end))}"))
        elif end.exit_code:
            screen.line(paint.yellow(f"  exit {end.exit_code}"))
        elif end.exit_code is None and (problems := new_problems(end.text)):
            screen.sentence(harmless(problems.rstrip()), paint.yellow, margin="  ")
        screen.end_line()
        self._title = ""


def _call_title(call: ToolCall) -> str:
    """Short description of a call: the tool and its main argument."""
    about = ("path", "file_path", "command", "intent_id", "tool_name", "mode_slug")
    words = (call.arguments.get(name) for name in about)
    subject = next((each for each in words if isinstance(each, str) and each.strip()), "")
    return f"{call.name} {subject.strip()}".strip()[:MAX_CALL_LENGTH]


def _size_text(characters: int) -> str:
    return f" ({characters / 1024:.1f} KB)" if characters >= 1024 else ""


def _diff_stats(text: str) -> str:
    """Number of lines an edit adds and removes, if the payload has them."""
    try:
        stats = json.loads(text)["diffStats"]
        return f" (+{int(stats['added'])} −{int(stats['removed'])})"
    except (ValueError, KeyError, TypeError):
        return ""


def _reason(end: ToolFinished) -> str:
    """The reason for a refusal or failure, on one line."""
    if end.text == STOPPED_BY_USER:
        return "stopped"
    reason = sentence_in(end.text)
    if end.ending is Ending.DENIED and reason != end.text:
        why = "" if end.text == denied() else f": {reason}"
        reason = f"skipped{why}"
    if end.exit_code is not None:
        reason = reason.partition("\n")[2]  # the first line is where the command ran
    return shortened(" ".join(reason.split()) or str(end.ending), LINE_LENGTH)
