"""What judges and runs commands here, made as a task's are."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rookery.app.local_host import open_sandbox
from rookery.commands.judge import CommandJudge
from rookery.engine.ports.commands import Shell
from rookery.governance.cli.intents_common import Desk
from rookery.platform.git.git_folders import own_repository
from rookery.sandbox.launcher import Launching
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.terminal import Terminal


@contextmanager
def shell_of(desk: Desk) -> Iterator[Shell]:
    """Commands in it are confined as the settings say, and end with us."""
    workspace, settings = desk.layout.workspace, desk.settings
    with open_sandbox(settings, workspace, desk.places) as sandbox:
        launching = Launching(_files(desk).boundaries, sandbox)
        shell = settings.commands.shell
        yield Terminal(workspace, settings.as_limits(), launching, shell=shell)


def judge_of(desk: Desk) -> CommandJudge:
    files = _files(desk)
    return CommandJudge(
        files,
        desk.layout.workspace,
        home=Path.home(),
        hiding=files.boundaries.hiding,
        leave=desk.settings.sandbox.leave,
        own_repository=partial(own_repository, str(files.boundaries.root)),
    )


def _files(desk: Desk) -> WorkspaceFiles:
    own = desk.places.own_folders
    limits = desk.settings.as_limits()
    return WorkspaceFiles(desk.layout.workspace, limits, own_folders=own, home=Path.home())
