"""A project with its manager, a scripted model, and tabs of a real browser."""

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import anyio
from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page, expect

from llm_server.parts import Answer
from rookery.manager.web.server_links import Links, ask_for_links
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from support.scripted_model import Model
from support.warm_start import start_warm

Colours = Literal["light", "dark"]
PATIENCE = 60.0
expect.set_options(timeout=PATIENCE * 1000)

TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


def until(happened: Callable[[], Any], what: str = "") -> Any:
    """Poll `happened` until it returns something. For changes that no page shows."""
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()):
        if time.monotonic() > deadline:
            raise AssertionError(f"It never came: {what or happened}")
        threading.Event().wait(0.1)
    return found


class Project:
    """A repository with a commit, with its own home, and the command that manages it."""

    def __init__(self, folder: Path, model: Model, name: str = "work") -> None:
        self.folder = folder
        self.model = model
        self.path = folder / name
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "decoy"),
            "ROOKERY_HOME": str(folder / "home"),
            "ROOKERY_PROVIDER": "anthropic",
            "ROOKERY_MODEL": "claude-x",
            "ROOKERY_BASE_URL": model.url,
            "LANG": "C.UTF-8",
        }
        self.places = find_places(self.environ)
        self.path.mkdir()
        TrustStore(self.places.trust_file).trust(self.path)
        self.git("init", "-q", "-b", "main")
        self.commit({"prices.py": "def off(price, by):\n    return price * by / 10\n"})

    def git(self, *words: str) -> str:
        named = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
        done = subprocess.run(
            ["git", *named, *words],
            cwd=self.path,
            env=self.environ,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def commit(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "some files")

    def left(self) -> list[int]:
        """Processes of this project's sessions; their command lines contain its folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if os.fsencode(self.folder) in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    def end_all(self) -> None:
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Manager:
    """A `rookery manager` process."""

    def __init__(self, project: Project, *options: str) -> None:
        self.project = project
        self.model = project.model
        self._troubles = project.folder / "manager.err"
        out, said = os.pipe()
        with (
            open(os.devnull, "rb") as nothing,
            self._troubles.open("wb") as troubles,
            os.fdopen(said, "wb"),
        ):
            self.process = start_warm(
                ["manager", "--no-open", "--json", "-w", str(project.path), *options],
                project.environ,
                str(project.path),
                streams=(nothing.fileno(), said, troubles.fileno()),
                manages=True,
            )
        self._out = os.fdopen(out, "r", encoding="utf-8")
        line = self._out.readline()
        assert line, self._troubles.read_text()
        self.links: dict[str, Any] = json.loads(line)
        self.url: str = self.links["url"]

    def link(self) -> str:
        """A link that opens the page once."""
        found: list[Links | None] = []
        folder = self.project.places.state / "manager"
        # the browser's driver already runs an event loop in this thread
        asking = threading.Thread(
            target=lambda: found.append(anyio.run(partial(ask_for_links, folder)))
        )
        asking.start()
        asking.join()
        assert found[0]
        return found[0].launch_url

    @cached_property
    def token(self) -> str:
        code = self.link().partition("#launch=")[2]
        return str(self._post("launch", {"code": code})["token"])

    def do(self, kind: str, **fields: Any) -> Any:
        """Send a request to the HTTP API."""
        return self._post("do", {"kind": kind, **fields}, Authorization=f"Bearer {self.token}")

    def start(self, prompt: str, *answers: Answer, **more: Any) -> str:
        """Start a session with scripted answers, and return its id."""
        self.model.plays(prompt, *answers)
        options = {"prompt": prompt, "auto_approve": False, **more}
        (session_id,) = self.do("start_sessions", **options)["session_ids"]
        assert isinstance(session_id, str)
        return session_id

    def rows(self) -> dict[str, dict[str, Any]]:
        listed = self.do("list_sessions", archived=True)["sessions"]
        return {row["session_id"]: row for row in listed}

    def at(self, session_id: str, *states: str) -> dict[str, Any]:
        """Wait until the session is in one of these states, and return its row."""

        row: dict[str, Any] = {}

        def there() -> bool:
            row.update(self.rows()[session_id])
            return row["state"] in states

        try:
            until(there)
        except AssertionError as error:
            raise AssertionError(f"{row['state']}, not {states}: {row}") from error
        return row

    def clear(self) -> None:
        """Stop and remove all sessions."""
        if self.process.poll() is None:
            self.do("stop_all")
            for session_id in self.rows():
                self.do("remove_session", session_id=session_id)

    def end(self) -> None:
        """Kill the manager, as a crash would."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._out.close()

    def _post(self, name: str, body: Mapping[str, Any], **headers: str) -> Any:
        request = urllib.request.Request(
            f"{self.url}api/{name}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **headers},
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=PATIENCE
        ) as answer:
            return json.load(answer)


class Tab:
    """A page in the browser, and the errors in its console."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", self._hear_of)

    def leave(self) -> None:
        """Stop listening, because another test will use the page."""
        self.page.remove_listener("console", self._hear)
        self.page.remove_listener("pageerror", self._hear_of)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} {message.location}")

    def _hear_of(self, error: Error) -> None:
        self.complaints.append(str(error))

    def open(self, session_id: str, part: str = "") -> None:
        self.go(f"session/{session_id}" + (f"/{part}" if part else ""))

    def go(self, place: str) -> None:
        self.page.evaluate("place => { location.hash = `#/${place}` }", place)

    def button(self, name: str | re.Pattern[str], *, exact: bool = False) -> Locator:
        return self.page.get_by_role("button", name=name, exact=exact)

    @property
    def conversation(self) -> Locator:
        return self.page.get_by_role("log")

    @property
    def message(self) -> Locator:
        return self.page.get_by_label("Message", exact=True)

    @property
    def state(self) -> Locator:
        return self.page.locator(".session-head .badge[role=status]:visible")

    def ask(self, name: str | re.Pattern[str] = "") -> Locator:
        return self.page.get_by_role("region", name=name) if name else self.page.locator(ASK)

    def send(self, words: str) -> None:
        self.message.fill(words)
        self.button("Send", exact=True).click()

    def menu(self, item: str) -> None:
        self.button("More actions", exact=True).click()
        self.page.get_by_role("menuitem", name=item, exact=True).click()


ASK = ".ask-panel"


class Window:
    """A browser window with certain settings. Tests reuse its pages, because starting a renderer
    takes longer than most tests."""

    def __init__(self, browser: Browser, **look: Any) -> None:
        usual = {"viewport": {"width": 1200, "height": 800}, "reduced_motion": "reduce"}
        self._context = browser.new_context(**{**usual, **look})
        self._context.add_init_script(TELL_VIOLATIONS)
        self._unused: list[Page] = []

    def page(self) -> Page:
        """An empty page without stored data, in front: others are painted once a second."""
        page = self._unused.pop() if self._unused else self._context.new_page()
        page.bring_to_front()
        return page

    def take_back(self, page: Page) -> None:
        # a page that navigates by itself keeps its renderer process, and can still clear what it
        # has stored
        page.evaluate("location.replace('about:blank')")
        page.wait_for_url("about:blank")
        page.evaluate("localStorage.clear(); sessionStorage.clear()")
        page.mouse.move(0, 0)
        self._unused.append(page)

    def close(self) -> None:
        self._context.close()


class Tabs:
    """The tabs that one test has open in a window."""

    def __init__(self, window: Window, manager: Manager) -> None:
        self.manager = manager
        self._window = window
        self._tabs: list[Tab] = []
        self.expected: Sequence[str] = ()

    def open(self, link: str | None = None, *, colours: Colours = "light") -> Tab:
        tab = Tab(self._window.page())
        self._tabs.append(tab)
        tab.page.emulate_media(color_scheme=colours)
        tab.page.goto(self.manager.link() if link is None else link)
        return tab

    def close(self) -> None:
        """Close the tabs, and fail on unexpected console errors."""
        for tab in self._tabs:
            tab.leave()
            self._window.take_back(tab.page)
        unexpected = [
            words
            for tab in self._tabs
            for words in tab.complaints
            if not any(part in words for part in self.expected)
        ]
        assert not unexpected, unexpected


@contextmanager
def managed(project: Project, *options: str) -> Iterator[Manager]:
    manager = Manager(project, *options)
    try:
        yield manager
    finally:
        manager.end()
