"""The full screen in a terminal emulator: what is seen, and what is left behind."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.governed_session import FILE, Governed, intents
from support.mcp_workspace import is_alive
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


def answer(terminal: TmuxSession, key: str) -> None:
    """Once the question takes keys, which is when it shows them."""
    terminal.wait_for(ASKED)
    terminal.press(key)


def test_a_task_from_its_first_word_to_the_next_one(project: Installed):
    with opened(project) as terminal:
        terminal.wait_for("What should I do?", "♜ rookery")
        terminal.type("fix")
        terminal.press("M-Enter")
        terminal.type("the discount")
        terminal.wait_for("› fix\n", "the discount")
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
        assert "To continue: rookery -c" in terminal.screen
        assert terminal.is_sane()
    (session,) = project.sessions()
    assert session["status"] == "completed"


def test_escape_stops_the_work_and_enter_goes_on(project: Installed):
    with opened(project, "-y", "wait", script=WAITING) as terminal:
        terminal.wait_for("sleep 300", "Running a command", "auto-approve")
        terminal.press("Escape")
        terminal.wait_for("Enter continues")
        terminal.press("/")
        terminal.wait_for("/new")
        terminal.press("Escape")
        terminal.wait_until_gone("/new")
        terminal.press("C-c", "C-c")
        assert terminal.exit_code() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=str)
def test_a_signal_leaves_the_terminal_as_it_was(project: Installed, number: signal.Signals):
    with opened(project, "-y", "wait", script=WAITING) as terminal:
        terminal.wait_for("Running a command")
        os.kill(terminal.pid, number)
        assert terminal.exit_code() == 128 + number
        assert terminal.is_sane()


@pytest.mark.parametrize(
    ("number", "client"),
    [
        (signal.SIGKILL, []),
        (signal.SIGSEGV, []),
        (signal.SIGQUIT, []),
        (signal.SIGKILL, ["--no-tui"]),
    ],
    ids=str,
)
def test_a_killed_program_gives_the_terminal_back(
    project: Installed, number: signal.Signals, client: list[str]
):
    with opened(project, *client, "fix it") as terminal:
        terminal.wait_for("Edit prices.py", "y")
        terminal.wait_for("Approve?" if client else ASKED)
        os.kill(terminal.pid, number)
        terminal.wait_until_sane()


def test_a_client_that_does_not_react_is_killed_by_the_third_signal_and_leaves_a_usable_terminal(
    project: Installed, tmp_path: Path
):
    folder = tmp_path / "stuck"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(STUCK)
    with opened(project, PYTHONPATH=str(folder)) as terminal:
        terminal.wait_for("What should I do?")
        terminal.type("x")
        terminal.wait_until(lambda _: (project.workspace / "stuck").exists(), "a stuck client")
        pid, until = terminal.pid, time.monotonic() + 30
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

Composer._note_beginning = stuck
"""


@pytest.mark.parametrize("client", [[], ["--no-tui"]], ids=["full screen", "line by line"])
def test_a_closed_terminal_ends_the_run(project: Installed, client: list[str]):
    with opened(project, *client, "fix it") as terminal:
        terminal.wait_for("Approve?" if client else ASKED)
        pid = terminal.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (pid, *map(int, children)):
        until = time.monotonic() + 30
        while is_alive(each):
            assert time.monotonic() < until, f"{each} still runs"
            time.sleep(0.05)


@pytest.mark.parametrize("pause", [0.0, 0.02], ids=["at once", "key by key"])
def test_what_is_typed_before_the_screen_is_there_is_kept_in_order(
    project: Installed, pause: float
):
    words = "keep all j and k blanks of this one"
    with opened(project) as terminal:
        for letter in [words] if not pause else words:
            terminal.type(letter)
            time.sleep(pause)
        terminal.wait_for(f"› {words}")


CRASH = """
from rookery.tui.status import StatusLine

def broken(self, doing):
    raise RuntimeError("it broke while drawing")

StatusLine.show = broken
"""


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    """Something that is wrong with the client itself."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(CRASH)
    return {"PYTHONPATH": str(folder)}


def test_a_crash_leaves_the_terminal_as_it_was_and_says_why(
    project: Installed, broken: dict[str, str]
):
    with opened(project, **broken) as terminal:
        assert terminal.exit_code() == 1
        assert "it broke while drawing" in terminal.screen
        assert terminal.is_sane()


def test_oneshot_leaves_when_the_task_is_done(project: Installed):
    with opened(project, "-y", "--oneshot", "go") as terminal:
        assert terminal.exit_code() == 0
        assert "It is in percent now." in terminal.screen
        assert terminal.is_sane()
    (session,) = project.sessions()
    assert session["status"] == "completed"


def test_a_session_goes_on_in_full(project: Installed):
    script = project.script(SCRIPT)
    assert project.run(*script, "-p", "-y", "fix the discount").returncode == 0
    with opened(project, "-c") as terminal:
        shown = terminal.wait_for("It is in percent now.", "What next? Or /new")
        assert "fix the discount" in shown
        terminal.type("/quit")
        terminal.press("Enter")
        assert terminal.exit_code() == 0


def test_a_task_that_is_open_in_another_terminal_is_told_of_and_ends_nothing(project: Installed):
    with opened(project, "-y", "wait", script=WAITING) as first:
        first.wait_for("Running a command")
        with opened(project, "-c") as second:
            assert second.exit_code() == 9
            assert "is open in process" in second.screen
            assert "broke down" not in second.screen
            assert "WorkerFailed" not in second.screen
            assert second.is_sane()
        with opened(project) as third:
            third.wait_for("What should I do?")
            third.press("F2")
            third.wait_for("Search", "wait")
            third.press("Enter")
            third.wait_for("is open in process")
            third.wait_for("What should I do?")


def test_ctrl_z_goes_to_the_shell_and_comes_back(project: Installed):
    with opened(project) as terminal:
        terminal.wait_for("What should I do?")
        state = Path(f"/proc/{terminal.pid}/stat")
        terminal.press("C-z")
        terminal.wait_until(lambda _: state.read_text().rpartition(")")[2].split()[0] == "T", "T")
        os.kill(int(state.parent.name), signal.SIGCONT)
        terminal.wait_for("What should I do?")
        terminal.type("/quit")
        terminal.press("Enter")
        assert terminal.exit_code() == 0


def test_without_textual_it_runs_line_by_line_and_says_so(project: Installed, tmp_path: Path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\nsys.modules['textual'] = None\n"
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'textual' else find(name, *rest)\n"
    )
    with opened(project, "go", PYTHONPATH=str(hidden)) as terminal:
        terminal.wait_for("Textual is not installed", "Approve?")


BEYOND = """
- calls: [{tool: write_to_file, arguments: {path: src/auth/new.py, content: "n = 1\\n"}}]
- calls: [{tool: write_to_file, arguments: {path: src/api/user.py, content: "a = 1\\n"}}]
- calls: [{tool: write_to_file, arguments: {path: src/web/page.py, content: "b = 1\\n"}}]
- calls: [{tool: write_to_file, arguments: {path: src/web/page.py, content: "b = 2\\n"}}]
- calls: [{tool: attempt_completion, arguments: {result: "It checks tokens now."}}]
"""
PROMISED = 'acceptance_criteria:\n  - "Somebody has read it."'


def test_an_intent_is_chosen_first_and_what_goes_beyond_it_is_asked(rookery: Installed):
    governed = Governed(rookery, intents(more=PROMISED))
    with opened(rookery, "-y", script=BEYOND) as terminal:
        terminal.wait_for("What should I do?")
        terminal.type("/intent")
        terminal.press("Enter")
        terminal.wait_for("▸ INT-001  JWT authentication migration  src/auth/**")
        terminal.press("Enter")
        terminal.wait_for("· INT-001")
        terminal.type("check the token")
        terminal.press("Enter")
        terminal.wait_for("! REQ-001 ", "✗ create src/api/user.py  out of scope", ": src/auth")
        answer(terminal, "e")
        terminal.wait_for("Add this to the scope of INT-001?", "src/api/user.py", "y add it")
        assert "src/api" not in governed.text(FILE)
        assert governed.text("src/auth/new.py") == "n = 1\n"
        terminal.press("y")
        terminal.wait_for("✗ create src/web/page.py  out of scope")
        assert "src/api/user.py" in governed.text(FILE)
        assert governed.text("src/api/user.py") == "a = 1\n"
        answer(terminal, "t")
        terminal.wait_for("Approve this for the rest of the task?", "y allow")
        terminal.press("y")
        terminal.wait_for("It checks tokens now.", "? A1 claimed, not checked: Somebody has read")
        assert governed.text("src/web/page.py") == "b = 2\n"
        terminal.press("C-c", "C-c")
        assert terminal.exit_code() == 0
