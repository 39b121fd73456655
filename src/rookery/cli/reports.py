"""What a run prints while it runs and at its end, and its exit code."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from itertools import islice
from typing import Protocol, TextIO

import anyio

from rookery import NAME, VERSION
from rookery.app.model_choice import NoKey
from rookery.cli.options import Options
from rookery.cli.run_options import Run
from rookery.core.blocks import Text
from rookery.core.event_list import newest, of_kind
from rookery.core.facts import (
    AssistantSpoke,
    ChildBegan,
    CompletionOffered,
    Event,
    Fact,
    TaskOpened,
    ToolStarted,
)
from rookery.core.modes import Level
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.errors import (
    CommandRejected,
    IntentNotSelectable,
    RookeryError,
    SettingsError,
    StorageError,
)
from rookery.plain.display import PlainDisplay
from rookery.plain.screen import LEFT_AT_PROMPT, OUTPUT_LINES, Screen
from rookery.protocol.attend import Display, Displays, Fate, RunEnd
from rookery.storage.sessions import TaskStore


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    """The task failed, or there was an error."""
    USAGE = 2
    """The command line, the settings or the input are invalid; nothing was started."""
    AUTH = 3
    """The key is missing, or the provider rejects it."""
    BUDGET = 4
    """A limit on cost, tokens, requests or time is reached, or the account has no credit."""
    DENIED = 5
    """The task needs something that is not allowed here."""
    NEEDS_HUMAN = 6
    """Only a person can answer the open question."""
    STALLED = 7
    """The model repeats itself, or no longer responds."""
    RATE_LIMITED = 8
    """The provider's rate limit is reached."""
    STORAGE = 9
    """Stored data cannot be read or written, or another process has locked it."""
    FINDINGS = 10
    """A review has a finding at least as severe as --fail-on."""
    GOVERNANCE = 20
    """The task left its intent, or a command wrote outside it."""
    LEDGER = 21
    """A change could not be recorded, so the run was stopped."""
    INTENT = 22
    """The intent of the run cannot be selected; nothing was started."""
    TIMED_OUT = 124
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


BY_CODE = {
    "task_failed": Exit.FAILED,
    "task_aborted": Exit.FAILED,
    "auth_failed": Exit.AUTH,
    "limit_reached": Exit.BUDGET,
    "no_credit": Exit.BUDGET,
    "policy_denied": Exit.DENIED,
    "needs_human": Exit.NEEDS_HUMAN,
    "stalled": Exit.STALLED,
    "rate_limited": Exit.RATE_LIMITED,
    "storage_failed": Exit.STORAGE,
    "governance_refused": Exit.GOVERNANCE,
    "criteria_failed": Exit.GOVERNANCE,
    "trace_failed": Exit.LEDGER,
    "timeout": Exit.TIMED_OUT,
    "usage": Exit.USAGE,
}
"""Exit codes by the `code` of a result in structured output."""


def exit_code_of(error: RookeryError) -> int:
    """Return the exit code for an error before the run started."""
    match error:
        case StorageError():
            return Exit.STORAGE
        case NoKey():
            return Exit.AUTH
        case IntentNotSelectable():
            return Exit.INTENT
        case SettingsError() | CommandRejected():
            return Exit.USAGE
        case _:
            return Exit.FAILED


def exit_code(end: RunEnd) -> int:
    if end.fate is Fate.COMPLETED and not end.code:
        return Exit.DONE
    return BY_CODE.get(end.code, Exit.FAILED)


def print_failure(sentence: str, code: int, *, stream: bool) -> None:
    """Print the result, as JSON, of a run that ended before it could report itself."""
    from rookery.compat.structured_output.writer import JsonOutput

    names = {number: name for name, number in reversed(BY_CODE.items())}
    name = "task_aborted" if code == Exit.INTERRUPTED else names.get(Exit(code), "usage")
    JsonOutput(sys.stdout, stream=stream, session_id="").end(False, name, sentence)


class RunReport(Protocol):
    display: Display

    def begin(self) -> None:
        """Called when the engine is ready."""
        ...

    async def beat(self) -> None:
        """Keep the display current until the run ends."""
        ...

    def end(self, end: RunEnd) -> None:
        """Print how the run ended."""
        ...


@contextmanager
def open_report(run: Run, options: Options) -> Iterator[RunReport]:
    report: RunReport
    if options.output_format != "text":
        report = JsonReport(run, stream=options.output_format == "stream-json")
    elif run.person and not options.once:
        report = TextReport(run, out=sys.stdout, shows_result=True, resumable=not options.ephemeral)
    else:
        report = PipeReport(
            run, out=sys.stderr, shows_result=False, resumable=not options.ephemeral
        )
    if not options.debug:
        yield report
        return
    from rookery.protocol.debug_log import open_debug_log

    with open_debug_log(run.places.debug_log, run.hide) as log:
        report.display = Displays(report.display, log)
        yield report


class JsonReport:
    def __init__(self, run: Run, *, stream: bool) -> None:
        from rookery.compat.structured_output.writer import JsonOutput

        self._output = JsonOutput(
            sys.stdout,
            stream=stream,
            session_id=run.task_id,
            automatic=run.consent.level is Level.AUTO,
            after=run.after,
        )
        self._output.resume(run.stored)
        for child, event in children_of(run.stored, run.store):
            self._output.show(event, child)
        self.display: Display = self._output

    def begin(self) -> None:
        self._output.begin()

    async def beat(self) -> None:
        pass

    def end(self, end: RunEnd) -> None:
        done = end.fate is Fate.COMPLETED and not end.code
        self._output.end(done, end.code or None, end.reason)
        if not done and end.reason:
            print(f"Error: {harmless(end.reason)}", file=sys.stderr)
        if end.note:
            print(harmless(end.note), file=sys.stderr)


class TextReport:
    """The report for a user who follows the run."""

    def __init__(self, run: Run, *, out: TextIO, shows_result: bool, resumable: bool) -> None:
        colour = run.settings.colours(out, os.environ)
        self._live = out.isatty() and os.environ.get("TERM") != "dumb"
        self.screen = Screen(out, colour=colour, live=self._live)
        output_lines = sys.maxsize if run.verbose else OUTPUT_LINES
        self.plain = PlainDisplay(self.screen, shows_result=shows_result, output_lines=output_lines)
        self.plain.result = _earlier_result(run.stored)
        self.display: Display = self.plain
        self._run = run
        self._resumable = resumable
        self._started = False

    def begin(self) -> None:
        self._started = True
        run = self._run
        approval = "asks before it acts"
        if not run.consent.may_act:
            approval = "read-only: the folder is not trusted"
        elif run.consent.level is Level.AUTO:
            approval = "auto-approve"
        elif run.consent.level is not Level.ASK:
            approval = f"level {run.consent.level}"
        elif not run.person:
            approval = "not interactive: skips actions that need approval; -y allows them"
        stored = run.earlier.state
        choice, mode = run.choice, stored.mode if run.stored else run.settings.mode
        model = f"{choice.provider} {harmless(choice.name)}"
        self._dim(f"{NAME} {VERSION} · {model} · {harmless_line(mode)} mode · {approval}")
        for line in _resume_summary(run.stored, stored.running):
            self._dim(line)

    async def beat(self) -> None:
        while self._live:
            await anyio.sleep(1)
            self.plain.tick(anyio.current_time())

    def end(self, end: RunEnd) -> None:
        usage = self.plain.usage
        cost = "" if usage.cost is None else f", ${usage.cost:.{4 if usage.cost else 2}f}"
        if usage.tokens_in or usage.tokens_out:
            cached = f" ({usage.cache_reads:,} cached)" if usage.cache_reads else ""
            self._dim(f"{usage.tokens_in:,} tokens in{cached}, {usage.tokens_out:,} out{cost}")
        if end.fate is not Fate.COMPLETED or end.code:
            self._print_failure(end)
        elif end.note:
            self.screen.sentence(harmless(end.note), self.screen.paint.yellow)

    def _print_failure(self, end: RunEnd) -> None:
        if not self._started:
            self.screen.sentence(f"Error: {harmless(end.reason)}")
            return
        reason = end.reason or LEFT_AT_PROMPT
        if reason != self.plain.failure and (self._resumable or reason != LEFT_AT_PROMPT):
            self.screen.sentence(harmless(reason), self.screen.paint.yellow)
        if self._resumable:
            command = [NAME, *self._run.workspace_flag, "--session-id", self._run.task_id]
            self.screen.line(f"Continue with: {harmless(shlex.join(command))}")

    def _dim(self, text: str) -> None:
        self.screen.sentence(text, self.screen.paint.dim)


def _resume_summary(stored: Sequence[Event], running: ToolStarted | None) -> list[str]:
    """Describe a resumed task: its title, the last message, and what was interrupted."""
    if not stored:
        return []
    from rookery.storage.cli.session_listing import title

    opened = stored[0].fact
    spoken = (event.fact for event in newest(stored, AssistantSpoke, CompletionOffered))
    words = (text for fact in spoken for text in _words_of(fact))
    return [
        *([f"Continuing: {title(opened.text)}"] if isinstance(opened, TaskOpened) else []),
        *(f"Last message: {title(text)}" for text in islice(words, 1)),
        *([f"Interrupted during: {title(running.title)}"] if running else []),
    ]


def _words_of(fact: Fact) -> list[str]:
    """What the model said to the user, the last words first."""
    if isinstance(fact, CompletionOffered):
        return [fact.result] if fact.result else []
    blocks = fact.blocks if isinstance(fact, AssistantSpoke) else ()
    return [block.text for block in reversed(blocks) if isinstance(block, Text)]


def _earlier_result(stored: Sequence[Event]) -> str:
    """Return the result of an earlier run, which may have died before it was shown."""
    facts = (event.fact for event in newest(stored, CompletionOffered))
    return next((fact.result for fact in facts if isinstance(fact, CompletionOffered)), "")


class PipeReport(TextReport):
    """The report for `-p`: standard output gets only the result, or else the model's last
    message. Progress and questions go to standard error."""

    def end(self, end: RunEnd) -> None:
        super().end(end)
        plain = self.plain
        words = (plain.result if end.fate is Fate.COMPLETED else "") or plain.model_text.last
        if words:
            print(harmless(words) if sys.stdout.isatty() else words)


def children_of(stored: Iterable[Event], store: TaskStore) -> Iterator[tuple[str, Event]]:
    """Yield the stored events of all sub-tasks, recursively."""
    began = (event.fact for event in of_kind(stored, ChildBegan))
    children = {fact.task_id: None for fact in began if isinstance(fact, ChildBegan)}
    for task_id in filter(store.exists, children):
        events = list(store.read(task_id))
        yield from ((task_id, event) for event in events)
        yield from children_of(events, store)
