"""`rookery demo`: how it ends, and what it says to do next."""

import signal
import sys
from pathlib import Path

import pytest

from rookery.cli import demo
from support.terminal_session import COMMAND, CTRL_C, Installed


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    (tmp_path / "installed").mkdir()
    return Installed(tmp_path / "installed")


def test_ctrl_c_stops_the_demo_without_a_test_summary(rookery: Installed, tmp_path: Path):
    with rookery.terminal("demo", TMPDIR=str(tmp_path)) as terminal:
        terminal.wait_for("I will look")
        terminal.press(CTRL_C)
        terminal.wait_for("\nStopped. The repository was removed.\n")
        assert terminal.exit_code() == 130
    assert "The tests" not in terminal.screen.partition("Stopped.")[2]
    assert not list(tmp_path.glob("rookery-demo-*"))


def test_a_stopped_demo_names_the_repository_it_keeps(rookery: Installed, tmp_path: Path):
    with rookery.terminal("demo", "--keep", TMPDIR=str(tmp_path), columns=250) as terminal:
        terminal.wait_for("I will look")
        terminal.signal(signal.SIGTERM)
        terminal.wait_for(f"\nStopped. The repository is kept in {tmp_path.resolve()}/rookery-demo")
        assert terminal.exit_code() == 143


IN_BIN = f"{Path(COMMAND).parent.name}/rookery"


@pytest.mark.parametrize(
    ("program", "folder", "on_path", "shown"),
    [
        (COMMAND, "/usr", True, "rookery"),
        (COMMAND, "/usr", False, COMMAND),
        (COMMAND, str(Path(COMMAND).parents[1]), False, IN_BIN),
        (IN_BIN, str(Path(COMMAND).parents[1]), False, IN_BIN),
        ("/lib/rookery/__main__.py", "/usr", False, f"{sys.executable} -m rookery"),
    ],
    ids=["on the path", "absolute", "below the folder", "relative", "module"],
)
def test_the_suggested_command_starts_rookery_as_the_user_did(
    monkeypatch: pytest.MonkeyPatch, program: str, folder: str, on_path: bool, shown: str
):
    monkeypatch.setattr(sys, "argv", [program, "demo"])
    monkeypatch.setenv("PATH", str(Path(COMMAND).parent) if on_path else "/nowhere")
    monkeypatch.chdir(folder)
    assert demo._command_as_run() == shown
