"""Bringing a worktree's changes into its branch."""

from collections.abc import Sequence

from rookery import faults
from rookery.manager.worktrees.contents import contents_of, index_of
from rookery.manager.worktrees.keep import keep
from rookery.manager.worktrees.names import folder_name
from rookery.manager.worktrees.uncommitted import uncommitted
from rookery.manager.worktrees.worktree_git import Git, InTheWay
from rookery.manager.worktrees.worktree_project import Project
from rookery.manager.worktrees.worktree_state import demand_branch, git_of
from rookery.manager.worktrees.worktree_values import (
    Code,
    Finished,
    Keep,
    Worktree,
    default_message,
)


def stage(project: Project, worktree: Worktree) -> Finished:
    """Stage everything, for somebody to commit. What was staged before in another version is
    kept, for staging forgets it. The commit is still empty in what is returned."""
    with project.alone():
        git = git_of(project, worktree)
        demand_branch(git, worktree)
        demand_no_conflict(git)
        kept = _staging(project, worktree, git)
        notes = stage_all(git)
        return Finished(commit="", files=len(staged(git)), keep=kept, notes=notes)


def finish(project: Project, worktree: Worktree, message: str = "") -> Finished:
    """Commit everything. Raises `InTheWay` if there is nothing, or a conflict."""
    with project.alone():
        git = git_of(project, worktree)
        demand_branch(git, worktree)
        demand_no_conflict(git)
        kept = _staging(project, worktree, git)
        notes = stage_all(git)
        faults.kp("worktree.staged")
        files = staged(git)
        if not files:
            raise InTheWay(Code.NOTHING_TO_DO, f"Nothing is left to commit in {worktree.branch}.")
        said = (message or default_message(worktree)).encode()
        git.run("commit", "-q", "--no-verify", "--no-gpg-sign", "-F", "-", given=said)
        faults.kp("worktree.committed")
        return Finished(commit=git.commit("HEAD"), files=len(files), keep=kept, notes=notes)


def staged(git: Git) -> list[str]:
    return git.names("diff", "--cached", "--name-only", "--no-renames", "-z")


def stage_all(git: Git, **variables: str) -> tuple[str, ...]:
    """Add everything to the index, or to the one that a variable names; what to say of what
    could not be."""
    nested = contents_of(git.folder).nested
    tracked = {*git.names("ls-files", "-z")}
    ours = [each for each in nested if each not in tracked]
    changed = git.names("ls-files", "-m", "-o", "-d", "--exclude-standard", "-z")
    paths = [path for path in dict.fromkeys(changed) if not _in(path, nested)]
    demand_no_filter(git, paths)
    given = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    words = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
    git.run(*words, given=given, variables=variables)
    return tuple(f"{each} is a repository of its own and was left out." for each in ours)


def demand_no_filter(git: Git, paths: Sequence[str]) -> None:
    """Filters are programs, and none is run here: without them the wrong bytes would be
    committed."""
    given = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    said = git.names("check-attr", "-z", "--stdin", "filter", given=given)
    rows = zip(said[::3], said[2::3], strict=False)
    found = [path for path, held in rows if held not in ("unspecified", "unset")]
    if found:
        raise InTheWay(
            Code.FILTERED,
            f"{found[0]} goes through a filter of git's that is not run here; commit it yourself.",
            found,
        )


def demand_no_conflict(git: Git) -> None:
    index = index_of(git)
    sides = sorted({path for stage, side in index.items() if stage for path in side})
    if sides:
        raise InTheWay(
            Code.UNFINISHED,
            f"{sides[0]} is in conflict in {git.folder}; resolve that first.",
            sides,
        )


def _staging(project: Project, worktree: Worktree, git: Git) -> Keep | None:
    """Keep what is staged in one version and there in another."""
    index = index_of(git).get(0, {})
    work = uncommitted(project, git, contents_of(git.folder), index.__contains__)
    there = {**work.committed, **work.changed}
    staged_only = [
        path
        for path, held in work.staged.items()
        if work.committed.get(path) != held and (path in work.gone or there.get(path) != held)
    ]
    if not staged_only:
        return None
    about = f"What was staged in {worktree.branch} before everything was"
    return keep(git, folder_name(worktree.branch), about, work)


def _in(path: str, folders: Sequence[str]) -> bool:
    return any(path.rstrip("/") == each or path.startswith(f"{each}/") for each in folders)
