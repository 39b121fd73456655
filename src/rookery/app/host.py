"""The host that clients talk to: the engine of one workspace, and answers to queries about it."""

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.app.briefing import Briefing
from rookery.app.open_models import Models
from rookery.core.commands import (
    Answer,
    Command,
    OpenTask,
    ReopenTask,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.facts import Event, FilesChanged, FilesRestored, Noted
from rookery.core.folds.task_state import fold
from rookery.core.levels import CYCLE, NO_SANDBOX, Level
from rookery.core.queries import (
    About,
    AskAbout,
    AskCommands,
    AskContext,
    AskDifferences,
    Asking,
    AskIntents,
    AskModels,
    AskModes,
    AskPaths,
    AskPermissions,
    AskRehearsal,
    AskRest,
    AskServers,
    AskTasks,
    FileDifference,
    FoundPath,
    KnownCommand,
    KnownContext,
    KnownIntent,
    KnownMcpServer,
    KnownMode,
    KnownTask,
    Permissions,
    RestoreRehearsal,
)
from rookery.core.text.text_lines import line_diff
from rookery.engine.engine import Engine
from rookery.engine.ports.hooks import RuleBook
from rookery.errors import CommandRejected, RookeryError, SettingsError, StorageError
from rookery.storage.sessions import TaskStore

if TYPE_CHECKING:
    from rookery.app.local_host import HostParts
    from rookery.engine.event_log import EventLog
    from rookery.engine.task import Task
    from rookery.engine.task_deps import Family
    from rookery.storage.summary import TaskSummary

T = TypeVar("T")
Contents: TypeAlias = Sequence[tuple[str, bytes | None, bytes | None]]
"""The content of each changed file before and after."""


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await event.wait()


MakeTask: TypeAlias = "Callable[[str, EventLog, Family], Task]"


def observed(parts: "HostParts", make: MakeTask) -> MakeTask:
    """The same, and telemetry watches the logs, if the user configured an address for it."""
    if parts.settings.telemetry.endpoint is None:
        return make
    from rookery.telemetry.recorder import TelemetryRecorder

    logs: list[EventLog] = []

    def report(text: str) -> None:
        if logs and not logs[-1].ended:
            with suppress(StorageError):
                logs[-1].append(Noted(text=text))
        else:
            print(text, file=sys.stderr)

    def make_watched(task_id: str, log: "EventLog", family: "Family") -> "Task":
        recorder.watch(task_id, log)
        logs[:] = [each for each in logs if not each.ended] + [log]
        return make(task_id, log, family)

    recorder = TelemetryRecorder(parts.settings.telemetry, report)
    parts.stack.push_async_callback(recorder.aclose)
    parts.start_soon(recorder.run)
    return make_watched


class QuerySources(Struct, frozen=True, kw_only=True):
    """Where a host looks up the answers to queries."""

    about: Callable[[], About]
    briefing: Briefing
    models: Models
    store: TaskStore
    intents: Callable[[], Awaitable[tuple[KnownIntent, ...]]]
    servers: Callable[[], tuple[KnownMcpServer, ...]]
    context: Callable[[Sequence[Event]], Awaitable[KnownContext]]
    """Reports what the model gets, for the events of a session."""
    paths: Callable[[], Sequence[FoundPath]]
    """All files and folders that the agent may see."""
    recorded_level: Level | None
    """The level that new sessions record, unless their client names another."""
    rules: Callable[[], RuleBook]
    """Returns the rules of tasks that are not open yet."""
    can_be_offline: Callable[[], bool]
    """Whether commands can be started without network."""
    contents: Callable[[str, str], Awaitable[Contents]] | None
    """Returns the differences between two checkpoints; None if checkpoints are off."""


class LocalHost:
    """A host in this process. Disk access runs in worker threads."""

    def __init__(self, engine: Engine, known: QuerySources) -> None:
        self._engine = engine
        self._known = known

    async def send(self, command: Command) -> None:
        match command:
            case (
                SwitchApproval(level=Level.SANDBOXED)
                | ReopenTask(level=Level.SANDBOXED)
                | Answer(level=Level.SANDBOXED)
            ):
                await self._check_sandbox()
            case SwitchModel(provider=provider, model=model):
                self._check_model(provider, model)
            case OpenTask(mode=mode, provider=provider, model=model):
                self._check_mode(mode)
                if command.level is Level.SANDBOXED:
                    await self._check_sandbox()
                if model:
                    self._check_model(provider, model)
                if command.level is None and command.automatic is None:
                    command = replace(command, level=self._known.recorded_level)
            case SwitchMode(mode=mode):
                self._check_mode(mode)
            case _:
                pass
        await self._engine.send(command)

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        return self._engine.follow(task_id, after)

    async def query(self, query: Asking[T]) -> T:
        # mypy cannot infer that each query class is answered with its own type
        return cast(T, await self._answer(query))

    async def _answer(self, query: object) -> object:
        match query:
            case AskAbout():
                return self._known.about()
            case AskRest():
                return self._engine.is_idle
            case AskModes():
                return tuple(_modes(self._known.briefing))
            case AskCommands():
                return await anyio.to_thread.run_sync(self._commands)
            case AskPermissions(task_id=task_id):
                return await anyio.to_thread.run_sync(self._permissions, task_id)
            case AskIntents():
                return await self._known.intents()
            case AskContext(task_id=task_id):
                events = self._engine.events(task_id) if task_id else ()
                return await self._known.context(events)
            case AskServers():
                return await anyio.to_thread.run_sync(self._known.servers)
            case AskModels(local=local):
                return await self._known.models.known(local=local)
            case AskTasks(words=words, most=most):
                return await anyio.to_thread.run_sync(self._tasks, words, most)
            case AskPaths(letters=letters, most=most):
                return await anyio.to_thread.run_sync(self._paths, letters, most)
            case AskDifferences(task_id=task_id, since=since, until=until):
                return await self._differences(task_id, since, until)
            case AskRehearsal(task_id=task_id, to=to, overwrite=overwrite):
                return await self._rehearsal(task_id, to, overwrite)
            case _:
                raise CommandRejected(f"This host cannot answer {type(query).__name__}.")

    def _check_mode(self, mode: str) -> None:
        slugs = self._known.briefing.slugs()
        if mode not in slugs:
            raise CommandRejected(f"No such mode: {mode!r}. Available: {', '.join(slugs)}.")

    def _check_model(self, provider: str, model: str) -> None:
        if not model.strip() or not (provider + model).isprintable():
            raise CommandRejected(f"{model!r} is not a valid model name.")
        try:
            self._known.models.of(provider, model)
        except SettingsError as error:
            raise CommandRejected(str(error)) from error

    async def _check_sandbox(self) -> None:
        if not await anyio.to_thread.run_sync(self._known.can_be_offline):
            raise CommandRejected(NO_SANDBOX)

    def _permissions(self, task_id: str) -> Permissions:
        rules = self._engine.rules(task_id) if task_id else self._known.rules()
        events = self._engine.events(task_id) if task_id else ()
        sandboxed = self._known.can_be_offline()
        return Permissions(
            level=fold(events).level or self._known.about().level,
            levels=tuple(each for each in CYCLE if sandboxed or each is not Level.SANDBOXED),
            rules=tuple(rules.listed()),
        )

    def _commands(self) -> tuple[KnownCommand, ...]:
        """List slash commands, then skills. A command hides a skill of the same name."""
        commands = {
            each.name: KnownCommand(
                name=each.name,
                description=each.description,
                argument_hint=each.argument_hint,
                source=each.origin,
            )
            for each in self._known.briefing.commands()
        }
        for skill in self._known.briefing.skills(self._known.about().mode):
            command = KnownCommand(name=skill.name, description=skill.description, source="skill")
            commands.setdefault(skill.name, command)
        return tuple(commands.values())

    def _tasks(self, words: str, most: int) -> tuple[KnownTask, ...]:
        store, workspace = self._known.store, self._known.about().workspace
        try:
            if words.strip():
                found = store.search(words, workspace)[:most]
                return tuple(replace(_known(each.task), excerpt=each.snippet) for each in found)
            return tuple(map(_known, store.list(workspace, hidden=False)[:most]))
        except RookeryError as error:
            raise CommandRejected(str(error)) from error

    def _paths(self, letters: str, most: int) -> tuple[FoundPath, ...]:
        from rookery.core.text.characters import best_matches

        known = self._known.paths()
        return tuple(best_matches(known, letters, most, lambda each: each.path))

    async def _differences(
        self, task_id: str, since: int, until: int | None
    ) -> tuple[FileDifference, ...]:
        contents = self._known.contents
        if contents is None:
            raise CommandRejected("Checkpoints are turned off, so the changes are not known.")
        first: dict[str, bytes | None] = {}
        last: dict[str, bytes | None] = {}
        try:
            for before, after in _steps(self._engine.events(task_id), since, until):
                for path, old, new in await contents(before, after):
                    first.setdefault(path, old)
                    last[path] = new
        except RookeryError as error:
            raise CommandRejected(str(error)) from error
        return tuple(_difference(path, first[path], last[path]) for path in sorted(first))

    async def _rehearsal(self, task_id: str, to: int, overwrite: bool) -> RestoreRehearsal:
        done = await self._engine.rehearse(task_id, to, overwrite=overwrite)
        return RestoreRehearsal(
            written=tuple(each.path for each in done.effects if each.after),
            removed=tuple(each.path for each in done.effects if not each.after),
            kept=done.kept,
            problem=done.problem,
        )


def _modes(briefing: Briefing) -> Iterator[KnownMode]:
    for mode in briefing.modes:
        yield KnownMode(
            slug=mode.slug,
            name=mode.name,
            when_to_use=mode.when_to_use or mode.description,
            source=mode.source,
        )


def _known(task: "TaskSummary") -> KnownTask:
    return KnownTask(
        task_id=task.id,
        title=task.title,
        workspace=task.workspace,
        parent=task.parent,
        mode=task.mode,
        status=task.status.value,
        created=task.created,
        updated=task.updated,
        tokens_in=task.tokens_in,
        tokens_out=task.tokens_out,
        cost=task.cost,
    )


def _steps(events: Sequence[Event], since: int, until: int | None) -> Iterator[tuple[str, str]]:
    """Yield the pairs of checkpoints between which files changed, oldest first."""
    for event in events:
        match event.fact:
            case (
                FilesChanged(before=before, after=after) | FilesRestored(before=before, after=after)
            ) if event.seq > since and (until is None or event.seq <= until) and before != after:
                yield before, after
            case _:
                pass


def _difference(path: str, old: bytes | None, new: bytes | None) -> FileDifference:
    before, after = _text(old), _text(new)
    diff = "" if before is None or after is None else line_diff(before, after).text
    if old is None:
        return FileDifference(path=path, change="added", diff=diff)
    return FileDifference(path=path, change="changed" if new is not None else "removed", diff=diff)


def _text(data: bytes | None) -> str | None:
    """Decode a file's content: empty if it does not exist, None if it is binary."""
    if data is None:
        return ""
    if b"\0" in data:
        return None
    return data.decode("utf-8", "replace")
