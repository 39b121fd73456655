"""Whether a command line runs git, and whether it runs anything else that changes files."""

import posixpath
import re
from collections.abc import Sequence
from enum import StrEnum

from rookery.core.command_lines import Deed, Judgement

_SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin")
_GIT = frozenset({"git", *(f"{folder}/git" for folder in _SYSTEM)})
_HARMLESS = frozenset({":", "cd", "echo", "true", "false", "printf", "exit", "test", "["})
_MOVERS = frozenset(
    {"mv", "cp", "rm", "rmdir", "mkdir", "touch", "ln", "install", "rsync", "tar", "unzip", "cpio"}
)


_KEEPING = frozenset({"add", "commit", "restore", "rm", "mv", "apply", "update-index"})
"""Sub-commands that never take a reference away."""
_LEADS_ELSEWHERE = re.compile(r"--(?:exec-path|config|config-env|template)(?:=|$)")
"""Words by which git runs other programs than its own, or obeys other settings."""


class GitUse(StrEnum):
    """What a command line has to do with git's own folder."""

    NONE = "none"
    """It does not run git, or only to read."""
    PART = "part"
    """It runs git, and other programs that may change files too."""
    ONLY = "only"
    """Git is the only one of its programs that may change files."""


def git_use(judged: Judgement | None) -> GitUse:
    commands = judged.commands if judged else ()
    if judged is None or not any(_is_git(said) and not _only_reads(said) for said in commands):
        return GitUse.NONE
    certain = not (judged.too_deep or judged.redefines or judged.redirects)
    alone = certain and all(
        _is_git_itself(said) or _name(said) in _HARMLESS or _only_reads(said) for said in commands
    )
    return GitUse.ONLY if alone else GitUse.PART


def keeps_references(judged: Judgement | None) -> bool:
    """Whether git has no part in it if a branch, a tag or a stash is gone afterwards."""
    changing = (said for said in judged.commands if _is_git(said)) if judged else ()
    return all(_only_reads(said) or _KEEPING.issuperset(said[1:2]) for said in changing)


def only_moves_files(judged: Judgement | None) -> bool:
    """Whether every program of the line is git, or one that copies, moves or unpacks files: then
    whoever approved it has seen what it does."""
    return (
        judged is not None
        and bool(judged.commands)
        and not (judged.too_deep or judged.redefines)
        and not any("--exec-path" in word for said in judged.commands for word in said)
        and all(
            _is_git(said) or _name(said) in _HARMLESS | _MOVERS or _only_reads(said)
            for said in judged.commands
        )
    )


def is_meant_to_read(judged: Judgement | None) -> bool:
    """Whether all its programs only read, by what is known of them. Git may still run programs
    that the folder names, so this allows nothing."""
    return (
        judged is not None
        and bool(judged.commands)
        and not judged.too_deep
        and all(target.deed is Deed.READ for target in judged.targets)
        and all(map(_only_reads, judged.commands))
    )


def _is_git(said: Sequence[str]) -> bool:
    """A program of that name in any other folder need not be git."""
    return bool(said) and said[0] in _GIT


def _is_git_itself(said: Sequence[str]) -> bool:
    """Whether git does it alone, hooks and filters aside: an unknown sub-command may be an alias,
    or any program of the folder."""
    from rookery.commands.git_changes import is_known

    if any(map(_LEADS_ELSEWHERE.match, said)):
        return False
    return _is_git(said) and (said[1:2] == () or said[1].startswith("-") or is_known(said[1]))


def _name(said: Sequence[str]) -> str:
    """Empty for a program that is named by another path than the system's."""
    from rookery.commands.wrappers import program_name

    folder = posixpath.dirname(said[0]) if said else ""
    return program_name(said[0]) if said and folder in ("", *_SYSTEM) else ""


def _only_reads(said: Sequence[str]) -> bool:
    # what is known of programs is much to load, and most tasks begin without a command
    from rookery.commands.programs import known_reader, reading
    from rookery.commands.words import words

    return known_reader(said) and reading(words(said)).reads_only
