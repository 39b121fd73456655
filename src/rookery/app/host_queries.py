"""The answers to what clients ask: looked up, nothing is changed."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec.structs import replace

from rookery import VERSION
from rookery.app.briefing import Briefing
from rookery.app.extra_tools import mcp_files
from rookery.app.task_hooks import task_rules
from rookery.core.facts import Event, FilesChanged, FilesRestored
from rookery.core.folds.view_start import view_start
from rookery.core.modes import CYCLE, Level
from rookery.core.queries import (
    About,
    AskAbout,
    AskCommands,
    AskContext,
    AskDifferences,
    AskIntents,
    AskModels,
    AskModes,
    AskPaths,
    AskPermissions,
    AskRehearsal,
    AskRest,
    AskServers,
    AskTasks,
    AskViewStart,
    FileDifference,
    FoundPath,
    KnownCommand,
    KnownMcpServer,
    KnownMode,
    KnownTask,
    Permissions,
    RestoreRehearsal,
    ViewStart,
)
from rookery.core.text.characters import best_matches
from rookery.core.text.text_lines import line_diff
from rookery.engine.engine import Engine
from rookery.errors import CommandRejected, RookeryError, StorageError

if TYPE_CHECKING:
    from rookery.app.local_host import HostParts


class Answers:
    """Disk access runs in worker threads."""

    def __init__(self, engine: Engine, parts: "HostParts") -> None:
        self._engine = engine
        self._parts = parts

    async def to(self, query: object) -> object:
        match query:
            case AskAbout():
                return self._about()
            case AskRest():
                return self._engine.is_idle
            case AskModes():
                return tuple(_modes(self._parts.briefing))
            case AskCommands():
                return await anyio.to_thread.run_sync(self._commands)
            case AskPermissions(task_id=task_id):
                return await anyio.to_thread.run_sync(self._permissions, task_id)
            case AskIntents():
                return await self._parts.oversight.known()
            case AskContext(task_id=task_id):
                from rookery.app.context_report import context_report

                events = self._engine.events(task_id) if task_id else ()
                return await context_report(self._parts, events)
            case AskServers():
                return await anyio.to_thread.run_sync(self._servers)
            case AskModels(local=local):
                return await self._parts.models.known(local=local)
            case AskTasks(words=words, most=most):
                return await anyio.to_thread.run_sync(self._tasks, words, most)
            case AskPaths(letters=letters, most=most):
                return await anyio.to_thread.run_sync(self._paths, letters, most)
            case AskDifferences(task_id=task_id, since=since, until=until):
                return await self._differences(task_id, since, until)
            case AskViewStart(task_id=task_id, upto=upto):
                return await self._view_start(task_id, upto)
            case AskRehearsal(task_id=task_id, to=to, overwrite=overwrite):
                return await self._rehearsal(task_id, to, overwrite)
            case _:
                raise CommandRejected(f"This host cannot answer {type(query).__name__}.")

    async def _view_start(self, task_id: str, upto: int | None) -> ViewStart:
        events = self._engine.events(task_id).copy()
        try:
            return await anyio.to_thread.run_sync(partial(view_start, events, upto=upto))
        except (OSError, StorageError):  # its file was replaced or closed meanwhile
            return view_start(self._engine.events(task_id), upto=upto)

    def _about(self) -> About:
        parts = self._parts
        settings, consent, choice = parts.settings, parts.consent, parts.choice
        allowances = {
            "edits": settings.approve_edits,
            "modes": settings.approve_modes,
            "subtasks": settings.approve_subtasks,
            "outside": consent.outside,
            "protected": consent.protected,
        }
        return About(
            version=VERSION,
            workspace=str(parts.workspace),
            provider=choice.provider,
            model=choice.name,
            window=parts.models.of("", "").model.window,
            effort=settings.reasoning_effort,
            automatic=consent.level is Level.AUTO,
            level=consent.level,
            trusted=consent.trusted,
            mode=settings.mode,
            allows=tuple(name for name, allowed in allowances.items() if allowed),
        )

    def _servers(self) -> tuple[KnownMcpServer, ...]:
        """The configured MCP servers, the project's first."""
        parts, workspace, places = self._parts, self._parts.workspace, self._parts.places
        if not places.any_mcp_servers(workspace):
            return ()
        from rookery.mcp.hub import overview

        trusted = parts.consent.trusted
        files = mcp_files(parts.settings, workspace, places, os.environ, trusted=trusted)
        _, found = overview(files, places.mcp_memory)
        known = [
            KnownMcpServer(
                name=each.name,
                source=each.source,
                state=each.state.value,
                error=each.error,
                tools=each.tools,
            )
            for each in found
        ]
        return tuple(sorted(known, key=lambda server: server.source != "project"))

    def _permissions(self, task_id: str) -> Permissions:
        rules = self._engine.rules(task_id) if task_id else task_rules(self._parts)
        level = self._engine.level(task_id) if task_id else None
        sandboxed = self._parts.can_be_offline
        return Permissions(
            level=level or self._parts.consent.level,
            levels=tuple(each for each in CYCLE if sandboxed or each is not Level.SANDBOXED),
            rules=tuple(rules.listed()),
        )

    def _commands(self) -> tuple[KnownCommand, ...]:
        """List slash commands, then skills. A command hides a skill of the same name."""
        briefing = self._parts.briefing
        commands = {
            each.name: KnownCommand(
                name=each.name,
                description=each.description,
                argument_hint=each.argument_hint,
                source=each.origin,
            )
            for each in briefing.commands()
        }
        for skill in briefing.skills(self._parts.settings.mode):
            command = KnownCommand(name=skill.name, description=skill.description, source="skill")
            commands.setdefault(skill.name, command)
        return tuple(commands.values())

    def _tasks(self, words: str, most: int) -> tuple[KnownTask, ...]:
        store, workspace = self._parts.store, str(self._parts.workspace)
        try:
            if words.strip():
                found = store.search(words, workspace)[:most]
                known = [replace(each.task.as_known(), excerpt=each.snippet) for each in found]
            else:
                listed = store.list(workspace, hidden=False)[:most]
                known = [each.as_known() for each in listed]
            running = self._engine.is_running
            return tuple(replace(each, running=running(each.task_id)) for each in known)
        except RookeryError as error:
            raise CommandRejected(str(error)) from error

    def _paths(self, letters: str, most: int) -> tuple[FoundPath, ...]:
        known = self._parts.finder.paths()
        return tuple(best_matches(known, letters, most, lambda each: each.path))

    async def _differences(
        self, task_id: str, since: int, until: int | None
    ) -> tuple[FileDifference, ...]:
        if not self._parts.settings.checkpoints.use:
            raise CommandRejected("Checkpoints are turned off, so the changes are not known.")
        first: dict[str, bytes | None] = {}
        last: dict[str, bytes | None] = {}
        try:
            for before, after in _steps(self._engine.events(task_id), since, until):
                for path, old, new in await self._parts.contents(before, after):
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
            unsaved=done.unsaved,
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
