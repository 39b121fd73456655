"""The one way in which the product runs git for itself: hardened, bounded and to its end.

`run_git` switches off everything that a repository's settings could make git run. `read_settings`
leaves the user's settings in force, because to read settings runs nothing.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rookery.platform.git.git_hardening import git_hardening, hardened
from rookery.platform.processes.own_programs import run_program

SECONDS = 60.0


class GitAnswer(Struct, frozen=True):
    status: int
    out: bytes
    errors: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.out)

    @property
    def names(self) -> list[str]:
        """Of an answer in which a NUL ends each."""
        return [os.fsdecode(name) for name in self.out.split(b"\0") if name]

    @property
    def last_error(self) -> str:
        """The last line that git wrote about its failure, or its status."""
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
    """Whatever the exit status is. `root` is what `git_hardening` takes it for. Raises `OSError`,
    `ProgramTimeout` among them."""
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
    seconds: float = SECONDS,
) -> str:
    """What `git config` prints; nothing if it fails. Raises `OSError`."""
    kept = without_git_variables() if environment is None else environment
    argv = (program, "config", *words)
    done = run_program(argv, cwd=folder, environment=kept, seconds=seconds)
    return done.out.decode("utf-8", "surrogateescape") if done.status == 0 else ""


def without_git_variables() -> dict[str, str]:
    """A commit hook is run with variables that lead git to a repository of its own choice."""
    return {name: held for name, held in os.environ.items() if not name.startswith("GIT_")}
