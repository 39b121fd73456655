"""What a host knows, for commands that want nothing else of it.

The host is a throw-away: it keeps nothing, calls no model and starts no server.
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

PATIENCE = 10.0
NOBODY = ModelChoice("ollama", "nobody", None, None)
"""A model that needs no key; nothing is sent to it."""

T = TypeVar("T")


def ask_a_host(workspace: Path, query: Asking[T]) -> T:
    """What is known in a workspace. What a folder brings counts only if the folder is trusted."""
    return anyio.run(_asked, workspace, query)


async def _asked(workspace: Path, query: Asking[T]) -> T:
    usual = find_places(os.environ)
    trusted = TrustStore(usual.trust_file).trusts(workspace)
    heard = workspace if trusted else None
    settings = find_settings(usual.settings_file, heard, os.environ, {}).settings
    with temporary_places(usual) as places:
        try:
            with anyio.fail_after(PATIENCE):
                async with open_host(
                    settings,
                    NOBODY,
                    TaskStore(places),
                    workspace,
                    places,
                    Consent(trusted=trusted),
                    choose=_nobody,
                ) as host:
                    return await host.query(query)
        except TimeoutError as error:
            raise SettingsError(f"No answer within {PATIENCE:g} s.") from error


def _nobody(_: Settings) -> ModelChoice:
    return NOBODY
