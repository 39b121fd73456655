"""The process of a server that is a program."""

import os
from collections.abc import Sequence
from pathlib import Path

from rookery.mcp.config import ServerDefinition
from rookery.mcp.results import ServerFailure
from rookery.mcp.server_programs import (
    ServerEnvironment,
    environment_for,
    make_empty,
    programs_for,
    starting_folder,
)
from rookery.platform.piped_process import PipedProcess


class ServerProcess(PipedProcess):
    def __init__(self, server: ServerDefinition, context: ServerEnvironment) -> None:
        """Raises `ServerFailure` if it cannot be started."""
        self.server = server
        folder = starting_folder(server, context.workspace, context.empty)
        if folder == context.empty:
            make_empty(folder)
        environment = environment_for(server, folder, context.workspace, context.environ)
        candidates = programs_for(server, folder, context.workspace, environment)
        program = _program(server.command, folder, candidates)
        try:
            super().__init__([program, *server.args], folder=folder, environment=environment)
        except OSError as error:
            raise ServerFailure(f"It could not be started ({error.strerror}).") from error


def _program(command: str, folder: Path, found: Sequence[str]) -> str:
    """The absolute path of the program. Raises `ServerFailure` if there is none."""
    if not folder.is_dir():
        raise ServerFailure(f"No such folder to start it in: {folder}.")
    for program in found:
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    raise ServerFailure(f"No such program: {command}. Install it, or correct the command.")
