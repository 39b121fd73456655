"""Where the programs are that the product runs for itself: nowhere a command could have a say."""

import os
import tempfile
from pathlib import Path

from rookery.sandbox.bubblewrap import TEMPORARY
from rookery.sandbox.confinement import within_any
from rookery.sandbox.hidden_places import caches


def find_own_program(name: str, root: Path) -> str:
    """The first such program in the PATH that neither lies in nor leads to the workspace, a
    temporary folder or a cache; empty if there is none."""
    doubtful = [str(root.resolve()), *caches(str(Path.home()))]
    doubtful += map(os.path.realpath, (*TEMPORARY.values(), tempfile.gettempdir()))
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = os.path.join(folder, name)
        places = [os.path.realpath(folder), os.path.realpath(program)]
        if not os.path.isabs(folder) or any(within_any(place, doubtful) for place in places):
            continue
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return ""
