"""The scripts of ours that stand before a command, as Python keeps them compiled.

To compile one anew for each command would take a tenth of the time that a short command takes.
"""

import struct
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path


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
