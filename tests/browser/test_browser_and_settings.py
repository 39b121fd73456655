"""The browser of the real command: what is asked about, and what the settings keep it from."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from browser.bench import Site
from llm_server import LlmServer, Recorded, call, finish
from rookery.browser.happenings import Happenings
from rookery.browser.reach import Reach
from rookery.browser.watched_page import WatchedPage
from terminal_session import Installed

if TYPE_CHECKING:
    from playwright.async_api import Page


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def at(server: LlmServer) -> list[str]:
    return ["--provider", "anthropic", "-m", "claude-x", "--base-url", server.url]


def set_up(rookery: Installed, program: str, more: str = "") -> None:
    settings = rookery.home / "config" / "settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"[browser]\npath = {json.dumps(program)}\n{more}")


def last_turn(request: Recorded) -> str:
    return json.dumps(request.body["messages"][-1], ensure_ascii=False)


def test_NET_3_a_page_of_this_machine_that_was_allowed_is_used_without_more_questions(
    rookery: Installed, program: str, site: Site
):
    set_up(rookery, program)
    launch = call("browser_action", action="launch", url=f"{site.origin}/")
    click = call("browser_action", action="click", coordinate="140,40")
    with (
        LlmServer([launch], [click], [finish()]) as server,
        rookery.terminal(*at(server), "click it") as terminal,
    ):
        terminal.wait_for("Allow this?")
        terminal.type("y")
        shown = terminal.wait_for("Done. [Enter accepts")
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "Allow this?" not in shown
    assert "clicked" in last_turn(server.requests[2])


def test_NET_1_without_network_no_page_from_elsewhere_is_opened(rookery: Installed, program: str):
    set_up(rookery, program, '[sandbox]\nnetwork = "off"\n')
    launch = call("browser_action", action="launch", url="http://example.com/")
    with LlmServer([launch], [finish()]) as server:
        rookery.run("-p", *at(server), "look at it")
    assert "The network is switched off" in last_turn(server.requests[1])


def test_NET_1_a_page_from_elsewhere_does_not_lead_to_this_machine_even_if_that_was_allowed():
    here, there = "http://localhost:3000", "https://example.com"

    def page(*, local: bool) -> WatchedPage:
        reach = Reach(network=True, local=local)
        return WatchedPage(cast("Page", None), {here, there}, reach, Happenings())

    assert page(local=False).refusal(f"{here}/") == (
        "Pages from elsewhere do not reach this machine. Use navigate to open it."
    )
    assert page(local=False).refusal(f"{there}/other") == ""
    assert page(local=True).refusal(f"{here}/other") == ""
    assert page(local=True).refusal(f"{there}/") == (
        "Pages of this machine stand by themselves, without any from elsewhere. Use navigate to "
        "open it."
    )
