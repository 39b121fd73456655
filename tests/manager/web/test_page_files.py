"""The files of the page: what is there is given out as what it is, and nothing else is."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.manager.web.page_files import CONTENT_TYPES, IMMUTABLE, NO_STORE, PageFiles
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
            for sent in (f"GET {path}", f"HEAD {path}"):
                answer = await server.say(request(sent, host))
                assert (answer.status, answer.body) == (404, b""), sent
            assert (await server.say(request(f"GET {path}", host, cookie))).status == 404, path
        for path in ("/\x00", "/\xff", "/a b", "/\x7f", "/index.html\x00"):
            answer = await server.say(request(f"GET {path}", host))
            assert answer.status in (400, 404), path
            assert answer.body == b"", path


@given(st.text())
def test_any_path_finds_a_page_file_or_nothing(path: str):
    found = PageFiles(Path(__file__).parent).at(path)
    assert found is None or path == "/"


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


async def test_workspace_files_are_not_served_and_nothing_redirects(tmp_path: Path):
    """A file there that looks like the page's is not the page's; the page needs no token, holds no
    data, and may connect to where it came from and to nowhere else."""
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
    os.unlink(folder / "index.html")
    assert page.at("/later.txt") is None
    assert page.at("/") is not None
    assert page.is_built


def test_every_served_suffix_has_a_content_type():
    assert all(suffix.startswith(".") and kind for suffix, kind in CONTENT_TYPES.items())


async def test_a_rebuilt_page_is_served_without_a_restart(tmp_path: Path):
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


def test_the_page_is_reread_only_after_a_rebuild(tmp_path: Path):
    folder = page_in(tmp_path / "page")
    page = PageFiles(folder)
    assert page.at("/") is page.at("/")
    os.utime(folder / "index.html")
    (folder / "later.txt").write_bytes(b"")
    assert page.at("/later.txt") is None
    assert page.at("/") is not None
    assert page.at("/later.txt") is not None


def test_a_page_built_after_the_start_is_served(tmp_path: Path):
    page = PageFiles(tmp_path / "page")
    assert not page.is_built
    page_in(tmp_path / "page")
    found = page.at("/")
    assert found
    assert found.content == INDEX
    assert page.is_built
