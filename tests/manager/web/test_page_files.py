"""Serving the page's files with their types, and nothing else."""

from pathlib import Path

import pytest

from rookery.manager.web.page_files import IMMUTABLE, NO_STORE, PageFiles
from support.web_server import INDEX, page_in, request, served

pytestmark = pytest.mark.anyio

SECRET = b"Zq7secret"
WAYS_OUT = [
    "/../secret.txt",
    "/assets/../../secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e/secret.txt",
    "/%2e%2e%2fsecret.txt",
    "/%252e%252e%252fsecret.txt",
    "/..%255csecret.txt",
    "/..\\secret.txt",
    "/..%5csecret.txt",
    "/assets/..%c0%afsecret.txt",
    "/%00/secret.txt",
    "/index.html%00.txt",
    "/secret.txt%00",
    "//secret.txt",
    "/./secret.txt",
    "/....//secret.txt",
    "/link.txt",
    "/linked/secret.txt",
    "/assets/link-01234567.txt",
    "/.hidden",
    "/assets",
    "/assets/",
    "/assets/notes.md",
    "/index.html/",
    "/INDEX.HTML",
    "/index.html;a=b",
    "/etc/passwd",
    "/@fs/etc/passwd",
]


def page_with_ways_out(folder: Path) -> PageFiles:
    page = page_in(folder / "page")
    (folder / "secret.txt").write_bytes(SECRET)
    (page / "link.txt").symlink_to(folder / "secret.txt")
    (page / "linked").symlink_to(folder)
    (page / "assets" / "link-01234567.txt").symlink_to("../../secret.txt")
    (page / ".hidden").write_bytes(SECRET)
    return PageFiles(page)


async def test_no_path_escapes_the_page_folder(tmp_path: Path):
    page = page_with_ways_out(tmp_path)
    async with served(tmp_path / "server", page=page) as server:
        host, cookie = f"Host: {server.host}", f"Cookie: {server.token}"
        for path in WAYS_OUT:
            answer = await server.say(request(f"GET {path}", host, cookie))
            assert (answer.status, answer.body) == (404, b""), path
        for path in ("/\x00", "/\xff", "/a b", "/\x7f", "/index.html\x00"):
            answer = await server.say(request(f"GET {path}", host))
            assert answer.status in (400, 404), path
            assert answer.body == b"", path


async def test_content_types_follow_the_file_suffix(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        for path, content_type, cached in [
            ("/", "text/html; charset=utf-8", NO_STORE),
            ("/index.html", "text/html; charset=utf-8", NO_STORE),
            ("/icon.svg", "image/svg+xml", NO_STORE),
            ("/assets/index-D4f_a-9Z.js", "text/javascript; charset=utf-8", IMMUTABLE),
            ("/assets/index-0123abcd.css", "text/css; charset=utf-8", IMMUTABLE),
        ]:
            answer = await client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == content_type
            assert answer.headers["cache-control"] == cached
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_files_are_compressed_for_clients_that_accept_it(tmp_path: Path):
    folder = page_in(tmp_path / "page")
    script = b"export const x = 1;\n" * 500
    (folder / "assets" / "long-0123abcd.js").write_bytes(script)
    async with served(tmp_path / "server", page=PageFiles(folder)) as server:
        for accepted, encoding in (
            ("gzip, deflate, br", "gzip"),
            ("br;q=1, gzip;q=0.5", "gzip"),
            ("gzip;q=0", None),
            ("br", None),
            ("", None),
        ):
            async with server.client() as client:
                answer = await client.get(
                    "/assets/long-0123abcd.js", headers={"Accept-Encoding": accepted}
                )
            assert answer.headers.get("content-encoding") == encoding, accepted
            assert answer.headers["vary"] == "accept-encoding"
            assert answer.content == script
            assert (int(answer.headers["content-length"]) < 500) is (encoding == "gzip")


async def test_workspace_files_are_not_served_and_nothing_redirects(tmp_path: Path):
    """Workspace files that look like the page's are not served.

    The page needs no token, holds no data, and may connect only to its own origin.
    """
    async with served(tmp_path) as server, server.client() as client:
        assert (await client.get("/")).content == INDEX
        for path in ("/bench.py", "/page/index.html", "/state/devices.json", str(tmp_path)):
            assert (await client.get(path, headers=server.bearer)).status_code == 404
        for path in ("/", "//evil.example", "/index.html/..", "/api/", "/ws", "/https://evil"):
            answer = await client.get(path)
            assert not answer.is_redirect
            assert "location" not in answer.headers
            assert "refresh" not in answer.headers
            policy = answer.headers["content-security-policy"].split("; ")
            assert {"connect-src 'self'", "form-action 'none'", "base-uri 'none'"} <= {*policy}


async def test_an_unbuilt_page_names_the_command_to_run(tmp_path: Path):
    page = PageFiles(tmp_path / "nothing")
    assert not page.is_built
    async with served(tmp_path / "server", page=page) as server, server.client() as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, NO_STORE)
        assert "make web" in answer.text
        assert "<script" not in answer.text


def test_changes_to_the_folder_apply_at_the_next_start(tmp_path: Path):
    folder = page_in(tmp_path / "page")
    page = PageFiles(folder)
    (folder / "later.txt").write_bytes(b"")
    (folder / "index.html").unlink()
    assert page.at("/later.txt") is None
    assert page.at("/") is not None
    assert (page.is_built, PageFiles(folder).is_built) == (True, False)
