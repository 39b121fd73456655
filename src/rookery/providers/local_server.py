"""Serves one model file on loopback, and ends when rookery does.

`local_model` runs this file as a script, so it imports nothing of ours. The first line of standard
input says what to run; its end means that rookery is gone. The only line of output is the address,
once the model is loaded. Everything else that is printed goes to the log.
"""

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

PR_SET_PDEATHSIG = 1
BATCH_TOKENS = 256
"""Tokens of the prompt that are read between two reports of progress."""
CACHE_MIB = 1024
"""Memory for prompts of other conversations, so that returning to one is fast."""
KILLED_FIRST = "500"
"""If memory runs out, the kernel ends this process rather than rookery or the user's editor."""


def main(parent: int) -> None:
    os.setpgid(0, 0)  # Ctrl-C is for rookery
    _end_with(parent)
    answer = os.dup(1)
    os.dup2(2, 1)
    order = json.loads(sys.stdin.readline())
    runtime = import_module("xllamacpp")
    wanted = runtime.CommonParams()
    wanted.model.path = order["path"]
    wanted.hostnames, wanted.port = ["127.0.0.1"], 0
    wanted.api_keys = [order["key"]]
    wanted.n_ctx, wanted.n_parallel, wanted.n_batch = order["context"], 1, BATCH_TOKENS
    wanted.cache_ram_mib = CACHE_MIB
    wanted.use_jinja, wanted.ui, wanted.warmup, wanted.offline = True, False, False, True
    try:
        server = runtime.Server(wanted)
    except RuntimeError as error:
        sys.exit(str(error))  # the reason is already in the log
    os.write(answer, f"{server.listening_address}\n".encode())
    sys.stdin.read()
    os._exit(0)  # a regular exit would wait for an answer that no client reads


def _end_with(parent: int) -> None:
    """The end of standard input is not noticed while a model is loaded; a signal is."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it died before the signal was set
    with suppress(OSError):  # a container can forbid it
        Path("/proc/self/oom_score_adj").write_text(KILLED_FIRST, encoding="ascii")


if __name__ == "__main__":
    main(int(sys.argv[1]))
