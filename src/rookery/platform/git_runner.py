"""Runs git for rookery itself: hardened, and with a time limit.

A repository's configuration can name programs under more than a dozen keys; `git_hardening`
disables them. Filters, diff and merge drivers have names of their own, so they must be looked up
and disabled one by one, which `plain_runner` and the worktrees do. `read_settings` keeps the user's
settings, because reading settings runs nothing.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rookery.platform.own_programs import run_program

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

    `root` is a folder of the user's, whoever owns it; only its repository is used, and git looks
    for none in folders inside or above it.
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
    seconds: float = SECONDS,
) -> str:
    """The output of `git config`; empty if it fails. Raises `OSError`."""
    kept = without_git_variables() if environment is None else environment
    argv = (program, "config", *words)
    done = run_program(argv, cwd=folder, environment=kept, seconds=seconds)
    return done.out.decode("utf-8", "surrogateescape") if done.status == 0 else ""


def without_git_variables() -> dict[str, str]:
    """The environment without `GIT_*`: in a commit hook these lead git to another repository."""
    return {name: held for name, held in os.environ.items() if not name.startswith("GIT_")}
