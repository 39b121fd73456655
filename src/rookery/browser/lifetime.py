"""One browser, for those who wait for its beginning or its end."""

import anyio

from rookery.browser.kill import Force
from rookery.browser.reach import Reach
from rookery.browser.running_browser import RunningBrowser

CLOSE_SECONDS = 4.0
FORCED_SECONDS = 2.0
"""How long the end of a browser is waited for: first of one that is asked, then of one that is
forced."""


class Life:
    """One browser from the wish for it to its end."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.browser: RunningBrowser | None = None
        self.failure = ""
        self.force = Force()
        self.settled = anyio.Event()
        self.over = anyio.Event()
        """It is to end, or has."""
        self.gone = anyio.Event()
        self._used = anyio.current_time()

    def used(self) -> None:
        self._used = anyio.current_time()

    async def end(self) -> None:
        """Within a few seconds, because whole tasks wait for it."""
        self.over.set()
        with anyio.move_on_after(CLOSE_SECONDS):
            await self.gone.wait()
            return
        self.force.use()
        with anyio.move_on_after(FORCED_SECONDS):
            await self.gone.wait()

    async def last(self, idle: float) -> None:
        """Until it is over, or nobody has used it for so long."""
        while not self.over.is_set() and (left := self._used + idle - anyio.current_time()) > 0:
            with anyio.move_on_after(left):
                await self.over.wait()
        self.over.set()
