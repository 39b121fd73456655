"""What judges and runs commands here, made as a task's are."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from rookery.app.command_parts import make_sandbox
from rookery.commands.judge import CommandJudge
from rookery.engine.ports.commands import Shell
from rookery.governance.cli.intents_common import GovernedFolder
from rookery.platform.git.git_folders import own_repository
from rookery.sandbox.launcher import Launching
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.terminal import Terminal


@contextmanager
def shell_of(governed: GovernedFolder) -> Iterator[Shell]:
    """Commands in it are confined as the settings say, and end with us."""
    workspace, settings = governed.layout.workspace, governed.settings
    with closing(make_sandbox(settings, workspace, governed.places)) as sandbox:
        launching = Launching(_files(governed).boundaries, sandbox)
        shell = settings.commands.shell
        yield Terminal(workspace, settings.as_limits(), launching, shell=shell)


def judge_of(governed: GovernedFolder) -> CommandJudge:
    files = _files(governed)
    return CommandJudge(
        files,
        governed.layout.workspace,
        home=Path.home(),
        hiding=files.boundaries.hiding,
        leave=governed.settings.sandbox.leave,
        own_repository=partial(own_repository, str(files.boundaries.root)),
    )


def _files(governed: GovernedFolder) -> WorkspaceFiles:
    own = governed.places.own_folders
    limits = governed.settings.as_limits()
    return WorkspaceFiles(governed.layout.workspace, limits, own_folders=own, home=Path.home())
