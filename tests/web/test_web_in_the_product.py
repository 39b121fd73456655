"""The web in whole runs: what asks, what is attached, what is offered."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_server import LlmServer, Recorded, call, finish, status
from support.model_words import DONE, last_turn
from support.sample_documents import pdf
from support.terminal_session import Installed, at
from support.web_site import Reply, Site, web_site


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with web_site() as found:
        yield found


def shown(request: Recorded) -> str:
    """What the model reads in the last turn of a request."""
    return last_turn(request).replace("\\n", "\n")


def fetch(url: str) -> object:
    return call("web_fetch", url=url)


def test_the_first_page_of_an_origin_asks_and_the_next_does_not(rookery: Installed, site: Site):
    with (
        LlmServer(
            [fetch(f"{site.origin}/missing?q=1")],
            [fetch(f"{site.origin}/data")],
            [fetch(f"{site.origin.replace('localhost', '127.0.0.1')}/data")],
            [finish()],
        ) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        question = terminal.wait_for("Approve? ")
        assert f"Fetch {site.origin}/missing?q=1" in question
        assert "This is a server on this machine" in question
        terminal.type("y")
        assert "Approve?" not in terminal.wait_for(f"● Fetch {site.origin}/data\n")
        terminal.wait_for("Approve? ")
        terminal.type("n")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    results = [shown(request) for request in server.requests[1:]]
    assert "answered: 404 Not Found" in results[0]
    assert "rook" in results[1]
    assert "The user denied this call." in results[2]


def test_an_automatic_run_reaches_no_private_address(rookery: Installed, site: Site):
    urls = [f"{site.origin}/automatic", "http://169.254.169.254/", f"{site.origin}/guide"]
    with LlmServer(*[[fetch(url)] for url in urls], [finish()]) as server:
        environ = {"ROOKERY_WEB_HOSTS": f"127.0.0.1:{site.port}"}
        rookery.run("-p", "-y", *at(server), "go", **environ)
    results = [shown(request) for request in server.requests[1:]]
    assert "This is a server on this machine" in results[0]
    assert "169.254.169.254 is a private address" in results[1]
    assert not [path for path, _ in site.hits if path == "/automatic"]


def test_an_automatic_run_reaches_no_address_that_the_model_made_up(rookery: Installed):
    named, made_up = "https://named.invalid/a", "https://named.invalid/a?data=secret"
    with LlmServer([fetch(named)], [fetch(made_up)], [finish()]) as server:
        done = rookery.run("-p", "-y", *at(server), f"Read {named}.")
    results = [shown(request) for request in server.requests[1:]]
    assert "named.invalid could not be resolved" in results[0]
    assert "The conversation does not name this address" in results[1]
    assert "Name the page in the prompt" in done.stderr


def test_a_sub_task_fetches_what_the_user_named_and_nothing_else(rookery: Installed):
    named, made_up = "https://named.invalid/a", "https://named.invalid/a?data=secret"
    asked = call("new_task", mode="code", message=f"Read {named} and {made_up}", todos=None)
    with LlmServer([asked], [fetch(named)], [fetch(made_up)], [finish()], [finish()]) as server:
        rookery.run("-p", "-y", *at(server), f"Read {named}.")
    results = [shown(request) for request in server.requests[2:4]]
    assert "named.invalid could not be resolved" in results[0]
    assert "The conversation does not name this address" in results[1]


def test_a_pdf_is_read_as_a_document(rookery: Installed, site: Site):
    site.pages["/paper"] = Reply(pdf("Rooks nest in colonies."), "application/pdf")
    listed = {"ROOKERY_WEB_HOSTS": f"localhost:{site.port}"}
    with LlmServer([fetch(f"{site.origin}/paper")], [finish()]) as server:
        rookery.run("-p", *at(server), "go", **listed)
    assert "Rooks nest in colonies." in shown(server.requests[1])


def test_a_folder_that_is_not_trusted_reaches_no_page(tmp_path: Path, site: Site):
    listed = {"ROOKERY_WEB_HOSTS": f"localhost:{site.port}"}
    untrusted = Installed(tmp_path, trusted=False)
    with LlmServer([fetch(f"{site.origin}/untrusted")], [finish()]) as server:
        untrusted.run("-p", *at(server), "go", **listed)
    assert "This folder is not trusted" in shown(server.requests[1])
    assert not [path for path, _ in site.hits if path == "/untrusted"]


def test_a_mentioned_page_is_attached_and_a_missing_one_is_noted(rookery: Installed, site: Site):
    listed = {"ROOKERY_WEB_HOSTS": f"localhost:{site.port}"}
    prompt = f"Read @{site.origin}/guide, and @{site.origin}/nothing."
    with LlmServer([finish()]) as server:
        done = rookery.run("-p", *at(server), prompt, **listed)
    assert done.returncode == 0
    sent = shown(server.requests[0])
    assert prompt in sent
    assert "<page>\n# Guide" in sent
    assert f"({site.origin}/nothing answered: 404 Not Found.)" in sent
    assert f"Attached {site.origin}/guide (1 KB)." in done.stderr


def test_a_page_that_may_not_be_fetched_does_not_hold_the_message_back(
    rookery: Installed, site: Site
):
    with LlmServer([finish()]) as server:
        done = rookery.run("-p", *at(server), f"Read @{site.origin}/unread")
    assert done.returncode == 0
    assert "This is a server on this machine" in shown(server.requests[0])
    assert not [path for path, _ in site.hits if path == "/unread"]


def test_searches_use_the_engine_of_the_settings(rookery: Installed, site: Site):
    site.pages["/search"] = Reply(
        b'{"results": [{"title": "Rooks", "url": "https://r.example/", "content": "Birds"}]}'
    )
    environ = {"ROOKERY_WEB_SEARCH": "searxng", "ROOKERY_WEB_SEARCH_URL": site.origin}
    with LlmServer([call("web_search", query="rook")], [finish()]) as server:
        rookery.run("-p", *at(server), "go", **environ)
    assert "1. Rooks\n   https://r.example/\n   Birds" in shown(server.requests[1])


def test_a_stored_key_is_sent_to_its_engine_and_hidden_from_the_model(
    rookery: Installed, site: Site
):
    key = "BSA-a-secret-key"
    stored = rookery.run("auth", "brave", "--file", input=f"{key}\n")
    assert "Use it with: rookery config set web.search brave" in stored.stdout
    hit = f'{{"title": "Rooks", "url": "https://r.example/", "description": "{key}"}}'
    site.pages["/res/v1/web/search"] = Reply(f'{{"web": {{"results": [{hit}]}}}}'.encode())
    environ = {"ROOKERY_WEB_SEARCH": "brave", "ROOKERY_WEB_SEARCH_URL": site.origin}
    with LlmServer([call("web_search", query="rook")], [finish()]) as server:
        rookery.run("-p", *at(server), "go", **environ)
    assert site.requests[-1].headers["x-subscription-token"] == key
    assert "https://r.example/\n   [secret hidden]" in shown(server.requests[1])


def test_a_search_of_the_provider_is_a_result_like_any_other(rookery: Installed):
    """It is asked beside the conversation, whose format stays as it is."""
    found = {"type": "web_search_result", "title": "Rooks", "url": "https://r.example/"}
    block = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [found]}
    with LlmServer(
        [call("web_search", query="rook")], status(200, {"content": [block]}), [finish()]
    ) as server:
        rookery.run("-p", *at(server), "go", ROOKERY_WEB_SEARCH="provider")
    _, searched, after = server.requests
    assert searched.body["tools"][0]["type"] == "web_search_20250305"
    assert "Query: rook" in str(searched.body["messages"])
    assert "1. Rooks\n   https://r.example/" in shown(after)


OFFERS: dict[str, tuple[dict[str, str], set[str], str]] = {
    "default": ({}, {"web_fetch"}, ""),
    "off": ({"ROOKERY_WEB_USE": "false"}, set(), ""),
    "no key": ({"ROOKERY_WEB_SEARCH": "brave"}, {"web_fetch"}, "no key for brave"),
    "no address": ({"ROOKERY_WEB_SEARCH": "searxng"}, {"web_fetch"}, "set web.search_url"),
    "a key": (
        {"ROOKERY_WEB_SEARCH": "brave", "BRAVE_API_KEY": "k-1"},
        {"web_fetch", "web_search"},
        "",
    ),
    "no network": (
        {"ROOKERY_SANDBOX_NETWORK": "off", "ROOKERY_WEB_SEARCH": "brave", "BRAVE_API_KEY": "k-1"},
        {"web_fetch"},
        "",
    ),
    "the provider's": (
        {"ROOKERY_WEB_SEARCH": "provider"},
        {"web_fetch", "web_search"},
        "",
    ),
    "a wrong host": (
        {"ROOKERY_WEB_HOSTS": "http://x/"},
        {"web_fetch"},
        "in web.hosts is not a host",
    ),
}


@pytest.mark.parametrize(("environ", "offered", "note"), OFFERS.values(), ids=OFFERS)
def test_what_is_offered(rookery: Installed, environ: dict[str, str], offered: set[str], note: str):
    with LlmServer([finish()]) as server:
        done = rookery.run("-p", *at(server), "go", **environ)
    names = {tool["name"] for tool in server.requests[0].body["tools"]}
    assert {name for name in names if name.startswith("web_")} == offered
    assert note in done.stderr


def test_a_project_may_only_turn_the_web_off(rookery: Installed):
    folder = rookery.workspace / ".rookery"
    folder.mkdir()
    (folder / "settings.toml").write_text('[web]\nuse = false\nhosts = ["10.0.0.1:80"]\n')
    with LlmServer([finish()]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert "web_fetch" not in str(server.requests[0].body["tools"])
    assert "web.hosts" in done.stderr or "hosts" in done.stderr
