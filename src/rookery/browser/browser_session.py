"""The browser of one task: opened when it is first wanted, and ended with the task.

One task of its own owns the process, from start to end, and shares a `Life` with everybody else.
They wait until it has settled, and act on its page. Nothing here waits without a limit.
"""

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from msgspec import Struct

from rookery.browser.browser_action import find_browser
from rookery.browser.reach import BrowserReach, Find
from rookery.browser.running_browser import (
    Force,
    RunningBrowser,
    is_root,
    load_playwright,
    running_browser,
)
from rookery.browser.watched_page import FROZEN, WAY_OUT, PagePoint, PageView, Spot, told, view_of
from rookery.core.hosts import HostPort, WebAddress, origin_of
from rookery.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import Page

CLOSE_SECONDS = 4.0
FORCED_SECONDS = 2.0
"""How long the end of a browser is waited for: first of one that is asked, then of one that is
forced."""

NOT_OPEN = "No browser is open. Use launch with a url first."
ENDED = f"The browser has ended. {NOT_OPEN}"
STILL_LOADING = "The page is still loading."
ANEW = "The browser was restarted for this page: data of earlier pages is gone."
AS_ROOT = "Chromium runs as root here, which works only without its own sandbox."
LONGEST_ERROR = 300
KEYED = 200
"""Characters up to which a text is typed key by key; more is put in at once."""
_NOT_COMMITTED = "net::ERR_ABORTED"
"""A page that was not opened because it was refused or is a download: that is told otherwise."""
_IS_CLOSED = "has been closed"
"""What playwright says of a browser that is no more."""

StartSoon: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Begins work that nobody waits for. It is given nothing but the work."""


class Life:
    """One browser from the wish for it to its end."""

    def __init__(self, reach: BrowserReach) -> None:
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


class BrowserTimeouts(Struct, frozen=True, kw_only=True):
    """How long is waited, in seconds. What a click leads to begins within `settle`; a browser
    that nobody uses for `idle` is ended."""

    navigation: float = 15.0
    action: float = 5.0
    settle: float = 0.3
    idle: float = 900.0


class BrowserSession:
    """`start_soon` is of a group that lives as long as the task; `path` is the browser to use,
    and without `network` only pages of this machine are opened. `find` tells where names lead, and
    `knows` which hosts pages of this machine reach; without it that is all of them."""

    def __init__(
        self,
        start_soon: StartSoon,
        *,
        path: str = "",
        network: bool = True,
        patience: BrowserTimeouts | None = None,
        find: Find | None = None,
        knows: Callable[[HostPort], bool] | None = None,
    ) -> None:
        self.allowed: set[str] = set()
        """The origins that were opened in this task because somebody allowed it."""
        self._start_soon = start_soon
        self._path = path
        self.patience = patience or BrowserTimeouts()
        self._network = network
        self._find = find
        self._knows = knows
        self._life: Life | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever is asked about a browser should know."""
        return (AS_ROOT,) if is_root() else ()

    @property
    def running(self) -> RunningBrowser:
        """Raises `ToolError` if there is none."""
        if self._life is None:
            raise ToolError(NOT_OPEN)
        if self._life.browser is None or self._life.over.is_set():
            raise ToolError(self._life.failure or ENDED)
        return self._life.browser

    @property
    def origin(self) -> str:
        """Of the page that is open; nothing if none could be."""
        return origin_of(self.running.page.page.url)

    def refusal(self, address: WebAddress) -> str:
        """Why an address is never opened; nothing if it may be."""
        return self._reach(address).refusal(address.host)

    def _reach(self, address: WebAddress) -> BrowserReach:
        """Of a browser that opens such a page."""
        return BrowserReach(
            network=self._network,
            local=address.is_loopback,
            opened=self.allowed,
            find=self._find,
            knows=self._knows,
        )

    async def launch(self, address: WebAddress) -> None:
        """Begin anew with an empty profile, and open a page."""
        await self.close()
        life = Life(self._reach(address))
        self._start_soon(partial(self._own, life))
        self._life = life
        await life.settled.wait()
        await self._open(address)

    async def navigate(self, address: WebAddress) -> None:
        """Open a page. Whoever calls this was allowed to. What is open reaches this machine, or
        it does not: for the other kind of page there must be another browser."""
        if self.running.reach.local == address.is_loopback:
            await self._open(address)
        else:
            await self.launch(address)
            self.running.heard.note(ANEW)

    async def _open(self, address: WebAddress) -> None:
        await self._insist_on_a_page()
        self.allowed.add(address.origin)
        limit = self.patience.navigation
        began = anyio.current_time()
        async with self._acting(limit + self.patience.action) as page:
            await self._go(page, address, limit)
            await self._settle(page, limit - (anyio.current_time() - began))

    async def click(self, spot: Spot) -> None:
        async with self._acting() as page:
            await self._click(page, spot)
            await self._settle(page)

    async def type(self, text: str, spot: Spot | None) -> None:
        """Put text where a click leads, or where the focus is."""
        async with self._acting() as page:
            if spot is not None:
                await self._click(page, spot)
            if len(text) <= KEYED:
                await page.keyboard.type(text)
            else:
                await page.keyboard.insert_text(text)
            await self._settle(page)

    async def press(self, key: str) -> None:
        async with self._acting() as page:
            await page.keyboard.press(key)
            await self._settle(page)

    async def scroll(self, screens: int) -> None:
        async with self._acting() as page:
            await page.evaluate("screens => scrollBy(0, screens * innerHeight * 0.9)", screens)

    async def view(self, *, pictured: bool) -> PageView:
        browser = self.running
        with self._translating(browser):
            return await view_of(
                browser.page, browser.heard, pictured=pictured, seconds=self.patience.action
            )

    async def close(self) -> None:
        """End the browser, if there is one, and everything of it, whether it wants to or not."""
        if self._life is not None:
            await self._life.end()
            self._life = None

    async def _own(self, life: Life) -> None:
        try:
            program = find_browser(self._path, os.environ.get("PATH", os.defpath))
            await load_playwright()
            async with running_browser(
                program, self.allowed, life.reach, life.force
            ) as life.browser:
                life.browser.context.on("close", lambda _: life.over.set())
                life.used()
                life.settled.set()
                await life.last(self.patience.idle)
        except Exception as error:
            # the group it runs in is not its own, and must not end because of a browser
            life.failure = _in_words(error)
        finally:
            life.browser = None
            life.settled.set()
            life.gone.set()

    async def _insist_on_a_page(self) -> None:
        """One that can be replaced by another; a frozen one could not."""
        browser = self.running
        with self._translating(browser), anyio.fail_after(self.patience.navigation):
            if not await browser.page.responds():
                await browser.replace_page()

    @asynccontextmanager
    async def _acting(self, seconds: float = 0.0) -> AsyncIterator["Page"]:
        """The page, for so long."""
        browser = self.running
        if browser.page.trouble:
            raise ToolError(f"{browser.page.trouble} {WAY_OUT}")
        limit = seconds or 2 * self.patience.action + self.patience.settle
        with self._translating(browser), anyio.fail_after(limit):
            yield browser.page.page

    @contextmanager
    def _translating(self, browser: RunningBrowser) -> Iterator[None]:
        """Puts what goes wrong into words."""
        from playwright.async_api import Error

        life = self._life
        assert life is not None
        life.used()
        try:
            yield
        except TimeoutError as error:
            raise ToolError(f"{FROZEN} {WAY_OUT}") from error
        except Error as error:
            if browser.page.trouble and not life.over.is_set():
                raise ToolError(f"{browser.page.trouble} {WAY_OUT}") from error
            if _IS_CLOSED in error.message:
                life.over.set()
                raise ToolError(ENDED) from error
            raise ToolError(_in_words(error)) from error
        finally:
            life.used()

    async def _go(self, page: "Page", address: WebAddress, limit: float) -> None:
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as Late

        try:
            await page.goto(address.url, wait_until="commit", timeout=limit * 1000)
        except Late as error:
            raise ToolError(f"{address.origin} did not answer within {limit:g} s.") from error
        except Error as error:
            if _NOT_COMMITTED not in error.message:
                raise

    async def _click(self, page: "Page", spot: Spot) -> None:
        if isinstance(spot, PagePoint):
            await page.mouse.click(spot.x, spot.y)
        else:
            await page.click(spot, timeout=self.patience.action * 1000)

    async def _settle(self, page: "Page", seconds: float | None = None) -> None:
        """Wait until what was begun is loaded; what takes longer is told."""
        from playwright.async_api import TimeoutError as Late

        await anyio.sleep(self.patience.settle)
        limit = max(0.1, self.patience.action if seconds is None else seconds)
        try:
            await page.wait_for_load_state("load", timeout=limit * 1000)
        except Late:
            self.running.heard.note(STILL_LOADING)


def _in_words(error: Exception) -> str:
    if isinstance(error, ToolError):
        return str(error)
    return f"The browser could not do it: {told(str(error), LONGEST_ERROR)}"
