"""What is shown of a call's progress: not more than anybody could read."""

import math
from collections.abc import Callable

import anyio

from rookery.mcp.visible_text import visible_line

LONGEST = 300
MOST_PER_SECOND = 20


class ShownProgress:
    """Called for each report of a server, it shows those that come slowly enough, as lines."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._since = -math.inf
        self._count = 0

    def __call__(self, done: float, total: float | None, message: str | None) -> None:
        if not self._is_due():
            return
        of = f"/{total:g}" if total is not None else ""
        said = f" {visible_line(message, LONGEST)}" if message else ""
        self._show(f"{done:g}{of}{said}\n")

    def _is_due(self) -> bool:
        now = anyio.current_time()
        if now - self._since > 1:
            self._since, self._count = now, 0
        self._count += 1
        return self._count <= MOST_PER_SECOND
