"""The host that clients talk to: the engine of one workspace. Queries are answered next door, in
`host_queries`, which is loaded with the first."""

import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery.core.commands import (
    Answer,
    Command,
    OpenTask,
    ReopenTask,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.facts import Event, Noted
from rookery.core.modes import NO_SANDBOX, Level
from rookery.engine.engine import Engine
from rookery.errors import CommandRejected, SettingsError, StorageError

if TYPE_CHECKING:
    from rookery.app.host_queries import Answers
    from rookery.app.local_host import HostParts
    from rookery.core.queries import Asking
    from rookery.engine.event_log import EventLog
    from rookery.engine.task import Task
    from rookery.engine.task_deps import Family

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


class LocalHost:
    """A host in this process. What looks at the disk runs in worker threads."""

    def __init__(self, engine: Engine, parts: "HostParts") -> None:
        self._engine = engine
        self._parts = parts

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
                consent = self._parts.consent
                chosen = command.level is not None or command.automatic is not None
                if consent.keeps_level and not chosen:
                    command = replace(command, level=consent.level)
            case SwitchMode(mode=mode):
                self._check_mode(mode)
            case _:
                pass
        await self._engine.send(command)

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        return self._engine.follow(task_id, after)

    @cached_property
    def _answers(self) -> "Answers":
        from rookery.app.host_queries import Answers

        return Answers(self._engine, self._parts)

    async def query(self, query: "Asking[T]") -> T:
        # mypy cannot infer that each query class is answered with its own type
        return cast(T, await self._answers.to(query))

    def _check_mode(self, mode: str) -> None:
        slugs = self._parts.briefing.slugs()
        if mode not in slugs:
            raise CommandRejected(f"No such mode: {mode!r}. Available: {', '.join(slugs)}.")

    def _check_model(self, provider: str, model: str) -> None:
        if not model.strip() or not (provider + model).isprintable():
            raise CommandRejected(f"{model!r} is not a valid model name.")
        try:
            self._parts.models.of(provider, model)
        except SettingsError as error:
            raise CommandRejected(str(error)) from error

    async def _check_sandbox(self) -> None:
        if not await anyio.to_thread.run_sync(lambda: self._parts.can_be_offline):
            raise CommandRejected(NO_SANDBOX)
