"""How a command line uses git: what git changes, and which file contents it prints.

Read rules also apply to what git prints. A command counts as silent only if all of its options are
known to print no contents; any other may print every file in the repository.
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
from rookery.engine.ports.actions import Deed, GitShown, GitUse, Judgement, program_name
from rookery.first_use import lazy_pattern

_PRINTING = frozenset(
    {"show", "diff", "cat-file", "diff-tree", "diff-index", "diff-files", "grep", "whatchanged"}
)
_PATCH = lazy_pattern(
    r"-[A-Za-z0-9]*[pucmULW]|--(patch|unified|cc|function-c|word-diff|color-words|color-moved"
    r"|binary|diff-merges)"
)
_SUMMARY = lazy_pattern(
    r"-s|--(stat|shortstat|numstat|name-only|name-status|no-patch|quiet|summary|dirstat|raw)\b"
)
_MAGIC = lazy_pattern(r":|.*[*?\[\\$`]", re.S)
"""Paths that git or the shell expands to other paths."""
_WIDER = frozenset({"--follow"})
"""Options that show more files than the given paths."""
_FILE_OF_COMMIT = lazy_pattern(r"[\w.@/~^-]*:[\w.][^:]*")
_OF_OBJECTS = lazy_pattern(r".*%\((raw|\*raw)", re.S)
_LOCAL_SOURCE = lazy_pattern(r"(?!(https?|ssh|git)://|[\w.-]+@[\w.-]+:)")
_MESSAGE = lazy_pattern(r"-[a-z]*m|--message")
_ATTACHED = frozenset("mpXSub")
"""Short options that may have a value attached."""
_PRINTING_SUBCOMMANDS = {
    ("stash", "show"),
    ("worktree", "add"),
    ("submodule", "foreach"),
    ("submodule", "add"),
    ("submodule", "summary"),
    ("bisect", "visualize"),
    ("bisect", "view"),
}
"""Sub-commands of silent commands that print or copy contents."""
_SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin")
_GIT = frozenset({"git", *(f"{folder}/git" for folder in _SYSTEM)})
_HARMLESS = frozenset({":", "cd", "echo", "true", "false", "printf", "exit", "test", "["})
_MOVERS = frozenset(
    {"mv", "cp", "rm", "rmdir", "mkdir", "touch", "ln", "install", "rsync", "tar", "unzip", "cpio"}
)
_KEEP_REFS = frozenset({"add", "commit", "restore", "rm", "mv", "apply", "update-index"})
"""Sub-commands that never delete or move a reference."""
_RUNS_OTHER_PROGRAMS = lazy_pattern(r"--(?:exec-path|config|config-env|template)(?:=|$)")
"""Options that make git run other programs or use other settings."""
_Command: TypeAlias = tuple[Sequence[str], bool]
"""The words of a command, and whether it only reads."""


def with_git_use(judged: Judgement) -> Judgement:
    """Add to the judgement how its commands use git."""
    if not judged.commands:
        return judged
    commands = [(argv, _only_reads(argv)) for argv in judged.commands]
    return replace(
        judged,
        git=_git_use(judged, commands),
        keeps_references=all(
            reads or _KEEP_REFS.issuperset(argv[1:2]) for argv, reads in commands if _is_git(argv)
        ),
        only_moves_files=_only_moves_files(judged, commands),
        meant_to_read=not judged.too_deep
        and all(target.deed is Deed.READ for target in judged.targets)
        and all(reads for _, reads in commands),
    )


def _git_use(judged: Judgement, commands: Sequence[_Command]) -> GitUse:
    if not any(_is_git(argv) and not reads for argv, reads in commands):
        return GitUse.NONE
    certain = not (judged.too_deep or judged.redefines or judged.redirects)
    alone = certain and all(
        reads or _is_git_itself(argv) or _program(argv) in _HARMLESS for argv, reads in commands
    )
    return GitUse.ONLY if alone else GitUse.PART


def _only_moves_files(judged: Judgement, commands: Sequence[_Command]) -> bool:
    return (
        not (judged.too_deep or judged.redefines)
        and not any("--exec-path" in word for argv, _ in commands for word in argv)
        and all(
            reads or _is_git(argv) or _program(argv) in _HARMLESS | _MOVERS
            for argv, reads in commands
        )
    )


def _is_git(argv: Sequence[str]) -> bool:
    """Whether the program is git. A program called git in an unusual folder may be anything."""
    return bool(argv) and argv[0] in _GIT


def _is_git_itself(argv: Sequence[str]) -> bool:
    """Whether git does the work without other programs, apart from hooks and filters. An unknown
    sub-command may be an alias or any program called git-NAME."""
    if any(map(_RUNS_OTHER_PROGRAMS.match, argv)):
        return False
    return _is_git(argv) and (argv[1:2] == () or argv[1].startswith("-") or is_known(argv[1]))


def _program(argv: Sequence[str]) -> str:
    """The program's name; empty if it is given by a path outside the system folders."""
    folder = posixpath.dirname(argv[0]) if argv else ""
    return program_name(argv[0]) if argv and folder in ("", *_SYSTEM) else ""


def _only_reads(argv: Sequence[str]) -> bool:
    return known_reader(argv) and reading(words(argv)).reads_only


def shown_by_git(command: Sequence[str]) -> GitShown:
    if not command or program_name(command[0]) != "git":
        return GitShown.NOTHING
    _, *argv = (word.text for word in without_settings([Word(text) for text in command]))
    if not argv or _is_silent(argv[0], argv[1:]):
        return GitShown.NOTHING
    if argv[0] == "mv":
        return GitShown.NAMED  # read rules do not know the new name
    if not reading(words(["git", *argv])).reads_only:
        return GitShown.ANYTHING
    return _printed_by_reader(argv[0], argv[1:])


def _printed_by_reader(name: str, options: Sequence[str]) -> GitShown:
    """What a command prints that only reads and has only known options."""
    if any(map(_OF_OBJECTS.match, options)):
        return GitShown.ANYTHING
    if name == "stash" and options[:1] == ["show"]:
        return GitShown.NOTHING if _is_summary(options) else GitShown.ANYTHING
    if name == "status":
        return GitShown.NOTHING  # -v, which shows changes, is not a known option
    patch = any(map(_PATCH.match, _before_paths(options)))
    if not patch and (name not in _PRINTING or _is_summary(options)):
        return GitShown.NOTHING
    if name not in _PRINTING and name not in {"log", "rev-list", "reflog"}:
        return GitShown.NOTHING
    if name in {"show", "cat-file"} and _names_files(options):
        return GitShown.NOTHING
    return GitShown.NAMED if _is_limited(options) else GitShown.ANYTHING


def _is_silent(name: str, options: Sequence[str]) -> bool:
    if name not in git_table().silent or (name, *options[:1]) in _PRINTING_SUBCOMMANDS:
        return False
    if name == "clone" and any(map(_LOCAL_SOURCE.match, _operands(options)[:1])):
        return False
    known = frozenset(git_table().silent[name].split())
    before = ""
    for word in _before_paths(options):
        if re.search(r"[$`]", word) and not _MESSAGE.match(before) and not _is_message(word):
            return False
        # `-F -` reads a message from stdin
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
    """Whether the output is limited to paths that are given after `--`."""
    paths = options[list(options).index("--") + 1 :] if "--" in options else ()
    return bool(paths) and not any(map(_MAGIC.match, paths)) and not _WIDER.intersection(options)


def _names_files(options: Sequence[str]) -> bool:
    """Whether every operand is of the form `COMMIT:FILE`, as in `git show HEAD:file`."""
    objects = _operands(options)
    return bool(objects) and all(map(_FILE_OF_COMMIT.fullmatch, objects))


def _operands(options: Sequence[str]) -> list[str]:
    return [word for word in options if not word.startswith("-")]


def _before_paths(options: Sequence[str]) -> Sequence[str]:
    return options[: list(options).index("--")] if "--" in options else options
