"""Restores the terminal if the program is killed and cannot do so itself.

A small shell waits at the other end of a pipe. If the pipe closes while the terminal is in the
program's modes, the shell restores it, but only if the modes are still the program's: the user's
shell may have set its own by then.
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
    def __init__(self, descriptor: int) -> None:
        self._watcher = _start_watcher(descriptor)

    def on(self, reset: str = "") -> None:
        """The program has set the terminal's modes; `reset` are the escapes that undo the rest."""
        self._send(f"on {_as_format(reset)}")

    def off(self) -> None:
        """The program has restored the terminal."""
        self._send("off")

    def _send(self, line: str) -> None:
        if self._watcher and self._watcher.stdin:
            with suppress(OSError, ValueError):  # the watcher was killed
                # not buffered: a signal handler may call this while it runs
                os.write(self._watcher.stdin.fileno(), f"{line}\n".encode())


@lru_cache(maxsize=4)
def guard_of(descriptor: int) -> TerminalGuard:
    """Get the guard of a terminal. Must be called before its modes are changed."""
    return TerminalGuard(descriptor)


def _start_watcher(descriptor: int) -> "subprocess.Popen[bytes] | None":
    """Start the watcher and wait until it has saved the modes; None if there is no shell."""
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
    """Escape a text for `printf` in a shell."""
    return text.replace("%", "%%").replace("\x1b", "\\033")
