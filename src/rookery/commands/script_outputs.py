"""What small programs write that are given to others as text: of awk, sed, sqlite3, vim, ssh."""

import re
from collections.abc import Callable, Iterator, Sequence

from rookery.commands.programs import Doing, Operand
from rookery.commands.sed_awk import awk_program, sed_script
from rookery.commands.words import Word, split
from rookery.core.command_lines import Deed

_MAYBE_WRITES = re.compile(r"(?:^|[;{}\s0-9$/!,I|#])[wW][ \t]+(\S+)", re.M)
_MAYBE_RUNS = re.compile(r"(?:^|[;{}\s0-9$/!,])e(?:[ \t]|$)", re.M)
_DOT_WRITES = re.compile(
    r"^\s*\.(?:output|once|backup|save|log|trace|clone|excel|archive)\s+['\"]?([^'\"|\s]+)", re.M
)
_DOT_RUNS = re.compile(r"^\s*\.(?:shell|system|import\s+['\"]?\||read\s+['\"]?\||load)", re.M)
_PIPED = re.compile(r"^\s*\.(?:output|once)\s+['\"]?\|", re.M)
_SQL_WRITES = re.compile(
    r"(?:writefile\s*\(|vacuum\s+into|attach(?:\s+database)?)\s*'([^']+)'", re.I
)
_PSQL_WRITES = re.compile(r"\\(?:o|w|g)\s+([^\s|]+)|\bcopy\b.*\bto\s+'([^']+)'", re.I | re.S)
_PSQL_RUNS = re.compile(r"\\!|\\(?:o|w|g)\s*\||\bprogram\b", re.I)
_SSH_RUNS = re.compile(r"(?:proxycommand|localcommand|knownhostscommand)\b", re.I)
_EX_HARMLESS = re.compile(r"\+?(?:[0-9]*|/.*|q!?|qa!?|set? \w+)")


def _written(paths: Sequence[str]) -> tuple[Operand, ...]:
    return tuple(Operand(Deed.WRITE, Word(path)) for path in paths if path)


def _awk(words: Sequence[Word]) -> Doing:
    said = split(words, "-F -v -f -e -i")
    given = [word.text for flag, word in said.values.items() if flag == "-v"]
    program = next(iter(said.operands), Word(""))
    pairs = [one.partition("=") for one in given]
    done = awk_program(program.text, {name: text for name, _, text in pairs})
    return Doing(operands=_written(done.writes))


def _sed(words: Sequence[Word]) -> Doing:
    paths, runs = list[str](), False
    for script in sed_scripts(words):
        read = sed_script(script)
        if read is None:
            paths += _MAYBE_WRITES.findall(script)
            runs = runs or bool(_MAYBE_RUNS.search(script))
        else:
            paths += read.writes
            runs = runs or bool(read.runs) or read.runs_lines
    return Doing(operands=_written(paths), grave=("the sed script runs commands",) if runs else ())


def sed_scripts(words: Sequence[Word]) -> list[str]:
    said = split(words, "-e -f -l --expression --file --line-length")
    given = [word.text for flag, word in _all_values(words, ("-e", "--expression")) if flag]
    return given or [word.text for word in said.operands[:1] if not said.value("-f", "--file")]


def _all_values(words: Sequence[Word], options: Sequence[str]) -> Iterator[tuple[str, Word]]:
    for place, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if re.fullmatch(r"-[nErsuz]*e", word.text) or (name in options and not equals):
            yield from ((name, one) for one in words[place + 1 : place + 2])
        elif equals and name in options:
            yield name, Word(value)


def _sqlite(words: Sequence[Word]) -> Doing:
    text = "\n".join(word.text for word in words)
    paths = [*_DOT_WRITES.findall(text), *_SQL_WRITES.findall(text)]
    runs = _DOT_RUNS.search(text) or _PIPED.search(text)
    database = [word for word in words if not word.text.startswith(("-", "."))][:1]
    stored = [word for word in database if not word.text.startswith(":") and " " not in word.text]
    return Doing(
        operands=(*_written(paths), *(Operand(Deed.WRITE, word) for word in stored)),
        grave=("sqlite3 runs another program",) if runs else (),
    )


def _psql(words: Sequence[Word]) -> Doing:
    text = "\n".join(word.text for word in words)
    paths = [one for pair in _PSQL_WRITES.findall(text) for one in pair]
    runs = _PSQL_RUNS.search(text)
    return Doing(operands=_written(paths), grave=("psql runs another program",) if runs else ())


def _ssh(words: Sequence[Word]) -> Doing:
    runs = any(_SSH_RUNS.search(word.text) for word in words)
    log = split(words, "-E -o -p -i -l -F -J -L -R -D").value("-E")
    return Doing(
        operands=(Operand(Deed.WRITE, log),) if log else (),
        grave=("ssh runs a program on this machine",) if runs else (),
    )


def _vim(words: Sequence[Word]) -> Doing:
    told = [word.text for word in words if word.text.startswith("+")]
    runs = any(not _EX_HARMLESS.fullmatch(text) for text in told)
    return Doing(grave=("the editor runs commands",) if runs else ())


SCRIPTED: dict[str, Callable[[Sequence[Word]], Doing]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("sqlite", "sqlite3"), _sqlite),
    "psql": _psql,
    **dict.fromkeys(("ssh", "scp", "sftp", "rsync", "autossh"), _ssh),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "gvim", "less", "more"), _vim),
}


def scripts_in_awk(words: Sequence[Word]) -> tuple[str, ...]:
    """What an awk program gives to a shell."""
    said = split(words, "-F -v -f -e -i")
    return awk_program(next(iter(said.operands), Word("")).text, {}).runs
