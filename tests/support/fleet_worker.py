"""Commands of a fleet in processes that have imported everything: see `warm_programs`.

    run_program(FLEET_COMMAND, "fleet", "list", **environ)

The slots of a worker are forked too.
"""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from rookery.__main__ import main
from rookery.fleet import cli, slot
from support.command_server import import_everything
from support.warm_start import open_standard_streams

_OPEN_FILES = 1024
_CLONE_NEWNET = 0x40000000

import_everything()
assert slot


class ForkedSlot:
    """As much of `subprocess.Popen` as a worker needs for its slots."""

    def __init__(self, words: Sequence[str], *, stdin: int, env: Mapping[str, str]) -> None:
        given, self.stdin = os.pipe()
        self.returncode: int | None = None
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(given, 0)
            os.closerange(3, _OPEN_FILES)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)  # not before: the worker's would run
            os.environ.clear()
            os.environ.update(env)
            sys.argv[1:] = words[3:]
            run()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(given)

    def terminate(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGTERM)


def run(namespace: str = "") -> None:
    """Run the command in `sys.argv`, in this network namespace, and end as it ends."""
    if namespace:
        _enter(namespace)
    cli.subprocess = SimpleNamespace(Popen=ForkedSlot, PIPE=-1)  # type: ignore[assignment]
    ended = 1
    open_standard_streams()
    try:
        ended = main()
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)


def _enter(namespace: str) -> None:
    with open(f"/run/netns/{namespace}", "rb") as file:
        entered = ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET)
    assert entered == 0, os.strerror(ctypes.get_errno())
