"""Servers of this machine that a command could not reach, because its `localhost` is its own.

Nothing of ours sees such a connection. What the command line and the output say of it is looked
at instead, and only ports on which this machine really listens count.
"""

import re
from contextlib import suppress

_REFUSED = re.compile(r"refused|couldn't connect|can't connect|cannot connect", re.IGNORECASE)
_HERE = r"(?:localhost|127\.0\.0\.1|\[?::1\]?)"
_PORT = re.compile(
    rf"{_HERE}[\"'()|,\s]*(?:{_HERE}[\"'()|,\s]*)?(?::|,?\s*port\b[=\s]*)\s*(\d{{1,5}})\b",
    re.IGNORECASE,
)
_LISTENING = "0A"
_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")


def refused_ports(command: str, said: str) -> list[int]:
    """Ports of `localhost` that are named where a connection was refused."""
    if not _REFUSED.search(said):
        return []
    found = (int(port) for port in _PORT.findall(f"{said}\n{command}"))
    return [port for port in dict.fromkeys(found) if 0 < port < 65536]


def listening_here() -> set[int]:
    """The ports that something on this machine listens on, outside of any sandbox."""
    found: set[int] = set()
    for table in _TABLES:
        with suppress(OSError), open(table) as file:
            found.update(port for line in file if (port := _listened_on(line)))
    return found


def _listened_on(line: str) -> int:
    fields = line.split()
    if len(fields) < 4 or fields[3] != _LISTENING:
        return 0
    return int(fields[1].rpartition(":")[2], 16)
