"""Our end of a command that runs under a warden: its output, its status and its control socket.

Nothing here waits. `sources` are the descriptors to wait for; `listen` and `read` take what is
available.

The command's environment is the user's own, without secrets and dangerous variables. A build needs
whatever its user has set for it, so this is a denylist. A command in the sandbox also loses the
variables that lead to agents and desktops, which could act for it outside.
"""

import os
import re
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import translate
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import ClassVar

from rookery.errors import ToolError
from rookery.first_use import lazy_pattern
from rookery.platform.wardens import Process, WaitingWarden, Wardens, end_orphans, process_state

READ_SIZE = 64 * 1024

_READ = {"x86_64": 0, "aarch64": 63}
_SELECT = {"x86_64": (23, 270), "aarch64": (72,)}
"""The numbers of the system calls by which a program waits for input."""


class GuardedProcess:
    """A command, its warden, and the pipe or terminal and the socket that connect us.

    `pid` is 0 until the command runs, `status` is None until it has ended. Once `gone`, the warden
    has ended, and before it all descendants of the command.
    """

    _released: ClassVar[list[Process]] = []
    _reaping: ClassVar[Lock] = Lock()

    def __init__(
        self,
        warden: WaitingWarden,
        argv: Sequence[str],
        *,
        grace: float,
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.pid = 0
        self.status: int | None = None
        self.failure = 0
        self.output_open = True
        self.gone = False
        self.kept = False
        self._buffer = b""
        self._reap_released()
        warden.order(argv, grace=grace, folder=folder, environment=environment)
        self.warden = warden.process.pid
        self._warden = warden.process
        self._link, self._output, self._terminal = warden.link, warden.output, warden.terminal
        self._both = _polling(self._link.fileno(), self._output)

    @property
    def sources(self) -> list[int]:
        return [self._link.fileno(), *([self._output] if self.output_open else [])]

    @property
    def watched(self) -> list[int]:
        """Like `sources`, but a single descriptor where the system can watch both by one."""
        return [self._both.fileno()] if self._both else self.sources

    def read(self) -> bytes:
        """The available output; empty if there is none or it was closed."""
        if not self.output_open:
            return b""
        try:
            data = os.read(self._output, READ_SIZE)
        except BlockingIOError:
            return b""
        except OSError:
            if not self._terminal:
                raise
            data = b""  # no process has the terminal open any more
        self.output_open = bool(data)
        if self._both and not data:
            self._both.unregister(self._output)
        return data

    @property
    def terminal(self) -> int:
        """Our end of its terminal, to wait for."""
        return self._output

    def write(self, data: bytes) -> int:
        """Type into its terminal; returns how many bytes were taken."""
        try:
            return os.write(self._output, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # no process has the terminal open any more

    def resize(self, rows: int, columns: int) -> None:
        import termios

        termios.tcsetwinsize(self._output, (rows, columns))

    def listen(self) -> None:
        """Process the warden's messages."""
        while not self.gone:
            try:
                data = self._link.recv(1024)
            except BlockingIOError:
                return
            except ConnectionResetError:  # killed before it had read everything
                data = b""
            self.gone = not data
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                self._on_message(line.decode())

    def _on_message(self, line: str) -> None:
        word, _, number = line.partition(" ")
        match word:
            case "started":
                self.pid = int(number)
            case "ended":
                self.status = int(number)
            case "failed":
                self.failure = int(number)
            case "kept":
                self.kept = True

    def waits_for_input(self) -> bool:
        return self._terminal and reads_terminal(self._output)

    def stop(self) -> None:
        """Ask the warden to end everything. Output may still follow and must be read."""
        self._send(b"end\n")

    def keep(self) -> None:
        """Ask the warden to let the command continue without us."""
        self._send(b"keep\n")

    def _send(self, line: bytes) -> None:
        with suppress(OSError):  # already gone
            self._link.send(line)

    def kill(self) -> None:
        """Kill a warden that does not respond. The shell dies with it."""
        self._warden.kill()
        self.gone = True

    def release(self) -> None:
        """Close our end of a process that is `kept`."""
        self._released.append(self._warden)
        self._close_files()

    def close(self) -> None:
        """Reap the warden and close all descriptors. Only for a process that is `gone`."""
        process = process_state(self.warden)
        killed = self._warden.wait() != 0
        WaitingWarden.pids.discard(self.warden)
        if killed and self.pid and self.status is None:
            with suppress(ProcessLookupError, PermissionError):  # its warden did not end it
                os.killpg(self.pid, signal.SIGKILL)
        if killed and process:
            end_orphans(process.began, WaitingWarden.pids)
        self._close_files()

    def _close_files(self) -> None:
        if self._both:
            self._both.close()
        self._link.close()
        os.close(self._output)

    @classmethod
    def _reap_released(cls) -> None:
        with cls._reaping:
            for warden in [each for each in cls._released if each.poll() is not None]:
                cls._released.remove(warden)
                WaitingWarden.pids.discard(warden.pid)


def _polling(*files: int) -> "select.epoll | None":
    """An epoll of these files; None where there is none."""
    if sys.platform != "linux":
        return None
    made = select.epoll(len(files))
    for file in files:
        made.register(file, select.EPOLLIN)
    return made


def start_guarded(
    wardens: Wardens,
    argv: Sequence[str],
    *,
    grace: float,
    folder: Path,
    environment: Mapping[str, str],
    terminal: bool = False,
) -> GuardedProcess:
    """Start a command. Raises `ToolError` with the system's reason if that fails."""
    try:
        return GuardedProcess(
            wardens.take(terminal=terminal),
            argv,
            grace=grace,
            folder=folder,
            environment=environment,
        )
    except OSError as error:
        raise not_started(error.errno) from error
    except ValueError as error:
        raise ToolError("The command has characters that cannot be passed to a shell.") from error


def not_started(number: int | None) -> ToolError:
    reason = os.strerror(number) if number else "the shell ended before it ran"
    return ToolError(f"The command could not be started: {reason}.")


def reads_terminal(terminal: int) -> bool:
    """Whether a foreground process of the terminal is reading from it; `terminal` is our end.

    False where the system cannot tell.
    """
    try:
        group = os.tcgetpgrp(terminal)
    except OSError:
        return False
    return any(_reads(process) for process in _members(group))


def _members(group: int) -> Iterator[Path]:
    for entry in Path("/proc").glob("[0-9]*"):
        process = process_state(int(entry.name))
        if process and process.group == group:
            yield entry


def _reads(process: Path) -> bool:
    machine = os.uname().machine
    try:
        number, *arguments = (process / "syscall").read_text(encoding="ascii").split()
        if number == "running" or not arguments:
            return False
        first = int(arguments[0], 16)
        if int(number) == _READ.get(machine):
            return _is_terminal(process, first)
        # `select` on the first descriptor alone
        return int(number) in _SELECT.get(machine, ()) and first == 1 and _is_terminal(process, 0)
    except OSError:
        return False  # ended, or another user's


def _is_terminal(process: Path, file: int) -> bool:
    name = os.readlink(process / "fd" / str(file))
    return name == "/dev/tty" or name.startswith("/dev/pts/")


SECRETS = (
    *("*_KEY", "*_KEY_ID", "*_KEY_BASE64", "*APIKEY*", "*_TOKEN", "*_TOKENS", "*TOKEN_FILE*"),
    *("*_PAT", "*SECRET*", "*_DSN", "*_PASS*", "*_PWD", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*"),
    *("*CREDENTIAL*", "*_AUTH", "*_COOKIE*", "TOKEN"),
)
"""Names of variables with keys. A command that needs one gets it from its own configuration."""

_SECRET_VALUES = lazy_pattern(
    r"://[^/@:\s]*:[^/@\s]+@"  # a URL with a password
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:sk|rk|pk)[-_](?:ant|or|proj|live|test)[-_]"
    r"|\b(?:gh[pousr]|github_pat|glpat|xox[abprs]|npm|pypi|hf)[-_][A-Za-z0-9_-]{16}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{30}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ"  # a signed token
)

CODE_INJECTING = (
    *("LD_*", "DYLD_*", "GIT_*", "PYTHON*", "PERL5*", "PERLLIB", "BASH_ENV", "BASH_FUNC_*"),
    *("BASHOPTS", "SHELLOPTS", "ENV", "IFS", "PS0", "PS4", "CDPATH", "GLOBIGNORE"),
    *("PROMPT_COMMAND", "NODE_OPTIONS", "NODE_REPL_EXTERNAL_MODULE", "RUBYOPT", "RUBYLIB"),
    *("LUA_INIT*", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "PAGER", "MANPAGER"),
    *("*_PAGER", "EDITOR", "VISUAL", "*_EDITOR", "BROWSER", "LESSOPEN", "LESSCLOSE", "*_ASKPASS"),
    *("GCONV_PATH", "OPENSSL_CONF", "RIPGREP_CONFIG_PATH"),
)
"""Variables that make programs run other code than they were told to."""

OWN = ("ROOKERY_*",)
"""Settings of rookery itself, which are not meant for commands."""

SERVICES = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "GNUPGHOME", "DBUS_*", "DISPLAY"),
    *("WAYLAND_*", "XAUTHORITY", "XDG_RUNTIME_DIR", "TMUX*", "STY", "VSCODE_*", "DOCKER_HOST"),
    *("CONTAINER_HOST", "KUBECONFIG"),
)
"""Variables that lead to services which act for the user outside the sandbox."""

UNATTENDED = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "CI": "1",
    "TERM": "dumb",
}
"""Commands are not interactive and must not wait for input."""


def command_environment(own: Mapping[str, str], *, confined: bool) -> dict[str, str]:
    passed_on = {
        name: value for name, value in own.items() if not _is_withheld(name, value, confined)
    }
    return passed_on | UNATTENDED


@lru_cache(maxsize=1024)
def _is_withheld(name: str, value: str, confined: bool) -> bool:
    return bool(_withheld(confined).match(name.upper()) or _SECRET_VALUES.search(value))


@cache
def _withheld(confined: bool) -> re.Pattern[str]:
    names = (*SECRETS, *CODE_INJECTING, *OWN, *(SERVICES if confined else ()))
    return re.compile("|".join(map(translate, names)))
