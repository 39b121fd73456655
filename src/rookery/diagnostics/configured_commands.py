"""The checks and formatters in the settings, and the new problems that a check reports.

They may come from a project, so each run goes through the gate. An answer of the user counts for
the command as written in the settings, for all files.
"""

import re
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.event_list import newest
from rookery.core.facts import Asked, CheckRun, Ending
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.checks import CheckResult, run_check
from rookery.engine.ports.hooks import TaskLog
from rookery.engine.ports.tool import ToolContext
from rookery.errors import ToolError
from rookery.platform.paths import file_pattern

FILE = "{file}"
KEPT_LINES = 60
LONGEST_OUTPUT = 4_000
MOST_LINES = 30
LONGEST_LINE = 300
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
Act = Callable[[ToolCall, Action], Awaitable[Outcome]]


class FileCommand(Struct, frozen=True):
    """A command for the files that fit one of its patterns."""

    patterns: tuple[str, ...]
    command: str

    def fits(self, path: str) -> bool:
        found = map(file_pattern, self.patterns)
        return any(each.fits(path.split("/"), is_folder=False) for each in found if each)


def parse_file_command(entry: str) -> FileCommand:
    """Parse `PATTERN: COMMAND`; several patterns are separated by blanks. Raises `ValueError`
    with a sentence."""
    patterns, colon, command = entry.partition(":")
    if not colon or not patterns.strip() or not command.strip():
        raise ValueError(f"{entry!r} is not of the form `PATTERN: COMMAND`.")
    names = tuple(patterns.replace(",", " ").split())
    try:
        for name in names:
            file_pattern(name)
    except ValueError as error:
        raise ValueError(f"{entry!r} has a pattern that cannot be used: {error}.") from error
    return FileCommand(names, command.strip())


def for_file(template: str, path: str) -> str:
    name = f"./{path}" if path.startswith("-") else path
    return template.replace(FILE, shlex.quote(name))


class ConfiguredCommands:
    """Runs commands of the settings for one task, if the gate permits them."""

    def __init__(
        self, log: TaskLog, context: Callable[[ToolCall], ToolContext], *, seconds: float
    ) -> None:
        self._log = log
        self._context = context
        self._seconds = seconds
        self._runs = 0
        self.agreed: set[str] = set()
        """Commands of the settings that the user approved in this task. What the level allowed
        asks when the level is lowered."""
        self._refused: dict[str, str] = {}
        """Those that were refused, with the reason. They are not tried again."""
        self._denied: set[str] = set()
        """Those that a rule denied once. It may allow them later, when the mode has changed."""

    def refuses(self, template: str) -> bool:
        return template in self._refused

    async def run(
        self,
        template: str,
        act: Act,
        *,
        kind: str,
        path: str = "",
        writable: Sequence[str] | None = None,
        notes: Sequence[str] = (),
    ) -> CheckResult:
        """Run the command, on the file at `path` if there is one. It can write only `writable`
        paths of the workspace, if these are given. A run that the gate refuses has no exit
        code."""
        if why := self._refused.get(template):
            return _not_run(why)
        self._runs += 1
        call = ToolCall(id=f"{kind}-{len(self._log.events)}-{self._runs}", name=kind)
        found: list[CheckResult] = []
        action = self._action(template, call, path, found, writable, notes)
        try:
            await act(call, action)
        except ToolError as error:
            if self._was_asked(call.id) or template in self._denied:
                self._refused[template] = str(error)
            self._denied.add(template)
            return _not_run(str(error))
        if self._was_asked(call.id):
            self.agreed.add(template)
        return found[0]

    def _action(
        self,
        template: str,
        call: ToolCall,
        path: str,
        found: list[CheckResult],
        writable: Sequence[str] | None,
        notes: Sequence[str],
    ) -> Action:
        ctx, command = self._context(call), for_file(template, path) if path else template

        async def perform(permit: Permit) -> Outcome:
            narrowed = writable is not None and permit.confined
            allowed = replace(permit, writable=frozenset(writable or ())) if narrowed else permit
            result = await run_check(allowed, ctx.shell, seconds=self._seconds, lines=KEPT_LINES)
            found.append(result)
            ending = Ending.DONE if result.ok else Ending.FAILED
            return Outcome(text="\n".join(result.tail), ending=ending, exit_code=result.exit_code)

        return Action(
            title=f"{call.name.capitalize()} {path or 'the work'}",
            perform=perform,
            command=command,
            template=template,
            where=ctx.shell.describe(confined=True),
            judgement=ctx.judge(command, ""),
            notes=notes,
        )

    def _was_asked(self, call_id: str) -> bool:
        asked = newest(self._log.events, Asked)
        return any(isinstance(e.fact, Asked) and e.fact.call_id == call_id for e in asked)


def _not_run(why: str) -> CheckResult:
    return CheckResult(ok=False, exit_code=None, seconds=0.0, tail=(why,))


def as_run(command: str, result: CheckResult, seconds: float) -> CheckRun:
    """The result as it is recorded."""
    if result.exit_code is None:
        return CheckRun(command=command, state="not_run", output="\n".join(result.tail))
    if result.ok:
        return CheckRun(command=command, state="passed")
    late = [f"It was stopped after {seconds:g} s."] if result.timed_out else []
    lines = [_COLOURS.sub("", line)[:LONGEST_LINE] for line in (*result.tail, *late)]
    return CheckRun(command=command, state="failed", output="\n".join(lines)[-LONGEST_OUTPUT:])


def new_failures(before: CheckRun | None, after: CheckRun) -> str:
    """What fails now and did not before; empty if nothing does.

    A check that failed before may fail with the same lines again. Numbers are not compared, since
    lines move and times differ.
    """
    if after.state != "failed" or before is None or before.state == "not_run":
        return ""
    if before.state == "passed":
        return after.output
    known = Counter(map(_without_numbers, before.output.splitlines()))
    new: list[str] = []
    for line in after.output.splitlines():
        plain = _without_numbers(line)
        if known[plain]:
            known[plain] -= 1
        elif plain.strip():
            new.append(line)
    return "\n".join(new[-MOST_LINES:])


def described(failures: Mapping[str, str], *, fresh: Sequence[str]) -> str:
    """The new failures by command, for the model. Those in `fresh` passed before."""
    parts = []
    for command, output in failures.items():
        what = "fails" if command in fresh else "failed before your edits, and now also says"
        parts.append(f"`{command}` {what}:\n{output}")
    return "\n\n".join(parts)


def _without_numbers(line: str) -> str:
    return _VARYING.sub("#", line)
