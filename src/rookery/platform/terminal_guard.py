"""Gives the terminal back when the program is killed and cannot do so itself.

A small shell waits beside the program, at the other end of a pipe. When the pipe closes while the
terminal is set for the program, the shell sets it back. It changes the modes only if they are
still those of the program: the user's shell may have set its own by then.
"""

import os
import subprocess
from contextlib import suppress
from functools import lru_cache

_SYSTEM_PATH = "/usr/bin:/bin"
_WATCH = """
trap '' INT QUIT TERM HUP TSTP TTIN TTOU PIPE
saved=$(stty -g <&2) || exit 0
echo ready
exec >/dev/null
ours= reset=
while read -r state escapes; do
  case $state in
    on) ours=$(stty -g <&2) reset=$escapes ;;
    off) ours= ;;
  esac
done
[ -n "$ours" ] || exit 0
printf "$reset" >&2
[ "$(stty -g <&2)" != "$ours" ] || stty "$saved" <&2
"""


class TerminalGuard:
    """Watches over one terminal."""

    def __init__(self, descriptor: int) -> None:
        self._watcher = _started(descriptor)

    def on(self, reset: str = "") -> None:
        """The terminal has the modes of the program now; `reset` undoes the rest."""
        self._tell(f"on {_as_format(reset)}")

    def off(self) -> None:
        """It is as it was before."""
        self._tell("off")

    def _tell(self, line: str) -> None:
        if self._watcher and self._watcher.stdin:
            with suppress(OSError, ValueError):  # the watcher was killed
                self._watcher.stdin.write(f"{line}\n".encode())
                self._watcher.stdin.flush()


@lru_cache(maxsize=4)
def guard_of(descriptor: int) -> TerminalGuard:
    """Ask before the modes of the terminal are changed."""
    return TerminalGuard(descriptor)


def _started(descriptor: int) -> "subprocess.Popen[bytes] | None":
    """The watcher, once it knows how the terminal is; None where there is no shell for it."""
    if not os.isatty(descriptor):
        return None
    path = f"{_SYSTEM_PATH}:{os.environ.get('PATH', '')}"
    try:
        watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=descriptor,
            cwd="/",
            env={"PATH": path},
        )
    except OSError:
        return None
    assert watcher.stdout
    ready = watcher.stdout.readline()
    watcher.stdout.close()
    return watcher if ready else None


def _as_format(text: str) -> str:
    """As `printf` in a shell takes it."""
    return text.replace("%", "%%").replace("\x1b", "\\033")
