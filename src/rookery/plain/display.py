"""Shows a task on a plain terminal or in a file, line by line, as it happens."""

import json
import re
from collections import deque
from typing import TypeGuard

from rookery.core.asks import AskKind
from rookery.core.blocks import Block, ToolCall
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
    Condensed,
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
from rookery.core.folds.run_tallies import added
from rookery.core.replies import STOPPED_BY_USER, denied, restored_files, sentence_in
from rookery.core.text.output_preview import lines_in_gap
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.core.tool_traits import SPEAKING
from rookery.plain.markdown_stream import MarkdownStream, SpokenWords, StyledSpan
from rookery.plain.screen import Screen
from rookery.protocol.attend import BESIDE_A_QUESTION
from rookery.protocol.codec import followup

OUTPUT_LINES = 18
"""Lines of one command's output that are shown as they come; then only the last ones are."""
LAST_LINES = 6
LINE_LENGTH = 500
LONGEST_CALL = 120

_TALK = SPEAKING | {"update_todo_list"}
"""Tools whose effect is what they say, which is shown anyway."""

_RETURN = re.compile(r"\r+\n?")
"""A line that is written over is shown as another line."""

_BOXES = {"completed": "[x]", "in_progress": "[-]", "pending": "[ ]"}


class PlainDisplay:
    """Writes news as they come. Whatever the model or a command wrote is made harmless first."""

    def __init__(self, screen: Screen, *, shows_result: bool) -> None:
        self._screen = screen
        self._words = MarkdownStream(screen.paint)
        self._shows_result = shows_result
        self._arguments = 0
        self._output = _Output()
        self._announced = False
        """The next try was already spoken of."""
        self._title = ""
        """What the last question was about."""
        self._called: dict[str, str] = {}
        """What the calls of the last answer are about, for those that never begin."""
        self._unproved = False
        """A result was offered and is not shown yet."""
        self._at_rest = False
        """The task is done and asks what else to do."""
        self._question = ""
        """What the model wanted to know last."""
        self._seq = 0
        self._busy = ""
        self._busy_since: float | None = None
        self.spoken = SpokenWords()
        self.result = ""
        self.failure = ""
        """The failure that was shown last."""
        self.usage = Usage()

    def show(self, event: Event) -> None:
        self._seq = event.seq
        self._note_business(event.fact)
        self._write_own(event.fact)
        self._note_rest(event.fact)
        if isinstance(event.fact, BESIDE_A_QUESTION):
            self._screen.repeat_question()

    def _write_own(self, fact: Fact) -> None:
        """Where the result goes elsewhere, words wait until it is known whether they are it."""
        self.spoken.see(fact)
        if released := self.spoken.released(fact):
            self._screen.prose("text", harmless(released))
            self._screen.end_line()
        if isinstance(fact, TextStreamed) and not self._shows_result:
            self.spoken.hold(fact.text)
        else:
            self._write(fact)

    def show_of_child(self, task_id: str, event: Event) -> None:
        screen, paint = self._screen, self._screen.paint
        self.spoken.see(event.fact)
        match event.fact:
            case TaskOpened(text=text, mode=mode):
                words = harmless_line(text.strip().partition("\n")[0])[:LINE_LENGTH]
                screen.line(paint.cyan(f"▸ sub-task in {harmless_line(mode)} mode: {words}"))
            case CompletionOffered(result=result, spoken=spoken):
                told = "sub-task done" if spoken else harmless(result)
                screen.line(f"{paint.cyan('◂')} {told}")
            case fact:
                self._note_business(fact)
                self._write(fact)

    def tick(self, now: float) -> None:
        """Another moment has passed: say what is being waited for, and for how long."""
        if not self._busy or self._screen.busy:
            self._busy_since = None
            return
        self._busy_since = self._busy_since or now
        if seconds := int(now - self._busy_since):
            self._screen.status(f"  {self._busy} … {seconds} s (Ctrl-C stops)")

    def _note_rest(self, fact: Fact) -> None:
        if not isinstance(fact, BESIDE_A_QUESTION):
            self._at_rest = isinstance(fact, Asked) and fact.ask is AskKind.COMPLETION_RESULT

    def _note_business(self, fact: Fact) -> None:
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

    def _say(self, text: str) -> None:
        """Words of the model, with their Markdown drawn where it is read and not piped."""
        if not self._screen.is_live:
            self._screen.prose("text", harmless(text))
            return
        self._put(self._words.add(harmless(text), self._screen.width))

    def _put(self, spans: list[StyledSpan]) -> None:
        for span in spans:
            put = self._screen.verbatim if span.verbatim else self._screen.prose
            put("text", span.text)

    def _write(self, fact: Fact) -> None:
        screen, paint = self._screen, self._screen.paint
        if not isinstance(fact, TextStreamed | Waiting):
            self._put(self._words.finish(screen.width))
        match fact:
            case TextStreamed(text=text) if text:
                self._say(text)
            case ThinkingStreamed(text=text) if text:
                screen.prose("thinking", harmless(text), paint.dim)
            case CallStreamed(name=name, arguments=arguments):
                self._arguments += len(arguments)
                screen.status(f"  preparing {harmless_line(name)}{_size(self._arguments)}")
            case AssistantSpoke(usage=usage, blocks=blocks):
                self.usage = added(self.usage, usage)
                self._called = {each.id: _called(each) for each in blocks if _is_call(each)}
                screen.end_line()
            case ToolStarted(tool=tool) if tool not in _TALK:
                self._begin_call(fact)
            case OutputStreamed(text=text):
                self._show_output(text)
            case Asked(ask=AskKind.COMPLETION_RESULT) if self._unproved:
                # not before it was seen whether it holds
                self._unproved = False
                self._show_result(paint.green("✔"))
            case Asked(ask=AskKind.FOLLOWUP, text=text):
                self._question, _ = followup(text)
            case Asked(title=title):
                self._title = title
            case Answered(ask=AskKind.FOLLOWUP, by="policy", text=text):
                asked, told = harmless_line(self._question), harmless_line(text)
                told = f"The model asked: {asked} Answered automatically: {told}"
                screen.sentence(paint.yellow(told))
            case ToolFinished():
                self._end_call(fact)
            case TodosChanged(todos=todos):
                for todo in todos:
                    screen.line(f"  {_BOXES[todo.status]} {harmless_line(todo.content)}")
            case CompletionOffered(result=result, spoken=spoken):
                self.result = result
                self._unproved = self._shows_result and not spoken
            case RequestFailed(message=message, usage=usage):
                self.usage = added(self.usage, usage)
                self.failure = message
                screen.sentence(paint.red(f"✗ {harmless(message)}"))
            case Condensing(tokens=tokens):
                screen.status(f"  summarising {tokens:,} tokens that no longer fit")
            case Condensed(usage=usage):
                self.usage = added(self.usage, usage)
            case Pausing(seconds=seconds, paced=True):
                screen.line(paint.dim(f"  next request in {seconds:.3g} s"))
            case Pausing(seconds=seconds):
                when = f"in {seconds:.0f} s" if seconds >= 1 else "at once"
                screen.line(paint.yellow(f"  trying again {when}"))
                self._announced = True
            case RequestStarted(attempt=attempt):
                self.result = ""
                self._arguments = 0
                if attempt > 1 and not self._announced:
                    screen.line(paint.yellow("  trying again at once"))
                self._announced = False
            case Waiting(seconds=seconds):
                screen.status(f"  no answer yet ({seconds:.0f} s)")
            case UserSpoke():
                screen.line(paint.cyan("  queued for the model's next step"))
            case ModeSwitched(mode=mode):
                screen.line(paint.cyan(f"  now in {harmless_line(mode)} mode"))
            case ModelSwitched(model=model):
                screen.line(paint.cyan(f"  now using {harmless_line(model)}"))
            case ApprovalSwitched(automatic=bool() as automatic):
                how = "auto-approve" if automatic else "asks before it acts"
                screen.line(paint.cyan(f"  now: {how}"))
            case StepCancelled():
                what = "Nothing is running." if self._at_rest else "Stopped."
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
        self._say(self.result)
        self._put(self._words.finish(self._screen.width))
        self._screen.end_line()

    def _begin_call(self, started: ToolStarted) -> None:
        self._called.pop(started.call_id, None)
        self._output = _Output()
        mark = self._screen.paint.cyan("●")
        self._screen.line(f"{mark} {harmless_line(started.title)}{_stats(started.text)}")

    def _show_output(self, text: str) -> None:
        screen, output = self._screen, self._output
        skipped = lines_in_gap(text)
        if skipped is not None:
            output.skip(skipped)
            text = ""
        for piece in harmless(_RETURN.sub("\n", text)).splitlines(keepends=True):
            words = output.clip(piece)
            if output.shown < OUTPUT_LINES:
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
        self._output = _Output()
        if end.ending is Ending.DENIED and self._title:
            screen.line(paint.red(f"✗ {harmless_line(self._title)}: {harmless(_reason(end))}"))
        elif end.ending is not Ending.DONE and (what := self._called.get(end.call_id)):
            screen.line(paint.red(f"✗ {harmless_line(what)}: {harmless(_reason(end))}"))
        elif end.ending is not Ending.DONE:
            screen.line(paint.red(f"  ✗ {harmless(_reason(end))}"))
        elif end.exit_code:
            screen.line(paint.yellow(f"  exit {end.exit_code}"))
        screen.end_line()
        self._title = ""


class _Output:
    """One command's output: how much was shown, and the end of what was not."""

    def __init__(self) -> None:
        self.shown = 0
        self.hidden = 0
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._unfinished = False
        self._column = 0

    def clip(self, piece: str) -> str:
        """As much of a piece of a line as fits into it."""
        words, begun = piece.rstrip("\n"), self._column
        self._column = 0 if piece.endswith("\n") else begun + len(words)
        if begun + len(words) <= LINE_LENGTH:
            return words
        return words[: LINE_LENGTH - begun] + "…" if begun <= LINE_LENGTH else ""

    def skip(self, lines: int) -> None:
        """Lines went by that nobody was shown; what came before them is the end no longer."""
        self.shown = OUTPUT_LINES
        self.hidden += lines
        self._last.clear()
        self._unfinished = False

    def hide(self, words: str, *, ends: bool) -> None:
        if self._unfinished:
            self._last[-1] += words
        else:
            self._last.append(words)
            self.hidden += 1
        self._unfinished = not ends

    def rest(self) -> list[str]:
        """The last lines, after the number of those that were left out before them."""
        between = self.hidden - len(self._last)
        return [*([f"… {between} more lines"] if between else []), *self._last]


def _called(call: ToolCall) -> str:
    """A call in a few words, as the model made it."""
    about = ("path", "file_path", "command", "intent_id", "tool_name", "mode_slug")
    words = (call.arguments.get(name) for name in about)
    subject = next((each for each in words if isinstance(each, str) and each.strip()), "")
    return f"{call.name} {subject.strip()}".strip()[:LONGEST_CALL]


def _is_call(block: Block) -> TypeGuard[ToolCall]:
    return isinstance(block, ToolCall)


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
    if end.text == STOPPED_BY_USER:
        return "stopped"
    reason = sentence_in(end.text)
    if end.ending is Ending.DENIED and reason != end.text:
        told = "" if end.text == denied() else f": {reason}"
        reason = f"skipped{told}"
    if end.exit_code is not None:
        reason = reason.partition("\n")[2]  # the first line says where the command ran
    line = " ".join(reason.split()) or str(end.ending)
    return line if len(line) <= LINE_LENGTH else line[: LINE_LENGTH - 1] + "…"
