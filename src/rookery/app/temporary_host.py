"""Queries about a folder without a session: from the command line and from the manager."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio

from rookery.app.local_host import open_host
from rookery.app.model_choice import ModelChoice, choice_without_flags
from rookery.app.task_hooks import Consent
from rookery.core.queries import Asking
from rookery.core.settings import Settings
from rookery.errors import SettingsError
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import Places, find_places, temporary_places
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings

T = TypeVar("T")

QUERY_TIMEOUT = 10.0
NO_MODEL = ModelChoice("ollama", "nobody", None, None)
"""A model that needs no key. It is never called."""


def query_host(workspace: Path, query: Asking[T], *, usual_model: bool = False) -> T:
    """Query a temporary host, which stores nothing, calls no model and starts no server. The
    folder's own settings count only if it is trusted. With `usual_model` the answer is about the
    model that a run would use, if there is one."""
    return anyio.run(_query, workspace, query, usual_model)


async def _query(workspace: Path, query: Asking[T], usual_model: bool) -> T:
    standard = find_places(os.environ)
    trusted = TrustStore(standard.trust_file).trusts(workspace)
    project = workspace if trusted else None
    settings = find_settings(standard.settings_file, project, os.environ, {}).settings
    choice = _usual_model(settings, standard) if usual_model else NO_MODEL
    with temporary_places(standard) as places:
        try:
            with anyio.fail_after(QUERY_TIMEOUT):
                async with open_host(
                    settings,
                    choice,
                    TaskStore(places),
                    workspace,
                    places,
                    Consent(trusted=trusted),
                    choose=lambda _: choice,
                ) as host:
                    return await host.query(query)
        except TimeoutError as error:
            raise SettingsError(f"No answer within {QUERY_TIMEOUT:g} s.") from error


def _usual_model(settings: Settings, places: Places) -> ModelChoice:
    with suppress(SettingsError):
        return choice_without_flags(settings, os.environ, places.keys_file) or NO_MODEL
    return NO_MODEL
