"""Names of worktrees' branches and folders.

A name must be free as a branch and as a folder, and git allows no branch `a/b` next to a branch
`a`.
"""

import os
import re
from collections.abc import Collection
from itertools import count

from msgspec import Struct

from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.manager.worktrees.worktree_project import Project, registered
from rookery.manager.worktrees.worktree_values import Code

LONGEST = 50
PREFIX = "agent/"
MOST_VERSIONS = 4
LABEL = 40
_OTHER = re.compile(r"[^a-z0-9_]+")
_FIRST = ("amber", "brisk", "calm", "clear", "early", "gentle", "green", "keen", "quiet", "swift")
_SECOND = ("brook", "cedar", "field", "finch", "harbor", "maple", "meadow", "pine", "river", "rook")


class VersionPlan(Struct, frozen=True, kw_only=True):
    """Name and branch of one version of a prompt."""

    number: int
    label: str
    branch: str
    group_id: str
    """Empty for a single version."""


def slug(text: str) -> str:
    """Lower-case name with one `-` for each run of other characters; may be empty."""
    return _OTHER.sub("-", text.lower())[:LONGEST].strip("-_")


def own_branch(name: str) -> str:
    """Clean up a branch name given by the user; slashes stay."""
    parts = filter(None, (_OTHER.sub("-", part).strip("-_") for part in name.lower().split("/")))
    return "/".join(parts)[:LONGEST].strip("-_/")


def automatic_branch(prompt: str, *, prefix: str = PREFIX, chance: int = 0) -> str:
    """Branch name made from the prompt, or of two words picked by `chance` if it has no letters."""
    return f"{prefix}{slug(prompt) or friendly_words(chance)}"


def friendly_words(chance: int) -> str:
    first, second = divmod(chance % (len(_FIRST) * len(_SECOND)), len(_SECOND))
    return f"{_FIRST[first]}-{_SECOND[second]}"


def folder_name(branch: str) -> str:
    return branch.replace("/", "-")


def free_branch(wanted: str, branches: Collection[str], folders: Collection[str]) -> str:
    """The name, or the first of `-2`, `-3`, … that is free."""
    if any(wanted.startswith(f"{branch}/") for branch in branches):
        wanted = wanted.replace("/", "-")
    tries = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    return next(name for name in tries if is_free(name, branches, folders))


def is_free(branch: str, branches: Collection[str], folders: Collection[str]) -> bool:
    in_the_way = branch in branches or any(
        other.startswith(f"{branch}/") or branch.startswith(f"{other}/") for other in branches
    )
    return not in_the_way and folder_name(branch) not in folders


def label_of(prompt: str) -> str:
    """A prompt shortened to one line."""
    line = " ".join(prompt.split())
    return line if len(line) <= LABEL else f"{line[: LABEL - 3]}..."


def version_plans(
    label: str, branch: str, *, versions: int, group_id: str = ""
) -> tuple[VersionPlan, ...]:
    """Plans for one to four versions."""
    number = max(1, min(MOST_VERSIONS, versions))
    return tuple(
        VersionPlan(
            number=at,
            label=label if at == 1 else f"{label} v{at}",
            branch=branch if at == 1 else f"{branch}_v{at}",
            group_id=group_id if number > 1 else "",
        )
        for at in range(1, number + 1)
    )


def free_for_versions(
    wanted: str, versions: int, branches: Collection[str], folders: Collection[str]
) -> str:
    """A name that is free for all versions, so that they share it."""
    taken, places = [*branches], [*folders]
    while True:
        name = free_branch(wanted, taken, places)
        family = [plan.branch for plan in version_plans("", name, versions=versions)]
        if all(is_free(each, branches, folders) for each in family):
            return name
        taken.append(name)


def taken_folders(project: Project) -> list[str]:
    """Names in the folder for worktrees, on disk or registered with git."""
    there = os.listdir(project.place) if project.place.is_dir() else []
    known = (each.folder for each in registered(project))
    return there + [folder.name for folder in known if folder.parent == project.place]


def known_branches(project: Project) -> list[str]:
    """Branch names without duplicates: the checked-out one, other local ones, those of remotes."""
    form = "--format=%(refname:lstrip=3)"
    there = project.git.output("for-each-ref", form, "refs/remotes").splitlines()
    here = [project.current_branch, *project.branches]
    return list(dict.fromkeys(name for name in (*here, *there) if name and name != "HEAD"))


def demand_name(project: Project, branch: str) -> None:
    if not project.git.succeeds("check-ref-format", "--branch", branch):
        raise InTheWay(Code.BAD_NAME, f"{branch!r} is not a valid branch name; choose another.")


def free_name(project: Project, wanted: str, *, versions: int = 1) -> str:
    demand_name(project, wanted)
    branches, folders = project.branches, taken_folders(project)
    if versions > 1:
        return free_for_versions(wanted, versions, branches, folders)
    return free_branch(wanted, branches, folders)
