"""`rookery auth openrouter` on a terminal: a sign-in with a server that plays OpenRouter."""

import base64
import hashlib
import json
import os
import re
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pytest

from llm_server import LlmServer, finish, status
from rookery.errors import SettingsError
from rookery.platform.browser_callback import Callback
from rookery.providers.sign_in import SignIn, exchanged, sign_in
from support.terminal_session import COMMAND, CTRL_C, CTRL_D, Installed, TerminalSession
from support.tmux_session import TmuxSession

KEY = "sk-or-v1-0123456789abcdef"
PROMPT = "Key for openrouter (not shown), or Enter to sign in with a browser: "


class OpenRouter:
    """Gives a key for the code `good` and the verifier of the last challenge, as documented."""

    def __init__(self, status: int = 200, answer: bytes = json.dumps({"key": KEY}).encode()):
        self.exchanges: list[dict[str, Any]] = []
        self.challenge = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.exchanges.append({"path": self.path, **body})
                self.send_response(status if outer.accepts(body) else 403)
                self.end_headers()
                self.wfile.write(answer)

            def do_GET(self) -> None:
                """The user agrees at once."""
                asked = parse_qs(urlsplit(self.path).query)
                outer.challenge = asked["code_challenge"][0]
                self.send_response(302)
                self.send_header("location", f"{asked['callback_url'][0]}?code=good")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def accepts(self, body: dict[str, str]) -> bool:
        digest = hashlib.sha256(body["code_verifier"].encode()).digest()
        proven = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.challenge
        return body["code"] == "good" and body["code_challenge_method"] == "S256" and proven

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def router() -> Iterator[OpenRouter]:
    with OpenRouter() as running:
        yield running


def signing_in(rookery: Installed, router: OpenRouter, **environ: str) -> TerminalSession:
    at = {"ROOKERY_PROVIDER": "openrouter", "ROOKERY_BASE_URL": f"{router.url}/api/v1"}
    return rookery.terminal("auth", "openrouter", "--file", columns=500, **at, **environ)


def callback_in(terminal: TerminalSession, router: OpenRouter) -> str:
    """Press Enter, and return the callback address of the page that is offered."""
    terminal.wait_for(PROMPT)
    terminal.type("")
    terminal.wait_for("Open this address to sign in:")
    terminal.wait_for("Ctrl-C cancels.")
    found = re.search(r"^ +(http\S+)$", terminal.screen, re.MULTILINE)
    assert found
    page = urlsplit(found[1])
    asked = {name: values[0] for name, values in parse_qs(page.query).items()}
    assert (f"{page.scheme}://{page.netloc}", page.path) == (router.url, "/auth")
    assert asked["code_challenge_method"] == "S256"
    router.challenge = asked["code_challenge"]
    return asked["callback_url"]


def visit(address: str) -> int:
    """Visit an address as the browser does."""
    try:
        with urllib.request.urlopen(address.replace("localhost", "127.0.0.1"), timeout=60) as page:
            return int(page.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def stored(rookery: Installed) -> str:
    file = rookery.home / "config" / "keys.toml"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def test_the_browser_brings_the_code_and_the_key_is_stored(rookery: Installed, router: OpenRouter):
    with signing_in(rookery, router) as terminal:
        callback = callback_in(terminal, router)
        assert re.fullmatch(r"http://localhost:\d+/[\w-]{32}", callback)
        assert visit(f"{callback}?code=good") == 200
        terminal.wait_for("The key for openrouter is stored in")
        assert terminal.process.wait(60) == 0
    assert KEY in stored(rookery)
    assert KEY not in terminal.screen
    [exchange] = router.exchanges
    assert exchange["path"] == "/api/v1/auth/keys"
    assert exchange["code_verifier"] not in terminal.screen


def test_other_pages_cannot_answer_in_the_users_place(rookery: Installed, router: OpenRouter):
    with signing_in(rookery, router) as terminal:
        callback = callback_in(terminal, router)
        root = callback.rpartition("/")[0]
        for path in ("/", "/favicon.ico", "/?code=good", "/guessed?code=good"):
            assert visit(root + path) == 404
        assert visit(f"{callback}?code=bad%20code") == 404
        assert router.exchanges == []
        assert visit(f"{callback}?code=good") == 200
        terminal.wait_for("is stored in")


def test_a_pasted_text_is_the_code_or_the_whole_address():
    attempt = SignIn("https://openrouter.ai/api/v1", 1, "verifier", "state")
    for text in ("good", "http://localhost:1/state?code=good", "localhost:1/state?code=good"):
        assert attempt.pasted(text) == Callback("good"), text
    for text in ("http://localhost:1/other?code=good", "two words", "x" * 2049, "http://a/state"):
        assert attempt.pasted(text) is None, text


def test_without_a_browser_the_address_is_pasted(rookery: Installed, router: OpenRouter):
    with signing_in(rookery, router) as terminal:
        callback = callback_in(terminal, router)
        terminal.type("http://localhost:1/other?code=good")
        terminal.wait_for("That is not the address of this sign-in.")
        terminal.type(f"{callback}?code=good")
        terminal.wait_for("is stored in")
        assert terminal.process.wait(60) == 0
    assert KEY in stored(rookery)


def test_a_key_can_still_be_typed(rookery: Installed, router: OpenRouter):
    with signing_in(rookery, router) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type("sk-or-typed")
        terminal.wait_for("is stored in")
    assert "sk-or-typed" in stored(rookery)
    assert router.exchanges == []


def test_in_a_pipe_the_key_is_read_without_a_question(rookery: Installed):
    done = rookery.run("auth", "openrouter", "--file", input="sk-or-piped\n")
    assert done.returncode == 0
    assert "sign in" not in done.stdout + done.stderr
    empty = rookery.run("auth", "openrouter", "--file", input="\n")
    assert empty.stderr == "Error: No key was given, so nothing was stored.\n"


@pytest.mark.parametrize("keys", [CTRL_C, CTRL_D], ids=["ctrl-c", "ctrl-d"])
def test_cancelling_leaves_nothing_behind(rookery: Installed, router: OpenRouter, keys: bytes):
    with signing_in(rookery, router) as terminal:
        callback = callback_in(terminal, router)
        terminal.press(keys)
        assert terminal.process.wait(60) != 0
    with pytest.raises(OSError, match="refused"):
        visit(f"{callback}?code=good")
    assert "Traceback" not in terminal.screen
    assert stored(rookery) == ""


def test_the_user_refuses_on_the_page(rookery: Installed, router: OpenRouter):
    with signing_in(rookery, router) as terminal:
        callback = callback_in(terminal, router)
        assert visit(f"{callback}?error=access_denied%1b[2J") == 200
        terminal.wait_for("OpenRouter refused the sign-in: access_denied")
        assert terminal.process.wait(60) == 2
    assert "\x1b[2J" not in terminal.raw


@pytest.mark.parametrize(
    ("status", "answer", "code", "said"),
    [
        (200, b"{}", "bad", "did not accept the code. Nothing was stored."),
        (500, b"<html>", "good", "sent no key (status 500). Nothing was stored."),
        (200, b'{"key": 7}', "good", "sent no key (status 200). Nothing was stored."),
        (200, b'{"a":' + b"[" * 9_000, "good", "sent no key (status 200)."),
        (200, b"x" * 1_000_000, "good", "sent no key (status 200)."),
    ],
)
@pytest.mark.anyio
async def test_an_odd_answer_is_one_sentence(status: int, answer: bytes, code: str, said: str):
    with OpenRouter(status, answer) as router:
        attempt = SignIn(f"{router.url}/api/v1", 1, "verifier", "state")
        router.challenge = parse_qs(urlsplit(attempt.address).query)["code_challenge"][0]
        with pytest.raises(SettingsError) as caught:
            await exchanged(attempt, code)
    assert said in str(caught.value)


def test_a_key_that_is_none_is_not_stored(rookery: Installed):
    answer = b'{"key": "sk bad\\u001b"}'
    with OpenRouter(200, answer) as router, signing_in(rookery, router) as terminal:
        visit(f"{callback_in(terminal, router)}?code=good")
        terminal.wait_for("The key that was given")
        assert terminal.process.wait(60) == 2
    assert stored(rookery) == ""


def test_a_graphical_browser_is_opened(rookery: Installed, router: OpenRouter, tmp_path: Path):
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1])\n"
    )
    browser.chmod(0o700)
    graphical = {"DISPLAY": ":0", "BROWSER": f"{browser} %s"}
    with signing_in(rookery, router, **graphical) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type("")
        terminal.wait_for("is stored in")
    assert KEY in stored(rookery)


@pytest.mark.anyio
async def test_the_time_is_limited():
    receive, send = os.pipe()
    try:
        with pytest.raises(SettingsError, match=r"The sign-in timed out\. Nothing was"):
            await sign_in("http://127.0.0.1:9", lambda _: None, typed=receive, patience=0.05)
    finally:
        os.close(receive)
        os.close(send)


def test_a_rejected_key_is_replaced_in_the_full_screen(rookery: Installed):
    """`/login` gives the terminal to `rookery auth`, and the next attempt uses the new key."""
    with LlmServer(status(401), [finish()]) as server:
        environ = {
            **rookery.environ,
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        }
        rookery.run("auth", "openai", "--file", input=f"{'old' * 9}\n")
        command = [COMMAND, "--provider", "openai", "fix it"]
        with TmuxSession(command, cwd=rookery.workspace, environ=environ) as terminal:
            terminal.wait_for("rejected the key", "/login another key")
            terminal.type("/login")
            terminal.press("Enter")
            terminal.wait_for("Key for openai")
            terminal.type("new" * 9)
            terminal.press("Enter")
            terminal.wait_for("The key is stored.", "y try again")
            terminal.press("y")
            terminal.wait_for("✔ ")
        sent = [each.headers["authorization"] for each in server.requests]
    assert sent == [f"Bearer {'old' * 9}", f"Bearer {'new' * 9}"]


@pytest.mark.anyio
async def test_a_proxy_that_cannot_be_used_ends_the_sign_in_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("all_proxy", "socks://h:1080")
    attempt = SignIn("https://models.invalid/api/v1", 1, "verifier", "state")
    with pytest.raises(SettingsError, match="The proxy in all_proxy cannot be used"):
        await exchanged(attempt, "good")
