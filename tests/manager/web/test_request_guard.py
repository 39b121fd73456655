"""Which requests are carried out, and what becomes of all others."""

import json
from pathlib import Path

import pytest

from rookery.manager.web.request_guard import RULES
from rookery.manager.web.web_limits import CODE_BODY, HEAD, HEADERS, UPLOAD, WRONG_PER_MINUTE
from support.web_server import UPGRADE, Answer, Served, request, served

pytestmark = pytest.mark.anyio

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)
HOST = "Host: @HOST@"
JSON = "Content-Type: application/json"
BODY = '{"kind": "list_branches"}'
LENGTH = f"Content-Length: {len(BODY)}"
MARK = "Zq7reflected"
"""Whatever a stranger sends has it somewhere, and no answer does."""


def bearer(server: Served) -> str:
    return f"Authorization: Bearer {server.token}"


def check_refusal(raw: bytes, status: int) -> None:
    """The same headers whatever was refused, in the same order, and nothing of what was sent."""
    answer = Answer(raw)
    assert answer.status == status
    extra = {405: {"allow": "GET, HEAD, POST"}, 401: {"www-authenticate": "Bearer"}}
    assert answer.headers == {
        "content-security-policy": CSP,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
        **extra.get(status, {}),
        "content-length": "0",
        "connection": "close",
    }
    assert answer.body == b""
    assert MARK.encode() not in raw


HOSTS = {
    "evil": "evil.example",
    "evil with our port": "evil.example:PORT",
    "no port": "127.0.0.1",
    "another port": "127.0.0.1:1",
    "rebound name": "127.0.0.1.nip.example:PORT",
    "rebound localhost": "localhost.evil.example:PORT",
    "trailing dot": "localhost.:PORT",
    "user": "localhost:PORT@evil.example",
    "decimal": "2130706433:PORT",
    "short": "127.1:PORT",
    "wildcard": "0.0.0.0:PORT",
    "mapped": "[::ffff:127.0.0.1]:PORT",
    "empty": "",
    "with a path": "127.0.0.1:PORT/",
    "two in one": "127.0.0.1:PORT, evil.example",
}


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
@pytest.mark.parametrize("path", ["/", f"/{MARK}", "/api/do", "/api/health", "/ws"])
async def test_a_foreign_host_is_refused_before_anything_else(tmp_path: Path, host: str, path: str):
    async with served(tmp_path) as server:
        line = f"Host: {host}".replace("PORT", str(server.port)).rstrip()
        answer = await server.say(request(f"GET {path}", line, bearer(server)))
        check_refusal(answer.raw, 421)
        assert (server.blocked, server.requests.done) == (1, [])


async def test_a_foreign_host_gets_no_web_socket(tmp_path: Path):
    async with served(tmp_path) as server:
        lines = "\r\n".join(["GET /ws HTTP/1.1", "Host: evil.example", *UPGRADE, "", ""])
        check_refusal((await server.say(lines)).raw, 421)


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"])
async def test_our_own_names_are_taken(tmp_path: Path, name: str):
    async with served(tmp_path) as server:
        answer = await server.say(request("GET /", f"Host: {name}:{server.port}"))
        assert answer.status == 200


@pytest.mark.parametrize(
    "shape",
    ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: @HOST@\r\nHost: evil.example\r\n\r\n"],
    ids=["no host", "two hosts"],
)
async def test_there_is_exactly_one_host(tmp_path: Path, shape: str):
    async with served(tmp_path) as server:
        check_refusal((await server.say(shape)).raw, 400)
        assert server.blocked == 1


async def test_without_a_host_an_old_request_is_misdirected_too(tmp_path: Path):
    async with served(tmp_path) as server:
        check_refusal((await server.say("GET / HTTP/1.0\r\n\r\n")).raw, 421)


ORIGINS = [
    "https://evil.example",
    "http://evil.example:PORT",
    "http://127.0.0.1.evil.example:PORT",
    "null",
    "file://",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1:PORT.evil.example",
    "http://localhost:PORT",
    "ws://127.0.0.1:PORT",
    "",
]


@pytest.mark.parametrize("origin", ORIGINS)
async def test_a_page_from_elsewhere_is_refused(tmp_path: Path, origin: str):
    async with served(tmp_path) as server:
        line = f"Origin: {origin}".replace("PORT", str(server.port)).rstrip()
        sent = request("POST /api/do", HOST, line, JSON, LENGTH, bearer(server), body=BODY)
        check_refusal((await server.say(sent)).raw, 403)
        check_refusal((await server.say(request("GET /", HOST, line))).raw, 403)
        assert (server.blocked, server.requests.done) == (2, [])


async def test_two_origins_are_one_too_many(tmp_path: Path):
    async with served(tmp_path) as server:
        both = f"Origin: {server.origin}", "Origin: https://evil.example"
        check_refusal((await server.say(request("GET /", HOST, *both))).raw, 403)


@pytest.mark.parametrize("origin", ["http://@HOST@", None])
async def test_our_own_page_and_programs_are_let_in(tmp_path: Path, origin: str | None):
    async with served(tmp_path) as server:
        lines = [f"Origin: {origin}"] if origin else []
        sent = request("POST /api/do", HOST, *lines, JSON, LENGTH, bearer(server), body=BODY)
        answer = await server.say(sent)
        assert (answer.status, json.loads(answer.body)) == (200, ["main"])
        assert server.blocked == 0


@pytest.mark.parametrize(
    ("site", "status"),
    [
        ("same-origin", 200),
        ("none", 200),
        ("same-site", 403),
        ("cross-site", 403),
        (MARK, 403),
        ("none, same-origin", 403),
    ],
)
async def test_what_another_site_made_a_browser_fetch_is_refused(
    tmp_path: Path, site: str, status: int
):
    async with served(tmp_path) as server:
        answer = await server.say(request("GET /", HOST, f"Sec-Fetch-Site: {site}"))
        assert answer.status == status
        assert server.blocked == (status == 403)


@pytest.mark.parametrize("path", ["/", "/api/do", "/api/launch", "/ws", f"/{MARK}"])
async def test_preflights_are_refused_and_nothing_is_said_about_other_origins(
    tmp_path: Path, path: str
):
    async with served(tmp_path) as server:
        asked = f"Access-Control-Request-Method: {MARK}", f"Origin: {server.origin}"
        check_refusal((await server.say(request(f"OPTIONS {path}", HOST, *asked))).raw, 403)
        check_refusal((await server.say(request("OPTIONS *", HOST))).raw, 403)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json, text/plain",
        "text/json",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/api/do", "/api/launch", "/api/pair"])
async def test_only_json_changes_anything(tmp_path: Path, path: str, content_type: str):
    async with served(tmp_path) as server:
        line = f"Content-Type: {content_type}".rstrip()
        sent = request(f"POST {path}", HOST, line, LENGTH, bearer(server), body=BODY)
        check_refusal((await server.say(sent)).raw, 415)
        assert server.requests.done == []


@pytest.mark.parametrize("path", ["/api/do", "/api/launch", "/api/pair"])
async def test_GET_changes_nothing(tmp_path: Path, path: str):
    async with served(tmp_path) as server:
        check_refusal((await server.say(request(f"GET {path}", HOST, bearer(server)))).raw, 405)


@pytest.mark.parametrize(
    "method", ["TRACE", "PUT", "DELETE", "PATCH", "CONNECT", "PROPFIND", MARK, "get"]
)
async def test_no_other_methods_are_taken(tmp_path: Path, method: str):
    async with served(tmp_path) as server:
        for path in ("/", "/api/do", "/ws"):
            sent = request(f"{method} {path}", HOST, bearer(server))
            check_refusal((await server.say(sent)).raw, 405)


async def test_HEAD_tells_of_the_page_and_of_nothing_else(tmp_path: Path):
    async with served(tmp_path) as server:
        answer = await server.say(request("HEAD /", HOST))
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["content-length"] == str(len("<!doctype html><title>page</title>"))
        check_refusal((await server.say(request("HEAD /api/health", HOST))).raw, 405)


async def test_every_answer_has_the_headers_and_none_says_what_we_are_made_of(
    tmp_path: Path,
):
    async with served(tmp_path) as server, server.client() as client:
        answers = [
            await client.get("/"),
            await client.get("/assets/index-D4f_a-9Z.js"),
            await client.get("/missing"),
            await client.get("/api/health", headers=server.bearer),
            await client.get("/api/health"),
            await client.post("/api/do", headers=server.bearer, json={"kind": "list_branches"}),
            await client.post("/api/do", headers=server.bearer, json={"kind": "nonsense"}),
            await client.post("/api/launch", json={"code": "wrong"}),
        ]
        assert [each.status_code for each in answers] == [200, 200, 404, 200, 401, 200, 409, 401]
        for each in answers:
            assert each.headers["content-security-policy"] == CSP
            assert each.headers["x-content-type-options"] == "nosniff"
            assert each.headers["referrer-policy"] == "no-referrer"
            assert each.headers["cross-origin-opener-policy"] == "same-origin"
            assert each.headers["cross-origin-resource-policy"] == "same-origin"
            assert not {"server", "date", "set-cookie", "location"} & set(each.headers)
            assert not [name for name in each.headers if name.startswith("access-control")]
        stored = [each.headers["cache-control"] for each in answers]
        assert stored == ["no-store", "public, max-age=31536000, immutable"] + ["no-store"] * 6
    async with served(tmp_path / "again") as server, server.socket() as socket:
        assert socket.response is not None
        assert socket.response.headers["content-security-policy"] == CSP
        assert not {"server", "date"} & {name.lower() for name in socket.response.headers}


REFUSED_UNREAD = {
    "no token": ("POST /api/do", (JSON, f"Content-Length: {UPLOAD}"), 401),
    "wrong token": (
        "POST /api/do",
        (JSON, f"Content-Length: {UPLOAD}", f"Authorization: Bearer {MARK}"),
        401,
    ),
    "basic": ("POST /api/do", (JSON, LENGTH, f"Authorization: Basic {MARK}"), 401),
    "empty token": ("POST /api/do", (JSON, LENGTH, "Authorization: Bearer "), 401),
    "too long": ("POST /api/do", (JSON, f"Content-Length: {UPLOAD + 1}"), 413),
    "far too long": ("POST /api/do", (JSON, f"Content-Length: {100 * UPLOAD}"), 413),
    "too long for a code": ("POST /api/launch", (JSON, f"Content-Length: {CODE_BODY + 1}"), 413),
    "too long for pairing": ("POST /api/pair", (JSON, f"Content-Length: {CODE_BODY + 1}"), 413),
    "no length": ("POST /api/do", (JSON,), 411),
    "chunked": ("POST /api/do", (JSON, "Transfer-Encoding: chunked"), 411),
    "both lengths": ("POST /api/do", (JSON, LENGTH, "Transfer-Encoding: chunked"), 411),
    "continue": (
        "POST /api/do",
        (JSON, f"Content-Length: {UPLOAD}", "Expect: 100-continue"),
        401,
    ),
    "get with a body": ("GET /", ("Content-Length: 5",), 400),
    "unknown in the api": ("GET /api/unknown", (), 401),
    "the api itself": ("GET /api", (), 401),
    "health": ("GET /api/health", (), 401),
}


@pytest.mark.parametrize(("line", "headers", "status"), REFUSED_UNREAD.values(), ids=REFUSED_UNREAD)
async def test_strangers_are_refused_before_their_body_is_read(
    tmp_path: Path, line: str, headers: tuple[str, ...], status: int
):
    """None of these bodies is ever sent, and the answer comes all the same."""
    async with served(tmp_path) as server:
        check_refusal((await server.say(request(line, HOST, *headers))).raw, status)
        assert (server.blocked, server.requests.done) == (1, [])


@pytest.mark.parametrize("times", [1, 2, 100], ids=["limit", "one more", "far more"])
async def test_a_head_has_an_end(tmp_path: Path, times: int):
    async with served(tmp_path) as server:
        begin = f"GET / HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\nX: "
        length = {1: HEAD - len(begin) - 20, 2: HEAD + 1, 100: 100 * HEAD}[times]
        answer = await server.say(f"{begin}{'y' * length}\r\n\r\n")
        if times == 1:
            assert answer.status == 200
        else:
            # what is still on its way when the door closes may cost them the answer
            assert answer.status in (431, 0)
            assert server.blocked == 1


@pytest.mark.parametrize("upgrade", [(), UPGRADE], ids=["plain", "web socket"])
async def test_a_head_has_few_headers(tmp_path: Path, upgrade: tuple[str, ...]):
    async with served(tmp_path) as server:
        many = [f"X-{number}: 1" for number in range(HEADERS)]
        lines = "\r\n".join(["GET /ws HTTP/1.1", HOST, *upgrade, *many, "", ""])
        check_refusal((await server.say(lines)).raw, 431)


async def test_whoever_guesses_often_is_told_to_wait_and_nobody_else_is(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        wrong = {"Authorization": f"Bearer {MARK}"}
        guesses = [
            (await client.get("/api/health", headers=wrong)).status_code
            for _ in range(WRONG_PER_MINUTE + 2)
        ]
        assert guesses == [401] * WRONG_PER_MINUTE + [429, 429]
        assert (await client.get("/api/health", headers=server.bearer)).status_code == 200
        code = {"code": server.watch.keys.launch_codes.new()}
        assert (await client.post("/api/launch", json=code)).status_code == 200


@pytest.mark.parametrize("path", ["/api/launch", "/api/pair"])
async def test_codes_cannot_be_guessed_one_after_the_other(tmp_path: Path, path: str):
    async with served(tmp_path) as server, server.client() as client:
        guesses = [
            (await client.post(path, json={"code": f"{MARK}{number}"})).status_code
            for number in range(WRONG_PER_MINUTE + 2)
        ]
        assert guesses == [401] * WRONG_PER_MINUTE + [429, 429]
        assert (await client.get("/api/health", headers=server.bearer)).status_code == 200


@pytest.mark.parametrize("path", ["/api/launch", "/api/pair"])
async def test_nobody_with_a_code_is_kept_out_by_what_others_guess(tmp_path: Path, path: str):
    """All who come through a tunnel have one address, which is that of the user here."""
    async with served(tmp_path) as server, server.client() as client:
        for guessed in ("/api/launch", "/api/pair"):
            for number in range(WRONG_PER_MINUTE + 1):
                await client.post(guessed, json={"code": f"{MARK}{number}"})
        keys = server.watch.keys
        codes = keys.launch_codes if path == "/api/launch" else keys.pairing_codes
        assert (await client.post(path, json={"code": codes.new()})).status_code == 200


SMUGGLED = {
    "two lengths": (JSON, LENGTH, "Content-Length: 3"),
    "list of lengths": (JSON, "Content-Length: 25, 3"),
    "signed length": (JSON, "Content-Length: +25"),
    "hexadecimal length": (JSON, "Content-Length: 0x19"),
    "negative length": (JSON, "Content-Length: -1"),
    "obscured encoding": (JSON, LENGTH, "Transfer-Encoding: xchunked"),
    "space before the colon": (JSON, "Content-Length : 25"),
    "encoding in a fold": (
        JSON,
        LENGTH,
        "X: y\r\n Transfer-Encoding: chunked\r\nTransfer-Encoding:",
    ),
    "length with a tab": (JSON, "Content-Length:\x0b25"),
    "a NUL": (JSON, LENGTH, "X: \x00"),
    "a bare CR": (JSON, LENGTH, "X: y\rTransfer-Encoding: chunked"),
    "long length": (JSON, f"Content-Length: {'9' * 5000}"),
}


@pytest.mark.parametrize("headers", SMUGGLED.values(), ids=SMUGGLED)
async def test_where_a_request_ends_is_never_a_matter_of_taste(
    tmp_path: Path, headers: tuple[str, ...]
):
    """What follows would be a request of its own to whoever sees another end."""
    async with served(tmp_path) as server:
        sent = request("POST /api/do", HOST, bearer(server), *headers, body=BODY)
        answer = await server.say(sent + f"GET /{MARK} HTTP/1.1\r\nHost: {server.host}\r\n\r\n")
        assert answer.status in (400, 411, 413, 415, 501)
        assert answer.raw.count(b"HTTP/1.1") == 1
        assert (server.blocked, server.requests.done) == (1, [])


MALFORMED = {
    "nonsense": f"{MARK}\r\n\r\n",
    "another version": f"GET / HTTP/9.9\r\nHost: @HOST@\r\nX: {MARK}\r\n\r\n",
    "absolute": f"GET http://{MARK}/ HTTP/1.1\r\nHost: @HOST@\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_request_is_refused_in_the_same_shape(tmp_path: Path, sent: str | bytes):
    async with served(tmp_path) as server:
        raw = sent + b"\r\n\r\n" if isinstance(sent, bytes) else sent
        answer = await server.say(raw)
        check_refusal(answer.raw, answer.status)
        assert answer.status in (400, 404, 505)
        assert server.blocked == 1


HANDSHAKES = {
    "no key": ("GET /ws", UPGRADE[:3], 400),
    "bad key": ("GET /ws", (*UPGRADE[:3], f"Sec-WebSocket-Key: {MARK}"), 400),
    "old version": ("GET /ws", (*UPGRADE[:2], f"Sec-WebSocket-Version: {MARK}", UPGRADE[3]), 400),
    "elsewhere": (f"GET /{MARK}", UPGRADE, 404),
    "in the api": ("GET /api/do", UPGRADE, 404),
    "posted": ("POST /ws", UPGRADE, 405),
    "long line": ("GET /ws", (*UPGRADE, f"X: {MARK}{'y' * 9000}"), 431),
    "query": (f"GET /ws?token={MARK}", UPGRADE, 400),
    "foreign page": ("GET /ws", (*UPGRADE, f"Origin: https://{MARK}.example"), 403),
    "null page": ("GET /ws", (*UPGRADE, "Origin: null"), 403),
    "foreign site": ("GET /ws", (*UPGRADE, "Sec-Fetch-Site: cross-site"), 403),
}


@pytest.mark.parametrize(("line", "headers", "status"), HANDSHAKES.values(), ids=HANDSHAKES)
async def test_so_is_what_is_no_handshake_of_ours(
    tmp_path: Path, line: str, headers: tuple[str, ...], status: int
):
    async with served(tmp_path) as server:
        text = "\r\n".join([f"{line} HTTP/1.1", HOST, *headers, "", ""])
        check_refusal((await server.say(text)).raw, status)
        assert (server.blocked, server.talk.tokens) == (1, [])


@pytest.mark.parametrize("path", ["/", "/api/health", "/api/do", "/api/launch", "/ws"])
async def test_a_token_in_an_address_is_refused_even_if_it_is_right(tmp_path: Path, path: str):
    async with served(tmp_path) as server:
        for query in (f"token={server.token}", f"access_token={server.token}", MARK):
            answer = await server.say(request(f"GET {path}?{query}", HOST))
            check_refusal(answer.raw, 400)
            assert server.token.encode() not in answer.raw


async def test_all_there_is_refuses_strangers(tmp_path: Path):
    """Enumerated from the code, so that what is added is tested with it."""
    async with served(tmp_path) as server:
        for path, rule in RULES.items():
            right = [JSON, LENGTH] if rule.method == "POST" else []
            body = BODY if right else ""
            line = f"{rule.method} {path}"
            stranger = await server.say(request(line, HOST, *right, body=body))
            assert stranger.status == (401 if rule.needs_token else 400)
            for wrong in (f"Origin: https://{MARK}.example", "Sec-Fetch-Site: cross-site"):
                refused = await server.say(request(line, HOST, *right, wrong, body=body))
                check_refusal(refused.raw, 403)
        assert server.blocked == 3 * len(RULES)


async def test_a_bug_is_answered_without_a_word_about_it(tmp_path: Path):
    async with served(tmp_path) as server:
        body = '{"kind": "list_models"}'
        length = f"Content-Length: {len(body)}"
        sent = request("POST /api/do", HOST, JSON, length, bearer(server), body=body)
        check_refusal((await server.say(sent)).raw, 500)
        assert (await server.say(request("GET /", HOST))).status == 200
