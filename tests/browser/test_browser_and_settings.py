"""What the settings and where it comes from keep a page from, in the real command."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from llm_server import LlmServer, Recorded, call, finish
from rookery.browser.reach import BrowserReach
from rookery.browser.watched_page import PageEvents, WatchedPage
from support.terminal_session import Installed, at

if TYPE_CHECKING:
    from playwright.async_api import Page


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def set_up(rookery: Installed, program: str, more: str = "") -> None:
    settings = rookery.home / "config" / "settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"[browser]\npath = {json.dumps(program)}\n{more}")


def last_turn(request: Recorded) -> str:
    return json.dumps(request.body["messages"][-1], ensure_ascii=False)


def test_without_network_no_page_from_elsewhere_is_opened(rookery: Installed, program: str):
    set_up(rookery, program, '[sandbox]\nnetwork = "off"\n')
    launch = call("browser_action", action="launch", url="http://example.com/")
    with LlmServer([launch], [finish()]) as server:
        rookery.run("-p", *at(server), "look at it")
    assert "The network is turned off" in last_turn(server.requests[1])


def test_a_page_from_elsewhere_does_not_lead_to_this_machine_even_if_that_was_allowed():
    here, there = "http://localhost:3000", "https://example.com"

    def page(*, local: bool) -> WatchedPage:
        reach = BrowserReach(network=True, local=local)
        return WatchedPage(cast("Page", None), {here, there}, reach, PageEvents())

    assert page(local=False).refusal(f"{here}/") == (
        "Pages from elsewhere cannot reach this machine. Use navigate to open it."
    )
    assert page(local=False).refusal(f"{there}/other") == ""
    assert page(local=True).refusal(f"{here}/other") == ""
    assert page(local=True).refusal(f"{there}/") == (
        "Pages of this machine cannot include pages from elsewhere. Use navigate to open it."
    )
