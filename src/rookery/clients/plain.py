"""Shows a task on a plain terminal or in a file, line by line, as it happens."""

import json

from rookery.clients.screen import Screen
from rookery.clients.terminal_text import harmless, harmless_line
from rookery.core.facts import (
    AssistantSpoke,
    CallStreamed,
    CompletionOffered,
    Ending,
    Event,
    Fact,
    Noted,
    OutputStreamed,
    Pausing,
    RequestFailed,
    RequestStarted,
    StepCancelled,
    TaskFailed,
    TextStreamed,
    ThinkingStreamed,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    Waiting,
)

OUTPUT_LINES = 24
"""Lines of one command's output that are shown; the rest is counted."""

_TALK = {"ask_followup_question", "attempt_completion", "update_todo_list"}
"""Tools whose effect is what they say, which is shown anyway."""

_BOXES = {"completed": "[x]", "in_progress": "[-]", "pending": "[ ]"}


class PlainDisplay:
    """Writes news as they come. Whatever the model or a command wrote is made harmless first."""

    def __init__(self, screen: Screen, *, shows_result: bool) -> None:
        self._screen = screen
        self._shows_result = shows_result
        self._arguments = 0
        self._output_lines = 0
        self._hidden_lines = 0
        self._announced = False
        """The next try was already spoken of."""
        self.result = ""
        self.failure = ""
        """The failure that was shown last."""
        self.usage = Usage()

    def show(self, event: Event) -> None:
        self._write(event.fact)
        self._screen.repeat_question()

    def _write(self, fact: Fact) -> None:
        screen, paint = self._screen, self._screen.paint
        match fact:
            case TextStreamed(text=text) if text:
                screen.stream("text", harmless(text))
            case ThinkingStreamed(text=text) if text:
                screen.stream("thinking", paint.dim(harmless(text)))
            case CallStreamed(name=name, arguments=arguments):
                self._arguments += len(arguments)
                screen.status(f"  preparing {harmless_line(name)}{_size(self._arguments)}")
            case AssistantSpoke(usage=usage):
                self._arguments = 0
                self._count(usage)
                screen.end_line()
            case ToolStarted(tool=tool) if tool not in _TALK:
                self._begin_call(fact)
            case OutputStreamed(text=text):
                self._show_output(text)
            case ToolFinished():
                self._end_call(fact)
            case TodosChanged(todos=todos):
                for todo in todos:
                    screen.line(f"  {_BOXES[todo.status]} {harmless_line(todo.content)}")
            case CompletionOffered(result=result):
                self.result = result
                if self._shows_result:
                    screen.line(f"{paint.green('✔')} {harmless(result)}")
            case RequestFailed(message=message, usage=usage):
                self._count(usage)
                self.failure = message
                screen.line(paint.red(f"✗ {harmless(message)}"))
            case Pausing(seconds=seconds):
                when = f"in {seconds:.0f} s" if seconds >= 1 else "at once"
                screen.line(paint.yellow(f"  trying again {when}"))
                self._announced = True
            case RequestStarted(attempt=attempt):
                if attempt > 1 and not self._announced:
                    screen.line(paint.yellow("  trying again at once"))
                self._announced = False
            case Waiting(seconds=seconds):
                screen.status(f"  no answer yet ({seconds:.0f} s)")
            case UserSpoke():
                screen.line(paint.cyan("  noted: the model hears it with its next step"))
            case StepCancelled():
                screen.line(paint.yellow("Stopped."))
            case Noted(text=text):
                screen.line(paint.yellow(f"note: {harmless(text)}"))
            case TaskFailed(message=message):
                self.failure = message
                screen.line(paint.red(f"✗ The task failed: {harmless(message)}"))
            case _:
                pass

    def _begin_call(self, started: ToolStarted) -> None:
        self._output_lines = self._hidden_lines = 0
        mark = self._screen.paint.cyan("●")
        self._screen.line(f"{mark} {harmless_line(started.title)}{_stats(started.text)}")

    def _show_output(self, text: str) -> None:
        screen = self._screen
        for line in harmless(text).splitlines(keepends=True):
            if self._output_lines < OUTPUT_LINES:
                screen.stream("output", screen.paint.dim(line.rstrip("\n")), margin="  ")
                if line.endswith("\n"):
                    screen.end_line()
            if line.endswith("\n"):
                self._output_lines += 1
                self._hidden_lines += self._output_lines > OUTPUT_LINES
        if self._hidden_lines:
            screen.status(f"  … {self._hidden_lines} more lines")

    def _end_call(self, end: ToolFinished) -> None:
        screen, paint = self._screen, self._screen.paint
        if self._hidden_lines:
            screen.line(paint.dim(f"  … {self._hidden_lines} more lines"))
            self._hidden_lines = 0
        if end.exit_code:
            screen.line(paint.yellow(f"  exit {end.exit_code}"))
        elif end.ending is not Ending.DONE:
            screen.line(paint.red(f"  ✗ {harmless(_reason(end))}"))
        screen.end_line()

    def _count(self, usage: Usage) -> None:
        before = self.usage
        known = [cost for cost in (before.cost, usage.cost) if cost is not None]
        self.usage = Usage(
            tokens_in=before.tokens_in + usage.tokens_in,
            tokens_out=before.tokens_out + usage.tokens_out,
            cost=sum(known) if known else None,
        )


def _size(characters: int) -> str:
    return f" ({characters / 1024:.1f} KB)" if characters >= 1024 else ""


def _stats(text: str) -> str:
    """How many lines an edit adds and removes, if the payload says so."""
    try:
        stats = json.loads(text)["diffStats"]
        return f" (+{int(stats['added'])} −{int(stats['removed'])})"
    except (ValueError, KeyError, TypeError):
        return ""


def _reason(end: ToolFinished) -> str:
    """The sentence in a refusal or failure, on one line."""
    try:
        said = json.loads(end.text.split("\n", 1)[0])
        reason = said.get("feedback") or said.get("message") or end.ending
    except (ValueError, AttributeError):
        reason = end.text
    line = " ".join(str(reason).split())
    return line if len(line) <= 200 else line[:199] + "…"
