"""The real command in a real terminal emulator.

    with TmuxSession(["rookery"], cwd=folder, environ=environ) as terminal:
        terminal.wait_for("What should I do?")
        terminal.press("C-c")

Every wait is for something that appears on the screen, or disappears.
"""

import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

PATIENCE = 60.0
MOMENT = 0.1


class TmuxSession:
    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        self._socket = f"rookery-{uuid.uuid4().hex}"
        self._command = command
        self._cwd = cwd
        self._environ = environ
        self._size = (columns, rows)

    def __enter__(self) -> Self:
        """Start the command; its last screen and its exit code stay visible after it has ended."""
        columns, rows = self._size
        given = [f"{name}={value}" for name, value in self._environ.items() if name != "TERM"]
        command = shlex.join(["env", "-i", "TERM=tmux-256color", *given, *self._command])
        script = f"stty > before; {command}; echo left with $?; stty > after; exec sleep 1000"
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "sh", "-c", script)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._socket, *arguments]
        done = subprocess.run(command, cwd=self._cwd, capture_output=True, check=True)
        return done.stdout.decode()

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names; anything else is typed."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def wait_for(self, *texts: str) -> str:
        """Wait until all texts are on the screen."""
        return self.wait_until(lambda screen: all(text in screen for text in texts), texts)

    def wait_until_gone(self, text: str) -> str:
        return self.wait_until(lambda screen: text not in screen, f"no {text}")

    def wait_until(self, holds: Callable[[str], bool], what: object) -> str:
        until = time.monotonic() + PATIENCE
        while not holds(screen := self.screen):
            assert time.monotonic() < until, f"{what!r} never came. The screen:\n{screen}"
            time.sleep(MOMENT)
        return screen

    def exit_code(self) -> int:
        screen = self.wait_for("left with ")
        return int(screen.partition("left with ")[2].split()[0])

    def is_sane(self) -> bool:
        """Whether modes, cursor and mouse of the terminal are as before."""
        self.exit_code()
        modes = "#{alternate_on}#{mouse_any_flag}#{cursor_flag}"
        before, after = (self._cwd / name for name in ("before", "after"))
        while not (after.exists() and after.read_text().endswith("\n")):
            time.sleep(MOMENT)
        return (
            before.read_text() == after.read_text()
            and self._tmux("display", "-p", modes).strip() == "001"
        )

    def wait_until_sane(self) -> None:
        """Wait until the terminal is as before, which may take a moment after a kill."""
        terminal = self._tmux("display", "-p", "#{pane_tty}").strip()
        flags = "#{alternate_on}#{mouse_any_flag}#{cursor_flag}#{keypad_flag}"
        before, until = (self._cwd / "before").read_text(), time.monotonic() + PATIENCE

        def modes() -> tuple[str, str]:
            found = subprocess.run(["stty", "-F", terminal], capture_output=True, text=True)
            return found.stdout, self._tmux("display", "-p", flags).strip()

        while modes() != (before, "0010"):
            assert time.monotonic() < until, f"The terminal is not as it was: {modes()}"
            time.sleep(MOMENT)

    @property
    def pid(self) -> int:
        """Process id of the command."""
        shell = self._tmux("display", "-p", "#{pane_pid}").strip()
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        return int(children[0])
