"""The flags about permissions: the level of a run."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rookery.cli.options import Options
from rookery.core.facts import Event
from rookery.core.folds.task_state import fold
from rookery.core.levels import KEPT, NO_SANDBOX, Level
from rookery.core.settings import Settings
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places


def require_sandbox(settings: Settings, workspace: Path, places: Places) -> None:
    """Raise `SettingsError` if commands cannot be started without network."""
    from rookery.app.command_parts import make_sandbox

    with closing(make_sandbox(settings, workspace, places)) as sandbox:
        if not sandbox.can_be_offline:
            raise SettingsError(NO_SANDBOX)


def kept_level(options: Options, stored: Sequence[Event]) -> Level | None:
    """The level that a session had before, if it is continued at a terminal and no flag names
    another. That it acted without asking does not survive."""
    level = fold(stored).level
    return level if options.interactive and not options.level and level in KEPT else None
