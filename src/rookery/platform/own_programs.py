"""The programs and scripts that the product runs for itself, found where no command has a say.

`run_program` runs one to its end: its output is bounded, and its process group ends with it.

A script that stands before a command is run as Python keeps it compiled: to compile it anew for
each command would take a tenth of the time that a short command takes.
"""

import errno
import os
import signal
import struct
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rookery.platform.paths import within_any

if TYPE_CHECKING:
    import subprocess

MOST_OUTPUT = 1024 * 1024 * 1024
_READ_SIZE = 64 * 1024

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


class ProgramOutput(NamedTuple):
    status: int
    out: bytes
    errors: bytes


class ProgramTimeout(OSError):
    """It did not come to its end in time, and was killed."""


def run_program(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    environment: Mapping[str, str],
    given: bytes = b"",
    seconds: float | None = None,
    most: int = MOST_OUTPUT,
) -> ProgramOutput:
    """Run a program of ours to its end, with `given` as its input. It is killed with its process
    group after so many seconds, or once it has written too much. Raises `OSError`."""
    import subprocess

    until = None if seconds is None else time.monotonic() + seconds
    # a group and no session of its own: whoever has one counts as an orphan
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environment,
        process_group=0,
    )
    with process:
        try:
            out, errors = _output(process, given, until, most)
            return ProgramOutput(process.wait(_left(until)), out, errors)
        except BaseException as error:
            _end_group(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramTimeout(errno.ETIMEDOUT, f"{argv[0]} took too long") from error
            raise


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with suppress(ChildProcessError):  # orphans of it that came to us
        while True:
            os.waitpid(-process.pid, 0)


def _output(
    process: "subprocess.Popen[bytes]", given: bytes, until: float | None, most: int
) -> tuple[bytes, bytes]:
    import selectors

    assert process.stdin
    assert process.stdout
    assert process.stderr
    kept: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in (process.stdout, process.stderr)}
    os.set_blocking(process.stdin.fileno(), False)
    unsaid = memoryview(given)
    total = 0
    with selectors.DefaultSelector() as pipes:
        pipes.register(process.stdin, selectors.EVENT_WRITE)
        for pipe in kept:
            pipes.register(pipe, selectors.EVENT_READ)
        while pipes.get_map():
            ready = pipes.select(_left(until))
            if not ready and until is not None and time.monotonic() >= until:
                raise ProgramTimeout(errno.ETIMEDOUT, "the program took too long")
            for key, _ in ready:
                if key.fd not in kept:
                    unsaid = _said(key.fd, unsaid)
                    if not unsaid:
                        pipes.unregister(key.fileobj)
                        process.stdin.close()
                elif data := os.read(key.fd, _READ_SIZE):
                    kept[key.fd].append(data)
                    total += len(data)
                else:
                    pipes.unregister(key.fileobj)
            if total > most:
                raise OSError(errno.EFBIG, "the program wrote too much")
    out, errors = kept.values()
    return b"".join(out), b"".join(errors)


def _said(pipe: int, unsaid: memoryview) -> memoryview:
    """What is left to say; nothing to a program that does not listen."""
    try:
        return unsaid[os.write(pipe, unsaid[:_READ_SIZE]) :]
    except BlockingIOError:
        return unsaid
    except BrokenPipeError:
        return unsaid[:0]


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())
