"""`rookery --provider local`: a model file answers, and no process is left behind."""

import os
import signal
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.terminal_session import COMMAND, Installed, TerminalSession
from support.tiny_model import SENTENCE, tiny_model

PATIENCE = 60.0
pytestmark = pytest.mark.skipif(
    find_spec("xllamacpp") is None, reason="the package xllamacpp is not installed"
)


def servers_of(rookery: Installed) -> list[int]:
    """The processes that run a model for this home."""
    mark = f"HOME={rookery.environ['HOME']}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environ = ((process / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue  # ended meanwhile
        if b"local_server.py" in command and mark in environ.split(b"\0"):
            found.append(int(process.name))
    return found


def test_a_question_is_answered_by_a_file(tmp_path: Path):
    rookery = Installed(tmp_path)
    file = tiny_model(tmp_path / "tiny.gguf")
    done = rookery.run("-p", "--provider", "local", "-m", str(file), "Say hello.")
    assert (done.returncode, done.stdout) == (0, f"{SENTENCE}\n"), done.stderr
    assert servers_of(rookery) == []


def test_a_bad_file_ends_the_run_with_one_sentence(tmp_path: Path):
    rookery = Installed(tmp_path)
    file = tiny_model(tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes()[:-4096])
    done = rookery.run("-p", "--provider", "local", "-m", str(file), "Say hello.")
    assert done.returncode == 1
    assert "tiny.gguf could not be loaded: " in done.stderr
    assert servers_of(rookery) == []


def test_without_a_name_the_found_files_are_listed(tmp_path: Path):
    rookery = Installed(tmp_path)
    models = tmp_path / "decoy/.lmstudio/models"
    models.mkdir(parents=True)
    tiny_model(models / "tiny-3b.gguf")
    done = rookery.run("-p", "--provider", "local", "Say hello.")
    assert done.returncode == 2
    assert "Found on this machine: tiny-3b (1 MiB)." in done.stderr
    done = rookery.run("-p", "Say hello.")
    assert "there is a model file from LM Studio. Use it with:" in done.stderr
    assert 'rookery --provider local -m tiny-3b "your task"' in done.stderr
    done = rookery.run("-p", "--provider", "local", "-m", "tiny-3b", "Say hello.")
    assert (done.returncode, done.stdout) == (0, f"{SENTENCE}\n"), done.stderr


def test_a_killed_run_leaves_no_process(tmp_path: Path):
    rookery = Installed(tmp_path)
    file = tiny_model(tmp_path / "tiny.gguf")
    words = [COMMAND, "--no-tui", "--provider", "local", "-m", str(file), "Say hello."]
    with TerminalSession(words, cwd=rookery.workspace, environ=rookery.environ) as terminal:
        terminal.wait_for(SENTENCE)
        (server,) = servers_of(rookery)
        os.kill(terminal.process.pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while server in servers_of(rookery):
            assert time.monotonic() < deadline, "It still runs."
            os.sched_yield()
