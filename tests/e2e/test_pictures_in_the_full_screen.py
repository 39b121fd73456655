"""A picture from the clipboard and one by its path, from the keys to the model's request."""

import base64
import json
import shlex
from pathlib import Path

import pytest

from llm_server import LlmServer, Recorded, finish
from support.terminal_session import COMMAND, Installed
from support.tmux_session import TmuxSession

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DOT = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAkQBADs=")


@pytest.fixture
def clipboard(tmp_path: Path) -> str:
    """A folder with a program that prints the picture in the clipboard."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pixel.png").write_bytes(PIXEL)
    program = folder / "wl-paste"
    program.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(folder / 'pixel.png'))}\n")
    program.chmod(0o755)
    return str(folder)


def opened(rookery: Installed, server: LlmServer, programs: str) -> TmuxSession:
    where = ["--provider", "anthropic", "-m", "claude-x", "--base-url", server.url]
    path = f"{programs}:{rookery.environ['PATH']}"
    environ = {**rookery.environ, "PATH": path}
    return TmuxSession([COMMAND, *where], cwd=rookery.workspace, environ=environ)


def paste(terminal: TmuxSession, text: str) -> None:
    """Paste a path like a terminal does for a dragged file."""
    terminal.type(f"\x1b[200~{text}\x1b[201~")


def pictures_in(request: Recorded) -> list[tuple[str, bytes]]:
    """Those of the newest turn."""
    blocks = request.body["messages"][-1]["content"]
    sources = [block["source"] for block in blocks if block["type"] == "image"]
    return [(each["media_type"], base64.b64decode(each["data"])) for each in sources]


def test_pictures_reach_the_model(rookery: Installed, clipboard: str, tmp_path: Path):
    dot = tmp_path / "a dot.gif"
    dot.write_bytes(DOT)
    with (
        LlmServer([finish("A pixel.")], [finish("A dot.")]) as server,
        opened(rookery, server, clipboard) as terminal,
    ):
        terminal.wait_for("What should I do?", "♜ rookery")
        terminal.press("C-v")
        terminal.wait_for("▣ 1 clipboard 1 KB")
        terminal.type("what is it")
        terminal.press("Enter")
        terminal.wait_for("A pixel.", "What next? Or /new", "› what is it", "▣ 1 PNG 1 KB")
        paste(terminal, f"'{dot}' ")
        terminal.wait_for("▣ 1 a dot.gif 1 KB")
        terminal.press("Enter")
        terminal.wait_for("A dot.", "▣ 1 GIF 1 KB")
        terminal.press("C-c", "C-c")
        assert terminal.exit_code() == 0
        assert terminal.is_sane()
    first, second = server.requests
    assert pictures_in(first) == [("image/png", PIXEL)]
    assert "what is it" in json.dumps(first.body["messages"][-1])
    assert pictures_in(second) == [("image/gif", DOT)]
