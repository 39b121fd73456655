"""A block of ports for each worktree, so that several of one project can be run side by side."""

import socket
from collections.abc import Collection
from hashlib import sha256

from rookery.manager.worktrees.worktree_values import PortBlock, block_order


def free_block(place: str, taken: Collection[PortBlock]) -> PortBlock | None:
    """One that no other worktree of the project has and nobody listens in now. Where a folder
    lies decides which is tried first: two projects seldom get the same."""
    held = {block.first for block in taken}
    wish = int.from_bytes(sha256(place.encode("utf-8", "surrogateescape")).digest()[:4], "big")
    order = (block for block in block_order(wish) if block.first not in held)
    return next((block for block in order if all(map(_is_free, block.ports))), None)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
