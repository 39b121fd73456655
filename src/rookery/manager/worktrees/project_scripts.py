"""Programs that a project brings for its worktrees: one that sets them up, one that runs what is in
them.

They run outside of the sandbox, so each is run only as the very text that somebody has agreed to.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.limits import KIB
from rookery.manager.worktrees.worktree_project import OWN_FOLDER
from rookery.manager.worktrees.worktree_values import Worktree, environment_of
from rookery.platform.git.git_folders import regular_content
from rookery.platform.processes.command_environment import command_environment
from rookery.platform.processes.own_programs import find_own_program

LARGEST = 100 * KIB


class ProjectScript(Struct, frozen=True, kw_only=True):
    path: str
    text: str
    digest: str
    """What an approval is bound to."""


def project_script(project: Path, name: str) -> ProjectScript | None:
    """The first of its places that has one that can be run."""
    for folder in (PROJECT_FOLDER, OWN_FOLDER):
        for file in (name, f"{name}.sh"):
            path = project / folder / file
            data = None if path.parent.is_symlink() else regular_content(str(path), LARGEST + 1)
            if data is not None and len(data) <= LARGEST and b"\0" not in data:
                text = data.decode("utf-8", "surrogateescape")
                return ProjectScript(path=str(path), text=text, digest=sha256(data).hexdigest())
    return None


def script_command(script: ProjectScript, project: Path) -> list[str]:
    """The text that was agreed to, whatever the file holds by now."""
    shell = find_own_program("bash", project) or "/bin/sh"
    return [shell, "-c", script.text, script.path]


def script_environment(
    worktree: Worktree, project: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    usual = command_environment(environ, confined=False)
    return {**usual, **environment_of(worktree, str(project))}
