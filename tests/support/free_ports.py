"""Ports for servers that bind them later."""

import random
import socket

BELOW_EPHEMERAL = range(20_000, 32_000)
"""The system gives these to nobody by itself, not even to a connection that tries the port."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses, and that stays free until it is bound."""
    while True:
        port = random.choice(BELOW_EPHEMERAL)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
