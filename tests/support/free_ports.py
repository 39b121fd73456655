"""Ports for servers that bind them later."""

import random
import socket

BELOW_EPHEMERAL = range(20_000, 32_000)
"""The system never assigns these ports, not even as the local port of a connection."""


def free_port() -> int:
    """A free port of 127.0.0.1. It stays free until the caller binds it."""
    while True:
        port = random.choice(BELOW_EPHEMERAL)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
