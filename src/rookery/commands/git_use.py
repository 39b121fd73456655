"""Whether a command line runs git, and whether it runs anything else that changes files."""

import posixpath
import re
from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from rookery.core.command_lines import Deed, GitUse, Judgement, program_name

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

_Command: TypeAlias = tuple[Sequence[str], bool]
"""Its words, and whether it only reads."""


def with_git_use(judged: Judgement) -> Judgement:
    """The judgement, with what its commands have to do with git's own folder."""
    if not judged.commands:
        return judged
    commands = [(said, _only_reads(said)) for said in judged.commands]
    return replace(
        judged,
        git=_git_use(judged, commands),
        keeps_references=all(
            reads or _KEEPING.issuperset(said[1:2]) for said, reads in commands if _is_git(said)
        ),
        only_moves_files=_only_moves_files(judged, commands),
        meant_to_read=not judged.too_deep
        and all(target.deed is Deed.READ for target in judged.targets)
        and all(reads for _, reads in commands),
    )


def _git_use(judged: Judgement, commands: Sequence[_Command]) -> GitUse:
    if not any(_is_git(said) and not reads for said, reads in commands):
        return GitUse.NONE
    certain = not (judged.too_deep or judged.redefines or judged.redirects)
    alone = certain and all(
        reads or _is_git_itself(said) or _name(said) in _HARMLESS for said, reads in commands
    )
    return GitUse.ONLY if alone else GitUse.PART


def _only_moves_files(judged: Judgement, commands: Sequence[_Command]) -> bool:
    return (
        not (judged.too_deep or judged.redefines)
        and not any("--exec-path" in word for said, _ in commands for word in said)
        and all(
            reads or _is_git(said) or _name(said) in _HARMLESS | _MOVERS for said, reads in commands
        )
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
    folder = posixpath.dirname(said[0]) if said else ""
    return program_name(said[0]) if said and folder in ("", *_SYSTEM) else ""


def _only_reads(said: Sequence[str]) -> bool:
    # what is known of programs is much to load, and most tasks begin without a command
    from rookery.commands.programs import known_reader, reading
    from rookery.commands.words import words

    return known_reader(said) and reading(words(said)).reads_only
