"""The full screen in a terminal emulator: its display, and the terminal after it."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.processes import is_alive
from support.terminal_session import COMMAND, Installed
from support.tmux_session import TmuxSession

SCRIPT = """
- say: "I will **fix** it.\\n\\n- 割引 first\\n"
  calls: [{tool: edit, arguments: {file_path: prices.py, old_string: "/ 10", new_string: "/ 100"}}]
- calls: [{tool: execute_command, arguments: {command: "rm -rf build && echo gone"}}]
- calls: [{tool: attempt_completion, arguments: {result: "It is in percent now."}}]
- say: "Renamed."
  calls: [{tool: attempt_completion, arguments: {result: "Renamed, too."}}]
"""
WAITING = """
- calls: [{tool: execute_command, arguments: {command: "sleep 300"}}]
- calls: [{tool: attempt_completion, arguments: {result: "Slept."}}]
"""
ASKED = "y yes   n no"


@pytest.fixture
def project(rookery: Installed) -> Installed:
    (rookery.workspace / "prices.py").write_text("def off(p, by):\n    return p * by / 10\n")
    (rookery.workspace / "build").mkdir()
    (rookery.workspace / "build" / "a.o").touch()
    return rookery


def opened(
    project: Installed, *arguments: str, script: str = SCRIPT, **environ: str
) -> TmuxSession:
    command = [COMMAND, *project.script(script), *arguments]
    given = {**project.environ, **environ}
    del given["NO_COLOR"]
    return TmuxSession(command, cwd=project.workspace, environ=given)


def changed_by(folder: Path, code: str) -> dict[str, str]:
    """What runs `code` before the client starts."""
    (folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": str(folder)}


def answer(terminal: TmuxSession, key: str) -> None:
    """Once the question takes keys, which is when it shows them."""
    terminal.wait_for(ASKED)
    terminal.press(key)


def test_a_task_runs_from_first_message_to_the_next(project: Installed):
    """Text typed before the screen opens is kept in order; Ctrl-Z goes to the shell."""
    with opened(project) as terminal:
        for letter in "fix j and k":
            terminal.type(letter)
        terminal.wait_for("› fix j and k", "♜ rookery")
        state = Path(f"/proc/{terminal.pid}/stat")
        terminal.press("C-z")
        terminal.wait_until(lambda _: state.read_text().rpartition(")")[2].split()[0] == "T", "T")
        os.kill(int(state.parent.name), signal.SIGCONT)
        terminal.press("M-Enter")
        terminal.type("the discount")
        terminal.wait_for("› fix j and k\n", "the discount")
        terminal.press("Enter")
        shown = terminal.wait_for("Edit prices.py?", "p * by / 100")
        assert "割引 first" in shown
        answer(terminal, "y")
        shown = terminal.wait_for("Run this command?", "rm -rf build", "deletes 1 file", "sandbox")
        assert (project.workspace / "prices.py").read_text().endswith("/ 100\n")
        answer(terminal, "r")
        terminal.type("keep it")
        terminal.press("Enter")
        terminal.wait_for("It is in percent now.", "What next? Or /new", "skipped", "keep it")
        assert (project.workspace / "build" / "a.o").exists()
        terminal.type("rename it")
        terminal.press("Enter")
        terminal.wait_for("Renamed, too.")
        terminal.press("C-c")
        terminal.wait_for("Ctrl+C again to exit")
        terminal.press("C-c")
        assert terminal.exit_code() == 0
        left = terminal.screen
        assert "Renamed, too.\n\nTo continue: rookery -c\n" in left
        assert terminal.is_sane()
    (session,) = project.sessions()
    assert session["status"] == "completed"
    assert f"Later: rookery --resume {session['id']}\n" in left
    with opened(project, "-c") as terminal:
        shown = terminal.wait_for("Renamed, too.", "What next? Or /new")
        assert "rename it" in shown
        terminal.type("/quit")
        terminal.press("Enter")
        assert terminal.exit_code() == 0


def test_escape_stops_a_task_that_a_second_terminal_cannot_open(project: Installed):
    """A signal then leaves the terminal as it was."""
    with opened(project, "-y", "wait", script=WAITING) as terminal:
        terminal.wait_for("sleep 300", "Running a command", "auto-approve")
        with opened(project, "-c") as second:
            assert second.exit_code() == 9
            assert "is open in process" in second.screen
            assert "broke down" not in second.screen
            assert "WorkerFailed" not in second.screen
            assert second.is_sane()
        terminal.press("Escape")
        terminal.wait_for("Enter continues")
        terminal.press("/")
        terminal.wait_for("/new")
        terminal.press("Escape")
        terminal.wait_until_gone("/new")
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.exit_code() == 128 + signal.SIGTERM
        assert terminal.is_sane()


@pytest.mark.parametrize("client", [[], ["--no-tui"]], ids=["full screen", "line by line"])
def test_a_killed_program_restores_the_terminal(project: Installed, client: list[str]):
    with opened(project, *client, "fix it") as terminal:
        terminal.wait_for("Edit prices.py", "y")
        terminal.wait_for("Approve?" if client else ASKED)
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.wait_until_sane()


def test_the_third_signal_kills_a_hung_client_and_restores_the_terminal(
    project: Installed, tmp_path: Path
):
    with opened(project, **changed_by(tmp_path, STUCK)) as terminal:
        terminal.wait_for("What should I do?")
        terminal.type("x")
        terminal.wait_until(lambda _: (project.workspace / "stuck").exists(), "a stuck client")
        pid, until = terminal.pid, time.monotonic() + 60
        while is_alive(pid):
            assert time.monotonic() < until, "It still runs"
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            time.sleep(0.05)
        terminal.wait_until_sane()


STUCK = """
import time
from contextlib import suppress
from pathlib import Path
from rookery.tui.composer import Composer

def stuck(self, event):
    Path("stuck").touch()
    while True:
        time.sleep(0.1)

Composer._note_start = stuck
"""


def test_a_closed_terminal_ends_the_run(project: Installed):
    with opened(project, "fix it") as terminal:
        terminal.wait_for(ASKED)
        pid = terminal.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (pid, *map(int, children)):
        until = time.monotonic() + 60
        while is_alive(each):
            assert time.monotonic() < until, f"{each} still runs"
            time.sleep(0.05)


CRASH = """
from rookery.tui.status_bars import StatusLine

def broken(self, doing):
    raise RuntimeError("it broke while drawing")

StatusLine.show = broken
"""


def test_a_crash_restores_the_terminal_and_prints_the_reason(project: Installed, tmp_path: Path):
    with opened(project, **changed_by(tmp_path, CRASH)) as terminal:
        assert terminal.exit_code() == 1
        assert "it broke while drawing" in terminal.screen
        assert terminal.is_sane()


HIDDEN = """
import sys
sys.modules['textual'] = None
import importlib.util as u
find = u.find_spec
u.find_spec = lambda name, *rest: None if name == 'textual' else find(name, *rest)
"""


def test_without_textual_the_line_interface_runs_with_a_note(project: Installed, tmp_path: Path):
    with opened(project, "go", **changed_by(tmp_path, HIDDEN)) as terminal:
        terminal.wait_for("Textual is not installed", "Approve?")
