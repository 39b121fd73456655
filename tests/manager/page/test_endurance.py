"""The page survives a lost manager, a long session and hostile content."""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from playwright.sync_api import Page, Request, WebSocketRoute, expect

from llm_server import call, finish, gate, say, think
from rookery.core.blocks import Thinking
from rookery.core.facts import AssistantSpoke, Event, RequestStarted, TaskOpened
from rookery.manager.web.page_files import FOLDER
from rookery.storage.journal_lines import JOURNAL
from rookery.storage.sessions import TaskStore
from support.manager_page import PATIENCE, Manager, Project, Tab, Tabs, Window, managed, until
from support.page_measures import too_wide
from support.scripted_model import Model
from support.tui_long_session import long_past

NO_CONNECTION = ("WebSocket connection to",)
"""What a browser itself says of a socket that fails."""
ROWS = 10_000 if os.environ.get("ROOKERY_TORTURE") else 1_500
FIRST, THOUGHT, LAST = "Begin a past", "Where to begin?", "The very last words."
MOST_DRAWN = 150
TOLERANCE = 2
"""Pixels that a row may move: too few to notice."""
SMALL_STEPS, SMALL, LARGE, HUGE = 40, 400, 1_200, 10**6
"""Pixels; after a small step, what is then the first row in sight was drawn before."""
GO_UP = """
async (box, [smallSteps, small, large]) => {
  await document.fonts.ready; // letters of another width make other lines
  // just before something is painted: only what is painted is seen
  const probe = document.body.appendChild(document.createElement("i"));
  let painting = () => undefined;
  new ResizeObserver(() => painting()).observe(probe);
  const frame = () => new Promise((done) => requestAnimationFrame(() => {
    painting = done;
    probe.style.width = probe.style.width === "1px" ? "2px" : "1px";
  }));
  probe.style.cssText = "position: fixed; display: block";
  const drawn = () => [...box.querySelectorAll("[data-ts]")];
  const topOf = (row) => row.getBoundingClientRect().top;
  const firstBelow = (top) => drawn().find((row) => row.getBoundingClientRect().bottom > top);
  const seen = new Set(), wrong = [], moved = [];
  let most = 0;
  for (let at = 0; at < 1_000; at++) {
    while (box.querySelector(".prose-rest")) await frame(); // how it looks is told a little later
    const places = drawn().map((row) => Number(row.ariaPosInSet));
    wrong.push(...places.filter((place, at) => at && place <= places[at - 1]));
    places.forEach((place) => seen.add(place));
    most = Math.max(most, places.length);
    if (box.scrollTop === 0 && !box.querySelector(".beginning")) break;
    const by = Math.min(at < smallSteps ? small : large, box.scrollTop);
    const held = by <= small && firstBelow(topOf(box) - by);
    const before = held && topOf(held);
    box.scrollTop -= by;
    await frame();
    if (held) moved.push(held.isConnected ? Math.abs(topOf(held) - before - by) : Infinity);
  }
  const size = Number(drawn()[0].ariaSetSize);
  return { seen: [...seen], wrong, most, moved: Math.max(...moved), steps: moved.length, size };
}
"""
FOCUSED = "document.activeElement.getAttribute('aria-label')"
TO_THE_END = "box => Math.round(box.scrollHeight - box.clientHeight - box.scrollTop)"
IS_SAID = "words => document.querySelector('.answer .prose')?.textContent.includes(words)"
RAN = "window.__ran = 1"
HOSTILE = (
    f"<script>{RAN}</script><img src=x onerror='{RAN}'><svg onload='{RAN}'></svg>"
    f'<a href="javascript:{RAN}">here</a> [there](javascript:{RAN.replace(" ", "")}) '
    f"![seen](https://example.org/spy.png) <iframe srcdoc='<script>parent.{RAN}</script>'></iframe>"
    "\u202egnp.exe\u2066 " + "W" * 3000
)
HOSTILE_PLACES = {
    "session/{}": re.compile("^<b>x</b>"),
    "session/{}/review": re.compile("^Review: <b>x</b>"),
    "inbox": "Inbox",
    "worktrees": "Worktrees",
}


EVIL = """\
<!doctype html><title>evil</title><script>
const there = "OURS";
const tried = {};
const json = { "Content-Type": "application/json", Authorization: "Bearer TOKEN" };
const body = '{"kind": "list_branches"}';
const ways = {
  simple: () => fetch(`${there}/api/do`, { method: "POST", mode: "no-cors", body }),
  json: () => fetch(`${there}/api/do`, { method: "POST", headers: json, body }),
  read: () => fetch(`${there}/`).then((answer) => answer.text()),
  opaque: () => fetch(`${there}/`, { mode: "no-cors" }),
  socket: () => new Promise((done, fail) => {
    const socket = new WebSocket(`${there.replace("http", "ws")}/ws`);
    socket.onopen = done;
    socket.onerror = fail;
  }),
  script: () => element("script", "src", "SCRIPT"),
  picture: () => element("img", "src", "/icon.svg"),
};
function element(name, attribute, path) {
  return new Promise((done, fail) => {
    const made = document.createElement(name);
    made.onload = done;
    made.onerror = fail;
    made[attribute] = there + path;
    document.body.append(made);
  });
}
addEventListener("load", async () => {
  for (const [name, way] of Object.entries(ways))
    tried[name] = await way().then(() => "worked", () => "failed");
  document.title = JSON.stringify(tried);
});
</script><body><iframe src="OURS/"></iframe>
"""


@contextmanager
def somebody_elses(html: str) -> Iterator[str]:
    """A foreign page on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


def test_a_foreign_page_on_this_machine_gets_nothing(window: Window, manager: Manager):
    token = manager.token
    blocked = manager.do("list_sessions")["overview"]["blocked_requests"]
    script = next((FOLDER / "assets").glob("index-*.js")).name
    evil = EVIL.replace("OURS", manager.url.rstrip("/")).replace("TOKEN", token)
    page = window.page()
    with somebody_elses(evil.replace("SCRIPT", f"/assets/{script}")) as address:
        page.goto(address)
        expect(page).to_have_title(re.compile("^{"))
        tried = json.loads(page.title())
        assert page.frames[1].url.startswith("chrome-error:")
        window.take_back(page)
    assert {*tried.values()} == {"failed"}
    seen = manager.do("list_sessions")["overview"]["blocked_requests"]
    assert seen - blocked >= len(tried)


class Cable:
    """The connection between a page and its manager, which can be cut."""

    def __init__(self, page: Page) -> None:
        self._ends: list[WebSocketRoute] = []
        self._is_cut = False
        page.route_web_socket(re.compile("/ws$"), self._connect)

    def cut(self) -> None:
        self._is_cut = True
        for end in self._ends:
            end.close()

    def mend(self) -> None:
        self._is_cut = False

    def _connect(self, end: WebSocketRoute) -> None:
        if self._is_cut:
            end.close()
        else:
            end.connect_to_server()
            self._ends.append(end)


def test_nothing_is_lost_if_the_manager_freezes_disconnects_or_is_killed(
    window: Window, model: Model, tmp_path: Path
):
    project = Project(tmp_path, model)
    frozen, cut, killed = gate(), gate(), gate()
    with managed(project) as first:
        tabs = Tabs(window, first)
        tabs.expected = NO_CONNECTION
        tab = tabs.open()
        cable = Cable(tab.page)
        tab.page.reload()
        session = first.start(
            "Hold on",
            [say("Before, ", frozen, "after."), finish("Thawed.")],
            [say("Within, ", cut, "without."), finish("Mended.")],
            [say("Under one, ", killed, "under another."), finish("Kept.")],
        )
        answers = tab.conversation.locator(".answer .prose")
        tab.open(session)
        expect(tab.conversation).to_contain_text("Before")
        banner = tab.page.get_by_role("status").filter(has_text="The manager is not responding")
        expect(banner).to_have_count(0)
        os.kill(first.process.pid, signal.SIGSTOP)
        journal = TaskStore(project.places).folder(session) / JOURNAL
        try:
            frozen.open()
            until(lambda: "Thawed." in journal.read_text(), "the end of the session's work")
            expect(banner).to_be_visible()
        finally:
            os.kill(first.process.pid, signal.SIGCONT)
        expect(banner).to_have_count(0)
        expect(answers).to_have_text("Before, after.")
        expect(tab.conversation).to_contain_text("Thawed.")

        tab.send("Are you there?")
        expect(tab.conversation).to_contain_text("Within")
        banner = tab.page.get_by_role("status").filter(has_text="Cannot reach the manager")
        cable.cut()
        expect(banner).to_be_visible()
        cut.open()
        first.at(session, "completed")
        cable.mend()
        expect(banner).to_have_count(0)
        expect(answers.last).to_have_text("Within, without.")
        expect(tab.conversation).to_contain_text("Mended.")

        tab.send("Outlive it")
        expect(tab.conversation).to_contain_text("Under one")
        first.end()
    expect(banner).to_be_visible()
    expect(tab.conversation).to_contain_text("Under one")
    tab.send("Lost words")
    expect(tab.page.get_by_text("Nothing was sent")).to_be_visible()
    expect(tab.message).to_have_value("Lost words")
    killed.open()
    with managed(project) as second:
        assert second.url == first.url
        expect(banner).to_have_count(0)
        expect(answers.last).to_have_text("Under one, under another.")
        expect(tab.conversation).to_contain_text("Kept.")
        expect(tab.state).to_contain_text("Done")
        tabs.close()
        second.clear()
    project.end_all()


def store_a_long_session(project: Project) -> str:
    """Store a long session as a terminal leaves it."""
    session_id = str(uuid4())
    thought = AssistantSpoke(request_id="r", blocks=(Thinking(text=THOUGHT),))
    past = [fact for fact in long_past(ROWS, LAST) if not isinstance(fact, TaskOpened)]
    opened = TaskOpened(text=FIRST, workspace=str(project.path))
    facts = [opened, RequestStarted(request_id="r", model="m"), thought, *past]
    journal = TaskStore(project.places).create(session_id)
    for seq, fact in enumerate(facts, 1):
        journal.write(Event(seq, 0, 1_700_000_000_000 + seq, fact))
    journal.close()
    return session_id


def go_up(tab: Tab, small_steps: int = 0, large: int = HUGE) -> dict[str, Any]:
    """Scroll to the first row; return what was seen on the way."""
    reported: dict[str, Any] = tab.conversation.evaluate(GO_UP, [small_steps, SMALL, large])
    expect(tab.conversation.get_by_text(FIRST)).to_be_in_viewport()
    return reported


def test_only_visible_rows_of_a_long_session_are_drawn(
    project: Project, manager: Manager, tabs: Tabs
):
    session = store_a_long_session(project)
    tab = tabs.open()
    rows, last = tab.conversation.locator("[data-ts]"), tab.conversation.get_by_text(LAST)
    tab.open(session)
    # the last rows are shown first, and their number arrives later
    expect(rows.last).to_have_attribute("aria-setsize", re.compile(f"{ROWS // 100}.."))
    expect(last).to_be_in_viewport()
    assert 0 < rows.count() < MOST_DRAWN

    reported = go_up(tab, SMALL_STEPS, LARGE)
    size = reported["size"]
    assert size >= ROWS
    assert reported["wrong"] == []
    # the completion question shows no row
    assert len(set(range(1, size + 1)) - set(reported["seen"])) == 1
    assert reported["most"] < MOST_DRAWN
    assert reported["steps"] >= SMALL_STEPS
    assert reported["moved"] < TOLERANCE
    thought = tab.conversation.get_by_role("button", name="Thought")
    thought.click()
    words = tab.conversation.locator(".thought .prose")
    expect(words).to_have_text(THOUGHT)

    tab.button("Jump to latest").click()
    expect(last).to_be_in_viewport()
    expect(thought).to_have_count(0)
    assert rows.count() < MOST_DRAWN
    row = tab.conversation.locator(".answer").last
    row.get_by_role("button", name="Copy text").focus()
    row.locator(".prose").evaluate("words => getSelection().selectAllChildren(words)")
    go_up(tab)
    expect(words).to_have_text(THOUGHT)  # an unfolded row stays unfolded
    # focused and selected rows stay in the document
    assert tab.page.evaluate(FOCUSED) == "Copy text"
    assert "divides" in tab.page.evaluate("String(getSelection())")
    assert rows.count() < MOST_DRAWN
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate(FOCUSED) == "Fork from here"
    expect(row).to_be_in_viewport()
    tab.page.evaluate("getSelection().removeAllRanges()")


def test_the_end_is_followed_until_the_user_scrolls_up(tab: Tab, manager: Manager):
    first, second = gate(), gate()
    words = "\n\n".join(["One more line of it."] * 80)
    session = manager.start(
        "Speak on", [say("So:\n\n", words, " half", first, f"\n\n{words} whole", second), finish()]
    )
    tab.open(session)
    # reading visible text forces a layout in the middle of a change
    tab.page.wait_for_function(IS_SAID, arg="half", timeout=PATIENCE * 1000)
    first.open()
    tab.page.wait_for_function(IS_SAID, arg="whole", timeout=PATIENCE * 1000)
    until(lambda: tab.conversation.evaluate(TO_THE_END) <= 1, "the end")
    tab.conversation.evaluate("box => { box.scrollTop -= 500; }")
    expect(tab.button("Jump to latest")).to_be_visible()
    place = tab.conversation.evaluate("box => box.scrollTop")
    second.open()
    expect(tab.state).to_contain_text("Done")
    assert abs(tab.conversation.evaluate("box => box.scrollTop") - place) < TOLERANCE
    tab.button("Jump to latest").click()
    until(lambda: tab.conversation.evaluate(TO_THE_END) <= 1, "the end")


def test_hostile_content_is_harmless(tab: Tab, manager: Manager):
    asked_for: list[str] = []

    def ask(request: Request) -> None:
        asked_for.append(request.url)

    tab.page.on("request", ask)
    name = "<img src=x onerror=window.__ran=1>\u202etxt.sh"
    session = manager.start(
        "Mean harm " + HOSTILE,
        [
            think(HOSTILE),
            say(HOSTILE),
            call("write_to_file", path=name, content=HOSTILE),
            call("execute_command", command=f"printf '%s\\033]0;title\\007\\033[31m' '{name}'"),
        ],
        [
            say("a" + "\u0301" * 100_000),  # stacked marks must not freeze the page
            call("ask_followup_question", question=HOSTILE, follow_up=[{"text": HOSTILE}]),
        ],
        [finish(HOSTILE)],
        auto_approve=True,
        label="<b>x</b>\u202e" + "L" * 30,
        where="worktree",
    )
    manager.at(session, "waiting_input", "waiting_approval")
    for place, title in HOSTILE_PLACES.items():
        tab.go(place.format(session))
        heads = tab.page.locator(":is(.page-head, .session-head) h1:visible")
        expect(heads).to_have_text(title)
        expect(tab.page.locator("main .spinner")).to_have_count(0)
        expect(tab.page.locator("main")).to_contain_text(re.compile("gnp|txt|U\\+202E"))
        assert too_wide(tab.page) == []
        assert tab.page.evaluate("window.__ran") is None
        assert tab.page.locator("main :is(script, iframe, img[src^=http], [onerror])").count() == 0
        assert tab.page.locator("a[href^='javascript:' i]").count() == 0
        assert "\u202e" not in tab.page.locator("body").inner_text()
    tab.open(session)
    expect(tab.conversation.locator(".unseen", has_text="more marks").first).to_be_visible()
    tab.ask("Question from the agent").get_by_role("button", name="gnp").click()
    expect(tab.state).to_contain_text("Done")
    assert too_wide(tab.page) == []
    tab.page.remove_listener("request", ask)
    assert {url for url in asked_for if not url.startswith(manager.url)} == set()
