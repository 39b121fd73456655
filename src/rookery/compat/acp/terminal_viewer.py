"""Prints the output of a command in a terminal of the editor. The command runs elsewhere.

The editor runs this file as a script, with the path of a socket. It gets frames from `terminals`:
a size in four bytes, then as many bytes of output. A size of zero is followed by the exit code.
"""

import os
import signal
import socket
import sys

SIZE = 4
BROKEN = 1
"""The exit code if the agent left before the command ended."""


def main(place: str) -> int:
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(place)
        with agent.makefile("rb") as frames:
            while size := int.from_bytes(frames.read(SIZE), "big"):
                _write(frames.read(size))
            return int.from_bytes(frames.read(1) or bytes([BROKEN]), "big")


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
