"""Which requests are accepted, and how all others are refused."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from rookery.manager.web.access import CODE_BODY, HEAD, HEADERS, UPLOAD, WRONG_PER_MINUTE
from rookery.manager.web.request_guard import RULES, WEBHOOK
from support.web_server import UPGRADE, Answer, Served, request, served

pytestmark = pytest.mark.anyio

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
HOST = "Host: @HOST@"
JSON = "Content-Type: application/json"
BODY = '{"kind": "list_branches"}'
LENGTH = f"Content-Length: {len(BODY)}"
MARK = "Zq7reflected"
"""Every hostile request contains this text, and no answer may."""


BEARER = "Authorization: Bearer @TOKEN@"


def check_refusal(raw: bytes, status: int) -> None:
    """Every refusal has the same headers in the same order and echoes nothing of the request."""
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


async def say(server: Served, text: str | bytes) -> Answer:
    """Fill in the server's port and token."""
    if isinstance(text, str):
        text = text.replace("PORT", str(server.port)).replace("@TOKEN@", server.token)
    return await server.say(text)


Refused = Mapping[str, tuple[str, tuple[str, ...], int]]
"""The first line, headers and the status of what is refused, by a name for it."""


async def check_refusals(folder: Path, rows: Refused, *, body: str = BODY) -> None:
    async with served(folder) as server:
        for number, (name, (line, headers, status)) in enumerate(rows.items(), 1):
            sent = body if LENGTH in headers else ""
            answer = await say(server, request(line, *headers, body=sent))
            assert answer.status == status, name
            check_refusal(answer.raw, status)
            assert (server.blocked, server.requests.done) == (number, []), name
            assert server.token.encode() not in answer.raw, name


HOSTS = (
    *("", "evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1"),
    *("127.0.0.1.nip.example:PORT", "localhost.evil.example:PORT", "localhost.:PORT"),
    *("localhost:PORT@evil.example", "2130706433:PORT", "127.1:PORT", "0.0.0.0:PORT"),
    *("[::ffff:127.0.0.1]:PORT", "127.0.0.1:PORT/", "127.0.0.1:PORT, evil.example"),
)


async def test_a_foreign_host_header_is_refused_first(tmp_path: Path):
    rows = {host: ("GET /", (f"Host: {host}".rstrip(), BEARER), 421) for host in HOSTS}
    for path in (f"/{MARK}", "/api/do", "/api/health", "/ws"):
        rows[path] = (f"GET {path}", ("Host: evil.example", BEARER), 421)
    await check_refusals(tmp_path, rows)


async def test_exactly_one_known_host_header_is_required(tmp_path: Path):
    async with served(tmp_path) as server:
        for name in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]"):
            answer = await say(server, request("GET /", f"Host: {name}:PORT"))
            assert answer.status == 200, name
        for sent, status in (
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: @HOST@\r\nHost: evil.example\r\n\r\n", 400),
            ("GET / HTTP/1.0\r\n\r\n", 421),
        ):
            check_refusal((await say(server, sent)).raw, status)
        assert server.blocked == 3


ORIGINS = (
    *("https://evil.example", "http://evil.example:PORT", "http://127.0.0.1.evil.example:PORT"),
    *("null", "file://", "http://127.0.0.1", "http://127.0.0.1:1", "https://127.0.0.1:PORT"),
    *("http://127.0.0.1:PORT.evil.example", "http://localhost:PORT", "ws://127.0.0.1:PORT", ""),
)
DO = ("POST /api/do", (HOST, JSON, LENGTH, BEARER))


async def test_a_request_from_a_foreign_origin_is_refused(tmp_path: Path):
    rows: dict[str, tuple[str, tuple[str, ...], int]] = {}
    for origin in ORIGINS:
        given = f"Origin: {origin}".rstrip()
        rows[f"{origin} does"] = (DO[0], (*DO[1], given), 403)
        rows[f"{origin} reads"] = ("GET /", (HOST, given), 403)
    both = ("Origin: http://@HOST@", "Origin: https://evil.example")
    rows["two origins"] = ("GET /", (HOST, *both), 403)
    for site in ("same-site", "cross-site", MARK, "none, same-origin"):
        rows[f"fetched from {site}"] = ("GET /", (HOST, f"Sec-Fetch-Site: {site}"), 403)
    await check_refusals(tmp_path, rows)


async def test_the_own_page_and_local_programs_are_allowed(tmp_path: Path):
    async with served(tmp_path) as server:
        for own in ((), ("Origin: http://@HOST@",)):
            answer = await say(server, request(DO[0], *DO[1], *own, body=BODY))
            assert (answer.status, json.loads(answer.body)) == (200, ["main"]), own
        for site in ("same-origin", "none"):
            fetched = await say(server, request("GET /", HOST, f"Sec-Fetch-Site: {site}"))
            assert fetched.status == 200, site
        assert server.blocked == 0


TYPES = (
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
    *("application/json, text/plain", "text/json", ""),
)
METHODS = ("TRACE", "PUT", "DELETE", "PATCH", "CONNECT", "PROPFIND", MARK, "get")
PREFLIGHT = (HOST, f"Access-Control-Request-Method: {MARK}", "Origin: http://@HOST@")


async def test_only_posted_json_changes_anything(tmp_path: Path):
    """And responses grant nothing to other origins."""
    rows: dict[str, tuple[str, tuple[str, ...], int]] = {
        f"OPTIONS {path}": (f"OPTIONS {path}", PREFLIGHT, 403)
        for path in ("/", "/api/do", "/api/launch", "/ws", f"/{MARK}")
    }
    rows["OPTIONS *"] = ("OPTIONS *", (HOST,), 403)
    for path in ("/api/do", "/api/launch", "/api/pair"):
        rows[f"GET {path}"] = (f"GET {path}", (HOST, BEARER), 405)
        for kind in TYPES:
            given = (HOST, f"Content-Type: {kind}".rstrip(), LENGTH, BEARER)
            rows[f"{kind} for {path}"] = (f"POST {path}", given, 415)
    for path in ("/", "/api/do", "/ws"):
        for method in METHODS:
            rows[f"{method} {path}"] = (f"{method} {path}", (HOST, BEARER), 405)
    await check_refusals(tmp_path, rows)


async def test_head_requests_are_answered_for_the_page_only(tmp_path: Path):
    async with served(tmp_path) as server:
        answer = await server.say(request("HEAD /", HOST))
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["content-length"] == str(len("<!doctype html><title>page</title>"))
        check_refusal((await server.say(request("HEAD /api/health", HOST))).raw, 405)


async def test_every_response_has_security_headers_and_hides_the_software(
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


async def test_unauthorized_requests_are_refused_before_the_body_is_read(tmp_path: Path):
    """The bodies are never sent, and the response still arrives."""
    rows = {
        name: (line, (HOST, *headers), status)
        for name, (line, headers, status) in REFUSED_UNREAD.items()
    }
    await check_refusals(tmp_path, rows, body="")


async def test_the_request_head_is_limited_in_size(tmp_path: Path):
    async with served(tmp_path) as server:
        begin = f"GET / HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\nX: "
        fits = "y" * (HEAD - len(begin) - 20)
        assert (await server.say(f"{begin}{fits}\r\n\r\n")).status == 200
        for blocked, length in enumerate((HEAD + 1, 100 * HEAD), 1):
            answer = await server.say(f"{begin}{'y' * length}\r\n\r\n")
            # data still in flight when the connection closes may discard the response
            assert answer.status in (431, 0), length
            assert server.blocked == blocked
        many = [f"X-{number}: 1" for number in range(HEADERS)]
        for upgrade in ((), UPGRADE):
            lines = "\r\n".join(["GET /ws HTTP/1.1", HOST, *upgrade, *many, "", ""])
            check_refusal((await server.say(lines)).raw, 431)


async def test_after_many_wrong_guesses_only_wrong_ones_get_429(tmp_path: Path):
    """All clients of a tunnel share one address with the local user."""
    async with served(tmp_path) as server, server.client() as client:
        keys, wrong = server.access.keys, {"Authorization": f"Bearer {MARK}"}
        expected = [401] * WRONG_PER_MINUTE + [429, 429]
        answers = [await client.get("/api/health", headers=wrong) for _ in expected]
        assert [each.status_code for each in answers] == expected
        assert (await client.get("/api/health", headers=server.bearer)).status_code == 200
        answers = [await client.post("/api/launch", json={"code": MARK}) for _ in expected]
        assert [each.status_code for each in answers] == expected
        assert (await client.post("/api/pair", json={"code": MARK})).status_code == 429
        for path, codes in (("launch", keys.launch_codes), ("pair", keys.pairing_codes)):
            right = await client.post(f"/api/{path}", json={"code": codes.new()})
            assert right.status_code == 200, path


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


async def test_request_smuggling_is_refused(tmp_path: Path):
    """A parser that sees another end would read the rest as a second request."""
    async with served(tmp_path) as server:
        for number, (name, headers) in enumerate(SMUGGLED.items(), 1):
            sent = request("POST /api/do", HOST, BEARER, *headers, body=BODY)
            answer = await say(server, sent + f"GET /{MARK} HTTP/1.1\r\nHost: @HOST@\r\n\r\n")
            assert answer.status in (400, 411, 413, 415, 501), name
            assert answer.raw.count(b"HTTP/1.1") == 1, name
            assert (server.blocked, server.requests.done) == (number, []), name


MALFORMED = {
    "nonsense": f"{MARK}\r\n\r\n",
    "another version": f"GET / HTTP/9.9\r\nHost: @HOST@\r\nX: {MARK}\r\n\r\n",
    "absolute": f"GET http://{MARK}/ HTTP/1.1\r\nHost: @HOST@\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


async def test_a_malformed_request_gets_the_standard_refusal(tmp_path: Path):
    async with served(tmp_path) as server:
        for number, (name, sent) in enumerate(MALFORMED.items(), 1):
            answer = await server.say(sent)
            assert answer.status in (400, 404, 505), name
            check_refusal(answer.raw, answer.status)
            assert server.blocked == number, name


HANDSHAKES = {
    "no key": ("GET /ws", UPGRADE[:3], 400),
    "bad key": ("GET /ws", (*UPGRADE[:3], f"Sec-WebSocket-Key: {MARK}"), 400),
    "old version": ("GET /ws", (*UPGRADE[:2], f"Sec-WebSocket-Version: {MARK}", UPGRADE[3]), 400),
    "elsewhere": (f"GET /{MARK}", UPGRADE, 404),
    "in the api": ("GET /api/do", UPGRADE, 404),
    "posted": ("POST /ws", UPGRADE, 405),
    "long line": ("GET /ws", (*UPGRADE, f"X: {MARK}{'y' * 9000}"), 431),
    "query": (f"GET /ws?token={MARK}", UPGRADE, 400),
    "foreign host": ("GET /ws", ("Host: evil.example", *UPGRADE), 421),
    "foreign page": ("GET /ws", (*UPGRADE, f"Origin: https://{MARK}.example"), 403),
    "null page": ("GET /ws", (*UPGRADE, "Origin: null"), 403),
    "foreign site": ("GET /ws", (*UPGRADE, "Sec-Fetch-Site: cross-site"), 403),
    "with a body": ("GET /ws", (*UPGRADE, "Content-Length: 5", "", "hello"), 400),
    "with pieces": ("GET /ws", (*UPGRADE, "Transfer-Encoding: chunked", "", "0"), 400),
    "with a bell": ("GET /ws", (*UPGRADE, "Sec-WebSocket-Protocol: \x07"), 400),
}


async def test_an_invalid_websocket_handshake_gets_the_standard_refusal(tmp_path: Path):
    async with served(tmp_path) as server:
        for number, (name, (line, headers, status)) in enumerate(HANDSHAKES.items(), 1):
            host = () if headers[0].startswith("Host:") else (HOST,)
            lines = "\r\n".join([f"{line} HTTP/1.1", *host, *headers, "", ""])
            answer = await server.say(lines)
            assert answer.status == status, name
            check_refusal(answer.raw, status)
            assert (server.blocked, server.talk.tokens) == (number, []), name


async def test_a_token_in_a_url_is_refused_even_if_valid(tmp_path: Path):
    paths = ("/", "/api/health", "/api/do", "/api/launch", "/ws")
    queries = ("token=@TOKEN@", "access_token=@TOKEN@", MARK)
    lines = [f"GET {path}?{query}" for path in paths for query in queries]
    await check_refusals(tmp_path, {line: (line, (HOST,), 400) for line in lines})


async def test_every_route_refuses_unauthorized_requests(tmp_path: Path):
    """Enumerated from the code, so that new routes are tested too."""
    async with served(tmp_path) as server:
        for path, rule in RULES.items():
            right = [JSON, LENGTH] if rule.method == "POST" else []
            body = BODY if right else ""
            line = f"{rule.method} {path}"
            stranger = await server.say(request(line, HOST, *right, body=body))
            assert stranger.status == (401 if rule.needs_token or path == WEBHOOK else 400)
            for wrong in (f"Origin: https://{MARK}.example", "Sec-Fetch-Site: cross-site"):
                refused = await server.say(request(line, HOST, *right, wrong, body=body))
                check_refusal(refused.raw, 403)
        assert server.blocked == 3 * len(RULES)


async def test_an_internal_error_returns_500_without_details(tmp_path: Path):
    async with served(tmp_path) as server:
        body = '{"kind": "list_models"}'
        length = f"Content-Length: {len(body)}"
        sent = request("POST /api/do", HOST, JSON, length, BEARER, body=body)
        check_refusal((await say(server, sent)).raw, 500)
        assert (await server.say(request("GET /", HOST))).status == 200
