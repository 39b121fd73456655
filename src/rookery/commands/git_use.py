"""Whether a line runs git, whether it runs anything else that changes files, and what git prints.

A rule about reading must hold for what git shows. So a command counts as silent only if all of
its options are known to print no contents; any other may show every file that git has.
"""

import posixpath
import re
from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from rookery.commands.git_changes import is_known, without_settings
from rookery.commands.program_tables import git_table
from rookery.commands.programs import known_reader, reading
from rookery.commands.words import Word, words
from rookery.core.command_lines import Deed, GitShown, GitUse, Judgement, program_name

_PRINTING = frozenset(
    {"show", "diff", "cat-file", "diff-tree", "diff-index", "diff-files", "grep", "whatchanged"}
)
_PATCH = re.compile(
    r"-[A-Za-z0-9]*[pucmULW]|--(patch|unified|cc|function-c|word-diff|color-words|color-moved"
    r"|binary|diff-merges)"
)
_SUMMARY = re.compile(
    r"-s|--(stat|shortstat|numstat|name-only|name-status|no-patch|quiet|summary|dirstat|raw)\b"
)
_MAGIC = re.compile(r":|.*[*?\[\\$`]", re.S)
"""Paths by which git or the shell means others."""
_WIDER = frozenset({"--follow"})
"""Options that show other files than the paths name."""
_FILE_OF_COMMIT = re.compile(r"[\w.@/~^-]*:[\w.][^:]*")
_OF_OBJECTS = re.compile(r".*%\((raw|\*raw)", re.S)
_LOCAL_SOURCE = re.compile(r"(?!(https?|ssh|git)://|[\w.-]+@[\w.-]+:)")
_MESSAGE = re.compile(r"-[a-z]*m|--message")
_ATTACHED = frozenset("mpXSub")
"""Letters of options that may have a value attached."""
_SHOWING_PARTS = {
    ("stash", "show"),
    ("worktree", "add"),
    ("submodule", "foreach"),
    ("submodule", "add"),
    ("submodule", "summary"),
    ("bisect", "visualize"),
    ("bisect", "view"),
}
"""Parts of such commands that print or copy contents all the same."""
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
    if any(map(_LEADS_ELSEWHERE.match, said)):
        return False
    return _is_git(said) and (said[1:2] == () or said[1].startswith("-") or is_known(said[1]))


def _name(said: Sequence[str]) -> str:
    """Empty for a program that is named by another path than the system's."""
    folder = posixpath.dirname(said[0]) if said else ""
    return program_name(said[0]) if said and folder in ("", *_SYSTEM) else ""


def _only_reads(said: Sequence[str]) -> bool:
    return known_reader(said) and reading(words(said)).reads_only


def shown_by_git(command: Sequence[str]) -> GitShown:
    if not command or program_name(command[0]) != "git":
        return GitShown.NOTHING
    _, *said = (word.text for word in without_settings([Word(text) for text in command]))
    if not said or _is_silent(said[0], said[1:]):
        return GitShown.NOTHING
    if said[0] == "mv":
        return GitShown.NAMED  # under its new name no rule would hold for the file
    if not reading(words(["git", *said])).reads_only:
        return GitShown.ANYTHING
    return _shown_by_reader(said[0], said[1:])


def _shown_by_reader(name: str, options: Sequence[str]) -> GitShown:
    """Of a command that only reads, with options that are all known."""
    if any(map(_OF_OBJECTS.match, options)):
        return GitShown.ANYTHING
    if name == "stash" and options[:1] == ["show"]:
        return GitShown.NOTHING if _is_summary(options) else GitShown.ANYTHING
    if name == "status":
        return GitShown.NOTHING  # with -v it would show changes, which is not a known option
    patch = any(map(_PATCH.match, _before_paths(options)))
    if not patch and (name not in _PRINTING or _is_summary(options)):
        return GitShown.NOTHING
    if name not in _PRINTING and name not in {"log", "rev-list", "reflog"}:
        return GitShown.NOTHING
    if name in {"show", "cat-file"} and _names_files(options):
        return GitShown.NOTHING
    return GitShown.NAMED if _is_limited(options) else GitShown.ANYTHING


def _is_silent(name: str, options: Sequence[str]) -> bool:
    if name not in git_table().silent or (name, *options[:1]) in _SHOWING_PARTS:
        return False
    if name == "clone" and any(map(_LOCAL_SOURCE.match, _operands(options)[:1])):
        return False
    known = frozenset(git_table().silent[name].split())
    before = ""
    for word in _before_paths(options):
        if re.search(r"[$`]", word) and not _MESSAGE.match(before) and not _is_message(word):
            return False
        # `-F -` reads a message from the standard input
        stdin = word == "-" or word == "--file=-" or (word in {"-F", "--file"} and "-" in options)
        if word.startswith("-") and not stdin and not _is_known(word, known):
            return False
        before = word
    return True


def _is_message(word: str) -> bool:
    return bool(re.match(r"-[a-z]*m.|--message=", word))


def _is_known(option: str, known: frozenset[str]) -> bool:
    if option.startswith("--"):
        return option.partition("=")[0] in known
    for letter in option[1:]:
        if f"-{letter}" not in known:
            return False
        if letter in _ATTACHED:
            return True
    return True


def _is_summary(options: Sequence[str]) -> bool:
    return any(map(_SUMMARY.match, options)) and not any(map(_PATCH.match, options))


def _is_limited(options: Sequence[str]) -> bool:
    """Whether only paths are shown that the words name after `--`."""
    paths = options[list(options).index("--") + 1 :] if "--" in options else ()
    return bool(paths) and not any(map(_MAGIC.match, paths)) and not _WIDER.intersection(options)


def _names_files(options: Sequence[str]) -> bool:
    """`git show HEAD:file`: the words name each file."""
    objects = _operands(options)
    return bool(objects) and all(map(_FILE_OF_COMMIT.fullmatch, objects))


def _operands(options: Sequence[str]) -> list[str]:
    return [word for word in options if not word.startswith("-")]


def _before_paths(options: Sequence[str]) -> Sequence[str]:
    return options[: list(options).index("--")] if "--" in options else options
