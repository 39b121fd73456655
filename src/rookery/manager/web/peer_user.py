"""Whose a connection on this machine is. Other users can see the arguments of a browser, and with
them a launch code, for as long as it takes to start."""

import os
import socket
import struct
from pathlib import Path

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_ROOT = 0
_NO_FILE = "0"


def is_of_another_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the system says so; where it says nothing, the code alone must do. Of an end that is
    closed already it is not known whose it was."""
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    wanted = f"{_spelled(family, client)} {_spelled(family, server)}"
    try:
        lines = _TABLES[family].read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    found = [line.split() for line in lines if " ".join(line.split()[1:3]) == wanted]
    closed = any(words[9] == _NO_FILE for words in found)
    return closed or bool({int(words[7]) for words in found} - {os.geteuid(), _ROOT})


def _spelled(family: socket.AddressFamily, end: tuple[str, int]) -> str:
    """As it stands in the table: words of the machine's own byte order."""
    packed = socket.inet_pton(family, end[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{end[1]:04X}"
