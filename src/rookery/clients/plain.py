"""Shows a task on a plain terminal or in a file, line by line, as it happens."""

import json
from typing import TextIO

from rookery.clients.terminal_text import Paint, harmless
from rookery.core.facts import (
    AssistantSpoke,
    CallStreamed,
    CompletionOffered,
    Ending,
    Event,
    Noted,
    OutputStreamed,
    Pausing,
    RequestFailed,
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

    def __init__(self, out: TextIO, *, colour: bool, live: bool, shows_result: bool) -> None:
        self._out = out
        self._shows_result = shows_result
        self._paint = Paint(colour)
        self._live = live
        self._open_line = ""
        self._status = 0
        self._arguments = 0
        self._output_lines = 0
        self._hidden_lines = 0
        self.result = ""
        self.usage = Usage()

    def show(self, event: Event) -> None:
        paint = self._paint
        match event.fact:
            case TextStreamed(text=text):
                self._stream("text", text)
            case ThinkingStreamed(text=text) if text:
                self._stream("thinking", text)
            case CallStreamed(name=name, arguments=arguments):
                self._arguments += len(arguments)
                self._show_status(f"  preparing {name} ({_size(self._arguments)})")
            case AssistantSpoke(usage=usage):
                self._arguments = 0
                self._count(usage)
                self._end_line()
            case ToolStarted(tool=tool) if tool not in _TALK:
                self._begin_call(event.fact)
            case OutputStreamed(text=text):
                self._show_output(text)
            case ToolFinished():
                self._end_call(event.fact)
            case TodosChanged(todos=todos):
                for todo in todos:
                    self.line(f"  {_BOXES[todo.status]} {harmless(todo.content)}")
            case CompletionOffered(result=result):
                self.result = result
                if self._shows_result:
                    self.line(f"{paint.green('✔')} {harmless(result)}")
            case RequestFailed(message=message, usage=usage):
                self._count(usage)
                self.line(paint.red(f"✗ {harmless(message)}"))
            case Pausing(seconds=seconds):
                when = f"in {seconds:.0f} s" if seconds >= 1 else "at once"
                self.line(paint.yellow(f"  trying again {when}"))
            case Waiting(seconds=seconds):
                self._show_status(f"  no answer yet ({seconds:.0f} s)")
            case UserSpoke():
                self.line(paint.cyan("  noted: the model hears it with its next step"))
            case StepCancelled():
                self.line(paint.yellow("Stopped."))
            case Noted(text=text):
                self.line(paint.yellow(f"note: {harmless(text)}"))
            case TaskFailed(message=message):
                self.line(paint.red(f"✗ The task failed: {harmless(message)}"))
            case _:
                pass

    def line(self, text: str) -> None:
        """One whole line, whatever was being written before."""
        self._end_line()
        self._write(text + "\n")

    def _stream(self, what: str, text: str) -> None:
        if self._open_line != what:
            self._end_line()
            self._open_line = what
        self._clear_status()
        text = harmless(text)
        self._write(self._paint.dim(text) if what == "thinking" else text)

    def _begin_call(self, started: ToolStarted) -> None:
        self._output_lines = self._hidden_lines = 0
        self.line(f"{self._paint.cyan('●')} {harmless(started.title)}{_stats(started.text)}")

    def _show_output(self, text: str) -> None:
        for line in harmless(text).splitlines(keepends=True):
            if self._output_lines < OUTPUT_LINES:
                if self._open_line != "output":
                    self._end_line()
                    self._write("  ")
                self._write(self._paint.dim(line.rstrip("\n")))
                self._open_line = "output"
                if line.endswith("\n"):
                    self._end_line()
            if line.endswith("\n"):
                self._output_lines += 1
                self._hidden_lines += self._output_lines > OUTPUT_LINES
        if self._hidden_lines:
            self._show_status(f"  … {self._hidden_lines} more lines")

    def _end_call(self, end: ToolFinished) -> None:
        if self._hidden_lines:
            self.line(self._paint.dim(f"  … {self._hidden_lines} more lines"))
            self._hidden_lines = 0
        if end.exit_code:
            self.line(self._paint.yellow(f"  exit {end.exit_code}"))
        elif end.ending is not Ending.DONE:
            self.line(self._paint.red(f"  ✗ {harmless(_reason(end))}"))
        self._end_line()

    def _count(self, usage: Usage) -> None:
        before = self.usage
        known = [cost for cost in (before.cost, usage.cost) if cost is not None]
        self.usage = Usage(
            tokens_in=before.tokens_in + usage.tokens_in,
            tokens_out=before.tokens_out + usage.tokens_out,
            cost=sum(known) if known else None,
        )

    def _show_status(self, text: str) -> None:
        """A line that the next one replaces; only where lines can be replaced."""
        if self._live:
            self._end_line()
            self._write("\r\x1b[K" + self._paint.dim(text))
            self._status = len(text)

    def _clear_status(self) -> None:
        if self._status:
            self._write("\r\x1b[K")
            self._status = 0

    def _end_line(self) -> None:
        self._clear_status()
        if self._open_line:
            self._open_line = ""
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        if self._live:
            self._out.flush()


def _size(characters: int) -> str:
    return f"{characters / 1024:.1f} KB" if characters >= 1024 else f"{characters} characters"


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
