"""What branches and folders of worktrees are called, and which names are taken.

A name must be free as a branch and as a folder, and git allows no branch `a/b` beside a branch
`a`.
"""

import os
import re
from collections.abc import Collection, Sequence
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
    """One of several attempts at the same prompt."""

    number: int
    label: str
    branch: str
    model: str
    """Empty for the usual one."""
    group_id: str
    """Empty for an attempt that is alone."""


def slug(text: str) -> str:
    """Lower case, and one `-` for each run of anything else; empty if nothing is left."""
    return _OTHER.sub("-", text.lower())[:LONGEST].strip("-_")


def own_branch(said: str) -> str:
    """The branch that the user named; its slashes stay."""
    parts = filter(None, (_OTHER.sub("-", part).strip("-_") for part in said.lower().split("/")))
    return "/".join(parts)[:LONGEST].strip("-_/")


def automatic_branch(prompt: str, *, prefix: str = PREFIX, chance: int = 0) -> str:
    """From the prompt; where that has no letters, two friendly words, picked by `chance`."""
    return f"{prefix}{slug(prompt) or friendly_words(chance)}"


def friendly_words(chance: int) -> str:
    first, second = divmod(chance % (len(_FIRST) * len(_SECOND)), len(_SECOND))
    return f"{_FIRST[first]}-{_SECOND[second]}"


def folder_name(branch: str) -> str:
    return branch.replace("/", "-")


def free_branch(wanted: str, branches: Collection[str], folders: Collection[str]) -> str:
    """The name itself or the first of `-2`, `-3` … that is free."""
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
    """A prompt on one short line."""
    line = " ".join(prompt.split())
    return line if len(line) <= LABEL else f"{line[: LABEL - 3]}..."


def version_plans(
    label: str, branch: str, *, versions: int, models: Sequence[str] = (), group_id: str = ""
) -> tuple[VersionPlan, ...]:
    """As many as were asked for, but one at least and four at most. A model that is not named
    for a version is that of the first."""
    number = max(1, min(MOST_VERSIONS, versions))
    usual = models[0] if models else ""
    return tuple(
        VersionPlan(
            number=at,
            label=label if at == 1 else f"{label} v{at}",
            branch=branch if at == 1 else f"{branch}_v{at}",
            model=models[at - 1] if at <= len(models) else usual,
            group_id=group_id if number > 1 else "",
        )
        for at in range(1, number + 1)
    )


def free_for_versions(
    wanted: str, versions: int, branches: Collection[str], folders: Collection[str]
) -> str:
    """A name that is free for each of the versions, so that they look like the family they
    are."""
    taken, places = [*branches], [*folders]
    while True:
        name = free_branch(wanted, taken, places)
        family = [plan.branch for plan in version_plans("", name, versions=versions)]
        if all(is_free(each, branches, folders) for each in family):
            return name
        taken.append(name)


def taken_folders(project: Project) -> list[str]:
    """What lies in the place for worktrees, whatever it is, and what git says should."""
    there = os.listdir(project.place) if project.place.is_dir() else []
    known = (each.folder for each in registered(project))
    return there + [folder.name for folder in known if folder.parent == project.place]


def known_branches(project: Project) -> list[str]:
    """Each by its own name, wherever it is: the one that is checked out, others, and those that
    only a remote has."""
    form = "--format=%(refname:lstrip=3)"
    there = project.git.said("for-each-ref", form, "refs/remotes").splitlines()
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
