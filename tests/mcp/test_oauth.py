"""Sign-ins at a real authorization server, and at hostile ones."""

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from rookery.errors import SettingsError, ToolError
from rookery.mcp.config import OAuthOptions, ServerDefinition, Transport
from rookery.mcp.hub import McpHub
from rookery.mcp.oauth import OAuthClient, StoredSignIn, decode_sign_in
from rookery.mcp.oauth_requests import OAuthProblem, OAuthRequests
from rookery.mcp.server_sign_in import entry_of, sign_in
from rookery.storage.token_store import TokenStore
from support.free_ports import free_port
from support.guarded_mcp_server import Guarded, callback_after, guarded_server, query_of
from support.mcp_workspace import Bench

pytestmark = pytest.mark.anyio


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guarded_server() as running:
        yield running


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenStore:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    return TokenStore(tmp_path / "tokens" / "tokens.json")


def definition(url: str, **options: Any) -> ServerDefinition:
    return ServerDefinition(
        name="far", transport=Transport.HTTP, url=url, oauth=OAuthOptions(**options)
    )


def visit(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=60) as page:
            return int(page.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


class Person:
    """Reads what is shown, and visits pages as a browser does."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._page = anyio.Event()

    def tell(self, text: str) -> None:
        self.shown.append(text)
        if "Open this address" in text:
            self._page.set()

    async def page(self) -> str:
        await self._page.wait()
        found = re.search(r"http\S+", self.shown[-1])
        assert found
        return found[0]

    async def agree(self) -> None:
        back = await anyio.to_thread.run_sync(callback_after, await self.page())
        assert await anyio.to_thread.run_sync(visit, back) == 200


async def signed_in(server: ServerDefinition, tokens: TokenStore, **options: Any) -> Person:
    person = Person()
    async with anyio.create_task_group() as group:
        group.start_soon(person.agree)
        await sign_in(server, tokens, person.tell, **options)
    return person


async def whoami(bench: Bench, hub: McpHub) -> str:
    return (await bench.use(hub, server="far", tool="whoami")).text


async def test_after_a_sign_in_the_tools_can_be_used(
    bench: Bench, guarded: Guarded, tokens: TokenStore
):
    bench.configure(far={"type": "http", "url": guarded.url})
    async with bench.hub(tokens=tokens) as hub:
        with pytest.raises(ToolError, match=r"wants you to sign in\. Run: rookery mcp login far"):
            await hub.server("far").tools()
        person = Person()
        async with anyio.create_task_group() as group:
            group.start_soon(person.agree)
            await hub.server("far").sign_in(person.tell)
        said = await whoami(bench, hub)
    assert said == "You are [secret hidden]."
    asked = query_of(await person.page())
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == guarded.url
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    stored = "".join(file.read_text() for file in bench.folder.rglob("*.json"))
    shown = "\n".join(person.shown)
    for token in guarded.provider.tokens:
        assert token not in shown
        assert token not in stored


async def test_an_event_stream_can_be_signed_in_to(bench: Bench, tokens: TokenStore):
    with guarded_server(kind="sse") as guarded:
        bench.configure(far={"type": "sse", "url": guarded.url})
        async with bench.hub(tokens=tokens) as hub:
            with pytest.raises(ToolError, match="wants you to sign in"):
                await hub.server("far").tools()
        await signed_in(replace(definition(guarded.url), transport=Transport.SSE), tokens)
        async with bench.hub(tokens=tokens) as hub:
            assert await whoami(bench, hub) == "You are [secret hidden]."


async def test_a_sign_in_elsewhere_is_noticed(bench: Bench, guarded: Guarded, tokens: TokenStore):
    bench.configure(far={"type": "http", "url": guarded.url})
    async with bench.hub(tokens=tokens) as hub:
        with pytest.raises(ToolError, match="wants you to sign in"):
            await hub.server("far").tools()
        await signed_in(definition(guarded.url), tokens)
        assert await whoami(bench, hub) == "You are [secret hidden]."


async def test_the_sign_in_is_kept_for_the_next_run_in_a_private_file(
    bench: Bench, guarded: Guarded, tokens: TokenStore
):
    bench.configure(far={"type": "http", "url": guarded.url})
    await signed_in(definition(guarded.url), tokens)
    async with bench.hub(tokens=tokens) as hub:
        assert await whoami(bench, hub) == "You are [secret hidden]."
    [file] = bench.folder.rglob("tokens.json")
    assert file.stat().st_mode & 0o777 == 0o600
    # a project that names the same server does not get it
    assert tokens.get(entry_of(replace(definition(guarded.url), source="project"))) == ""
    assert tokens.forget(entry_of(definition(guarded.url)))
    async with bench.hub(tokens=tokens) as hub:
        with pytest.raises(ToolError, match="wants you to sign in"):
            await hub.server("far").tools()


@pytest.mark.parametrize("why", ["it has ended", "the server rejects it"])
async def test_a_token_is_refreshed(bench: Bench, guarded: Guarded, tokens: TokenStore, why: str):
    bench.configure(far={"type": "http", "url": guarded.url})
    guarded.provider.seconds = 1 if why == "it has ended" else 3600
    await signed_in(definition(guarded.url), tokens)
    guarded.provider.seconds = 3600
    guarded.provider.access.clear()
    async with bench.hub(tokens=tokens) as hub:
        assert await whoami(bench, hub) == "You are [secret hidden]."
        assert await whoami(bench, hub) == "You are [secret hidden]."
    assert guarded.provider.refreshed == 1
    stored = decode_sign_in(tokens.get(entry_of(definition(guarded.url))))
    assert stored is not None
    assert [stored.access_token, stored.refresh_token] == guarded.provider.tokens


async def test_two_processes_that_refresh_at_once_keep_the_sign_in(
    bench: Bench, guarded: Guarded, tokens: TokenStore
):
    bench.configure(far={"type": "http", "url": guarded.url})
    await signed_in(definition(guarded.url), tokens)
    async with bench.hub(tokens=tokens) as one, bench.hub(tokens=tokens) as other:
        await whoami(bench, one)
        await whoami(bench, other)
        guarded.provider.access.clear()
        await whoami(bench, one)
        assert await whoami(bench, other) == "You are [secret hidden]."
    assert guarded.provider.refreshed == 1


async def test_when_the_refresh_is_refused_the_user_must_sign_in_again(
    bench: Bench, guarded: Guarded, tokens: TokenStore
):
    bench.configure(far={"type": "http", "url": guarded.url})
    await signed_in(definition(guarded.url), tokens)
    guarded.provider.access.clear()
    guarded.provider.refresh.clear()
    for _ in range(2):
        async with bench.hub(tokens=tokens) as hub:
            with pytest.raises(ToolError, match=r"wants you to sign in\. Run: rookery mcp login"):
                await hub.server("far").tools()


async def test_a_configured_client_is_used_where_none_can_be_registered(tokens: TokenStore):
    with guarded_server(registers=False) as guarded:
        with pytest.raises(SettingsError, match=r"does not register clients"):
            await sign_in(definition(guarded.url), tokens, lambda _: None)
        port = free_port()
        guarded.add_client("mine", f"http://127.0.0.1:{port}/callback")
        server = definition(guarded.url, client_id="mine", callback_port=port)
        person = await signed_in(server, tokens)
    assert query_of(await person.page())["client_id"] == "mine"
    assert tokens.get(entry_of(server))


async def test_only_the_visit_of_this_sign_in_counts_and_only_once(
    guarded: Guarded, tokens: TokenStore
):
    person, hostile = Person(), []

    async def attack_then_agree() -> None:
        page = await person.page()
        back = await anyio.to_thread.run_sync(callback_after, page)
        state = query_of(back)["state"]
        for wrong in (back.replace(state, "guessed"), back.replace("/callback", "/other")):
            hostile.append(await anyio.to_thread.run_sync(visit, wrong))
        assert await anyio.to_thread.run_sync(visit, back) == 200
        with pytest.raises((OSError, AssertionError)):  # the page is gone
            assert await anyio.to_thread.run_sync(visit, back) == 200

    async with anyio.create_task_group() as group:
        group.start_soon(attack_then_agree)
        await sign_in(definition(guarded.url), tokens, person.tell)
    assert hostile == [404, 404]


async def test_a_code_works_once(guarded: Guarded):
    client = OAuthClient(definition(guarded.url))
    attempt = await client.authorize("http://127.0.0.1:9/callback")
    code = query_of(await anyio.to_thread.run_sync(callback_after, attempt.page))["code"]
    stored = await client.exchange(attempt, code)
    with pytest.raises(OAuthProblem, match=r"gave no token \(invalid_grant\)") as refused:
        await client.exchange(attempt, code)
    for secret in (code, attempt.verifier, attempt.state, *stored.secrets):
        assert secret not in str(refused.value) + repr(attempt) + repr(stored)


async def test_a_refusal_on_the_page_stores_nothing(guarded: Guarded, tokens: TokenStore):
    person = Person()

    async def refuse() -> None:
        asked = query_of(await person.page())
        back = f"{asked['redirect_uri']}?state={asked['state']}&error=access_denied%1b[2J"
        await anyio.to_thread.run_sync(visit, back)

    async with anyio.create_task_group() as group:
        group.start_soon(refuse)
        with pytest.raises(SettingsError, match=r"refused: access_denied.*Nothing was stored") as e:
            await sign_in(definition(guarded.url), tokens, person.tell)
    assert "\x1b" not in str(e.value)
    assert tokens.get(entry_of(definition(guarded.url))) == ""


async def test_a_sign_in_times_out(guarded: Guarded, tokens: TokenStore):
    with pytest.raises(SettingsError, match=r"timed out\. Nothing was stored"):
        await sign_in(definition(guarded.url), tokens, lambda _: None, patience=0.05)


async def test_a_projects_server_needs_approval_before_a_sign_in(
    bench: Bench, guarded: Guarded, tokens: TokenStore
):
    file = bench.workspace / ".rookery" / "mcp.json"
    bench.configure(file, far={"type": "http", "url": guarded.url})
    async with bench.hub(tokens=tokens, agreed=False) as hub:
        with pytest.raises(ToolError, match="have not approved this project's definition"):
            await hub.server("far").sign_in(lambda _: None)
    assert guarded.provider.clients == {}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://auth.example/token", "not https"),
        ("https://192.168.1.1/token", "a private address"),
        ("https://169.254.169.254/latest", "a private address"),
        ("https://metadata.google.internal/x", "a private address"),
        ("http://127.0.0.1:80/token", "leads to this machine"),
        ("https://localhost/token", "leads to this machine"),
        ("https://user@auth.example/", "invalid address"),
        ("file:///etc/passwd", "invalid address"),
        ("https://auth.example/\nx", "invalid address"),
    ],
)
def test_metadata_cannot_lead_a_sign_in_astray(url: str, why: str):
    with pytest.raises(OAuthProblem, match=why):
        OAuthRequests("https://tracker.example/mcp").check(url)


async def test_a_public_name_with_a_private_address_is_not_reached():
    requests = OAuthRequests("https://tracker.example/mcp")
    with pytest.raises(OAuthProblem, match=r"a private address|cannot be reached"):
        await requests.send("GET", "https://ip6-localhost/token")


Answers = dict[str, Any]


@contextmanager
def hostile(answers: Callable[[str], Answers]) -> Iterator[str]:
    """A server whose pages are given by path; others want a sign-in."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers(origin).get(self.path)
            self.send_response(401 if body is None else 200)
            self.send_header("www-authenticate", f'Bearer resource_metadata="{origin}/meta"')
            self.end_headers()
            if isinstance(body, bytes):
                self.wfile.write(body)
            elif body is not None:
                self.wfile.write(json.dumps(body).encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        origin = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield origin
        finally:
            server.shutdown()
            thread.join()


def honest(origin: str) -> Answers:
    return {
        "/meta": {"resource": f"{origin}/mcp", "authorization_servers": [origin]},
        "/.well-known/oauth-authorization-server": {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "code_challenge_methods_supported": ["S256"],
        },
        "/register": {"client_id": "x"},
    }


def changed(page: str, **fields: Any) -> Callable[[str], Answers]:
    return lambda origin: {**honest(origin), page: {**honest(origin)[page], **fields}}


ISSUER = "/.well-known/oauth-authorization-server"


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (changed("/meta", resource="https://other.example/mcp"), "about another server"),
        (changed("/meta", authorization_servers=[]), "names no authorization server"),
        (changed("/meta", authorization_servers=["http://10.0.0.1/"]), "not https"),
        (changed("/meta", authorization_servers=["https://10.0.0.1/"]), "a private address"),
        (changed(ISSUER, issuer="https://other.example"), "names another issuer"),
        (changed(ISSUER, token_endpoint="http://other.example/token"), "not https"),
        (changed(ISSUER, code_challenge_methods_supported=["plain"]), "does not support PKCE"),
        (lambda origin: {**honest(origin), "/meta": b"x" * 1_000_000}, "more than 256 KiB"),
        (lambda origin: {**honest(origin), "/meta": b"[" * 100_000}, "cannot be read"),
        (lambda origin: {**honest(origin), "/register": b"{}"}, "registration cannot be read"),
    ],
)
async def test_hostile_metadata_stops_the_sign_in(
    answers: Callable[[str], Answers], why: str, tokens: TokenStore
):
    with hostile(answers) as origin:
        server = definition(f"{origin}/mcp")
        with pytest.raises(SettingsError, match=why):
            await sign_in(server, tokens, lambda _: None, patience=0.05)
    assert tokens.get(entry_of(server)) == ""


@pytest.mark.parametrize("body", [b'{"access_token": "a b"}', b'{"access_token": 7}', b"{}"])
async def test_a_token_that_is_none_is_not_stored(body: bytes):
    with hostile(lambda origin: {**honest(origin), "/token": body}) as origin:
        client = OAuthClient(definition(f"{origin}/mcp"))
        attempt = await client.authorize("http://127.0.0.1:9/callback")
        with pytest.raises(OAuthProblem, match=r"no usable token|cannot be read"):
            await client.exchange(attempt, "code")


def test_a_stored_sign_in_that_is_damaged_counts_as_none():
    assert decode_sign_in("not base64!") is None
    assert decode_sign_in("e30=") is None
    assert "at-1" not in repr(
        StoredSignIn(
            token_endpoint="",
            client=None,  # type: ignore[arg-type]
            resource="",
            access_token="at-1",
        )
    )
