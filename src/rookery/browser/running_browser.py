"""Start and end of a browser process.

The browser holds a pipe to playwright's driver, and the driver one to us, so both end however we
die. All files of the browser are in one scratch folder; `BrowserKiller` finds processes that do
not exit by that folder's name on their command line.
"""

import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from rookery.browser.reach import BrowserReach, proxy
from rookery.browser.watched_page import VIEWPORT, PageEvents, WatchedPage, unless_gone
from rookery.errors import ToolError
from rookery.platform.locks import hold_folder, remove_held_folder, sweep_folders

if TYPE_CHECKING:
    from asyncio import Future

    from playwright.async_api import BrowserContext, Page, Playwright, Request, Route

PREFIX = "rookery-browser-"
LONGEST_PATH = 56
"""Longest path of the scratch folder in bytes: socket names below it add 46 of at most 103."""
FALLBACK_PARENTS = (Path("/tmp"), Path("/var/tmp"))
_RANDOM = 8
"""Random characters in a scratch folder's name."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a scratch folder, in the first parent with a short enough path. Raises `ToolError`
    if there is none."""
    parents = list(dict.fromkeys([Path(tempfile.gettempdir()), *FALLBACK_PARENTS]))
    for parent in parents:
        sweep_folders(str(parent), PREFIX)
    folder = _create_in_one_of(parents)
    lock = hold_folder(folder)
    try:
        yield folder
    finally:
        remove_held_folder(folder)
        os.close(lock)


def _create_in_one_of(parents: Sequence[Path]) -> Path:
    most = LONGEST_PATH - len("/") - len(PREFIX) - _RANDOM
    problems: list[str] = []
    for parent in parents:
        if len(os.fsencode(parent)) > most:
            problems.append(f"{parent} has a longer one")
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError as error:
            problems.append(f"{parent} cannot be used ({error.strerror})")
    raise ToolError(
        "The browser was not started: it needs a folder with a path of at most "
        f"{most} bytes, and {'; '.join(problems)}. The user must set TMPDIR to a "
        "short path."
    )


_PROCESSES = Path("/proc")

START_SECONDS = 30.0
END_SECONDS = 3.0
STOP_SECONDS = 1.5
KILLED_SECONDS = 5.0
PAGE_SECONDS = 2.0
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")
_OPTIONS = (
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--disable-quic",
    # which spelling works depends on the version
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--no-pings",
)
_IN_ONE_PROCESS = "--disable-site-isolation-trials"
"""Keeps frames in the page's process: out-of-process frames could navigate without our guard.
The guard keeps remote frames out of local pages, so no isolation is lost."""
_WITHOUT_UDP = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport"])
  delete globalThis[name];
"""
"""Removes the APIs that bypass a proxy."""
_NO_SANDBOX = "No usable sandbox"


class BrowserKiller:
    """Kills the processes of a browser, found by its scratch `folder`, or by its `pid` where
    /proc cannot be read. Both are set as soon as they are known."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.pid = 0
        self._drivers: set[int] = set()

    def kill(self) -> None:
        """Kill the browser and all its processes."""
        pids = {*self._pids(), *([self.pid] if self.pid else [])}
        self._drivers |= {parent for pid in pids if _parent(parent := _parent(pid)) == os.getpid()}
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):  # it has exited
                _end_group(pid)

    def end_driver(self) -> None:
        """Kill the playwright driver. Call it only after asking the driver to stop: before that,
        its exit raises an error in playwright that cannot be caught."""
        for driver in self._drivers:
            with suppress(ProcessLookupError):
                os.kill(driver, signal.SIGKILL)

    def _pids(self) -> list[int]:
        if self.folder is None:
            return []
        name = os.fsencode(self.folder)
        return [
            int(process.name)
            for process in _PROCESSES.glob("[0-9]*")
            if name in _command_line(process)
        ]


class RunningBrowser:
    """A started browser with one page; new windows are closed. Created by `running_browser`."""

    def __init__(
        self, context: "BrowserContext", allowed: set[str], reach: BrowserReach, events: PageEvents
    ) -> None:
        self.context = context
        self.events = events
        self.pid = 0
        self.page = WatchedPage(context.pages[0], allowed, reach, self.events)
        self._allowed = allowed
        self.reach = reach
        self._expected = False

    async def prepare(self) -> None:
        """Install the guards. Await this before using the page."""
        self.pid = await _pid(self.context)
        self.context.on("page", self._close_window)
        await self.context.add_init_script(_WITHOUT_UDP)
        if self.reach.local:
            await self.context.route("**/*", self._filter_request)
        await self.page.watch(self.context)

    async def replace_page(self) -> None:
        useless = self.page.page
        self._expected = True
        try:
            page = await self.context.new_page()
        finally:
            self._expected = False
        self.page = WatchedPage(page, self._allowed, self.reach, self.events)
        await self.page.watch(self.context)
        with anyio.move_on_after(PAGE_SECONDS):
            await useless.close()

    async def _filter_request(self, route: "Route") -> None:
        """Pass on requests of our page only: a new window could load something before it is
        closed, and the origin of a request without a page is unknown."""
        with unless_gone():
            if _page_of(route.request) is self.page.page:
                await route.continue_()
            else:
                await route.abort()

    async def _close_window(self, page: "Page") -> None:
        if not self._expected:
            with unless_gone():
                await page.close()


@asynccontextmanager
async def running_browser(
    program: str, allowed: set[str], reach: BrowserReach, killer: BrowserKiller
) -> AsyncIterator[RunningBrowser]:
    """Start a browser and end it with the context. Raises `ToolError` if it does not start. Sets
    the folder and pid of `killer`."""
    events = PageEvents()
    with scratch_folder() as folder:
        killer.folder = folder
        async with proxy(reach, events.note) as proxy_url, _driver(killer) as driver:
            context = await _start(driver, program, folder, proxy_url, reach)
            browser = RunningBrowser(context, allowed, reach, events)
            try:
                await browser.prepare()
                killer.pid = browser.pid
                yield browser
            finally:
                await _end(browser, killer)


def is_root() -> bool:
    return os.geteuid() == 0


async def load_playwright() -> None:
    """Import playwright in a thread, because the import is slow."""
    await anyio.to_thread.run_sync(_load)


def _end_group(pid: int) -> None:
    group = os.getpgid(pid)
    if group == os.getpgrp():
        os.kill(pid, signal.SIGKILL)
    else:
        os.killpg(group, signal.SIGKILL)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has exited
        return b""


def _parent(pid: int) -> int:
    """Parent of a process; 0 if it has exited."""
    try:
        status = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])


def _page_of(request: "Request") -> "Page | None":
    """Page of a request; None for a worker or a window that was just opened."""
    from playwright.async_api import Error

    try:
        return request.frame.page
    except Error:
        return None


@asynccontextmanager
async def _driver(killer: BrowserKiller) -> AsyncIterator["Playwright"]:
    from playwright.async_api import async_playwright

    playwright = async_playwright()
    try:
        # a driver cancelled while starting could not be stopped
        with anyio.fail_after(START_SECONDS, shield=True):
            driver = await playwright.start()
    except TimeoutError as error:
        raise ToolError(f"Playwright did not start within {START_SECONDS:g} s.") from error
    with suppress(AttributeError):  # only some versions have it, and need it
        playwright._client._transport.on_error_future.add_done_callback(_retrieve_exception)  # type: ignore[union-attr]
    try:
        yield driver
    finally:
        with anyio.move_on_after(STOP_SECONDS, shield=True) as stopping:
            await driver.stop()
        if stopping.cancelled_caught:
            killer.end_driver()
            await _kill_driver(playwright)


async def _kill_driver(playwright: Any) -> None:
    """Kill a driver that did not stop, and wait for it: the event loop releases its pipes only
    after the process has exited."""
    with suppress(AttributeError, ProcessLookupError):  # another version; already exited
        process = playwright._client._transport._proc
        process.kill()
        with anyio.move_on_after(KILLED_SECONDS, shield=True):
            await process.wait()


def _retrieve_exception(end: "Future[Any]") -> None:
    """Retrieve the exception of a killed driver. Otherwise asyncio would print it to the
    terminal as never retrieved; callers get the error another way."""
    if not end.cancelled():
        end.exception()


async def _start(
    driver: "Playwright", program: str, folder: Path, proxy_url: str, reach: BrowserReach
) -> "BrowserContext":
    from playwright.async_api import Error

    width, height = VIEWPORT
    home = {"HOME": str(folder), "TMPDIR": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    start = driver.chromium.launch_persistent_context
    try:
        with anyio.CancelScope(shield=True):
            context = await start(
                folder / "profile",
                artifacts_dir=folder / "artifacts",
                executable_path=program,
                headless=True,
                chromium_sandbox=not is_root(),
                args=[*_OPTIONS, *([_IN_ONE_PROCESS] if reach.local else [])],
                env={**inherited, **home},
                proxy={"server": proxy_url},
                viewport={"width": width, "height": height},
                accept_downloads=False,
                service_workers="block",
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=START_SECONDS * 1000,
            )
    except Error as error:
        raise ToolError(_start_error(program, error.message)) from error
    return context


def _start_error(program: str, reason: str) -> str:
    if _NO_SANDBOX in reason:
        return (
            f"{program} does not start: this machine does not allow its sandbox (user "
            "namespaces are turned off). The user must change that."
        )
    first = reason.strip().partition("\n")[0][:300]
    return f"{program} does not start: {first}"


async def _pid(context: "BrowserContext") -> int:
    assert context.browser is not None
    devtools = await context.browser.new_browser_cdp_session()
    found: dict[str, Any] = await devtools.send("SystemInfo.getProcessInfo")
    await devtools.detach()
    pids = {each["type"]: int(each["id"]) for each in found["processInfo"]}
    return pids["browser"]


async def _end(browser: RunningBrowser, killer: BrowserKiller) -> None:
    """Ask the browser to exit; kill it after `END_SECONDS`."""
    with anyio.move_on_after(END_SECONDS, shield=True) as asking, unless_gone():
        await browser.context.close()
    if asking.cancelled_caught:
        killer.kill()


def _load() -> None:
    import playwright.async_api  # noqa: F401
