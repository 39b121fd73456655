"""The git worktrees of workers: created from the last commit, kept if they hold changes.

The names are chosen before anything is created and are recorded in the session. So every step can
be repeated after a crash: a worktree that was not finished is made again, one that exists is used,
and a clean one is removed.
"""

import re
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio.to_thread

from rookery.core.facts import AgentTask
from rookery.core.modes import is_hosts_own
from rookery.engine.ports.tool import WorkerTree, WorkFile, WorkToApply
from rookery.errors import ToolError
from rookery.platform.git_folders import AGENT_PREFIX
from rookery.platform.own_programs import run_git
from rookery.platform.worktree_git import Git, GitCommandFailed, InTheWay, own_index
from rookery.platform.worktree_project import Project, Registered, registered_at

T = TypeVar("T")
MOST_FILES = 2_000
_LONGEST_NAME = 30
_OTHER = re.compile(r"[^a-z0-9]+")
_FILE, _PROGRAM, _NOTHING = "100644", "100755", "000000"


class AgentWorktrees:
    """Implements the port `Worktrees` for one workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    async def plan(self, name: str, task_id: str) -> WorkerTree:
        return await self._in_thread(partial(_plan, name=name, task_id=task_id))

    async def create(self, agent: AgentTask) -> None:
        await self._in_thread(partial(_create, agent=agent))

    async def settle(self, agent: AgentTask) -> str:
        return await self._in_thread(partial(_settle, agent=agent))

    async def work_on(self, branch: str) -> WorkToApply:
        return await self._in_thread(partial(_work_on, branch=branch))

    async def merged(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        return await self._in_thread(partial(_merged, base=base, ours=ours, theirs=theirs))

    async def _in_thread(self, work: Callable[[Project], T]) -> T:
        """Run git in a thread to its end, even if cancelled: half a worktree helps no one."""

        def run() -> T:
            try:
                return work(Project(self._workspace))
            except InTheWay as error:
                raise ToolError(str(error)) from error
            except OSError as error:
                where = f" ({error.filename})" if error.filename else ""
                raise ToolError(f"The system refused{where}: {error.strerror}.") from error

        return await anyio.to_thread.run_sync(run)


def _plan(project: Project, name: str, task_id: str) -> WorkerTree:
    project.demand_commits()
    base = project.git.commit("HEAD")
    if not base:
        raise ToolError("The current branch has no commit yet, so no worktree can start from it.")
    slug = _OTHER.sub("-", name.lower())[:_LONGEST_NAME].strip("-")
    # git allows no branch `agent/x` beside a branch `agent`
    between = "-" if AGENT_PREFIX in project.branches else "/"
    branch = f"{AGENT_PREFIX}{between}{slug or 'worker'}-{task_id[:6]}"
    return WorkerTree(branch=branch, folder=str(_folder(project, branch)), base=base)


def _folder(project: Project, branch: str) -> Path:
    """A session in a worktree puts those of its workers beside its own, which may be removed."""
    beside = project.folder.parent
    inside = (beside.name, beside.parent.name) == (project.place.name, project.place.parent.name)
    return (beside if inside else project.place) / branch.replace("/", "-")


def _create(project: Project, agent: AgentTask) -> None:
    folder = Path(agent.worktree)
    with project.alone():
        found = registered_at(project, folder)
        if found and not found.unfinished and (folder / ".git").exists():
            return
        if folder.parent == project.place:
            project.make_place()
        _discard(project, folder, found)
        words = ("--no-track", "-B", agent.branch, "--", agent.worktree, agent.base)
        try:
            project.git.run("worktree", "add", "-q", *words)
        except GitCommandFailed as error:
            _discard(project, folder, registered_at(project, folder))
            _drop_branch(project, agent)
            reason = f"The worktree for {agent.name} could not be created: {error.reason}."
            raise ToolError(reason) from error


def _discard(project: Project, folder: Path, found: Registered | None) -> None:
    """Remove a worktree in which nothing was done."""
    if found:
        project.git.ask("worktree", "remove", "--force", "--force", "--", str(folder))
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    if found and registered_at(project, folder):
        project.git.ask("worktree", "prune")


def _settle(project: Project, agent: AgentTask) -> str:
    folder = Path(agent.worktree)
    with project.alone():
        found = registered_at(project, folder)
        tip = project.git.commit(f"refs/heads/{agent.branch}")
        if not found or not folder.is_dir():
            _drop_branch(project, agent)
            return _stat(project.git, agent.base, tip) if tip else ""
        git = project.git.at(found.admin, found.folder)
        if stat := _stat(git, agent.base, _tree(git)):
            return stat
        if git.commit("HEAD") != agent.base or tip != agent.base:
            return "(It has commits that change no file in the end.)"
        project.git.run("worktree", "remove", "--force", "--", str(folder))
        _drop_branch(project, agent)
        return ""


def _drop_branch(project: Project, agent: AgentTask) -> None:
    """Delete the branch if it still is where it began."""
    project.git.ask("update-ref", "-d", f"refs/heads/{agent.branch}", agent.base)


def _tree(git: Git) -> str:
    """All files of a checkout as a tree, committed or not, except ignored ones."""
    with own_index(git) as index:
        git.run("add", "--all", variables=index)
        return git.output("write-tree", **index)


def _stat(git: Git, base: str, tree: str) -> str:
    said = git.output("diff", "--stat=100", "--stat-count=40", "--no-renames", base, tree)
    return "\n".join(map(str.strip, said.splitlines()))


def _work_on(project: Project, branch: str) -> WorkToApply:
    # by its folder: a worker may have switched the branch, and other worktrees are the user's
    found = registered_at(project, _folder(project, branch))
    if found is None or not found.folder.is_dir():
        raise ToolError(f"No worktree has the branch {branch!r}. Give the branch of a worker.")
    git = project.git.at(found.admin, found.folder)
    base = git.ask("merge-base", "HEAD", project.git.commit("HEAD")).text.strip()
    if not base:
        raise ToolError(f"{branch} and the workspace have no commit in common.")
    words = ("diff", "--raw", "-z", "--no-abbrev", "--no-renames", base, _tree(git))
    rows = git.names(*words)
    if len(rows) // 2 > MOST_FILES:
        raise ToolError(f"{branch} changes more than {MOST_FILES} files. Merge it with git.")
    files: list[WorkFile] = []
    left_out: list[str] = []
    for row, path in zip(rows[::2], rows[1::2], strict=True):
        old_mode, new_mode, old, new, _ = row.removeprefix(":").split()
        if is_hosts_own(path):
            continue  # the ledger of a checkout is its own
        if {old_mode, new_mode} - {_FILE, _PROGRAM, _NOTHING}:
            left_out.append(f"{path} is a link or a repository")
            continue
        if new_mode == _PROGRAM != old_mode:
            left_out.append(f"{path} is executable there")
        before = _content(git, old, path) if old_mode != _NOTHING else None
        after = _content(git, new, path) if new_mode != _NOTHING else None
        if before != after:
            files.append(WorkFile(path=path, before=before, after=after))
    return WorkToApply(files=tuple(files), left_out=tuple(left_out))


def _content(git: Git, blob: str, path: str) -> bytes:
    """A file as it is checked out, with the line ends that git's settings give it."""
    return git.run("cat-file", "--filters", f"--path={path}", blob).out


def _merged(project: Project, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="merge-") as folder:
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            (Path(folder) / name).write_bytes(data)
        words = ("merge-file", "-p", "-q", "ours", "base", "theirs")
        done = run_git(project.program, words, folder=folder)
        return done.out if done.status == 0 else None
