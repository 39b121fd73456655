"""A project with its manager, a model that says what a test wants, and tabs of a real browser."""

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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from llm_server.parts import Answer
from manager_page.played_model import Model
from rookery.manager.holder import manager_folder
from rookery.manager.web.launch_socket import Links, ask_for_links
from rookery.storage.places import find_places
from rookery.storage.trust import TrustStore
from terminal_session import COMMAND

PATIENCE = 15.0
expect.set_options(timeout=PATIENCE * 1000)

TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


def until(happened: Callable[[], Any], what: str = "") -> Any:
    """What `happened` gives, once it gives something. For what no page tells of."""
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()):
        if time.monotonic() > deadline:
            raise AssertionError(f"It never came: {what or happened}")
        threading.Event().wait(0.02)
    return found


class Project:
    """A repository with a commit, in a home of its own, and the command that manages it."""

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
        """Processes that have to do with this project."""
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
    """`rookery manager`, as a process."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.model = project.model
        self.process = subprocess.Popen(
            [COMMAND, "manager", "--no-open", "--json", "-w", str(project.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=project.path,
            env=project.environ,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.links: dict[str, Any] = json.loads(line)
        self.url: str = self.links["url"]
        self._token = ""

    def link(self) -> str:
        """One that opens the page once."""
        found: list[Links | None] = []
        folder = manager_folder(self.project.places, self.project.path)
        # the browser's driver has an event loop in this thread already
        asking = threading.Thread(
            target=lambda: found.append(anyio.run(partial(ask_for_links, folder)))
        )
        asking.start()
        asking.join()
        assert found[0]
        return found[0].launch_url

    def do(self, kind: str, **fields: Any) -> Any:
        """As a program would."""
        if not self._token:
            code = self.link().partition("#launch=")[2]
            self._token = self._post("launch", {"code": code})["token"]
        return self._post("do", {"kind": kind, **fields}, Authorization=f"Bearer {self._token}")

    def start(self, prompt: str, *answers: Answer, **more: Any) -> str:
        """A session that is played this script; by its id."""
        self.model.plays(prompt, *answers)
        wish = {"prompt": prompt, "auto_approve": False, **more}
        (session_id,) = self.do("start_sessions", **wish)["session_ids"]
        assert isinstance(session_id, str)
        return session_id

    def rows(self) -> dict[str, dict[str, Any]]:
        listed = self.do("list_sessions", archived=True)["sessions"]
        return {row["session_id"]: row for row in listed}

    def at(self, session_id: str, *states: str) -> dict[str, Any]:
        """The session's row, once it is in one of these states."""

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
        """No session is left, nor a process of one."""
        if self.process.poll() is None:
            self.do("stop_all")
            for session_id in self.rows():
                self.do("remove_session", session_id=session_id)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE)

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


@dataclass
class Tab:
    """A page in the browser, and everything in it that went wrong in silence."""

    page: Page
    complaints: list[str] = field(default_factory=list)

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
        self.button("More", exact=True).click()
        self.page.get_by_role("menuitem", name=item, exact=True).click()

    def overflow(self) -> int:
        """How many pixels are to the right of what can be seen."""
        wide = "document.scrollingElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(wide))


ASK = ".ask-panel"


class Tabs:
    """A user's browser, which forgets everything in the end."""

    def __init__(self, browser: Browser, manager: Manager, **look: Any) -> None:
        self.manager = manager
        usual = {"viewport": {"width": 1200, "height": 800}, "reduced_motion": "reduce"}
        self.context: BrowserContext = browser.new_context(**{**usual, **look})
        self.context.add_init_script(TELL_VIOLATIONS)
        self.tabs: list[Tab] = []
        self.expected: Sequence[str] = ()

    def open(self, link: str | None = None) -> Tab:
        tab = Tab(self.context.new_page())
        tab.page.on("console", partial(_hear, tab))
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        self.tabs.append(tab)
        tab.page.goto(self.manager.link() if link is None else link)
        return tab

    def close(self) -> None:
        complaints = [words for tab in self.tabs for words in tab.complaints]
        self.context.close()
        unexpected = [
            words for words in complaints if not any(part in words for part in self.expected)
        ]
        assert not unexpected, unexpected


def _hear(tab: Tab, message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        tab.complaints.append(f"{message.type}: {message.text} {message.location}")


@contextmanager
def managed(project: Project) -> Iterator[Manager]:
    manager = Manager(project)
    try:
        yield manager
    finally:
        manager.end()
