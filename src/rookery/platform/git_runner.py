"""The one way in which the product runs git for itself: hardened, bounded and to its end.

A repository's configuration names programs under more than a dozen keys; `git_hardening` switches
them off. One kind is left: filters, and what shows or merges differences, have names of their own,
so they must be looked up and each be set to nothing, which `plain_runner` and the worktrees do.
`read_settings` leaves the user's settings in force, because to read settings runs nothing.
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
_VISITING_MODULES = ("diff", "status", "diff-index", "diff-files")
"""To know whether a submodule has changed, git runs in it, by settings that nobody has seen."""
_SHOWING_HISTORY = ("log", "show", "diff-tree", "whatchanged")
_TAKING_A_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")


def git_hardening(root: str = "") -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables, to be added once every other `GIT_*` is gone, and the options before the
    sub-command. `root` is a folder that is the user's whoever owns it; its repository is the
    only one, and git looks for none in other folders, be they inside it or above it.
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
    """The words of a git command with the options in place, and those of its sub-command."""
    at = sub_command(words)
    said = words[at] if at < len(words) else ""
    careful = ["--no-ext-diff"] if said in _DIFFING else []
    careful += ["--no-textconv"] if said in _CONVERTING else []
    careful += ["--ignore-submodules=all"] if said in _VISITING_MODULES else []
    if said in _SHOWING_HISTORY:
        careful += ["--ignore-submodules=dirty", "--submodule=short"]
    return (*words[:1], *options, *words[1 : at + 1], *careful, *words[at + 1 :])


def sub_command(words: Sequence[str]) -> int:
    """Where the sub-command stands; behind the end if there is none."""
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
