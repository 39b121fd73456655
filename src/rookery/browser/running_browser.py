"""A browser process from its start to its end, with everything that must end with it.

The browser hangs on a pipe to playwright's driver and the driver on a pipe to us: however the
product dies, both end. Everything it writes is below a folder of its own, by whose name `Force`
finds the processes of a browser that does not end when asked.
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
from rookery.browser.watched_page import VIEWPORT, Happenings, WatchedPage
from rookery.errors import ToolError
from rookery.platform.locks import hold_folder, remove_held_folder, sweep_folders

if TYPE_CHECKING:
    from asyncio import Future

    from playwright.async_api import BrowserContext, Page, Playwright, Request, Route

PREFIX = "rookery-browser-"
LONGEST = 56
"""Bytes of a folder's path. The name of a socket below it has up to 46, and both together 103."""
USUAL = (Path("/tmp"), Path("/var/tmp"))
_RANDOM = 8
"""Characters that make a name a new one."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder of our own, below the one for temporary files or, if that has too long a path,
    another. Raises `ToolError` if there is none."""
    parents = list(dict.fromkeys([Path(tempfile.gettempdir()), *USUAL]))
    for parent in parents:
        sweep_folders(str(parent), PREFIX)
    folder = _made_in_one_of(parents)
    lock = hold_folder(folder)
    try:
        yield folder
    finally:
        remove_held_folder(folder)
        os.close(lock)


def _made_in_one_of(parents: Sequence[Path]) -> Path:
    most = LONGEST - len("/") - len(PREFIX) - _RANDOM
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
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
_OPTIONS = (
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--disable-quic",
    # which of the two spellings is heeded depends on the version
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--no-pings",
)
_IN_ONE_PROCESS = "--disable-site-isolation-trials"
"""Frames in processes of their own could go elsewhere without our guard being asked. It keeps all
that is not of this machine out, so that there is nothing left to part them from."""
_WITHOUT_UDP = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport"])
  delete globalThis[name];
"""
"""What does not go through a proxy is not even there for pages."""
_NO_SANDBOX = "No usable sandbox"


class Force:
    """Everything of a browser is found by the `folder` that it was started with, and where
    processes cannot be looked through by its `pid`. Both are told as soon as they are known."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.pid = 0
        self._drivers: set[int] = set()

    def use(self) -> None:
        """End the browser with all its processes."""
        pids = {*self._found(), *([self.pid] if self.pid else [])}
        self._drivers |= {parent for pid in pids if _parent(parent := _parent(pid)) == os.getpid()}
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):  # it has ended meanwhile
                _end_group(pid)

    def end_driver(self) -> None:
        """What the browser was started by. Before it was asked to stop, its end would be an
        error to playwright that nobody can catch."""
        for driver in self._drivers:
            with suppress(ProcessLookupError):
                os.kill(driver, signal.SIGKILL)

    def _found(self) -> list[int]:
        if self.folder is None:
            return []
        name = os.fsencode(self.folder)
        return [
            int(process.name)
            for process in _PROCESSES.glob("[0-9]*")
            if name in _command_line(process)
        ]


class RunningBrowser:
    """Made by `running_browser`. There is one page in it, and windows that it opens are closed."""

    def __init__(
        self, context: "BrowserContext", allowed: set[str], reach: BrowserReach, heard: Happenings
    ) -> None:
        self.context = context
        self.heard = heard
        self.pid = 0
        self.page = WatchedPage(context.pages[0], allowed, reach, self.heard)
        self._allowed = allowed
        self.reach = reach
        self._expected = False

    async def prepare(self) -> None:
        """To be awaited before it is used."""
        self.pid = await _pid(self.context)
        self.context.on("page", self._close_window)
        await self.context.add_init_script(_WITHOUT_UDP)
        if self.reach.local:
            await self.context.route("**/*", self._pass_on)
        await self.page.watch(self.context)

    async def replace_page(self) -> None:
        """Go on in a new page instead of one that is of no more use."""
        useless = self.page.page
        self._expected = True
        try:
            page = await self.context.new_page()
        finally:
            self._expected = False
        self.page = WatchedPage(page, self._allowed, self.reach, self.heard)
        await self.page.watch(self.context)
        with anyio.move_on_after(PAGE_SECONDS):
            await useless.close()

    async def _pass_on(self, route: "Route") -> None:
        """Only what our page asks for: a window would load something before it is closed, and
        what is of no page at all is of nobody we know."""
        from playwright.async_api import Error

        with suppress(Error):  # the page is gone, and its request with it
            if _page_of(route.request) is self.page.page:
                await route.continue_()
            else:
                await route.abort()

    async def _close_window(self, page: "Page") -> None:
        from playwright.async_api import Error

        if not self._expected:
            with suppress(Error):  # it has closed itself
                await page.close()


@asynccontextmanager
async def running_browser(
    program: str, allowed: set[str], reach: BrowserReach, force: Force
) -> AsyncIterator[RunningBrowser]:
    """Raises `ToolError` if it does not start. `force` gets to know what it takes to end it."""
    heard = Happenings()
    with scratch_folder() as folder:
        force.folder = folder
        async with proxy(reach, heard.note) as way_out, _driver(force) as driver:
            context = await _started(driver, program, folder, way_out, reach)
            browser = RunningBrowser(context, allowed, reach, heard)
            try:
                await browser.prepare()
                force.pid = browser.pid
                yield browser
            finally:
                await _end(browser, force)


def is_root() -> bool:
    return os.geteuid() == 0


async def load_playwright() -> None:
    """It takes a while to import, so that is done beside the loop."""
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
    except OSError:  # it has ended
        return b""


def _parent(pid: int) -> int:
    """None has the number 0."""
    try:
        status = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])


def _page_of(request: "Request") -> "Page | None":
    """None if it is of a worker, or of a window that is only just there."""
    from playwright.async_api import Error

    try:
        return request.frame.page
    except Error:
        return None


@asynccontextmanager
async def _driver(force: Force) -> AsyncIterator["Playwright"]:
    from playwright.async_api import async_playwright

    playwright = async_playwright()
    try:
        # a driver that is half started could not be ended
        with anyio.fail_after(START_SECONDS, shield=True):
            driver = await playwright.start()
    except TimeoutError as error:
        raise ToolError(f"Playwright did not start within {START_SECONDS:g} s.") from error
    with suppress(AttributeError):  # only the versions that have it need it
        playwright._client._transport.on_error_future.add_done_callback(_take_note)  # type: ignore[union-attr]
    try:
        yield driver
    finally:
        with anyio.move_on_after(STOP_SECONDS, shield=True) as stopping:
            await driver.stop()
        if stopping.cancelled_caught:
            force.end_driver()
            await _ended(playwright)


async def _ended(playwright: Any) -> None:
    """A driver that did not stop is killed, and waited for: the loop holds pipes to it, which it
    lets go of only once it has seen its end."""
    with suppress(AttributeError, ProcessLookupError):  # other versions; it has ended meanwhile
        process = playwright._client._transport._proc
        process.kill()
        with anyio.move_on_after(KILLED_SECONDS, shield=True):
            await process.wait()


def _take_note(end: "Future[Any]") -> None:
    """Of a driver that was killed: whoever uses the browser is told otherwise, and an exception
    that nobody looks at is printed into whatever is on the terminal."""
    if not end.cancelled():
        end.exception()


async def _started(
    driver: "Playwright", program: str, folder: Path, way_out: str, reach: BrowserReach
) -> "BrowserContext":
    from playwright.async_api import Error

    width, height = VIEWPORT
    home = {"HOME": str(folder), "TMPDIR": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
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
                env={**passed_on, **home},
                proxy={"server": way_out},
                viewport={"width": width, "height": height},
                accept_downloads=False,
                service_workers="block",
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=START_SECONDS * 1000,
            )
    except Error as error:
        raise ToolError(_why_not(program, error.message)) from error
    return context


def _why_not(program: str, reason: str) -> str:
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


async def _end(browser: RunningBrowser, force: Force) -> None:
    """Ask it to end, and after a while no longer ask."""
    from playwright.async_api import Error

    with anyio.move_on_after(END_SECONDS, shield=True) as asking, suppress(Error):
        await browser.context.close()
    if asking.cancelled_caught:
        force.use()


def _load() -> None:
    import playwright.async_api  # noqa: F401
