"""The programs and scripts that the product runs for itself, found where no command has a say.

A script that stands before a command is run as Python keeps it compiled: to compile it anew for
each command would take a tenth of the time that a short command takes.
"""

import os
import struct
import tempfile
from importlib.util import MAGIC_NUMBER, cache_from_source
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


def own_script(source: Path) -> str:
    """What to run: the compiled script if it is up to date and beside its source, where nobody
    can write who could not write the source as well; otherwise the source."""
    compiled = Path(cache_from_source(str(source)))
    if compiled.parent != source.parent / "__pycache__":
        return str(source)
    try:
        found = source.stat()
        with compiled.open("rb") as file:
            head = file.read(16)
    except OSError:
        return str(source)
    numbers = (0, int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)
    up_to_date = head == MAGIC_NUMBER + struct.pack("<III", *numbers)
    return str(compiled) if up_to_date else str(source)
