"""Programs that run other programs, and what they run.

Wrappers are expanded so that a deny rule finds a command behind them. If a wrapper has unknown
options, the command may start at any word, so every suffix of the words is taken for a command.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from rookery.commands.git_changes import git_commands, git_folder, git_scripts
from rookery.commands.program_tables import Wrapper, effects
from rookery.commands.words import Script, Word, join_words
from rookery.engine.ports.actions import program_name
from rookery.first_use import lazy_pattern

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"})
MOST_SUFFIXES = 32
_ASSIGNMENT = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class Wrapped(Struct, frozen=True, kw_only=True):
    """What a wrapper runs: commands, or shell texts; and in which folder, if it says so.
    `elsewhere`: on another machine."""

    commands: tuple[tuple[Word, ...], ...] = ()
    scripts: tuple[Script, ...] = ()
    folder: Word | None = None
    elsewhere: bool = False


_ACTIONS = {"-delete", "-exec", "-execdir", "-ok", "-okdir", "-print", "-print0", "-printf", "-ls"}
_ACTIONS |= {"-fprint", "-fprint0", "-fprintf", "-fls"}
"""Actions that `find` performs at once, before it evaluates the tests that follow."""
_DESTROYERS = {"rm", "rmdir", "shred", "git", "find", "dd", "chmod", "chown", "mv", "truncate"}


def wrapped(words: Sequence[Word]) -> Wrapped | None:
    """Return what the command runs besides itself; None if it is not a wrapper."""
    if not words:
        return None
    if not words[0].known:
        return Wrapped(commands=tuple(_from_unknown(words)), scripts=_from_shell(words[1:]).scripts)
    name = program_name(words[0].text)
    if name in effects().loose_wrappers.split():
        return Wrapped(commands=_all_suffixes(words))
    if name in SHELLS:
        return _from_shell(words[1:])
    match name:
        case "find" | "gfind":
            return Wrapped(commands=tuple(_from_find(words, _starts(words[1:]))))
        case "fd" | "fdfind":
            return Wrapped(commands=tuple(_from_fd(words)))
        case "su" | "runuser" | "script":
            return Wrapped(scripts=tuple(_scripts_after_c(words)))
        case "flock" if scripts := tuple(_scripts_after_c(words)):
            inner = _from_wrapper(effects().wrappers[name], words)
            return Wrapped(commands=inner.commands, scripts=scripts)
        case "ssh":
            return Wrapped(scripts=tuple(_from_ssh(words[1:])), elsewhere=True)
        case "trap":
            texts = [word.script for word in words[1:] if not word.text.startswith("-")]
            return Wrapped(scripts=tuple(texts[:1]))
        case "mapfile" | "readarray" | "compgen" | "complete":
            return Wrapped(scripts=tuple(_callback_scripts(words)))
        case "git":
            scripts = tuple(git_scripts(words))
            commands = git_commands(words)
            return Wrapped(commands=commands, scripts=scripts, folder=git_folder(words))
        case "env" if any(word.text.startswith(("-S", "--split-string")) for word in words):
            return Wrapped(scripts=tuple(_split_string(words)), commands=_all_suffixes(words))
    wrapper = effects().wrappers.get(name)
    return _from_wrapper(wrapper, words) if wrapper else None


def assignment(word: Word) -> bool:
    return bool(_ASSIGNMENT.match(word.text))


def _from_wrapper(wrapper: Wrapper, words: Sequence[Word]) -> Wrapped:
    valued, plain = wrapper.valued.split(), wrapper.plain.split()
    rest = list(words[1:])
    folder = None
    skipped = wrapper.skipped
    while rest:
        text = rest[0].text
        if text == "--":
            rest.pop(0)
        elif text.startswith("-") and len(text) > 1:
            name, equals, _ = text.partition("=")
            if text in valued and len(rest) > 1:
                folder = rest[1] if text in {"-C", "--chdir", "-D"} else folder
                del rest[:2]
            elif equals and name in valued:
                folder = Word(text.partition("=")[2]) if name == "--chdir" else folder
                rest.pop(0)
            elif _takes_no_value(text, plain, valued):
                rest.pop(0)
            else:
                return Wrapped(commands=_all_suffixes(words), folder=folder)
        elif assignment(rest[0]) and program_name(words[0].text) in {"env", "sudo", "doas"}:
            rest.pop(0)
        elif skipped:
            skipped -= 1
            rest.pop(0)
        else:
            break
    return _run_by_wrapper(wrapper, rest, folder)


def _run_by_wrapper(wrapper: Wrapper, rest: list[Word], folder: Word | None) -> Wrapped:
    if not rest:
        return Wrapped(folder=folder)
    if wrapper.joins:
        return Wrapped(scripts=(join_words(rest),), folder=folder)
    if len(rest) == 1 and " " in rest[0].text:
        return Wrapped(commands=(tuple(rest),), scripts=(rest[0].script,), folder=folder)
    given = Word("(its arguments)", known=False, below="*")
    more = (given,) if wrapper.appends else ()
    return Wrapped(commands=((*rest, *more),), folder=folder)


def _takes_no_value(text: str, plain: Sequence[str], valued: Sequence[str]) -> bool:
    """Whether the option does not take the next word."""
    if text in plain or re.fullmatch(r"-[0-9]+", text):
        return True
    attached = any(text.startswith(flag) for flag in valued if len(flag) == 2)
    letters = not text.startswith("--") and all(f"-{letter}" in plain for letter in text[1:])
    return attached or letters


def _all_suffixes(words: Sequence[Word]) -> tuple[tuple[Word, ...], ...]:
    most = min(len(words), MOST_SUFFIXES)
    return tuple(tuple(words[place : place + MOST_SUFFIXES]) for place in range(1, most))


def _from_shell(arguments: Sequence[Word]) -> Wrapped:
    """`sh -c TEXT`, with the c anywhere in a cluster of letters. Script files are not read."""
    for place, word in enumerate(arguments):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word.text):
            rest = [one for one in arguments[place + 1 :] if not one.text.startswith(("-", "+"))]
            # the words after the text are inserted for $0, $1 and so on
            more = (one for one in rest[1:MOST_SUFFIXES] if " " in one.text)
            return Wrapped(scripts=tuple(one.script for one in (*rest[:1], *more)))
        if not word.known:
            # may be -c or a script file
            return Wrapped(scripts=tuple(one.script for one in arguments[place:][:MOST_SUFFIXES]))
    return Wrapped()


def _starts(words: Sequence[Word]) -> list[Word]:
    """The starting points of `find`; the files it passes on are there or below."""
    rest = [word for word in words if word.text not in {"-L", "-H", "-P"}]
    options = (place for place, word in enumerate(rest) if word.text[:1] in "-(!")
    below = only_name([word.text for word in rest]) or "*"
    starts = rest[: next(options, len(rest))] or [Word(".")]
    return [replace(start, below=below) for start in starts]


def only_name(texts: Sequence[str]) -> str:
    """The pattern that all names must match; empty if there is no single one."""
    if {"-o", "-or", "-not", "!", ",", "("} & set(texts) or texts.count("-name") != 1:
        return ""
    if _ACTIONS & set(texts[: texts.index("-name")]):
        return ""
    return "".join(texts[texts.index("-name") + 1 :][:1])


def _from_fd(words: Sequence[Word]) -> Iterator[tuple[Word, ...]]:
    """fd appends the found name if the command has no `{}`."""
    found = Word("{}", known=False, below="*")
    for command in _from_find(words, [found]):
        yield command if found in command else (*command, found)


def _from_find(words: Sequence[Word], found: Sequence[Word]) -> Iterator[tuple[Word, ...]]:
    starts = {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}
    place = 0
    while place < len(words):
        if words[place].text in starts or _abbreviates_exec(words[place].text):
            end = place + 1
            while end < len(words) and words[end].text not in {";", "+"}:
                end += 1
            command = words[place + 1 : end]
            for one in found:
                yield tuple(one if "{}" in word.text else word for word in command)
            place = end
        place += 1


def _abbreviates_exec(text: str) -> bool:
    return len(text) > 3 and "--exec-batch".startswith(text)


def _scripts_after_c(words: Sequence[Word]) -> Iterator[Script]:
    """The text after `-c`, which may end a cluster of letters or have the text attached."""
    for flag, word in pairwise(words):
        if re.fullmatch(r"-[A-Za-z]*c|--command", flag.text):
            yield word.script
    for script in (word.script for word in words):
        if attached := re.match(r"--command=|-[abd-zA-Z]*c(?=.*\s)", script.text):
            yield script.skip(attached.end())


def _callback_scripts(words: Sequence[Word]) -> Iterator[Script]:
    """The text after `-C`, or attached to it."""
    for place, word in enumerate(words):
        if attached := re.match(r"-\w*?C", word.script.text):
            yield word.script.skip(attached.end())
            yield from (one.script for one in words[place + 1 : place + 2])


def _from_unknown(words: Sequence[Word]) -> Iterator[tuple[Word, ...]]:
    """Commands that an unknown program may run: it may be a wrapper of a destructive command,
    or, by its options, `rm`."""
    rest = words[1 : MOST_SUFFIXES + 1]
    for place, word in enumerate(rest):
        if word.known and program_name(word.text) in _DESTROYERS:
            yield tuple(rest[place:])
    if any(re.fullmatch(r"-[fiv]*[rR][fiv]*|--recursive", word.text) for word in rest):
        yield (Word("rm"), *rest)


def _from_ssh(arguments: Sequence[Word]) -> Iterator[Script]:
    rest = list(arguments)
    while rest and rest[0].text.startswith("-"):
        takes_value = rest[0].text in {"-p", "-i", "-l", "-o", "-F", "-J", "-L", "-R", "-D"}
        del rest[: 2 if takes_value else 1]
    if len(rest) > 1:
        yield join_words(rest[1:])


def _split_string(words: Sequence[Word]) -> Iterator[Script]:
    for place, word in enumerate(words):
        if word.text in {"-S", "--split-string"} and place + 1 < len(words):
            yield join_words(words[place + 1 :])
        elif attached := re.match("-S|--split-string=", word.script.text):
            yield word.script.skip(attached.end())
