"""The families that need worktrees, put together."""

from collections.abc import Callable, Mapping

from rookery.core.settings import Settings
from rookery.manager.desk.agreed_scripts import AgreedScripts
from rookery.manager.desk.desk import Family
from rookery.manager.desk.review_family import ReviewFamily
from rookery.manager.desk.run_scripts import RunScripts
from rookery.manager.desk.setting_up import SettingUp
from rookery.manager.desk.starting import StartFamily
from rookery.manager.desk.worktree_access import WorktreeAccess
from rookery.manager.desk.worktree_family import WorktreeFamily
from rookery.manager.supervisor import Supervisor
from rookery.platform.user_folders import Places
from rookery.workspace.worktrees.fetching import Fetching


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
