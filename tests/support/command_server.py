"""Run the real command many times, without importing it each time.

Run as a script, this is a process that has imported the product and started nothing. It forks for
every request: the child becomes `rookery` with its own arguments, environment and files, and may be
killed like any other process. The parent is a sub-reaper: it adopts all processes that the child
leaves behind, and answers only when they have ended.
"""

import ctypes
import gc
import importlib
import json
import math
import os
import pkgutil
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from support.disk_waits import skip_disk_waits

if TYPE_CHECKING:
    from support.warm_start import PipedProcess

PR_SET_CHILD_SUBREAPER = 36
SECONDS = 120
"""Far more than any run takes; processes that still run then will never end."""


class Ended(Struct, frozen=True):
    """Result of a run. `left` if it ended before a process that it had started."""

    code: int
    left: bool
    out: str
    err: str


class CommandServer:
    """A process that runs commands one after the other; leaving the context closes it."""

    def __init__(self) -> None:
        self._process = _start()

    def __enter__(self) -> "CommandServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__(None, None, None)

    def run(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        *,
        largest_file: int = resource.RLIM_INFINITY,
        program: str = "rookery.__main__",
    ) -> Ended:
        """Run `rookery`, or the `main` of another module; its output goes to `folder`. A write
        past `largest_file` fails as on a full disk: first short, then with an error."""
        assert self._process.stdin
        assert self._process.stdout
        out, err = folder / "stdout", folder / "stderr"
        request = {
            "arguments": list(arguments),
            "environ": dict(environ),
            "out": str(out),
            "err": str(err),
            "largest_file": largest_file,
            "program": program,
        }
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{' '.join(arguments)} left a process that did not end:\n{err.read_text()}"
        code, left = json.loads(answer)
        return Ended(code, left, out.read_text(), err.read_text())


def _start() -> "subprocess.Popen[bytes] | PipedProcess":
    """Start this file, where possible in a process that has imported the product already."""
    from support.warm_start import start_piped

    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if sys.platform == "linux":
        return start_piped([], environ, os.getcwd(), program=__file__)
    return subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    )


def _serve() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    import_everything()
    for line in sys.stdin:
        signal.alarm(SECONDS)
        child = os.fork()
        if child == 0:
            signal.alarm(0)
            _become(**json.loads(line))
        print(json.dumps(_reap(child)), flush=True)
        signal.alarm(0)


IMPORTED_LATE = (
    "anyio._core._signals",
    "encodings.ascii",
    "encodings.utf_8_sig",
    "glob",
    "httpcore2",
    "importlib.resources.readers",
    "tomllib",
    "tree_sitter",
    "tree_sitter_bash",
    "truststore",
)
"""Modules that are imported inside functions; `httpcore2` alone takes a fifth of a short task."""


def import_everything() -> None:
    """Import everything, including what rookery and anyio import on first use.

    Except the fleet: a fork pays for all memory, of which its database library is a third.
    """
    import anyio.lowlevel

    import rookery

    skip_disk_waits()
    for module in pkgutil.walk_packages(rookery.__path__, "rookery."):
        if not module.name.startswith(("rookery.cli.demo", "rookery.fleet.")):
            importlib.import_module(module.name)
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    anyio.run(anyio.lowlevel.checkpoint)
    _fill_caches()
    gc.freeze()  # keeps pages shared with children


def _fill_caches() -> None:
    """Fill the caches that nearly every run would fill."""
    from rookery.core.protected_paths import protected
    from rookery.core.settings_reference import all_settings
    from rookery.platform.guarded_process import command_environment
    from rookery.providers.catalogue import find_model
    from rookery.tools.registry import all_tools, offered

    all_settings()
    offered(all_tools())
    find_model("anthropic", "any", {})
    for either in (True, False):
        protected("README.md", new=either)
        command_environment({"PATH": ""}, confined=either)


def _become(
    arguments: list[str],
    environ: dict[str, str],
    largest_file: int,
    program: str,
    **files: str,
) -> None:
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for standard, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(files[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), standard)
        hardest = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, hardest))
        os.environ.clear()
        os.environ.update(environ)
        _disable_background_offers()
        sys.argv = ["rookery", *arguments]
        code = importlib.import_module(program).main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _disable_background_offers() -> None:
    """Disable an offer that depends on time: on a slow machine, it would add two facts to the
    journal."""
    from rookery.tools.programs import command_watch

    command_watch.OFFER_SECONDS = command_watch.OFFER_SECONDS_WITH_OUTPUT = math.inf


def _reap(child: int) -> tuple[int, bool]:
    """Wait for the child, then for all processes it left behind."""
    _, status = os.waitpid(child, 0)
    left = False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        left = True
        while True:
            os.wait()
    except ChildProcessError:
        return os.waitstatus_to_exitcode(status), left


if __name__ == "__main__":
    _serve()
