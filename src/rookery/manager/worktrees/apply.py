"""Applies a worktree's changes to the project's files: all of them, or none.

Everything is tried first with a temporary index. The project's files are written only if every file
merges, and what they held before is saved.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from rookery import faults
from rookery.manager.worktrees.checkout_files import tree_of
from rookery.manager.worktrees.keep import keep_files
from rookery.manager.worktrees.merge import (
    Conflict,
    demand_no_conflict,
    demand_no_filter,
    merged_tree,
    stage_all,
)
from rookery.platform.descriptors import Attributes, attributes_at, keep_attributes
from rookery.platform.worktree_git import Git, GitCommandFailed, InTheWay, own_index
from rookery.platform.worktree_project import Project, git_of
from rookery.platform.worktree_values import AppliedWork, ApplyPlan, Code, Worktree

_PATCH = ("diff", "--binary", "--full-index", "--no-renames", "--no-color", "--src-prefix=a/")


class Changes(Struct, frozen=True, kw_only=True):
    """The changes of a worktree since its merge base with the project."""

    base: str
    commit: str
    """The base with the changes, as a commit without a reference."""
    paths: tuple[str, ...]
    notes: tuple[str, ...]


def plan_apply(project: Project, worktree: Worktree, only: Sequence[str] = ()) -> ApplyPlan:
    """Dry run of `apply`, which changes nothing. Raises `InTheWay` with the conflicting files."""
    with project.alone():
        return _make_plan(project, worktree, only)


def apply(
    project: Project, worktree: Worktree, only: Sequence[str] = (), *, agreed: str | None = None
) -> AppliedWork:
    """Apply all changes, or those to the files in `only`. The project's index stays as it is.
    Does nothing if the plan's token is not `agreed`."""
    with project.alone():
        plan = _make_plan(project, worktree, only)
        if agreed not in (None, plan.token):
            raise InTheWay(
                Code.CHANGED,
                "Something changed since you saw the plan, so nothing was applied; look again.",
                plan.paths,
            )
        patch = project.git.run(*_PATCH, plan.before, plan.after).out
        kept = keep_files(project, plan.paths, f"Files before {worktree.branch} was applied")
        attributes = _attributes_of(project.folder, plan.paths)
        faults.kp("worktree.applying")
        try:
            project.git.run("apply", "--whitespace=nowarn", "-", given=patch)
        except GitCommandFailed as error:
            raise InTheWay(
                error.code,
                f"{worktree.branch} could not be applied: {error.reason}"
                f"{f' (your files are saved as {kept.ref})' if kept else ''}.",
                plan.paths,
            ) from error
        faults.kp("worktree.applied")
        lost = _restore_attributes(project.folder, attributes)
        return AppliedWork(paths=plan.paths, keep=kept, notes=(*plan.notes, *lost))


def _attributes_of(root: Path, paths: Sequence[str]) -> dict[str, Attributes]:
    """Attributes of the files, since git recreates each file with only a mode."""
    files = {path: root / path for path in paths if not (root / path).is_symlink()}
    found = {path: attributes_at(file) for path, file in files.items() if file.is_file()}
    return {path: attributes for path, attributes in found.items() if attributes}


def _restore_attributes(root: Path, attributes: Mapping[str, Attributes]) -> Iterator[str]:
    """Restore the attributes. Yields a sentence for each file that had to be made private
    instead."""
    for path, kept in attributes.items():
        file = root / path
        if file.is_symlink() or not file.is_file():
            continue
        with file.open("rb") as opened:
            try:
                keep_attributes(opened.fileno(), _with_new_mode(opened.fileno(), kept))
            except OSError as error:
                os.fchmod(opened.fileno(), 0o600)
                why = f"its permissions could not be kept ({error.strerror})"
                yield f"Only you can read {path} now: {why}."


def _with_new_mode(file: int, kept: Attributes) -> Attributes:
    """Keep git's new executable bit."""
    is_program = os.fstat(file).st_mode & stat.S_IXUSR
    if is_program == kept.mode & stat.S_IXUSR:
        return kept
    runs = kept.mode >> 2 & 0o111  # each reader may run the file
    return replace(kept, mode=kept.mode | runs if is_program else kept.mode & ~0o111)


def _make_plan(project: Project, worktree: Worktree, only: Sequence[str]) -> ApplyPlan:
    demand_no_conflict(project.git)
    changes = _changes(project, worktree, only)
    touched = changes.paths
    while True:
        _demand_plain_places(project.folder, touched)
        before = _tree_of_project(project, touched)
        after = _merge(project.git, changes, before)
        names = _names(project.git, before, after)
        more = [path for path in names if path not in touched]
        if not more:
            break
        touched = (*touched, *more)  # the project renamed a changed file
    if not names:
        raise InTheWay(Code.NOTHING_TO_DO, "The project already has all of these changes.")
    return ApplyPlan(
        worktree=worktree, paths=names, before=before, after=after, notes=changes.notes
    )


def _changes(project: Project, worktree: Worktree, only: Sequence[str]) -> Changes:
    for path in only:
        demand_relative(path)
    git = git_of(project, worktree)
    demand_no_conflict(git)
    base = git.ask("merge-base", "HEAD", project.git.commit("HEAD")).text.strip()
    if not base:
        raise InTheWay(
            Code.BASE_NOT_FOUND, f"{worktree.branch} and the project have no commit in common."
        )
    with own_index(git) as index:
        notes = stage_all(git, **index)
        tree = git.output("write-tree", **index)
    names = _names(git, base, tree, *only)
    if not names:
        raise InTheWay(Code.NOTHING_TO_DO, f"{worktree.branch} has no changes to apply.")
    demand_no_filter(git, names)
    chosen = _with_only(git, base, tree, names) if only else tree
    return Changes(base=base, commit=_commit(git, chosen, base), paths=names, notes=notes)


def _with_only(git: Git, base: str, tree: str, names: Sequence[str]) -> str:
    """The tree of the base with these files taken from `tree`."""
    new, none = tree_of(git, tree), "0" * len(tree)
    with own_index(git) as index:
        git.run("read-tree", base, variables=index)
        rows = [
            f"{new[name].mode} {new[name].id}\t{name}\0" if name in new else f"0 {none}\t{name}\0"
            for name in names
        ]
        given = b"".join(os.fsencode(row) for row in rows)
        git.run("update-index", "-z", "--index-info", given=given, variables=index)
        return git.output("write-tree", **index)


def _tree_of_project(project: Project, paths: Sequence[str]) -> str:
    """The project's index as a tree, with the working copies at these paths."""
    with own_index(project.git) as index:
        project.git.add(paths, **index)
        return project.git.output("write-tree", **index)


def _merge(git: Git, changes: Changes, before: str) -> str:
    try:
        return merged_tree(git, _commit(git, before, changes.base), changes.commit)
    except Conflict as error:
        raise InTheWay(
            Code.CONFLICT,
            (
                "These changes conflict with the project, which was not changed: "
                f"{', '.join(error.paths)}."
            ),
            error.paths,
        ) from error


def _commit(git: Git, tree: str, parent: str) -> str:
    return git.output("commit-tree", "--no-gpg-sign", "-m", "-", "-p", parent, tree)


def _names(git: Git, old: str, new: str, *only: str) -> tuple[str, ...]:
    words = ("diff", "--name-only", "--no-renames", "-z", old, new, "--", *only)
    return tuple(git.names(*words))


def demand_relative(path: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise InTheWay(Code.OUTSIDE, f"{path!r} is not a path inside the project.", [path])


def _demand_plain_places(root: Path, paths: Sequence[str]) -> None:
    """Refuse paths through links, which could lead outside, and files where a folder is."""
    for path in paths:
        place = root / path
        above = [root / parent for parent in PurePosixPath(path).parents if parent.parts]
        if any(each.is_symlink() or each.is_file() for each in above):
            raise InTheWay(
                Code.CONFLICT,
                f"A parent of {path} is a link or a file in the project; move it away first.",
                [path],
            )
        if place.is_dir() and not place.is_symlink():
            raise InTheWay(
                Code.CONFLICT, f"{path} is a folder in the project; move it away first.", [path]
            )
        if not os.access(next(each for each in place.parents if each.is_dir()), os.W_OK):
            raise InTheWay(
                Code.CONFLICT, f"{path} is in a folder that cannot be written to.", [path]
            )
