"""Run as a script: a manager that handles one request, and may be killed at any point of it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio

from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.handlers.router import Router, request_from_json
from rookery.manager.manager import worktree_handlers
from rookery.manager.sessions.supervisor import open_supervisor
from rookery.platform.user_folders import find_places
from support.manager_project import PATIENT


async def host(project: Path, request: dict[str, Any]) -> None:
    places = find_places(os.environ)
    needed = ProjectDependencies(project, places)
    opened = open_supervisor(project, places, os.environ, needed.tasks, timings=PATIENT)
    async with opened as supervisor:
        handler = Router(worktree_handlers(supervisor, places, os.environ, needed))
        print(await handler.do(request_from_json(request)), flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(host, Path(sys.argv[1]), json.load(sys.stdin))
