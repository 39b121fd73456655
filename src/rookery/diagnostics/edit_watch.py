"""What is done around the edits of one task: formatting, checking, and reporting what is new."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.event_list import newest, of_kind
from rookery.core.facts import (
    Answered,
    CheckRun,
    ChecksRun,
    Ending,
    Event,
    FormatterStarted,
    Noted,
    Reminded,
    TaskOpened,
    ToolStarted,
    UserSpoke,
)
from rookery.core.settings import Settings
from rookery.diagnostics.configured_commands import (
    FILE,
    Act,
    ConfiguredCommands,
    FileCommand,
    as_run,
    described,
    new_failures,
    parse_file_command,
)
from rookery.diagnostics.problems import ERROR, described_problems
from rookery.diagnostics.servers import LanguageServers
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Acting, EditChecks, TaskLog
from rookery.engine.ports.workspace import Files
from rookery.errors import ToolError
from rookery.faults import kp

CHECK, FORMAT = "check", "format"
CACHES = (".ruff_cache", ".mypy_cache", ".pytest_cache", "node_modules/.cache")
"""Folders that checkers and formatters fail without, if they cannot write there."""
FROM_SETTINGS = "It is one of the {} in the settings."
NEW_FAILURES = (
    "[automatic] The work is not done: there are new problems. Fix them, or say why they stay. "
    "Then finish again.\n\n{}"
)
RETURNED = "The edits broke something, so the model continues:\n{}"
SHOWN_LINES = 6
STILL_FAILING = "Some checks still fail:\n{}"


class EditWatch(EditChecks):
    def __init__(
        self,
        settings: Settings,
        log: TaskLog,
        files: Files,
        servers: LanguageServers | None,
        acting: Acting,
        *,
        narrows: Callable[[], bool],
    ) -> None:
        """`narrows` returns whether a command can be confined to one file."""
        self._log = log
        self._files = files
        self._servers = servers
        self._narrows = narrows
        self._acting = acting
        self._seconds = settings.check_seconds
        self._commands = ConfiguredCommands(log, acting.context, seconds=settings.check_seconds)
        self._of_files = [each for each in settings.checks if FILE in each]
        self._of_project = [each for each in settings.checks if FILE not in each]
        self._formatters = self._read_formatters(settings.formatters)
        self._file_results: dict[tuple[str, str], CheckRun] = {}
        """The last result of each check of a file."""
        self._noted: set[str] = set()

    def agreed(self, action: Action) -> bool:
        """Whether the command was permitted before in this task."""
        return bool(action.template) and action.template in self._commands.agreed

    def formats(self, action: Action) -> bool:
        """Also if a check of the file could write: undo has to cover that, too."""
        paths = _written(action)
        if any(map(self._formatters_for, paths)):
            return True
        return bool(paths and self._of_files) and not self._narrows()

    async def begin(self, action: Action) -> None:
        for change in action.changes:
            if self._servers and _is_inside(change.path):
                self._servers.before_edit(change.path, await self._text(change.path))
        if action.changes and self._wanted() - self._results().keys():
            self._record(await self._check_project())
        for path in _written(action):
            exists = any(change.path == path and change.before for change in action.changes)
            for template in self._of_files:
                if (template, path) not in self._file_results:
                    self._file_results[template, path] = (
                        await self._check(template, self._act_apart, path)
                        if exists
                        else CheckRun(command=template, state="passed")
                    )

    async def format(self, call: ToolCall, action: Action) -> None:
        for path in _written(action):
            for formatter in self._formatters_for(path):
                template = _with_file(formatter.command)
                self._log.append(FormatterStarted(call_id=call.id, command=template))
                kp("format.started")
                result = await self._commands.run(
                    template,
                    self._acting.act_within,
                    kind=FORMAT,
                    path=path,
                    writable=(path, *CACHES) if self._narrows() else None,
                    notes=(FROM_SETTINGS.format("formatters"),),
                )
                kp("format.ended")
                if not result.ok:
                    self._note_once(f"The formatter failed: {template}", result.tail)

    async def report(self, action: Action, permit: Permit, outcome: Outcome) -> Outcome:
        if outcome.ending is not Ending.DONE or not action.changes:
            return outcome
        withheld = permit.withheld or (lambda path: False)
        shown = [change for change in action.changes if not withheld(change.path)]
        said = [await self._file_failures(c.path) for c in shown if c.after]
        if self._servers:
            for change in filter(lambda each: _is_inside(each.path), shown):
                text = await self._text(change.path) if change.after else None
                self._servers.after_edit(change.path, text, self)
            await self._servers.wait([change.path for change in shown])
            said.append(self._new_problems(self._servers, withheld))
        return replace(outcome, text="\n\n".join(filter(None, [outcome.text, *said])))

    async def end_turn(self) -> None:
        """Problems go back to the model once for each message of the user."""
        if not self._edited():
            return
        found = []
        if self._servers:
            await self._servers.wait()
            found.append(self._new_problems(self._servers, late=True))
        runs = await self._check_project() if self._results() else ()
        failures = self._new_failures(runs)
        text = "\n\n".join(filter(None, [*found, failures]))
        returned = bool(text) and not self._was_returned()
        self._record(runs, returned=returned)
        if returned:
            self._log.append(
                Noted(text=RETURNED.format("\n".join(text.splitlines()[:SHOWN_LINES])))
            )
            self._log.append(Reminded(text=NEW_FAILURES.format(text)))
        elif failures:
            self._log.append(Noted(text=STILL_FAILING.format(failures)))

    def _wanted(self) -> set[str]:
        """The checks that were not refused."""
        return {each for each in self._of_project if not self._commands.refuses(each)}

    def _record(self, runs: Sequence[CheckRun], *, returned: bool = False) -> None:
        done = tuple(run for run in runs if run.state != "not_run")
        if done or returned:
            self._log.append(ChecksRun(checks=done, returned=returned))

    def _new_failures(self, runs: Sequence[CheckRun]) -> str:
        before = self._results(before_turn=True)
        found = {run.command: new_failures(before.get(run.command), run) for run in runs}
        failures = {command: output for command, output in found.items() if output}
        fresh = [command for command in failures if before[command].state == "passed"]
        return described(failures, fresh=fresh)

    async def _check_project(self) -> tuple[CheckRun, ...]:
        runs = []
        for template in filter(self._wanted().__contains__, self._of_project):
            self._log.append(Noted(text=f"Checking: {template}"))
            runs.append(await self._check(template, self._acting.act))
        return tuple(runs)

    @property
    def _act_apart(self) -> Act:
        """For a check of a file outside an edit: undo need not know one that cannot write."""
        return self._acting.act_within if self._narrows() else self._acting.act

    async def _check(self, template: str, act: Act, path: str = "") -> CheckRun:
        """Run a check of the project, or of the file at `path`."""
        result = await self._commands.run(
            template,
            act,
            kind=CHECK,
            path=path,
            writable=CACHES if path and self._narrows() else None,
            notes=(FROM_SETTINGS.format("checks"),),
        )
        if result.exit_code is None:
            self._note_once(f"Check not run: {template}", result.tail)
        return as_run(template, result, self._seconds)

    async def _file_failures(self, path: str) -> str:
        failures: dict[str, str] = {}
        fresh: list[str] = []
        for template in self._of_files:
            before = self._file_results.get((template, path))
            now = await self._check(template, self._acting.act_within, path)
            self._file_results[template, path] = now
            if output := new_failures(before, now):
                failures[template] = output
                fresh += [template] if before and before.state == "passed" else []
        return described(failures, fresh=fresh)

    def _new_problems(
        self,
        servers: LanguageServers,
        withheld: Callable[[str], bool] = lambda path: False,
        *,
        late: bool = False,
    ) -> str:
        """Problems that language servers found since the last time. When the work is said to be
        done, only errors are worth another answer."""
        found = servers.collect(self)
        found.elsewhere = {
            path: each for path, each in found.elsewhere.items() if not withheld(path)
        }
        while servers.notes:
            self._log.append(Noted(text=servers.notes.pop(0)))
        if late:
            found.new = [each for each in found.new if each.severity == ERROR]
            found.solved = 0
        return described_problems(found.new, found.elsewhere, solved=found.solved)

    def _results(self, *, before_turn: bool = False) -> dict[str, CheckRun]:
        """The last results of the project's checks: of all, or before the first edit since the
        user's last message."""
        events = self._log.events
        end = len(events)
        if before_turn:
            start = end - len(self._this_turn())
            end = next((at for at in range(start, end) if _is_edit(events[at])), end)
        runs = (e.fact for e in of_kind(events, ChecksRun) if e.seq <= end)
        many = (fact.checks for fact in runs if isinstance(fact, ChecksRun))
        return {run.command: run for checks in many for run in checks}

    def _edited(self) -> bool:
        """Whether files were edited since the checks were run last."""
        for event in newest(self._log.events, ChecksRun, ToolStarted):
            if isinstance(event.fact, ChecksRun):
                return False
            if _is_edit(event):
                return True
        return False

    def _was_returned(self) -> bool:
        """Whether the model was given new problems since the user's last message."""
        return any(isinstance(e.fact, ChecksRun) and e.fact.returned for e in self._this_turn())

    def _this_turn(self) -> Sequence[Event]:
        events = self._log.events
        for event in newest(events, UserSpoke, TaskOpened, Answered):
            match event.fact:
                case Answered(by=by, text=text) if by != "user" or not text.strip():
                    pass
                case _:
                    return events[event.seq - 1 :]
        return events

    def _read_formatters(self, entries: Sequence[str]) -> list[FileCommand]:
        found = []
        for entry in entries:
            try:
                found.append(parse_file_command(entry))
            except ValueError as error:
                self._log.append(Noted(text=f"formatters: {error} It was ignored."))
        return found

    def _formatters_for(self, path: str) -> list[FileCommand]:
        return [each for each in self._formatters if _is_inside(path) and each.fits(path)]

    async def _text(self, path: str) -> str | None:
        try:
            file = await self._files.examine(path)
        except ToolError:
            return None
        return file.text if file else None

    def _note_once(self, what: str, why: Sequence[str]) -> None:
        if what not in self._noted:
            self._noted.add(what)
            reason = " ".join(line.strip() for line in why[-3:])
            self._log.append(Noted(text=f"{what}: {reason[:300]}"))


def _written(action: Action) -> list[str]:
    return [change.path for change in action.changes if change.after]


def _is_edit(event: Event) -> bool:
    return isinstance(event.fact, ToolStarted) and bool(event.fact.changes)


def _is_inside(path: str) -> bool:
    return not path.startswith("/")


def _with_file(command: str) -> str:
    return command if FILE in command else f"{command} {FILE}"
