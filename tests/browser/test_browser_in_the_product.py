"""The browser in real runs: they end by themselves and leave nothing behind."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_server import LlmServer, Recorded, call, finish
from support.browser_site import Site
from support.processes import PATIENCE, command_line, descendants, is_alive
from support.terminal_session import Installed, at, processes_with
from support.warm_start import PipedProcess

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


@pytest.fixture
def left() -> Iterator[Path]:
    """The temporary folder of browsers, which appears in the arguments of all their processes.

    Socket paths must be short, so it is not below the test's folder.
    """
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
        assert os.listdir(name) == []
        assert [pid for pid in processes_with(name) if is_alive(pid)] == []


def received(request: Recorded) -> str:
    return json.dumps(request.body["messages"][-1]["content"])


def use_browser(rookery: Installed, program: str, more: str = "") -> None:
    settings = rookery.home / "config" / "settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f"[browser]\npath = {json.dumps(program)}\n{more}")


def test_an_approved_local_page_is_used_without_more_questions_and_closed(
    rookery: Installed, program: str, site: Site, left: Path
):
    use_browser(rookery, program)
    launch = call("browser_action", action="launch", url=f"{site.origin}/")
    click = call("browser_action", action="click", coordinate="140,40")
    with (
        LlmServer([launch], [click], [finish("Seen.")]) as server,
        rookery.terminal(*at(server), "click it", TMPDIR=str(left)) as terminal,
    ):
        terminal.wait_for("Approve?")
        terminal.type("y")
        shown = terminal.wait_for("Seen.")
        terminal.wait_for("[Enter accepts")
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "Approve?" not in shown
    assert "title: Welcome" in received(server.requests[1])
    assert "[error] bad luck" in received(server.requests[1])
    assert "[log] clicked" in received(server.requests[2])
    assert '"type": "image"' in received(server.requests[2])


def test_an_unknown_site_is_not_opened_in_an_automatic_run(rookery: Installed, left: Path):
    use_browser(rookery, "/bin/false")
    launch = call("browser_action", action="launch", url="https://evil.test/?data=1")
    with LlmServer([launch], [finish("Not seen.")]) as server:
        done = rookery.run("-p", "-y", *at(server), "look at it", TMPDIR=str(left))
    assert (done.returncode, done.stdout) == (0, "Not seen.\n"), done.stderr
    assert "evil.test is not a known host" in received(server.requests[1])


def test_without_network_no_remote_page_is_opened(rookery: Installed, left: Path):
    use_browser(rookery, "/bin/false", '[sandbox]\nnetwork = "off"\n')
    launch = call("browser_action", action="launch", url="http://example.com/")
    with LlmServer([launch], [finish()]) as server:
        rookery.run("-p", *at(server), "look at it", TMPDIR=str(left))
    assert "The network is turned off" in received(server.requests[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM] if TORTURE else [signal.SIGINT])
def test_a_signal_ends_the_product_while_a_browser_does_not_answer(
    rookery: Installed, program: str, site: Site, left: Path, number: signal.Signals
):
    """Neither a starting browser nor the driver that waits for it blocks the exit."""
    silent = rookery.workspace.parent / "silent"
    silent.write_text("#!/bin/sh\ntrap '' TERM\nsleep 600\nsleep 600\n")
    silent.chmod(0o755)
    use_browser(rookery, str(silent))
    launch = call("browser_action", action="launch", url=f"{site.origin}/")
    rookery.environ["TMPDIR"] = str(left)
    with (
        LlmServer([launch], [finish()]) as server,
        rookery.piped("-p", "-y", *at(server), "look at it") as product,
    ):
        try:
            pids = _wait_for_process(product, str(left))
            product.send_signal(number)
            assert product.wait(PATIENCE) != 0
        finally:
            product.kill()
            for stream in (product.stdin, product.stdout, product.stderr):
                assert stream is not None
                stream.close()
    assert [pid for pid in pids if is_alive(pid)] == []


def _wait_for_process(product: "subprocess.Popen[bytes] | PipedProcess", word: str) -> list[int]:
    """Wait for a child started with this word; return all processes of the run."""
    while not processes_with(word):
        assert product.poll() is None
        time.sleep(0.05)
    return [pid for pid in descendants(product.pid) if command_line(pid)]
