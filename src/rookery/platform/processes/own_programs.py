"""The programs and scripts that the product runs for itself, found where no command has a say.

A script that stands before a command is run as Python keeps it compiled: to compile it anew for
each command would take a tenth of the time that a short command takes.
"""

import os
import struct
import tempfile
from collections.abc import Iterable
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

from rookery.platform.paths import within_any

TEMPORARY = {"tmp": "/tmp", "var-tmp": "/var/tmp"}
"""The machine's temporary folders, and what a sandbox calls its own ones instead."""

SHARED_CACHES = (
    ".cache/composer",
    ".cache/go-build",
    ".cache/golangci-lint",
    ".cache/pip/http",
    ".cache/pip/http-v2",
    ".cache/pip/selfcheck",
    ".cache/sccache",
    ".cache/yarn",
    ".cargo/git",
    ".cargo/registry",
    ".composer/cache",
    ".gem/specs",
    ".gradle/caches",
    ".ivy2/cache",
    ".local/state/pnpm",
    ".m2/repository",
    ".npm/_cacache",
    ".npm/_logs",
    ".nuget/packages",
    ".nv/ComputeCache",
    ".rustup/downloads",
    ".rustup/tmp",
    ".yarn/berry/cache",
    "go/pkg/mod",
    "go/pkg/sumdb",
)
"""Relative to the home folder. Each holds only what a tool fetches or builds from, when it is told
to install or to build. None is in a PATH, holds configuration or scripts that run unasked, such
as the environments of pre-commit and poetry, or has files that other projects have hard links
to, such as the stores of uv, pnpm and bun: what a command left there would run outside."""

OTHER_CACHES = (
    ".bun/install/cache",
    ".cache",
    ".local/share/pnpm/store",
    ".pnpm-store",
    "Library/Caches",
)
"""Commands only read these, yet a program in one of them is nobody's choice."""


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


def caches(home: str) -> tuple[str, ...]:
    """All of them, whoever writes there."""
    places = (*OTHER_CACHES, *SHARED_CACHES)
    return existing_places(os.path.join(home, place) for place in places)


def existing_places(paths: Iterable[str]) -> tuple[str, ...]:
    real = {os.path.realpath(path) for path in paths if os.path.lexists(path)}
    outermost: list[str] = []
    for path in sorted(real, key=lambda path: (path.count("/"), path)):
        if os.path.exists(path) and not within_any(path, outermost):
            outermost.append(path)
    return tuple(outermost)


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
