"""The page loses its manager, and finds it again, or says what to do."""

import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import expect

from llm_server import finish, gate, say
from rookery.storage.journal_lines import JOURNAL
from rookery.storage.sessions import TaskStore
from support.manager_page import Manager, Project, Tab, Tabs, Window, managed, until
from support.network_relay import Relay
from support.scripted_model import Model

LOST = "Cannot reach the manager"
NO_CONNECTION = ("WebSocket connection to",)
"""What a browser itself says of a socket that fails."""


def test_a_page_without_a_link_says_what_to_do_also_beside_one_that_had_one(tabs: Tabs):
    expect(tabs.open().page.get_by_role("complementary", name="Sessions")).to_be_visible()
    tab = tabs.open(tabs.manager.url)
    expect(tab.page.get_by_role("main")).to_contain_text("rookery manager")
    expect(tab.page.get_by_role("heading")).to_have_text("This page needs a link")


def test_a_link_opens_the_page_once_and_does_not_stay_in_the_address(tabs: Tabs):
    tabs.expected = ("Failed to load resource",)
    link = tabs.manager.link()
    first = tabs.open(link)
    expect(first.page.get_by_role("complementary", name="Sessions")).to_be_visible()
    assert "launch" not in first.page.url
    second = tabs.open(link)
    expect(second.page.get_by_role("main")).to_contain_text("This link has expired")


def test_a_frozen_manager_is_noticed_and_loses_nothing(
    tab: Tab, manager: Manager, project: Project
):
    middle = gate()
    session = manager.start("Hold on", [say("Before, ", middle, "after."), finish("Kept.")])
    tab.open(session)
    expect(tab.conversation).to_contain_text("Before")
    banner = tab.page.get_by_role("status").filter(has_text="The manager is not responding")
    expect(banner).to_have_count(0)
    os.kill(manager.process.pid, signal.SIGSTOP)
    journal = TaskStore(project.places).folder(session) / JOURNAL
    try:
        middle.open()
        until(lambda: "Kept." in journal.read_text(), "the end of the session's work")
        expect(banner).to_be_visible()
    finally:
        os.kill(manager.process.pid, signal.SIGCONT)
    expect(banner).to_have_count(0)
    expect(tab.conversation.locator(".answer .prose")).to_have_text("Before, after.")
    expect(tab.conversation).to_contain_text("Kept.")


def test_a_connection_that_is_cut_comes_back_by_itself(tabs: Tabs, manager: Manager):
    tabs.expected = NO_CONNECTION
    relay = Relay(urlsplit(manager.url).port or 0)
    tab = tabs.open(manager.link().replace(manager.url, f"http://127.0.0.1:{relay.port}/"))
    middle = gate()
    session = manager.start(
        "Be cut off", [say("Before, ", middle, "after."), finish("Kept.")], [finish("Here.")]
    )
    tab.open(session)
    expect(tab.conversation).to_contain_text("Before")
    banner = tab.page.get_by_role("status").filter(has_text=LOST)
    relay.cut()
    expect(banner).to_be_visible()
    middle.open()
    manager.at(session, "completed")
    relay.mend()
    expect(banner).to_have_count(0)
    expect(tab.conversation.locator(".answer .prose")).to_have_text("Before, after.")
    expect(tab.conversation).to_contain_text("Kept.")
    tab.send("Still there?")
    expect(tab.conversation).to_contain_text("Here.")
    relay.close()


def test_a_manager_that_was_killed_is_missed_and_its_successor_has_the_sessions(
    window: Window, model: Model, tmp_path: Path
):
    project = Project(tmp_path, model)
    middle = gate()
    try:
        with managed(project) as first:
            tabs = Tabs(window, first)
            tabs.expected = NO_CONNECTION
            tab = tabs.open()
            session = first.start(
                "Outlive it", [say("Before, ", middle, "after."), finish("Kept.")]
            )
            tab.open(session)
            expect(tab.conversation).to_contain_text("Before")
            first.end()
        expect(tab.page.get_by_role("status").filter(has_text=LOST)).to_be_visible()
        expect(tab.conversation).to_contain_text("Before")
        tab.send("Lost words")
        expect(tab.page.get_by_text("Nothing was sent")).to_be_visible()
        expect(tab.message).to_have_value("Lost words")
        middle.open()
        with managed(project) as second:
            tabs.manager = second
            again = tabs.open()
            again.page.get_by_role("link", name="Outlive it").first.click()
            expect(again.conversation.locator(".answer .prose")).to_have_text("Before, after.")
            expect(again.conversation).to_contain_text("Kept.")
            expect(again.state).to_contain_text("Done")
            tabs.close()
    finally:
        project.end_all()
