"""Hosts for programs.

Leaving a host ends every session and process of it. The journal keeps each session as it was, so
that another host or the command line can resume it.
"""

import inspect
import os
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from rookery.api.sessions import Answers, OpenSession, TurnResult
from rookery.app.additions import AddedHook, Additions, Veto
from rookery.app.local_host import open_host
from rookery.app.model_choice import ModelChoice, choose_model
from rookery.app.task_hooks import Consent
from rookery.core.commands import Command, OpenTask, ReopenTask
from rookery.core.modes import Level
from rookery.core.settings import Settings
from rookery.engine.ports.model import Provider
from rookery.engine.ports.tool import Tool
from rookery.errors import UsageError, first_error
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.codec import Host
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings

GIVEN = "given"
"""The name of a provider that was passed to `open`."""

LevelName: TypeAlias = Literal["plan", "ask", "edits", "sandboxed", "auto"]


class OpenHost:
    """A host for one folder, in this process."""

    def __init__(self, host: Host, group: TaskGroup, store: TaskStore, mode: str) -> None:
        self._host = host
        self._group = group
        self._store = store
        self._mode = mode
        self._closed = False
        self._sessions: list[OpenSession] = []
        self._open: dict[str, OpenSession] = {}
        """The sessions that have not ended, by id."""
        self.notes: tuple[str, ...] = ()
        """What the user should know: settings that were ignored."""

    async def start(
        self, prompt: str, *, mode: str = "", level: LevelName | None = None
    ) -> OpenSession:
        """Start a session. Raises `CommandRejected` if the mode or the level is not available, and
        `UsageError` if there is no such level."""
        session = self._new(str(uuid.uuid4()))
        command = OpenTask(
            task_id=session.id,
            text=prompt,
            mode=mode or self._mode,
            level=_level(level),
        )
        return await self._follow(session, command)

    async def resume(self, session_id: str) -> OpenSession:
        """Reopen a session. It does nothing until `proceed` or `say`."""
        if (before := self._open.get(session_id)) and not before.is_closed:
            raise UsageError(f"Session {session_id} is open in this host already.")
        if before:
            before.leave()
            await before.has_ended.wait()
        stored = await anyio.to_thread.run_sync(lambda: list(self._store.read(session_id)))
        session = self._new(session_id, stored[-1].seq if stored else 0)
        await self._follow(session, ReopenTask(task_id=session_id))
        async for _ in session.events():
            pass
        return session

    async def run(
        self, prompt: str, *, mode: str = "", answer: Answers | None = None
    ) -> TurnResult:
        """Start a session and follow its first turn, as `OpenSession.finish` does."""
        session = await self.start(prompt, mode=mode)
        return await session.finish(answer)

    def _new(self, session_id: str, after: int = 0) -> OpenSession:
        if self._closed:
            raise UsageError("The host is closed. Open a new one.")
        self._sessions.append(OpenSession(self._host, session_id, after))
        return self._sessions[-1]

    async def _follow(self, session: OpenSession, command: Command) -> OpenSession:
        await self._host.send(command)
        self._open[session.id] = session
        self._group.start_soon(self._keep, session)
        return session

    async def _keep(self, session: OpenSession) -> None:
        await session.follow()
        del self._open[session.id]
        session.has_ended.set()

    def leave(self) -> None:
        """End all sessions for the program: the host is being closed."""
        self._closed = True
        for session in self._sessions:
            session.leave()


@asynccontextmanager
async def open(
    folder: str | os.PathLike[str] = ".",
    *,
    provider: str | Provider | None = None,
    model: str | None = None,
    level: LevelName | None = None,
    trust: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    tools: Sequence[Tool[Any]] = (),
    hooks: Sequence[AddedHook | Veto] = (),
) -> AsyncIterator[OpenHost]:
    """Open a host for a folder. Leaving the context ends every session and process.

    `trust` is for this run only; None uses the trust that you stored with `rookery trust`. An
    untrusted folder is only read. `settings` override the settings files, by name. Raises
    `SettingsError` if no model can be called.
    """
    if sniffio := sys.modules.get("sniffio"):  # anyio asks it, and it fails outside tasks
        sniffio.current_async_library_cvar.set("asyncio")
    workspace, places = _workspace(folder), find_places(os.environ)
    own = Additions(tools=tuple(tools), hooks=tuple(hooks), providers=_given(provider))
    named = provider if provider is None or isinstance(provider, str) else GIVEN
    flags = _flags(named, model, _level(level), settings or {})
    trusted = TrustStore(places.trust_file).trusts(workspace) if trust is None else trust
    found = find_settings(places.settings_file, workspace if trusted else None, os.environ, flags)
    choose = partial(_choose, places)
    store, failure = TaskStore(places), None
    choice = await anyio.to_thread.run_sync(choose, found.settings)
    consent = Consent(level=found.settings.level(once=False), trusted=trusted)
    try:
        async with (
            open_host(
                found.settings,
                choice,
                store,
                workspace,
                places,
                consent,
                choose=choose,
                tools=own.with_tools,
                given=own.given(),
            ) as engine,
            anyio.create_task_group() as group,
        ):
            host = OpenHost(engine, group, store, found.settings.mode)
            host.notes = found.refused
            try:
                yield host
            except (Exception, GeneratorExit, KeyboardInterrupt, SystemExit) as error:
                failure = error  # raised below, as it is and not in a group
            finally:
                host.leave()
            group.cancel_scope.cancel()
    except ExceptionGroup as errors:
        raise first_error(errors) from errors
    if failure:
        raise failure


def _workspace(folder: str | os.PathLike[str]) -> Path:
    workspace = Path(folder).absolute()
    if not workspace.is_dir():
        raise UsageError(f"No such folder: {workspace}.")
    return workspace


def _level(name: LevelName | None) -> Level | None:
    if name is not None and name not in {*Level}:
        raise UsageError(f"No such level: {name!r}. Available: {', '.join(Level)}.")
    return Level(name) if name else None


def _given(provider: str | Provider | None) -> dict[str, Any]:
    if provider is None or isinstance(provider, str):
        return {}
    if not (hasattr(provider, "model") and hasattr(provider, "stream")):
        raise UsageError(f"{provider!r:.100} is not a provider: it needs a model and `stream`.")
    if inspect.isasyncgenfunction(provider.stream):
        raise UsageError(
            "A provider's `stream` must be an async context manager that yields the chunks, not "
            "an async generator. See examples/add_provider.py."
        )
    return {GIVEN: lambda model: provider}


def _choose(places: Places, settings: Settings) -> ModelChoice:
    if settings.provider == GIVEN:
        return ModelChoice(GIVEN, settings.model or "default", None, None)
    return choose_model(settings, os.environ, places.keys_file, None)


def _flags(
    provider: str | None, model: str | None, level: Level | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    chosen = {"provider": provider, "model": model, "approval": level}
    return {**settings, **{name: value for name, value in chosen.items() if value is not None}}
