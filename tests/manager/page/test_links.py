"""Links to the page work in every tab, after a restart and for every project, and give nothing to
another program."""

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, expect

from llm_server import call, finish
from support.manager_page import Manager, Project, Tab, Tabs, Window, managed, until
from support.page_measures import too_wide, violations
from support.scripted_model import Model

NO_CONNECTION = ("WebSocket connection to", "Failed to load resource")
"""What a browser itself says of a server that fails."""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


def test_links_open_in_other_tabs_without_a_new_launch_link(tab: Tab, manager: Manager):
    session = manager.start("Linked to", [finish("Linked.")])
    manager.at(session, "completed")
    row = tab.page.get_by_role("complementary", name="Sessions").get_by_role(
        "link", name="Linked to"
    )
    with tab.page.context.expect_page() as opened:
        row.click(modifiers=["ControlOrMeta"])
    opened.value.bring_to_front()
    expect(opened.value.get_by_role("log")).to_contain_text("Linked.")
    address = opened.value.url
    assert re.fullmatch(rf"{manager.url}p/[0-9a-f]{{16}}/#/session/{session}", address)
    opened.value.close()
    copied = tab.page.context.new_page()
    copied.goto(address)
    expect(copied.get_by_role("log")).to_contain_text("Linked.")
    copied.close()


def test_every_link_to_a_view_can_be_opened_in_another_tab(tab: Tab, manager: Manager):
    """A view is never reached by a button alone."""
    session = manager.start("All the links", [finish()], where="worktree", auto_approve=True)
    manager.at(session, "completed")
    tab.open(session)
    expect(tab.conversation).to_be_visible()
    links = tab.page.locator("a[href]").evaluate_all("all => all.map((each) => each.href)")
    reached = {urlsplit(link).fragment for link in links}
    views = {"/", "/inbox", "/new", "/worktrees", "/governance", "/settings", "/schedules"}
    views |= {f"/session/{session}{part}" for part in ("", "/review")}
    assert views <= reached
    for row in tab.page.get_by_role("complementary", name="Sessions").get_by_role("listitem").all():
        expect(row.get_by_role("link").first).to_be_visible()


def test_a_launch_link_works_once_and_without_one_the_page_says_what_to_do(
    other_window: Window, tabs: Tabs
):
    link = tabs.manager.link()
    first = tabs.open(link)
    expect(first.page.get_by_role("complementary", name="Sessions")).to_be_visible()
    assert "launch" not in first.page.url
    assert first.page.evaluate("document.cookie") == ""
    others = Tabs(other_window, tabs.manager)
    others.expected = ("Failed to load resource",)
    second = others.open(link)
    expect(second.page.get_by_role("main")).to_contain_text("This link has expired")
    third = others.open(tabs.manager.url)
    expect(third.page.get_by_role("main")).to_contain_text("rookery manager")
    expect(third.page.get_by_role("heading")).to_have_text("This page needs a link")
    fourth = others.open()
    for each in (second, third, fourth):
        expect(each.page.get_by_role("complementary", name="Sessions")).to_be_visible()
    others.close()


def test_open_pages_and_bookmarks_work_again_when_the_manager_is_restarted(
    window: Window, model: Model, tmp_path: Path
):
    project = Project(tmp_path, model)
    with managed(project) as first:
        tabs = Tabs(window, first)
        tabs.expected = NO_CONNECTION
        session = first.start("Bookmarked", [finish("Still here.")])
        first.at(session, "completed")
        tab = tabs.open()
        tab.open(session)
        expect(tab.conversation).to_contain_text("Still here.")
        bookmark = tab.page.url
        # until it is active it cannot answer for a manager that is gone
        tab.page.evaluate("navigator.serviceWorker.ready.then(() => undefined)")
        os.kill(first.process.pid, signal.SIGSTOP)
        waiting = tabs.open(bookmark)
        expect(waiting.page.get_by_role("heading")).to_have_text("The manager does not respond")
        os.kill(first.process.pid, signal.SIGCONT)
        expect(waiting.conversation).to_contain_text("Still here.")
        first.end()
    lost = tab.page.get_by_role("status").filter(has_text="Cannot reach the manager")
    expect(lost).to_be_visible()
    waiting.page.reload()
    expect(waiting.page.get_by_role("heading")).to_have_text("The manager is not running")
    with managed(project) as second:
        tabs.manager = second
        for each in (waiting, tab, tabs.open(bookmark)):
            each.page.bring_to_front()
            expect(each.conversation).to_contain_text("Still here.")
        expect(lost).to_have_count(0)
        device = second.do("list_devices")[0]
        tabs.close()
        assert device["local"]
        second.clear()
    project.end_all()


@contextmanager
def squatter(port: int) -> Iterator[list[bytes]]:
    """Another program at the port, and everything that is sent to it."""
    received: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(5)
                    with suppress(OSError):
                        received.append(connection.recv(65536))
                        connection.sendall(ANSWER)

    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield received
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_program_that_takes_the_port_gets_no_token_and_ends_all_access(
    window: Window, model: Model, tmp_path: Path
):
    project = Project(tmp_path, model)
    with managed(project) as first:
        tabs = Tabs(window, first)
        tabs.expected = NO_CONNECTION
        tab = tabs.open()
        expect(tab.page.get_by_role("complementary", name="Sessions")).to_be_visible()
        token = tab.page.evaluate("localStorage.getItem('rookery.token')")
        port = urlsplit(first.url).port or 0
        assert first.do("list_devices")
        first.end()
    with squatter(port) as received:
        until(lambda: len(received) > 2, "the page tries to connect")
        with managed(project) as second:
            assert urlsplit(second.url).port == port + 1
            said = (project.folder / "manager.err").read_text()
            assert f"Another program uses port {port}." in said
            assert all(not each["local"] for each in second.do("list_devices")[:-1])
            second.end()
    assert token
    assert not [sent for sent in received if token.encode() in sent]
    assert json.loads((project.places.state / "manager" / "port").read_text()) == port + 1
    tab.page.close()
    project.end_all()


def test_one_manager_shows_what_waits_in_all_projects(
    window: Window, phone_window: Window, model: Model, tmp_path: Path
):
    project = Project(tmp_path, model)
    with managed(project) as manager:
        other = Project(tmp_path, model, "other")
        with managed(other) as running:  # the manager that runs already answers
            assert running.links["pid"] == manager.links["pid"]
        tabs = Tabs(window, manager)
        tab = tabs.open(running.links["launch_url"])
        expect(
            tab.page.get_by_role("navigation", name="Projects").get_by_role("link")
        ).to_have_text(["other", "work"])
        question = call("execute_command", command="touch asked.txt")
        asked = manager.start("Ask in work", [question], [finish("Answered.")])
        tab.go("inbox")
        waiting = tab.page.get_by_role("region", name="Waiting in work")
        expect(waiting.get_by_role("link")).to_contain_text("Ask in work")
        expect(tab.page).to_have_title("(1) other · rookery")
        _check_looks(phone_window, manager, tab)
        waiting.get_by_role("link").click()
        expect(tab.ask()).to_contain_text("touch asked.txt")
        tab.ask().get_by_role("button", name="Approve").click()
        expect(tab.state).to_contain_text("Done")
        manager.at(asked, "completed")
        tab.page.get_by_role("navigation", name="Projects").get_by_role(
            "link", name="other"
        ).click()
        expect(tab.page.get_by_role("complementary", name="Sessions")).to_contain_text(
            "No sessions yet"
        )
        tabs.close()
        manager.clear()
    project.end_all()


def _check_looks(phone_window: Window, manager: Manager, tab: Tab) -> None:
    assert violations(tab.page) == []
    tabs = Tabs(phone_window, manager)
    phone = tabs.open()
    phone.go("inbox")
    expect(phone.page.get_by_role("navigation", name="Projects")).to_be_visible()
    assert too_wide(phone.page) == []
    assert violations(phone.page) == []
    tabs.close()


def test_the_page_can_be_installed_and_its_worker_stores_nothing(phone: Tab):
    page = phone.page
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    link = page.locator("link[rel=manifest]").get_attribute("href")
    manifest = page.evaluate("path => fetch(path).then((answer) => answer.json())", link)
    assert (manifest["display"], manifest["start_url"]) == ("standalone", "/")
    for icon in manifest["icons"]:
        drawn = page.evaluate(
            "path => fetch(path).then((a) => a.headers.get('content-type'))", icon["src"]
        )
        assert drawn == "image/svg+xml"
    errors = page.context.new_cdp_session(page).send("Page.getInstallabilityErrors")
    # the browser of the tests keeps nothing, and so installs nothing
    assert {each["errorId"] for each in errors["installabilityErrors"]} <= {"in-incognito"}
    worker = "navigator.serviceWorker.ready.then((it) => it.active.scriptURL)"
    assert page.evaluate(worker).endswith("/service-worker.js")
    assert page.evaluate("caches.keys()") == []


PUSH_SERVICE = """
let made = null;
PushManager.prototype.getSubscription = async () => made;
PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
  window.pushKey = userVisibleOnly && applicationServerKey;
  const unsubscribe = async () => (made = null);
  return (made = { endpoint: "https://fcm.googleapis.com/fcm/send/abc", unsubscribe });
};
"""
"""In place of the one of the browser's maker, which no test reaches."""


def test_a_browser_asks_for_pushes_and_its_worker_shows_them_when_no_page_is_open(
    whole_browser: Browser, tabs: Tabs
):
    window = Window(whole_browser, permissions=["notifications"])
    others = Tabs(window, tabs.manager)
    tab = others.open()
    context = tab.page.context
    context.add_init_script(PUSH_SERVICE)
    expect(tab.page.get_by_role("complementary", name="Sessions")).to_be_visible()
    # the worker knows only pages that were opened after it was active
    tab.page.evaluate("navigator.serviceWorker.ready.then(() => undefined)")
    tab.page.reload()
    tab.go("settings")
    switch = tab.page.get_by_role("switch", name="Also when the page is closed")
    switch.click()
    expect(switch).to_be_checked()
    file = tabs.manager.project.places.state / "manager" / "devices.json"
    # a browser shows the switch as on before the page knows
    asked = until(lambda: [each["push"] for each in json.loads(file.read_text()) if each["push"]])
    assert asked == ["https://fcm.googleapis.com/fcm/send/abc"]
    assert len(tab.page.evaluate("window.pushKey")) == 87
    switch.click()
    expect(switch).not_to_be_checked()
    until(lambda: not any(each["push"] for each in json.loads(file.read_text())), "no pushes")
    (worker,) = context.service_workers
    titles = "registration.getNotifications().then((all) => all.map((each) => each.title))"
    worker.evaluate("wake()")
    assert worker.evaluate(titles) == [], "the page is visible and has said it"
    tab.page.goto("about:blank")
    worker.evaluate("wake()")
    assert worker.evaluate(titles) == ["A session needs you"]
    worker.evaluate("wake()")
    assert len(worker.evaluate(titles)) == 1
    window.close()
