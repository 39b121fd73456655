"""What the Agent Manager is told of models, modes and settings by the program it is part of."""

import os
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from rookery.core.queries import AskModels, AskModes, KnownMode, KnownModel
from rookery.core.settings import Settings
from rookery.manager.dependencies import Form
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import Places
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings


class UsualSurroundings:
    """Those of a project. What its folder brings counts only if the folder is trusted."""

    def __init__(
        self, project: Path, places: Places, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._project = project
        self._places = places
        self._environ = environ

    def settings(self) -> Settings:
        trusted = TrustStore(self._places.trust_file).trusts(self._project)
        heard = self._project if trusted else None
        return find_settings(self._places.settings_file, heard, self._environ, {}).settings

    async def models(self) -> tuple[KnownModel, ...]:
        from rookery.app.host_queries import NOBODY, ask_a_host

        # a host of its own, in a loop of its own, so that what it begins ends with it
        known = await anyio.to_thread.run_sync(ask_a_host, self._project, AskModels(local=True))
        return tuple(each for each in known if each.model != NOBODY.model)

    async def modes(self) -> tuple[KnownMode, ...]:
        from rookery.app.host_queries import ask_a_host

        return await anyio.to_thread.run_sync(ask_a_host, self._project, AskModes())

    def document(self, task_id: str, form: Form) -> str:
        from rookery.storage.cli.session_commands import session_document

        return session_document(TaskStore(self._places), task_id, form)
