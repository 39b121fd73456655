"""Implementations of the ports that the manager needs.

The project's own settings count only if its folder is trusted.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import anyio.to_thread

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.limits import Limits
from rookery.core.queries import (
    AskCommands,
    AskModels,
    AskModes,
    FoundPath,
    KnownCommand,
    KnownMode,
    KnownModel,
)
from rookery.core.settings import Settings
from rookery.core.settings_reference import checked, spelled
from rookery.core.text.characters import best_matches
from rookery.errors import SettingsError
from rookery.governance.project_views import ProjectViews
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import Places
from rookery.storage.session_copies import fork
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_edits import change_settings, with_value, without
from rookery.storage.settings_files import FoundSettings, find_settings, held_in, overriding_source

Key: TypeAlias = tuple[str, ...]


class ManagerFeatures:
    def __init__(
        self, project: Path, places: Places, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.tasks = TaskStore(places)
        self.trust = TrustStore(places.trust_file)
        self.governance = ProjectViews()
        self.user_settings = _UserSettings(places, self._found)
        self._project = project
        self._places = places
        self._environ = environ

    def settings(self) -> Settings:
        return self._found().settings

    def _found(self) -> FoundSettings:
        project = self._project if self.trust.trusts(self._project) else None
        return find_settings(self._places.settings_file, project, self._environ, {})

    def fork(self, source: str, task_id: str, *, at: int | None, now: int) -> int:
        return fork(self.tasks, source, task_id, at=at, now=now)

    def snapshots(self, workspace: Path, limits: Limits) -> ShadowCheckpoints:
        return ShadowCheckpoints(workspace, self._places.checkpoints, limits)

    def find_paths(self, workspace: Path, letters: str, most: int) -> tuple[FoundPath, ...]:
        from rookery.workspace.files import WorkspaceFiles
        from rookery.workspace.tree import WorkspaceFinder

        limits, own = Limits(), self._places.own_folders
        files = WorkspaceFiles(workspace, limits, own_folders=own, home=Path.home())
        known = WorkspaceFinder(workspace, files, limits).paths()
        return tuple(best_matches(known, letters, most, lambda each: each.path))

    async def models(self) -> tuple[KnownModel, ...]:
        from rookery.app.temporary_host import NO_MODEL, query_host

        # in its own event loop, so that everything the host starts ends with it
        known = await anyio.to_thread.run_sync(query_host, self._project, AskModels(local=True))
        return tuple(each for each in known if each.model != NO_MODEL.model)

    async def modes(self) -> tuple[KnownMode, ...]:
        from rookery.app.temporary_host import query_host

        return await anyio.to_thread.run_sync(query_host, self._project, AskModes())

    async def commands(self) -> tuple[KnownCommand, ...]:
        from rookery.app.temporary_host import query_host

        return await anyio.to_thread.run_sync(query_host, self._project, AskCommands())


class _UserSettings:
    def __init__(self, places: Places, found: Callable[[], FoundSettings]) -> None:
        self._places = places
        self._found = found

    def values_of(self, keys: Sequence[Key]) -> Sequence[tuple[Any, str]]:
        found = self._found()
        return [(held.value, held.origin) for key in keys for held in (held_in(found, key),)]

    def convert(self, key: Key, value: Any) -> Any:
        return checked(key, value, name=spelled(key))

    def change(self, key: Key, value: Any) -> str:
        file = self._places.settings_file
        if value is None:
            change_settings(file, lambda text: without(text, key, file), shared=False)
        else:
            change_settings(file, lambda text: with_value(text, key, value, file), shared=False)
        try:
            found = self._found()
        except SettingsError as error:  # other errors do not undo the change
            return str(error)
        source = overriding_source(found, key, file)
        return f"{source}." if source else ""
