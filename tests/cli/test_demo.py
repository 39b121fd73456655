"""`rookery demo`: how it ends, and what it says to do next."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.terminal_session import COMMAND, CTRL_C, Installed

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


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


def advice(command: list[str], cwd: Path, environ: dict[str, str]) -> str:
    """What the demo says to do next."""
    done = subprocess.run(
        [*command, "demo"],
        cwd=cwd,
        env=environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.partition("To work with a real model:\n")[2]


def test_the_suggested_command_starts_rookery_as_the_user_did(rookery: Installed, tmp_path: Path):
    bin_folder = Path(COMMAND).parent
    elsewhere = {**rookery.environ, "PATH": "/usr/bin:/bin"}
    on_the_path = {**elsewhere, "PATH": f"{bin_folder}{os.pathsep}/usr/bin:/bin"}
    relative = f"{bin_folder.name}/rookery"
    ways = [
        ([COMMAND], tmp_path, on_the_path, "rookery"),
        ([COMMAND], bin_folder.parent, elsewhere, relative),
        ([sys.executable, "-m", "rookery"], tmp_path, elsewhere, f"{sys.executable} -m rookery"),
    ]
    if TORTURE:  # each takes a whole demo, and these go by the same rules
        ways += [
            ([COMMAND], tmp_path, elsewhere, COMMAND),
            ([relative], bin_folder.parent, elsewhere, relative),
        ]
    for command, cwd, environ, shown in ways:
        said = advice(command, cwd, environ)
        assert [line.strip().startswith(f"{shown} ") for line in said.splitlines()] == [True] * 3
        assert f"  {shown} auth anthropic " in said
