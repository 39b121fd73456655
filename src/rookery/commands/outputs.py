"""Options and operands that make programs write files or run other programs.

The results are added to what is known of a command; nothing here makes a command harmless.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from rookery.commands.git_changes import git_outputs
from rookery.commands.program_tables import OutputOptions, effects
from rookery.commands.programs import CommandEffect, Operand, known_reader
from rookery.commands.sed_awk import AwkProgram, awk_program, sed_script
from rookery.commands.words import Script, Word, abbreviates, split
from rookery.commands.wrappers import Wrapped
from rookery.engine.ports.actions import Deed, program_name
from rookery.first_use import lazy_pattern

_MAYBE_WRITES = lazy_pattern(r"(?:^|[;{}\s0-9$/!,I|#])[wW][ \t]+(\S+)", re.M)
_MAYBE_RUNS = lazy_pattern(r"(?:^|[;{}\s0-9$/!,])e(?:[ \t]|$)", re.M)
_DOT_WRITES = lazy_pattern(
    r"^\s*\.(?:output|once|backup|save|log|trace|clone|excel|archive)\s+['\"]?([^'\"|\s]+)", re.M
)
_DOT_RUNS = lazy_pattern(r"^\s*\.(?:shell|system|import\s+['\"]?\||read\s+['\"]?\||load)", re.M)
_PIPED = lazy_pattern(r"^\s*\.(?:output|once)\s+['\"]?\|", re.M)
_SQL_WRITES = lazy_pattern(
    r"(?:writefile\s*\(|vacuum\s+into|attach(?:\s+database)?)\s*'([^']+)'", re.I
)
_PSQL_WRITES = lazy_pattern(r"\\(?:o|w|g)\s+([^\s|]+)|\bcopy\b.*\bto\s+'([^']+)'", re.I | re.S)
_PSQL_RUNS = lazy_pattern(r"\\!|\\(?:o|w|g)\s*\||\bprogram\b", re.I)
_SSH_RUNS = lazy_pattern(r"(?:proxycommand|localcommand|knownhostscommand)\b", re.I)
_EX_HARMLESS = lazy_pattern(r"\+?(?:[0-9]*|/.*|q!?|qa!?|set? \w+)")
_ANY_OUTPUT = lazy_pattern(
    r"-o|--?(?:[\w]+[-_.])*(?:\w*out|out(?:put)?\w*|dest\w*|log-?file|junit-?xml|basetemp|target"
    r"|prefix|save|dump|write|export|report|results?|\w*profile|backup)(?:[-_.]\w+)*",
    re.I,
)
"""Options that name an output in most programs."""
_ELSEWHERE = lazy_pattern(r"[/~]|(?:.*/)?\.\.(?:/|$)")
_HARMLESS_PROGRAM = lazy_pattern(
    r"(?:ssh|gzip|gunzip|pigz|bzip2|pbzip2|xz|pixz|zstd|zstdmt|lz4|lzip|lzop|lzma|brotli|dot|echo"
    r"|bell|less|cat|more|never)(?: +-[A-Za-z0-9]+| +[0-9]+)*|\.[0-9]+|sleep=[0-9]+"
)
"""Programs that are commonly given to such options and are harmless."""


def _write_operands(paths: Sequence[str]) -> tuple[Operand, ...]:
    return tuple(Operand(Deed.WRITE, Word(path)) for path in paths if path)


def _awk_program(words: Sequence[Word]) -> AwkProgram:
    args = split(words, "-F -v -f -e -i")
    pairs = [word.text.partition("=") for flag, word in args.values.items() if flag == "-v"]
    program = next(iter(args.operands), Word(""))
    return awk_program(program.text, {name: text for name, _, text in pairs})


def _awk(words: Sequence[Word]) -> CommandEffect:
    return CommandEffect(operands=_write_operands(_awk_program(words).writes))


def _sed(words: Sequence[Word]) -> CommandEffect:
    paths, runs = list[str](), False
    for script in _sed_scripts(words):
        read = sed_script(script)
        if read is None:
            paths += _MAYBE_WRITES.findall(script)
            runs = runs or bool(_MAYBE_RUNS.search(script))
        else:
            paths += read.writes
            runs = runs or bool(read.runs) or read.runs_lines
    return CommandEffect(
        operands=_write_operands(paths), dangers=("the sed script runs commands",) if runs else ()
    )


def _sed_scripts(words: Sequence[Word]) -> list[str]:
    args = split(words, "-e -f -l --expression --file --line-length")
    given = [word.text for flag, word in _all_values(words, ("-e", "--expression")) if flag]
    return given or [word.text for word in args.operands[:1] if not args.value("-f", "--file")]


def _all_values(words: Sequence[Word], options: Sequence[str]) -> Iterator[tuple[str, Word]]:
    for place, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if re.fullmatch(r"-[nErsuz]*e", word.text) or (name in options and not equals):
            yield from ((name, one) for one in words[place + 1 : place + 2])
        elif equals and name in options:
            yield name, Word(value)


def _sqlite(words: Sequence[Word]) -> CommandEffect:
    text = "\n".join(word.text for word in words)
    paths = [*_DOT_WRITES.findall(text), *_SQL_WRITES.findall(text)]
    runs = _DOT_RUNS.search(text) or _PIPED.search(text)
    database = [word for word in words if not word.text.startswith(("-", "."))][:1]
    stored = [word for word in database if not word.text.startswith(":") and " " not in word.text]
    return CommandEffect(
        operands=(*_write_operands(paths), *(Operand(Deed.WRITE, word) for word in stored)),
        dangers=("sqlite3 runs another program",) if runs else (),
    )


def _psql(words: Sequence[Word]) -> CommandEffect:
    text = "\n".join(word.text for word in words)
    paths = [one for pair in _PSQL_WRITES.findall(text) for one in pair]
    runs = _PSQL_RUNS.search(text)
    return CommandEffect(
        operands=_write_operands(paths), dangers=("psql runs another program",) if runs else ()
    )


def _ssh(words: Sequence[Word]) -> CommandEffect:
    runs = any(_SSH_RUNS.search(word.text) for word in words)
    log = split(words, "-E -o -p -i -l -F -J -L -R -D").value("-E")
    return CommandEffect(
        operands=(Operand(Deed.WRITE, log),) if log else (),
        dangers=("ssh runs a program on this machine",) if runs else (),
    )


def _vim(words: Sequence[Word]) -> CommandEffect:
    commands = [word.text for word in words if word.text.startswith("+")]
    runs = any(not _EX_HARMLESS.fullmatch(text) for text in commands)
    return CommandEffect(dangers=("the editor runs commands",) if runs else ())


SCRIPTED: dict[str, Callable[[Sequence[Word]], CommandEffect]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("sqlite", "sqlite3"), _sqlite),
    "psql": _psql,
    **dict.fromkeys(("ssh", "scp", "sftp", "rsync", "autossh"), _ssh),
    **dict.fromkeys(("vim", "vi", "nvim", "view", "ex", "gvim", "less", "more"), _vim),
}


def outputs(words: Sequence[Word]) -> CommandEffect:
    """Return what the command's options and operands write, and the programs they run."""
    name = _name(words)
    if name == "git":
        return git_outputs(words)
    table = _options(name)
    scripted = SCRIPTED[name](words[1:]) if name in SCRIPTED else CommandEffect()
    written = [
        *_values(words[1:], table.writes.split()),
        *_written_operands(table, words[1:]),
        *_copy_target(words),
        *_created_paths(name, words),
        *(() if known_reader([word.text for word in words]) else _outside_values(words[1:])),
    ]
    runs = [word for word in _values(words[1:], table.runs.split()) if not _is_harmless(word)]
    return CommandEffect(
        operands=(*_operands(written), *scripted.operands),
        dangers=(
            *(f"{name} runs another program: {word.text[:60]}" for word in runs),
            *scripted.dangers,
            *_outside_dangers(name, words),
        ),
    )


def together(known: CommandEffect, more: CommandEffect) -> CommandEffect:
    """Merge the effects of a command with those of its options."""
    return replace(
        known, operands=(*known.operands, *more.operands), dangers=(*known.dangers, *more.dangers)
    )


def with_scripts(inner: Wrapped | None, words: Sequence[Word]) -> Wrapped | None:
    """Add the shell texts in the command's options to what it runs."""
    scripts = tuple(_scripts(words)) if words else ()
    if not scripts:
        return inner
    known = inner or Wrapped()
    return replace(known, scripts=(*known.scripts, *scripts))


def _scripts(words: Sequence[Word]) -> Iterator[Script]:
    name = _name(words)
    for word in _values(words[1:], _options(name).runs.split()):
        yield Script(word.text.removeprefix("exec="), word.known, word.text)
    if SCRIPTED.get(name) is _awk:
        yield from map(Script, _awk_program(words[1:]).runs)


def _name(words: Sequence[Word]) -> str:
    name = program_name(words[0].text) if words else ""
    known = name in effects().outputs or name in SCRIPTED
    return name if known else re.sub(r"(?<=[a-z+])-?[0-9.]+$", "", name)


def _options(name: str) -> OutputOptions:
    return effects().outputs.get(name, OutputOptions())


def _is_harmless(word: Word) -> bool:
    return word.known and bool(_HARMLESS_PROGRAM.fullmatch(word.text))


def _operands(written: Sequence[Word]) -> Iterator[Operand]:
    for word in written:
        if word.text not in {"", "-"}:
            yield Operand(Deed.WRITE, word)


def _values(words: Sequence[Word], options: Sequence[str]) -> Iterator[Word]:
    """The values of the options, separate or attached. May yield a word that is not a value."""
    for place, word in enumerate(words):
        if word.text == "--":
            return
        following = words[place + 1] if place + 1 < len(words) else None
        for option in options:
            if (found := _value(word, option, following)) is not None:
                yield found
                break


def _value(word: Word, option: str, following: Word | None) -> Word | None:
    name, equals, value = word.text.partition("=")
    long = option.startswith("--")
    if name == option or (long and abbreviates(name, option)):
        return _value_word(word, value) if equals else following
    if long or len(option) > 2 or word.text.startswith("--") or word.text[:1] != "-":
        return None
    if word.text.startswith(option):
        return _value_word(word, word.text[2:])
    letters, found, rest = word.text[1:].partition(option[1])
    if not found or not letters.isalpha():
        return None
    if not rest:
        return following
    return _value_word(word, rest) if _ELSEWHERE.match(rest) else None


def _value_word(word: Word, text: str) -> Word:
    return Word(text, known=word.known)


def _outside_values(words: Sequence[Word]) -> Iterator[Word]:
    """Values of output options that lead outside the current folder, for any program."""
    for place, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if word.text[:2] == "-o" and _ELSEWHERE.match(word.text[2:]):
            yield _value_word(word, word.text[2:])
        elif _ANY_OUTPUT.fullmatch(name) and not re.match("-[A-Z]", name):
            following = words[place + 1] if place + 1 < len(words) else None
            found = _value_word(word, value) if equals else following
            if found is not None and _ELSEWHERE.match(found.text.partition(":")[0]):
                yield found


def _written_operands(table: OutputOptions, words: Sequence[Word]) -> Sequence[Word]:
    if not table.operands:
        return ()
    plain = split(words, f"{table.writes} {table.runs}").operands
    match table.operands:
        case "first":
            return plain[:1]
        case "second":
            return plain[1:2]
        case "last":
            return plain[-1:] if len(plain) > 1 else ()
    return plain


def _copy_target(words: Sequence[Word]) -> Sequence[Word]:
    """The local target of a remote copy (`docker cp` and similar); remote paths contain a colon."""
    plain = [word for word in words if not word.text.startswith("-")]
    args = tuple(word.text for word in plain[:3])
    if not {" ".join(args[:2]), " ".join(args)}.intersection(effects().copiers):
        return ()
    return [word for word in plain[-1:] if ":" not in word.text]


def _created_paths(name: str, words: Sequence[Word]) -> Sequence[Word]:
    texts = [word.text for word in words]
    if name == "python" and texts[1:3] == ["-m", "venv"]:
        return [word for word in words[3:] if not word.text.startswith("-")]
    if name == "install" and {"-d", "--directory"} & set(texts):
        return split(words[1:], "-m -o -g --mode --owner --group").operands
    if (name, "-i") in {(name, text) for text in texts} and name in {"ruby", "yq"}:
        return split(words[1:], "-e -pe -ne").operands[-1:]
    if name == "gawk" and "inplace" in texts:
        return split(words[1:], "-F -v -f -i").operands[1:]
    if name == "file" and {"-C", "--compile"} & set(texts):
        return list(_values(words[1:], ["-m", "--magic-file"]))
    return ()


def _outside_dangers(name: str, words: Sequence[Word]) -> Iterator[str]:
    texts = [word.text for word in words[1:]]
    changes = {"install", "i", "add", "link", "uninstall", "remove", "rm", "update", "up", "un"}
    everywhere = {"-g", "--global", "--location=global"} & set(texts) or texts[:1] == ["global"]
    if name in {"npm", "pnpm", "yarn", "bun"} and everywhere and changes & set(texts):
        yield f"{name} changes programs outside the workspace"
    if name in {"tar", "bsdtar"} and _keeps_absolute_names(texts):
        yield f"{name} -P writes wherever the archive says"
    if name == "crontab" and not {"-l", "-r"} & set(texts):
        yield "crontab changes scheduled commands"


def _keeps_absolute_names(texts: Sequence[str]) -> bool:
    args = split([Word(text) for text in texts], "-f -C -T -X --file --directory")
    letters = texts[0] if texts and texts[0].isalpha() else ""
    extracts = "x" in letters or args.letter("x") or args.has("--extract", "--get")
    return extracts and ("P" in letters or args.letter("P") or args.has("--absolute-names"))
