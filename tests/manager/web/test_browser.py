"""A real browser: our own page gets in, and a page of somebody else does not."""

import json
import os
import re
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright, expect

from rookery.manager.web.page_files import PageFiles
from support.web_server import page_in, served

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium"),
]

INDEX = """\
<!doctype html><meta charset="utf-8"><title>wait</title>
<script type="module" src="/assets/app-0123abcd.js"></script>
"""
SCRIPT = """\
const code = location.hash.replace("#launch=", "");
history.replaceState(null, "", "/");
const answer = await fetch("/api/launch", {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ code }),
});
if (!answer.ok) {
  document.title = `refused ${answer.status}`;
} else {
  const { token } = await answer.json();
  sessionStorage.setItem("token", token);
  const socket = new WebSocket(`ws://${location.host}/ws`);
  const params = { protocol: 1, token };
  socket.onopen = () =>
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }));
  socket.onmessage = () => (document.title = "let in");
  socket.onclose = (event) => (document.title = `closed ${event.code}`);
}
"""
EVIL = """\
<!doctype html><title>evil</title><script>
const there = "OURS";
const tried = {};
const json = { "Content-Type": "application/json", Authorization: "Bearer TOKEN" };
const body = '{"kind": "list_branches"}';
const ways = {
  simple: () => fetch(`${there}/api/do`, { method: "POST", mode: "no-cors", body }),
  json: () => fetch(`${there}/api/do`, { method: "POST", headers: json, body }),
  read: () => fetch(`${there}/`).then((answer) => answer.text()),
  opaque: () => fetch(`${there}/`, { mode: "no-cors" }),
  socket: () => new Promise((done, fail) => {
    const socket = new WebSocket(`${there.replace("http", "ws")}/ws`);
    socket.onopen = done;
    socket.onerror = fail;
  }),
  script: () => element("script", "src", "/assets/app-0123abcd.js"),
  picture: () => element("img", "src", "/icon.svg"),
};
function element(name, attribute, path) {
  return new Promise((done, fail) => {
    const made = document.createElement(name);
    made.onload = done;
    made.onerror = fail;
    made[attribute] = there + path;
    document.body.append(made);
  });
}
addEventListener("load", async () => {
  for (const [name, way] of Object.entries(ways))
    tried[name] = await way().then(() => "worked", () => "failed");
  document.title = JSON.stringify(tried);
});
</script><body><iframe src="OURS/"></iframe>
"""


@asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"],
            chromium_sandbox=os.geteuid() != 0,
        )
        try:
            yield await (await browser.new_context()).new_page()
        finally:
            await browser.close()


@contextmanager
def somebody_elses(html: str) -> Iterator[str]:
    """A page on this machine, but not ours."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


def page_with_script(folder: Path) -> PageFiles:
    page = page_in(folder)
    (page / "index.html").write_text(INDEX, encoding="utf-8")
    (page / "assets" / "app-0123abcd.js").write_text(SCRIPT, encoding="utf-8")
    return PageFiles(page)


async def until_titled(page: Page, beginning: str) -> str:
    await expect(page).to_have_title(re.compile(f"^{re.escape(beginning)}"), timeout=20_000)
    return await page.title()


async def test_only_the_managers_own_page_connects_and_its_link_works_once(tmp_path: Path):
    files = page_with_script(tmp_path / "page")
    async with served(tmp_path, page=files) as server, browsing() as page:
        evil = EVIL.replace("OURS", server.origin).replace("TOKEN", server.token)
        with somebody_elses(evil) as address:
            await page.goto(address)
            tried = json.loads(await until_titled(page, "{"))
            assert page.frames[1].url.startswith("chrome-error:")
        assert {*tried.values()} == {"failed"}
        assert (server.requests.done, server.talk.tokens) == ([], [])
        blocked = server.blocked
        assert blocked >= len(tried)

        link = server.server.launch_url()
        await page.goto(link)
        assert await until_titled(page, "let in") == "let in"
        assert page.url == f"{server.origin}/"
        assert await page.evaluate("document.cookie") == ""
        assert await page.evaluate("sessionStorage.getItem('token')") == server.token
        assert server.blocked == blocked
        again = await page.context.new_page()
        await again.goto(link)
        assert await until_titled(again, "refused") == "refused 401"
