"""Runs the programs that rookery uses itself, which `user_folders` finds.

`run_program` runs one to its end, with limited output, and kills its process group after it.

Scripts that run before every command are run from their compiled form: compiling takes a tenth of
the time of a short command.

Git is run hardened. A repository's configuration can name programs under more than a dozen keys;
`git_hardening` disables them. Filters, diff and merge drivers have names of their own, so they must
be looked up and disabled one by one, which `plain_runner` and the worktrees do. `read_settings`
keeps the user's settings, because reading settings runs nothing.
"""

import errno
import os
import signal
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    import subprocess


MOST_OUTPUT = 1024 * 1024 * 1024
_CHUNK = 64 * 1024

_HEAD = 16
"""The bytes of a compiled script that say of which source it is made."""


def own_script(source: Path) -> str:
    """The compiled script if it is up to date and beside its source, where it is as well
    protected as the source; otherwise the source."""
    script = str(source)
    compiled = cache_from_source(script)
    if os.path.dirname(compiled) != os.path.join(os.path.dirname(script), "__pycache__"):
        return script
    try:
        found = os.stat(script)
        file = os.open(compiled, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return script
    try:
        head = os.read(file, _HEAD)
    finally:
        os.close(file)
    numbers = (0, int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)
    up_to_date = head == MAGIC_NUMBER + struct.pack("<III", *numbers)
    return compiled if up_to_date else script


class ProgramOutput(NamedTuple):
    status: int
    out: bytes
    errors: bytes


class ProgramTimeout(OSError):
    """The program took too long and was killed."""


def run_program(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    environment: Mapping[str, str],
    given: bytes = b"",
    seconds: float | None = None,
    most: int = MOST_OUTPUT,
) -> ProgramOutput:
    """Run a program to its end, with `given` as its input. After `seconds`, or if it writes more
    than `most` bytes, it is killed with its process group. Raises `OSError`."""
    import subprocess

    until = None if seconds is None else time.monotonic() + seconds
    # a group, not a session: `end_orphans` kills children with their own session
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environment,
        process_group=0,
    )
    with process:
        try:
            out, errors = _output(process, given, until, most)
            return ProgramOutput(process.wait(_remaining(until)), out, errors)
        except BaseException as error:
            _end_group(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramTimeout(errno.ETIMEDOUT, f"{argv[0]} took too long") from error
            raise


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with suppress(ChildProcessError):  # reap its orphans, which are our children now
        while True:
            os.waitpid(-process.pid, 0)


def _output(
    process: "subprocess.Popen[bytes]", given: bytes, until: float | None, most: int
) -> tuple[bytes, bytes]:
    import selectors

    assert process.stdin
    assert process.stdout
    assert process.stderr
    kept: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in (process.stdout, process.stderr)}
    os.set_blocking(process.stdin.fileno(), False)
    unwritten = memoryview(given)
    total = 0
    with selectors.DefaultSelector() as pipes:
        pipes.register(process.stdin, selectors.EVENT_WRITE)
        for pipe in kept:
            pipes.register(pipe, selectors.EVENT_READ)
        while pipes.get_map():
            ready = pipes.select(_remaining(until))
            if not ready and until is not None and time.monotonic() >= until:
                raise ProgramTimeout(errno.ETIMEDOUT, "the program took too long")
            for key, _ in ready:
                if key.fd not in kept:
                    unwritten = _write_input(key.fd, unwritten)
                    if not unwritten:
                        pipes.unregister(key.fileobj)
                        process.stdin.close()
                elif data := os.read(key.fd, _CHUNK):
                    kept[key.fd].append(data)
                    total += len(data)
                else:
                    pipes.unregister(key.fileobj)
            if total > most:
                raise OSError(errno.EFBIG, "the program wrote too much")
    out, errors = kept.values()
    return b"".join(out), b"".join(errors)


def _write_input(pipe: int, unwritten: memoryview) -> memoryview:
    """Write a part of the input; returns the rest, which is empty if the program has closed it."""
    try:
        return unwritten[os.write(pipe, unwritten[:_CHUNK]) :]
    except BlockingIOError:
        return unwritten
    except BrokenPipeError:
        return unwritten[:0]


def _remaining(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


NOTHING = "/dev/null"

_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={NOTHING}",
    "core.pager=cat",
    "core.editor=true",
    "core.sshCommand=false",
    f"core.attributesFile={NOTHING}",
    "core.untrackedCache=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "diff.submodule=short",
    "diff.ignoreSubmodules=all",
    "status.submoduleSummary=false",
    "gc.auto=0",
    "log.showSignature=false",
    "diff.external=",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
)
_DIFFING = ("diff", "log", "show", "diff-tree", "diff-index", "diff-files", "whatchanged")
_CONVERTING = (*_DIFFING, "blame", "annotate")
_ENTERING_MODULES = ("diff", "status", "diff-index", "diff-files")
"""Commands that run git in submodules, with the settings there, to see whether they changed."""
_SHOWING_HISTORY = ("log", "show", "diff-tree", "whatchanged")
_TAKING_A_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")


def git_hardening(root: str = "") -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables to set after removing all other `GIT_*`, and the options before the
    sub-command.

    `root` is the user's folder, even if another user owns it; only its repository is used, and git
    looks for none in folders inside or above it.
    """
    variables = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": NOTHING,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TEMPLATE_DIR": "",
        "GIT_ASKPASS": "",
        "GIT_PAGER": "cat",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
    }
    if root:
        variables["GIT_CEILING_DIRECTORIES"] = os.path.dirname(root)
    if root and os.path.lexists(git := os.path.join(root, ".git")):
        variables |= {"GIT_DIR": git, "GIT_WORK_TREE": root}
    settings = (*_SETTINGS, *([f"safe.directory={root}"] if root else []))
    return variables, ("--no-pager", *(word for each in settings for word in ("-c", each)))


def disabled_programs(keys: Sequence[str]) -> dict[str, str]:
    """Variables that clear the programs which git's settings name under these keys."""
    variables = {"GIT_CONFIG_COUNT": str(len(keys))}
    for at, key in enumerate(keys):
        variables[f"GIT_CONFIG_KEY_{at}"] = key
        variables[f"GIT_CONFIG_VALUE_{at}"] = "false" if key.endswith(".required") else ""
    return variables


def is_git(program: str) -> bool:
    return os.path.basename(program) == "git"


def hardened(words: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """Insert the options, and further ones for the sub-command, into a git command."""
    at = sub_command(words)
    name = words[at] if at < len(words) else ""
    careful = ["--no-ext-diff"] if name in _DIFFING else []
    careful += ["--no-textconv"] if name in _CONVERTING else []
    careful += ["--ignore-submodules=all"] if name in _ENTERING_MODULES else []
    if name in _SHOWING_HISTORY:
        careful += ["--ignore-submodules=dirty", "--submodule=short"]
    return (*words[:1], *options, *words[1 : at + 1], *careful, *words[at + 1 :])


def sub_command(words: Sequence[str]) -> int:
    """The position of the sub-command; past the end if there is none."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _TAKING_A_VALUE else 1
    return at


GIT_SECONDS = 60.0


class GitAnswer(Struct, frozen=True):
    status: int
    out: bytes
    errors: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.out)

    @property
    def names(self) -> list[str]:
        """The names in NUL-terminated output."""
        return [os.fsdecode(name) for name in self.out.split(b"\0") if name]

    @property
    def last_error(self) -> str:
        """The last line of git's error output, or its status."""
        lines = self.errors.strip().splitlines()
        return lines[-1] if lines else str(self.status)


def run_git(
    program: str,
    words: Sequence[str],
    *,
    folder: str | Path,
    root: str = "",
    variables: Mapping[str, str] | None = None,
    given: bytes = b"",
    seconds: float | None = None,
) -> GitAnswer:
    """Run git; any exit status is returned. `root` is passed to `git_hardening`. Raises
    `OSError`, including `ProgramTimeout`."""
    hardening, options = git_hardening(root)
    done = run_program(
        hardened((program, *words), options),
        cwd=folder,
        environment={**without_git_variables(), **hardening, **(variables or {})},
        given=given,
        seconds=seconds,
    )
    return GitAnswer(done.status, done.out, done.errors.decode("utf-8", "replace"))


def read_settings(
    program: str,
    words: Sequence[str],
    *,
    folder: str | Path,
    environment: Mapping[str, str] | None = None,
    seconds: float = GIT_SECONDS,
) -> str:
    """The output of `git config`; empty if it fails. Raises `OSError`."""
    kept = without_git_variables() if environment is None else environment
    argv = (program, "config", *words)
    done = run_program(argv, cwd=folder, environment=kept, seconds=seconds)
    return done.out.decode("utf-8", "surrogateescape") if done.status == 0 else ""


def without_git_variables() -> dict[str, str]:
    """The environment without `GIT_*`: in a commit hook these lead git to another repository."""
    return {name: held for name, held in os.environ.items() if not name.startswith("GIT_")}
