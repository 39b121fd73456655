"""Where a new branch begins: at what the remote has now, if it answers.

This is the one place where git may use the network. It asks nobody anything and runs no program
that the repository names.
"""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_values import Code

PROTOCOLS = ("https", "ssh")
FRESH_SECONDS = 60.0
LONGEST = 30.0
_NO_PROGRAMS = ("-c", "credential.helper=", "-c", "core.alternateRefsCommand=true")
_OPTIONS = (
    "--no-tags",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--upload-pack=git-upload-pack",
)


class StartPoint(Struct, frozen=True, kw_only=True):
    branch: str
    commit: str
    remote: str = ""
    notes: tuple[str, ...] = ()


class Fetching:
    """Remembers for a minute what it has fetched. No protocols: it fetches nothing."""

    def __init__(
        self, protocols: Sequence[str] = PROTOCOLS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._protocols = tuple(protocols)
        self._clock = clock
        self._fetched: dict[tuple[str, str, str], float] = {}

    def fetch(self, project: Project, remote: str, branch: str) -> bool:
        key = (str(project.common), remote, branch)
        if self._clock() - self._fetched.get(key, float("-inf")) < FRESH_SECONDS:
            return True
        if not self._protocols or not self._asked(project, remote, branch):
            return False
        self._fetched[key] = self._clock()
        return True

    def _asked(self, project: Project, remote: str, branch: str) -> bool:
        allowed = {
            "GIT_ALLOW_PROTOCOL": ":".join(self._protocols),
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=10",
        }
        spec = f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
        try:
            words = (*_NO_PROGRAMS, "fetch", *_OPTIONS, "--", remote, spec)
            return not project.git.ask(*words, variables=allowed, seconds=LONGEST).status
        except InTheWay:
            return False


def start_point(
    project: Project, fetching: Fetching, *, base: str = "", default: str = ""
) -> StartPoint:
    """`base` is what the user wants, `default` what is set for the project and may be gone."""
    branch = base or _chosen(project, default)
    remote = _remote_of(project, branch)
    tracking = f"refs/remotes/{remote}/{branch}"
    fetched = bool(remote) and fetching.fetch(project, remote, branch)
    there, here = project.git.commit(tracking), project.git.commit(f"refs/heads/{branch}")
    notes: tuple[str, ...] = ()
    if remote and there and not fetched:
        notes = (f"{remote} did not answer; {branch} may be older than what it has.",)
    if there and not (here and project.git.succeeds("merge-base", "--is-ancestor", there, here)):
        return StartPoint(branch=branch, commit=there, remote=remote, notes=notes)
    if here:
        return StartPoint(branch=branch, commit=here, remote=remote, notes=notes)
    if base and (named := project.git.commit(base)):
        return StartPoint(branch=base, commit=named)
    raise InTheWay(Code.BASE_NOT_FOUND, f"There is no branch {branch} to begin with; name another.")


def _chosen(project: Project, default: str) -> str:
    local = project.branches
    for remote in project.remotes:
        head = project.git.ask("symbolic-ref", "-q", "--short", f"refs/remotes/{remote}/HEAD")
        named = head.text.strip().removeprefix(f"{remote}/")
        if default and project.git.commit(f"refs/remotes/{remote}/{default}"):
            return default
        if named and default not in local:
            return named
    first = local[0] if local else ""
    return default if default in local else project.current_branch or first


def _remote_of(project: Project, branch: str) -> str:
    """Its own, else `origin`, else the only one there is."""
    remotes = project.remotes
    own = project.git.ask("config", "--get", f"branch.{branch}.remote").text.strip()
    if own in remotes:
        return own
    if "origin" in remotes:
        return "origin"
    return remotes[0] if len(remotes) == 1 else ""
