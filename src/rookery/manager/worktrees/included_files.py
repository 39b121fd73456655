"""The files that git ignores and a worktree is to have nevertheless: `.env` files, and what the
project lists in `.worktreeinclude`."""

import fnmatch
import os

from rookery.manager.worktrees.worktree_git import Git
from rookery.manager.worktrees.worktree_project import OWN_FOLDER, Project
from rookery.platform.git.git_folders import regular_content

INCLUDE_FILE = ".worktreeinclude"
_ENVIRONMENT = (".env", ".env.*")


def included_files(project: Project, git: Git) -> list[str]:
    """Those that are there, in the project's checkout or in a worktree."""
    listed = project.folder / INCLUDE_FILE
    found: set[str] = set()
    if regular_content(str(listed), 1) is not None:
        others = ("ls-files", "-o", "-i", "-z")
        named = git.names(*others, f"--exclude-from={listed}")
        found = {*named} & {*git.names(*others, "--exclude-standard")}
    environment = [name for name in os.listdir(git.folder) if _is_environment(name)]
    tracked = git.names("ls-files", "-z", "--", *environment) if environment else []
    found |= {*environment} - {*tracked}
    return sorted(path for path in found if _is_outside_own(path))


def _is_environment(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _ENVIRONMENT)


def _is_outside_own(path: str) -> bool:
    return not path.endswith("/") and not path.startswith(f"{OWN_FOLDER}/")
