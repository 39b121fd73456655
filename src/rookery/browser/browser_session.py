"""The browser of one task: started on first use, ended with the task.

One background task owns the process from start to end. It shares a `BrowserLife` with the callers,
who wait until `BrowserLife.settled` and then act on its page. Every wait here has a time limit.
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
    BrowserKiller,
    RunningBrowser,
    is_root,
    load_playwright,
    running_browser,
)
from rookery.browser.watched_page import (
    CLOSED,
    FROZEN,
    REOPEN,
    PagePoint,
    PageView,
    Spot,
    escaped,
    view_of,
)
from rookery.core.hosts import HostPort, WebAddress, origin_of
from rookery.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import Page

CLOSE_SECONDS = 4.0
FORCED_SECONDS = 2.0
"""Seconds to wait for the browser to exit: first after asking it to, then after killing it."""

NOT_OPEN = "No browser is open. Use launch with a url first."
ENDED = f"The browser has ended. {NOT_OPEN}"
STILL_LOADING = "The page is still loading."
RESTARTED = "The browser was restarted for this page: data of earlier pages is gone."
AS_ROOT = "Chromium runs as root here, which works only without its own sandbox."
LONGEST_ERROR = 300
LONGEST_KEYED = 200
"""Characters up to which text is typed key by key; longer text is inserted at once."""
_NOT_COMMITTED = "net::ERR_ABORTED"
"""Playwright's error for a navigation that was refused or became a download, which a note says."""
_IS_CLOSED = "has been closed"
"""Part of playwright's error message for a browser that has exited."""

StartSoon: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Starts a background task."""


class BrowserLife:
    """One browser process, from the request to start it to its exit."""

    def __init__(self, reach: BrowserReach) -> None:
        self.reach = reach
        self.browser: RunningBrowser | None = None
        self.failure = ""
        self.killer = BrowserKiller()
        self.settled = anyio.Event()
        self.stopping = anyio.Event()
        """Set when the browser must exit or has exited."""
        self.gone = anyio.Event()
        self._used = anyio.current_time()

    def touch(self) -> None:
        self._used = anyio.current_time()

    async def end(self) -> None:
        """End the browser within `CLOSE_SECONDS + FORCED_SECONDS`; the task waits for it."""
        self.stopping.set()
        with anyio.move_on_after(CLOSE_SECONDS):
            await self.gone.wait()
            return
        self.killer.kill()
        with anyio.move_on_after(FORCED_SECONDS):
            await self.gone.wait()

    async def wait_for_end(self, idle: float) -> None:
        """Wait until `stopping` is set or the browser was unused for `idle` seconds."""
        while not self.stopping.is_set() and (left := self._used + idle - anyio.current_time()) > 0:
            with anyio.move_on_after(left):
                await self.stopping.wait()
        self.stopping.set()


class BrowserTimeouts(Struct, frozen=True, kw_only=True):
    """Time limits in seconds. Loading caused by a click starts within `settle`; a browser unused
    for `idle` is ended."""

    navigation: float = 15.0
    action: float = 5.0
    settle: float = 0.3
    idle: float = 900.0


class BrowserSession:
    """Starts the browser on demand and acts on its page.

    `start_soon` belongs to a task group that lives as long as the task. `path` is the browser to
    use. Without `network` only local pages open. `find` resolves host names. `knows` says which
    hosts local pages may reach; without it, all of them.
    """

    def __init__(
        self,
        start_soon: StartSoon,
        *,
        path: str = "",
        network: bool = True,
        timeouts: BrowserTimeouts | None = None,
        find: Find | None = None,
        knows: Callable[[HostPort], bool] | None = None,
    ) -> None:
        self.allowed: set[str] = set()
        """Origins the user allowed to open in this task."""
        self._start_soon = start_soon
        self._path = path
        self.timeouts = timeouts or BrowserTimeouts()
        self._reach_of = partial(BrowserReach, network=network, find=find, knows=knows)
        self._life: BrowserLife | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to show with the question whether to start a browser."""
        return (AS_ROOT,) if is_root() else ()

    @property
    def running(self) -> RunningBrowser:
        """The running browser. Raises `ToolError` if there is none."""
        if self._life is None:
            raise ToolError(NOT_OPEN)
        if self._life.browser is None or self._life.stopping.is_set():
            raise ToolError(self._life.failure or ENDED)
        return self._life.browser

    @property
    def origin(self) -> str:
        """Origin of the open page; empty if no page is open."""
        return origin_of(self.running.page.page.url)

    def refusal(self, address: WebAddress) -> str:
        """Why the address can never be opened; empty if it can."""
        return self._reach(address).refusal(address.host)

    def _reach(self, address: WebAddress) -> BrowserReach:
        """Reach of a browser started for this address."""
        return self._reach_of(local=address.is_loopback, opened=self.allowed)

    async def launch(self, address: WebAddress) -> None:
        """Start a browser with an empty profile and open the page."""
        await self.close()
        life = BrowserLife(self._reach(address))
        self._start_soon(partial(self._run, life))
        self._life = life
        await life.settled.wait()
        await self._open(address)

    async def navigate(self, address: WebAddress) -> None:
        """Open a page. The caller has checked that it is allowed. A browser shows either local
        or remote pages, so switching between them starts a new one."""
        if self.running.reach.local == address.is_loopback:
            await self._open(address)
        else:
            await self.launch(address)
            self.running.events.note(RESTARTED)

    async def _open(self, address: WebAddress) -> None:
        await self._ensure_page()
        self.allowed.add(address.origin)
        limit = self.timeouts.navigation
        began = anyio.current_time()
        async with self._page_for_action(limit + self.timeouts.action) as page:
            await self._go(page, address, limit)
            await self._settle(page, limit - (anyio.current_time() - began))

    async def click(self, spot: Spot) -> None:
        async with self._page_for_action() as page:
            await self._click(page, spot)
            await self._settle(page)

    async def type(self, text: str, spot: Spot | None) -> None:
        """Type text at `spot`, or at the focus."""
        async with self._page_for_action() as page:
            if spot is not None:
                await self._click(page, spot)
            if len(text) <= LONGEST_KEYED:
                await page.keyboard.type(text)
            else:
                await page.keyboard.insert_text(text)
            await self._settle(page)

    async def press(self, key: str) -> None:
        async with self._page_for_action() as page:
            await page.keyboard.press(key)
            await self._settle(page)

    async def scroll(self, screens: int) -> None:
        async with self._page_for_action() as page:
            await page.evaluate("screens => scrollBy(0, screens * innerHeight * 0.9)", screens)

    async def view(self, *, pictured: bool) -> PageView:
        browser = self.running
        with self._translate_errors(browser):
            return await view_of(
                browser.page, browser.events, pictured=pictured, seconds=self.timeouts.action
            )

    async def close(self) -> None:
        """End the browser and all its processes, if one is running."""
        if self._life is not None:
            await self._life.end()
            self._life = None

    async def _run(self, life: BrowserLife) -> None:
        try:
            program = find_browser(self._path, os.environ.get("PATH", os.defpath))
            await load_playwright()
            async with running_browser(
                program, self.allowed, life.reach, life.killer
            ) as life.browser:
                life.browser.context.on("close", lambda _: life.stopping.set())
                life.touch()
                life.settled.set()
                await life.wait_for_end(self.timeouts.idle)
        except Exception as error:
            # a failing browser must not cancel the caller's task group
            life.failure = _error_text(error)
        finally:
            life.browser = None
            life.settled.set()
            life.gone.set()

    async def _ensure_page(self) -> None:
        """Replace a page that does not respond: a frozen page could not navigate."""
        browser = self.running
        with self._translate_errors(browser), anyio.fail_after(self.timeouts.navigation):
            if not await browser.page.is_responsive():
                await browser.replace_page()

    @asynccontextmanager
    async def _page_for_action(self, seconds: float = 0.0) -> AsyncIterator["Page"]:
        """The page, with a time limit on the block."""
        browser = self.running
        if browser.page.trouble == CLOSED and self._life:
            with anyio.move_on_after(self.timeouts.settle):
                await self._life.stopping.wait()  # perhaps the browser ended, not the page alone
        if self.running.page.trouble:
            raise ToolError(f"{browser.page.trouble} {REOPEN}")
        limit = seconds or 2 * self.timeouts.action + self.timeouts.settle
        with self._translate_errors(browser), anyio.fail_after(limit):
            yield browser.page.page

    @contextmanager
    def _translate_errors(self, browser: RunningBrowser) -> Iterator[None]:
        """Turn playwright's errors and timeouts into `ToolError`."""
        from playwright.async_api import Error

        life = self._life
        assert life is not None
        life.touch()
        try:
            yield
        except TimeoutError as error:
            raise ToolError(f"{FROZEN} {REOPEN}") from error
        except Error as error:
            if browser.page.trouble and not life.stopping.is_set():
                raise ToolError(f"{browser.page.trouble} {REOPEN}") from error
            if _IS_CLOSED in error.message:
                life.stopping.set()
                raise ToolError(ENDED) from error
            raise ToolError(_error_text(error)) from error
        finally:
            life.touch()

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
            await page.click(spot, timeout=self.timeouts.action * 1000)

    async def _settle(self, page: "Page", seconds: float | None = None) -> None:
        """Wait for the page to load; note if that takes longer than the limit."""
        from playwright.async_api import TimeoutError as Late

        await anyio.sleep(self.timeouts.settle)
        limit = max(0.1, self.timeouts.action if seconds is None else seconds)
        try:
            await page.wait_for_load_state("load", timeout=limit * 1000)
        except Late:
            self.running.events.note(STILL_LOADING)


def _error_text(error: Exception) -> str:
    if isinstance(error, ToolError):
        return str(error)
    return f"The browser could not do it: {escaped(str(error), LONGEST_ERROR)}"
