"""The files of the page: what is there is given out as what it is, and nothing else is."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.manager.web.page_files import CONTENT_TYPES, FOR_EVER, NEVER, PageFiles
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


@pytest.mark.parametrize("path", WAYS_OUT)
async def test_no_path_leaves_the_page(tmp_path: Path, path: str):
    page = page_with_ways_out(tmp_path)
    async with served(tmp_path / "server", page=page) as server:
        for method in ("GET", "HEAD"):
            answer = await server.say(request(f"{method} {path}", f"Host: {server.host}"))
            assert (answer.status, answer.body) == (404, b"")
        with_token = request(f"GET {path}", f"Host: {server.host}", f"Cookie: {server.token}")
        assert (await server.say(with_token)).status == 404


@pytest.mark.parametrize("path", ["/\x00", "/\xff", "/a b", "/\x7f", "/index.html\x00"])
async def test_nor_do_characters_that_no_path_has(tmp_path: Path, path: str):
    page = page_with_ways_out(tmp_path)
    async with served(tmp_path / "server", page=page) as server:
        answer = await server.say(request(f"GET {path}", f"Host: {server.host}"))
        assert answer.status in (400, 404)
        assert answer.body == b""


@given(st.text())
def test_whatever_is_asked_for_is_a_file_of_the_page_or_nothing(path: str):
    found = PageFiles(Path(__file__).parent).at(path)
    assert found is None or path == "/"


async def test_files_are_what_their_name_says_and_never_guessed(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        for path, content_type, cached in [
            ("/", "text/html; charset=utf-8", NEVER),
            ("/index.html", "text/html; charset=utf-8", NEVER),
            ("/icon.svg", "image/svg+xml", NEVER),
            ("/assets/index-D4f_a-9Z.js", "text/javascript; charset=utf-8", FOR_EVER),
            ("/assets/index-0123abcd.css", "text/css; charset=utf-8", FOR_EVER),
        ]:
            answer = await client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == content_type
            assert answer.headers["cache-control"] == cached
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_nothing_of_the_workspace_is_given_out(tmp_path: Path):
    """There is no route to it; a file there that looks like the page's is not the page's."""
    async with served(tmp_path) as server, server.client() as client:
        for path in ("/bench.py", "/page/index.html", "/state/devices.json", str(tmp_path)):
            assert (await client.get(path, headers=server.bearer)).status_code == 404


async def test_no_answer_sends_anybody_elsewhere(tmp_path: Path):
    """The page may connect to where it came from, and to nowhere else."""
    async with served(tmp_path) as server, server.client() as client:
        for path in ("/", "//evil.example", "/index.html/..", "/api/", "/ws", "/https://evil"):
            answer = await client.get(path)
            assert not answer.is_redirect
            assert "location" not in answer.headers
            assert "refresh" not in answer.headers
            policy = answer.headers["content-security-policy"].split("; ")
            assert {"connect-src 'self'", "form-action 'none'", "base-uri 'none'"} <= {*policy}


async def test_a_page_that_is_not_built_says_what_to_run(tmp_path: Path):
    page = PageFiles(tmp_path / "nothing")
    assert not page.is_built
    async with served(tmp_path / "server", page=page) as server, server.client() as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, NEVER)
        assert "make web" in answer.text
        assert "<script" not in answer.text


async def test_the_page_needs_no_token_and_holds_no_data(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        assert (await client.get("/")).content == INDEX


def test_a_change_of_the_folder_counts_at_the_next_start(tmp_path: Path):
    folder = page_in(tmp_path / "page")
    page = PageFiles(folder)
    (folder / "later.txt").write_bytes(b"")
    os.unlink(folder / "index.html")
    assert page.at("/later.txt") is None
    assert page.at("/") is not None
    assert page.is_built


def test_nothing_is_given_out_that_a_browser_would_have_to_guess():
    assert all(suffix.startswith(".") and kind for suffix, kind in CONTENT_TYPES.items())


async def test_a_page_that_was_built_again_is_given_out_without_a_new_start(tmp_path: Path):
    folder = page_in(tmp_path / "page")
    old = "/assets/index-D4f_a-9Z.js"
    page = PageFiles(folder)
    async with served(tmp_path / "server", page=page) as server, server.client() as client:
        before = (await client.get(old)).content
        (folder / old[1:]).unlink()
        (folder / "assets" / "index-newnewne.js").write_bytes(b"export { newer };")
        (folder / "index.html").unlink()
        assert (await client.get("/")).content == INDEX, "it is being built"
        (folder / "index.html").write_bytes(b"<!doctype html><title>newer</title>")
        for path in ("/", "/index.html"):
            assert (await client.get(path)).content == b"<!doctype html><title>newer</title>"
        assert (await client.get("/assets/index-newnewne.js")).content == b"export { newer };"
        assert (await client.get(old)).content == before, "somebody has the old page open"


def test_a_page_is_read_again_only_if_it_was_built_again(tmp_path: Path):
    folder = page_in(tmp_path / "page")
    page = PageFiles(folder)
    assert page.at("/") is page.at("/")
    os.utime(folder / "index.html")
    (folder / "later.txt").write_bytes(b"")
    assert page.at("/later.txt") is None
    assert page.at("/") is not None
    assert page.at("/later.txt") is not None


def test_a_page_that_is_built_after_the_start_is_given_out(tmp_path: Path):
    page = PageFiles(tmp_path / "page")
    assert not page.is_built
    page_in(tmp_path / "page")
    found = page.at("/")
    assert found
    assert found.content == INDEX
    assert page.is_built
