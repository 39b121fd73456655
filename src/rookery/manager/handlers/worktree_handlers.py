"""The families that need worktrees, put together."""

from collections.abc import Callable, Mapping

from rookery.core.settings import Settings
from rookery.manager.handlers.agreed_scripts import AgreedScripts
from rookery.manager.handlers.review_handler import ReviewFamily
from rookery.manager.handlers.router import Family
from rookery.manager.handlers.run_scripts import RunScripts
from rookery.manager.handlers.start_handler import StartFamily
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_handler import WorktreeFamily
from rookery.manager.handlers.worktree_setup import SettingUp
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.worktrees.fetch import Fetching
from rookery.platform.user_folders import Places


def worktree_families(
    supervisor: Supervisor,
    places: Places,
    environ: Mapping[str, str],
    settings: Callable[[], Settings],
    *,
    fetching: Fetching | None = None,
) -> tuple[Family, ...]:
    """They see to it that no session runs where it does not belong, and go on with removals that
    were broken off."""
    access = WorktreeAccess(supervisor, places, fetching=fetching)
    agreed = AgreedScripts(access.project, places)
    scripts = RunScripts(access.project, places, environ, supervisor.group)
    worktrees = WorktreeFamily(access, agreed, scripts)
    supervisor.ready_to_run = access.ready_to_run
    supervisor.group.start_soon(worktrees.recover)
    return (
        StartFamily(access, SettingUp(access, agreed, scripts, environ), settings),
        worktrees,
        ReviewFamily(access, places, settings),
    )
