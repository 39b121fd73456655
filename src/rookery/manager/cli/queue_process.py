"""The process that starts queued sessions while no manager is open.

Managers start it, and it ends with the queue. The project is read from standard input.
"""

import os
import sys
from pathlib import Path

import anyio

from rookery.manager.cli.host_dependencies import ProjectDependencies
from rookery.manager.queue_keeper import keep_queue
from rookery.platform.user_folders import find_places


def main() -> None:
    project = Path(os.fsdecode(sys.stdin.buffer.read()))
    places = find_places(os.environ)
    deps = ProjectDependencies(project, places)
    anyio.run(keep_queue, project, places, os.environ, deps)


if __name__ == "__main__":
    main()
