"""Files that known programs write or delete.

The option lists are incomplete on purpose: commands that change files need approval anyway. The
result is what the approval question shows, and which operands are dangerous.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rookery.commands.git_changes import git_changes
from rookery.commands.program_tables import Changer, effects, network_programs
from rookery.commands.programs import CommandEffect, Operand
from rookery.commands.words import Split, Word, split
from rookery.commands.wrappers import only_name
from rookery.engine.ports.actions import Deed, program_name
from rookery.first_use import lazy_pattern

_HERE = Word(".")
_RECURSIVE = {"-r", "-R"}
_TEST = lazy_pattern(r"-(i?name|i?path|i?regex|type|[acm](time|min)|size|empty|newer)")
_FIND_OUTPUTS = {"-fprint", "-fprint0", "-fls", "-fprintf"}
_COMPRESSORS = "gzip gunzip pigz bzip2 bunzip2 xz unxz lzma zstd unzstd compress uncompress"
_SQL_CLIENTS = {"psql", "mysql", "mariadb", "sqlite3", "clickhouse-client", "cqlsh", "duckdb"}
_DESTROYING_SQL = lazy_pattern(r"\b(drop\s+(database|schema|table)|truncate\s+(table\s+)?\w)", re.I)


def _operands(deed: Deed, words: Sequence[Word], *, deep: bool = False) -> tuple[Operand, ...]:
    return tuple(Operand(deed, word, deep=deep) for word in words)


def _names(sources: Sequence[Word]) -> tuple[str, ...]:
    return tuple(word.text.rstrip("/").rpartition("/")[2] for word in sources)


def _is_deep(args: Split) -> bool:
    return bool(args.flags & _RECURSIVE) or args.has("--recursive")


def _change_each(row: Changer, words: Sequence[Word]) -> CommandEffect:
    args = split(words, row.valued)
    deep = row.deep and _is_deep(args)
    why_not = "it has unknown options" if row.deed is Deed.READ else ""
    operands = _operands(row.deed, args.operands[row.skipped :], deep=deep)
    return CommandEffect(operands=operands, why_not=why_not)


def _mode(words: Sequence[Word]) -> CommandEffect:
    """chmod, chown, chgrp: the first operand is not a path unless --reference is given."""
    args = split(words, "--reference --from")
    paths = args.operands if "--reference" in args.values else args.operands[1:]
    if words and not args.operands[:1]:
        paths = ()
    deep = _is_deep(args)
    rights = deep or not re.match(r"[ugoa]*\+", args.operands[0].text if args.operands else "")
    return CommandEffect(
        operands=tuple(Operand(Deed.WRITE, one, deep=deep, rights=rights) for one in paths)
    )


def _copier(source: Deed) -> Callable[[Sequence[Word]], CommandEffect]:
    def copy(words: Sequence[Word]) -> CommandEffect:
        args = split(words, "-t -S -m -o -g --target-directory --suffix --mode --owner --group")
        sources, to = list(args.operands), args.value("-t", "--target-directory")
        if to is None and len(sources) > 1:
            to = sources.pop()
        copies_all = "-a" in args.flags or args.has("--archive")
        deep = _is_deep(args) or copies_all or source is Deed.DELETE
        written = [Operand(Deed.WRITE, to, names=_names(sources))] if to else []
        return CommandEffect(operands=(*_operands(source, sources, deep=deep), *written))

    return copy


def _ln(words: Sequence[Word]) -> CommandEffect:
    args = split(words, "-t -S --target-directory --suffix")
    to = args.value("-t", "--target-directory")
    if to is None:
        to = args.operands[-1] if len(args.operands) > 1 else _HERE
    return CommandEffect(operands=(Operand(Deed.WRITE, to, names=_names(args.operands[:1])),))


def _rsync(words: Sequence[Word]) -> CommandEffect:
    args = split(
        words, "-e -f --rsh --exclude --include --filter --files-from --rsync-path --bwlimit"
    )
    *sources, to = args.operands or (_HERE,)
    remote = any(re.match(r"[^/]*:", word.text) for word in args.operands)
    local = [word for word in sources if not re.match(r"[^/]*:", word.text)]
    deletes = args.has("--delete") or any(flag.startswith("--del") for flag in args.flags)
    moves = any(flag.startswith("--remove") for flag in args.flags)
    moves = moves or args.has("--remove-source-files")
    written = (
        ()
        if re.match(r"[^/]*:", to.text)
        else (Operand(Deed.DELETE if deletes else Deed.WRITE, to, deep=True),)
    )
    return CommandEffect(
        operands=(*_operands(Deed.DELETE if moves else Deed.READ, local, deep=True), *written),
        network=remote,
        why_not="rsync has unknown options",
    )


def _dd(words: Sequence[Word]) -> CommandEffect:
    operands = []
    for word in words:
        name, _, path = word.text.partition("=")
        if name in {"of", "if"}:
            deed = Deed.WRITE if name == "of" else Deed.READ
            operands.append(Operand(deed, Word(path, known=word.known)))
    return CommandEffect(operands=tuple(operands))


def _sed(words: Sequence[Word]) -> CommandEffect:
    args = split(words, "-e -f -l --expression --file --line-length")
    edits = args.letter("i") or any(flag.startswith("--in-place") for flag in args.flags)
    paths = args.operands if {"-e", "-f", "--expression"} & set(args.values) else args.operands[1:]
    scripts = "what the sed script does is not known"
    return CommandEffect(
        operands=_operands(Deed.WRITE if edits else Deed.READ, paths), why_not=scripts
    )


def _perl(words: Sequence[Word]) -> CommandEffect:
    args = split(words, "-e -E -M -I")
    edits = args.letter("i") and args.letter("e")
    why_not = "perl runs code that cannot be checked"
    return CommandEffect(
        operands=_operands(Deed.WRITE, args.operands if edits else ()), why_not=why_not
    )


def _tar(words: Sequence[Word]) -> CommandEffect:
    args = split(words, "-f -C --file --directory -T -X --exclude --files-from")
    mode = args.operands[0].text if args.operands and "-f" not in args.values else ""
    letters = "".join(flag[1:] for flag in args.flags if not flag.startswith("--")) + mode
    folder = args.value("-C", "--directory") or _HERE
    archive = args.value("-f", "--file")
    if archive is None and len(args.operands) > 1:
        archive = args.operands[1]
    operands: list[Operand] = []
    if "x" in letters or args.has("--extract", "--get"):
        operands += _operands(Deed.WRITE, [folder], deep=True)
        operands += _operands(Deed.READ, [archive] if archive else [])
    elif "t" not in letters:
        operands += _operands(Deed.WRITE, [archive] if archive else [])
        packed = args.operands[2:] if mode else args.operands
        operands += _operands(Deed.READ, packed, deep=True)
    if args.has("--remove-files"):
        operands += _operands(Deed.DELETE, args.operands, deep=True)
    return CommandEffect(
        operands=tuple(operands), why_not="the content of the archive is not known"
    )


def _zip(words: Sequence[Word]) -> CommandEffect:
    """The first operand is the archive. With -m, the packed files are deleted."""
    args = split(words, "-b -n -x -i -t -tt -P --exclude --include --temp-path --password")
    moves = args.letter("m") or args.has("--move")
    packed = _operands(Deed.DELETE if moves else Deed.READ, args.operands[1:], deep=_is_deep(args))
    return CommandEffect(
        operands=(*_operands(Deed.WRITE, args.operands[:1]), *packed),
        why_not="zip has unknown options",
    )


def _compress(words: Sequence[Word]) -> CommandEffect:
    """gzip and similar: each file is replaced by its (un)compressed version."""
    args = split(words, "-S -T -D --suffix --threads --output-dir")
    deep = args.letter("r") or args.has("--recursive")
    return CommandEffect(
        operands=_operands(Deed.DELETE if deep else Deed.WRITE, args.operands, deep=deep),
        why_not="it has unknown options",
    )


def _unzip(words: Sequence[Word]) -> CommandEffect:
    args = split(words, "-d -x")
    folder = args.value("-d") or _HERE
    lists = {"-l", "-t", "-p", "-v"} & args.flags
    written = () if lists else _operands(Deed.WRITE, [folder], deep=True)
    return CommandEffect(
        operands=(*_operands(Deed.READ, args.operands[:1]), *written),
        why_not="the content of the archive is not known",
    )


def _curl(words: Sequence[Word]) -> CommandEffect:
    args = split(
        words,
        "-o --output -H --header -d --data --data-binary --data-raw -X --request -u --user -A -e -b"
        " -c --cookie-jar -F --form -T --upload-file -x -m --max-time -D --dump-header -K --config"
        " --output-dir --retry -w --write-out -C --cacert --cert --key",
    )
    files = [args.value("-o", "--output"), args.value("-D", "--dump-header")]
    files += [args.value("-c", "--cookie-jar")]
    if {"-O", "--remote-name"} & args.flags:
        files.append(args.value("--output-dir") or _HERE)
    sent = [
        Word(word.text.rpartition("@")[2], known=word.known)
        for flag in ("-d", "--data", "--data-binary", "-F", "--form")
        if (word := args.value(flag)) and "@" in word.text
    ]
    sent += [word for word in [args.value("-T", "--upload-file")] if word]
    return CommandEffect(
        operands=(
            *_operands(Deed.WRITE, [file for file in files if file]),
            *_operands(Deed.READ, sent),
        ),
        network=True,
    )


def _wget(words: Sequence[Word]) -> CommandEffect:
    args = split(
        words, "-O -P -o -U -t -T --output-document --directory-prefix --header --post-data"
    )
    to = args.value("-O", "--output-document") or args.value("-P", "--directory-prefix") or _HERE
    written = () if to.text == "-" else _operands(Deed.WRITE, [to])
    return CommandEffect(operands=written, network=True)


def _find(words: Sequence[Word]) -> CommandEffect:
    """Starting points, tests, actions. Without a test, everything below the start is affected."""
    starts: list[Word] = []
    rest = list(words)
    while rest and rest[0].text in {"-L", "-H", "-P"}:
        rest.pop(0)
    while rest and not rest[0].text.startswith(("-", "(", "!")):
        starts.append(rest.pop(0))
    starts = starts or [_HERE]
    texts = [word.text for word in rest]
    deletes = "-delete" in texts
    tests = any(_TEST.match(text) for text in texts)
    only = only_name(texts)
    written = [word for flag, word in zip(texts, rest[1:], strict=False) if flag in _FIND_OUTPUTS]
    operands = _operands(Deed.WRITE, written)
    if deletes:
        operands += tuple(
            Operand(Deed.DELETE, one, deep=True, some=tests, only=only) for one in starts
        )
    else:
        operands += _operands(Deed.READ, starts)
    return CommandEffect(operands=operands, why_not="find has unknown options")


FILE_CHANGERS: dict[str, Callable[[Sequence[Word]], CommandEffect]] = {
    **dict.fromkeys(("chmod", "chown", "chgrp", "chattr"), _mode),
    **dict.fromkeys(("cp", "install"), _copier(Deed.READ)),
    **dict.fromkeys(("rsync", "scp"), _rsync),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("tar", "bsdtar"), _tar),
    **dict.fromkeys(("find", "gfind"), _find),
    **dict.fromkeys(_COMPRESSORS.split(), _compress),
    "mv": _copier(Deed.DELETE),
    "ln": _ln,
    "dd": _dd,
    "perl": _perl,
    "zip": _zip,
    "unzip": _unzip,
    "curl": _curl,
    "wget": _wget,
}


def changing(words: Sequence[Word]) -> CommandEffect | None:
    """Return what a command changes; None if its program is not known to change anything."""
    texts = [word.text for word in words]
    name = program_name(texts[0])
    dangers = tuple(_dangers(name, texts))
    network = name in network_programs()
    if name == "git":
        return git_changes(words)
    row = effects().changers.get(name)
    if handler := partial(_change_each, row) if row else FILE_CHANGERS.get(name):
        done = handler(words[1:])
        return CommandEffect(
            operands=done.operands,
            network=network or done.network,
            why_not=done.why_not or _unknown_option(name, words),
            dangers=(*dangers, *done.dangers),
        )
    if dangers or network:
        return CommandEffect(
            network=network, dangers=dangers, why_not=f"what {name} does is not known"
        )
    return None


def _unknown_option(name: str, words: Sequence[Word]) -> str:
    """Why an option is not understood; empty if all are."""
    listed = effects().options.get(name, "").split()
    for word in words[1:]:
        if word.text == "--":
            break
        flag = word.text.partition("=")[0]
        letters = [f"-{letter}" for letter in flag[1:]] if flag[:2] != "--" else [flag]
        odd = next((letter for letter in letters if letter not in listed), "")
        if len(flag) > 1 and flag.startswith("-") and odd:
            return f"{name}: unknown option {odd}"
    return ""


def _dangers(name: str, texts: Sequence[str]) -> Iterator[str]:
    dangerous = effects().dangerous
    if reason := dangerous.get(name.partition(".")[0]):
        yield f"{name} {reason}"
    args = tuple(text for text in (name, *texts[1:]) if not text.startswith("-"))
    for prefix in (" ".join(args[:2]), " ".join(args[:3])):
        if " " in prefix and prefix in dangerous:
            yield f"{prefix} {dangerous[prefix]}"
    if args[:3] == ("aws", "s3", "rm") and "--recursive" in texts:
        yield "aws s3 rm --recursive deletes everything below a key"
    if name == "crontab" and "-r" in texts:
        yield "crontab -r removes every scheduled job"
    if name in _SQL_CLIENTS and any(_DESTROYING_SQL.search(text) for text in texts[1:]):
        yield f"{name} drops or empties a database"
    if name == "redis-cli" and {text.lower() for text in texts} & {"flushall", "flushdb"}:
        yield "redis-cli empties a database"
