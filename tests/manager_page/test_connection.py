"""The page loses its manager, and finds it again, or says what to do."""

import os
import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from llm_server import finish, gate, say
from manager_page.bench import Manager, Project, Tab, Tabs, managed

LOST = "The manager cannot be reached"
NO_SOCKET = ("WebSocket connection to", "net::ERR_CONNECTION_REFUSED")


def test_a_page_without_a_token_says_what_to_do(tabs: Tabs):
    tab = tabs.open(tabs.manager.url)
    expect(tab.page.get_by_role("main")).to_contain_text("rookery manager")
    expect(tab.page.get_by_role("heading")).to_have_text("This page needs a link")


def test_WEB_4_a_link_opens_the_page_once_and_does_not_stay_in_the_address(tabs: Tabs):
    tabs.expected = ("Failed to load resource",)
    link = tabs.manager.link()
    first = tabs.open(link)
    expect(first.page.get_by_role("complementary", name="Sessions")).to_be_visible()
    assert "launch" not in first.page.url
    second = tabs.open(link)
    expect(second.page.get_by_role("main")).to_contain_text("This link was used already")


def test_a_manager_that_holds_its_breath_loses_nothing(tab: Tab, tabs: Tabs, manager: Manager):
    middle = gate()
    session = manager.start("Hold on", [say("Before, ", middle, "after."), finish("Kept.")])
    tab.open(session)
    expect(tab.conversation).to_contain_text("Before")
    os.kill(manager.process.pid, signal.SIGSTOP)
    try:
        middle.open()
        manager.model.heard("Hold on")
    finally:
        os.kill(manager.process.pid, signal.SIGCONT)
    expect(tab.conversation.locator(".answer .prose")).to_have_text("Before, after.")
    expect(tab.conversation).to_contain_text("Kept.")


def test_a_connection_that_is_cut_comes_back_by_itself(tab: Tab, tabs: Tabs, manager: Manager):
    tabs.expected = ("WebSocket connection to", "ERR_INTERNET_DISCONNECTED")
    middle = gate()
    session = manager.start("Be cut off", [say("Before, ", middle, "after."), finish("Kept.")])
    tab.open(session)
    expect(tab.conversation).to_contain_text("Before")
    banner = tab.page.get_by_role("status").filter(has_text=LOST)
    cut(manager, tab)
    expect(banner).to_be_visible()
    middle.open()
    expect(banner).to_have_count(0)
    expect(tab.conversation.locator(".answer .prose")).to_have_text("Before, after.")
    expect(tab.conversation).to_contain_text("Kept.")
    tab.send("Still there?")
    manager.model.heard("Be cut off", 2)
