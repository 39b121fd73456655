"""Queries to a temporary host, for commands that need nothing else from it.

The host stores nothing, calls no model and starts no server.
"""

import os
from pathlib import Path
from typing import TypeVar

import anyio

from rookery.app.local_host import Consent, open_host
from rookery.app.model_choice import ModelChoice
from rookery.core.queries import Asking
from rookery.core.settings import Settings
from rookery.errors import SettingsError
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places, temporary_places
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings

TIMEOUT = 10.0
NO_MODEL = ModelChoice("ollama", "nobody", None, None)
"""A model that needs no key. It is never called."""

T = TypeVar("T")


def query_host(workspace: Path, query: Asking[T]) -> T:
    """Run a query in a workspace. The folder's own settings count only if it is trusted."""
    return anyio.run(_query, workspace, query)


async def _query(workspace: Path, query: Asking[T]) -> T:
    standard = find_places(os.environ)
    trusted = TrustStore(standard.trust_file).trusts(workspace)
    project = workspace if trusted else None
    settings = find_settings(standard.settings_file, project, os.environ, {}).settings
    with temporary_places(standard) as places:
        try:
            with anyio.fail_after(TIMEOUT):
                async with open_host(
                    settings,
                    NO_MODEL,
                    TaskStore(places),
                    workspace,
                    places,
                    Consent(trusted=trusted),
                    choose=_choose_no_model,
                ) as host:
                    return await host.query(query)
        except TimeoutError as error:
            raise SettingsError(f"No answer within {TIMEOUT:g} s.") from error


def _choose_no_model(_: Settings) -> ModelChoice:
    return NO_MODEL
