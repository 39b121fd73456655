"""Run as a script: a manager of the current folder that runs until it is killed."""

import os
from pathlib import Path

import anyio

from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.manager import open_manager
from rookery.manager.manager_socket import listening
from rookery.platform.user_folders import find_places


async def run_on() -> None:
    places, project = find_places(os.environ), Path.cwd()
    dependencies = ProjectDependencies(project, places)
    async with (
        open_manager(project, places, os.environ, dependencies) as manager,
        listening(manager, places),
    ):
        print("ready", flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(run_on)
