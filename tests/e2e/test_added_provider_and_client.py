"""A provider and a client are one file and one row: the examples of docs/architecture.md."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from support.added_sources import sources_with
from support.terminal_session import Installed

ANSWER = b'{"word": "Good "}\n{"word": "morning."}\n{"done": true}'
SCRIPT = """
- calls: [{tool: attempt_completion, arguments: {result: Sorted.}}]
"""


class WordServer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), WordHandler)
        self.asked: list[tuple[str, str | None, Any]] = []


class WordHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, WordServer)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, self.headers["authorization"], body))
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def word_server() -> Iterator[WordServer]:
    with WordServer() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_provider_is_one_file_and_one_row(tmp_path: Path):
    rookery = Installed(tmp_path)
    table = "providers/registry.py: PROVIDERS = {"
    added = sources_with("provider", tmp_path / "sources", "providers/words.py", table=table)
    rookery.environ |= {"PYTHONPATH": str(added), "WORDS_API_KEY": "k1"}
    with word_server() as server:
        url = f"http://127.0.0.1:{server.server_port}"
        chosen = ("--provider", "words", "-m", "small", "--base-url", url)
        done = rookery.run("-p", *chosen, "Say good morning")
    assert (done.returncode, done.stdout) == (0, "Good morning.\n"), done.stderr
    path, key, body = server.asked[0]
    assert (path, key, body["model"]) == ("/words", "Bearer k1", "small")
    assert "Say good morning" in body["text"]


def test_a_client_is_one_file_and_one_row(tmp_path: Path):
    rookery = Installed(tmp_path)
    table = "cli/main.py: _SUBCOMMANDS = {"
    added = sources_with("client", tmp_path / "sources", "cli/ask.py", table=table)
    rookery.environ["PYTHONPATH"] = str(added)
    with rookery.piped("serve", *rookery.script(SCRIPT)) as server:
        try:
            socket = json.loads(server.stdout.readline())["socket"]
            done = rookery.run("ask", socket, "Sort it")
        finally:
            server.kill()
    assert (done.returncode, done.stdout) == (0, "Sorted.\n"), done.stderr
