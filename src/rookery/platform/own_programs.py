"""Finds and runs the programs that rookery uses itself, from places that commands cannot write to.

`run_program` runs one to its end, with limited output, and kills its process group after it.

Scripts that run before every command are run from their compiled form: compiling takes a tenth of
the time of a short command.
"""

import errno
import os
import signal
import struct
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
_CHUNK = 64 * 1024

TEMPORARY = {"tmp": "/tmp", "var-tmp": "/var/tmp"}
"""The machine's temporary folders, by the names of a sandbox's own ones."""

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
"""Caches that commands may write, relative to the home folder. They hold only what a tool
downloads or builds from when told to install or build. None is in a PATH, none holds
configuration or scripts that run by themselves (such as the environments of pre-commit and
poetry), and none has files that other projects hard-link (such as the stores of uv, pnpm and
bun), as those would run outside."""

OTHER_CACHES = (
    ".bun/install/cache",
    ".cache",
    ".local/share/pnpm/store",
    ".pnpm-store",
    "Library/Caches",
)
"""Caches that commands only read; programs in them are not trusted either."""


def find_own_program(name: str, root: Path) -> str:
    """The first such program in the PATH that is not in, and does not lead to, the workspace, a
    temporary folder or a cache; empty if there is none."""
    import tempfile

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
    """All existing caches, writable for commands or not."""
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
    """The compiled script if it is up to date and beside its source, where it is as well
    protected as the source; otherwise the source."""
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
    """The program took too long and was killed."""


def run_program(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    environment: Mapping[str, str],
    given: bytes = b"",
    seconds: float | None = None,
    most: int = MOST_OUTPUT,
) -> ProgramOutput:
    """Run a program to its end, with `given` as its input. It is killed with its process group
    after so many seconds, or if it writes too much. Raises `OSError`."""
    import subprocess

    until = None if seconds is None else time.monotonic() + seconds
    # a group, not a session: `end_orphans` kills children with their own session
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
            return ProgramOutput(process.wait(_remaining(until)), out, errors)
        except BaseException as error:
            _end_group(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramTimeout(errno.ETIMEDOUT, f"{argv[0]} took too long") from error
            raise


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with suppress(ChildProcessError):  # reap its orphans, which are our children now
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
    unwritten = memoryview(given)
    total = 0
    with selectors.DefaultSelector() as pipes:
        pipes.register(process.stdin, selectors.EVENT_WRITE)
        for pipe in kept:
            pipes.register(pipe, selectors.EVENT_READ)
        while pipes.get_map():
            ready = pipes.select(_remaining(until))
            if not ready and until is not None and time.monotonic() >= until:
                raise ProgramTimeout(errno.ETIMEDOUT, "the program took too long")
            for key, _ in ready:
                if key.fd not in kept:
                    unwritten = _write_input(key.fd, unwritten)
                    if not unwritten:
                        pipes.unregister(key.fileobj)
                        process.stdin.close()
                elif data := os.read(key.fd, _CHUNK):
                    kept[key.fd].append(data)
                    total += len(data)
                else:
                    pipes.unregister(key.fileobj)
            if total > most:
                raise OSError(errno.EFBIG, "the program wrote too much")
    out, errors = kept.values()
    return b"".join(out), b"".join(errors)


def _write_input(pipe: int, unwritten: memoryview) -> memoryview:
    """Write a part of the input; returns the rest, which is empty if the program has closed it."""
    try:
        return unwritten[os.write(pipe, unwritten[:_CHUNK]) :]
    except BlockingIOError:
        return unwritten
    except BrokenPipeError:
        return unwritten[:0]


def _remaining(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())
