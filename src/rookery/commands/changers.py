"""What known programs change: which of their words are written to, and which are removed.

Not every option is known here, and none needs to be: a command that changes things is asked
about anyway. This says what the question must show, and what is dangerous.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from rookery.commands.git_changes import git_changes
from rookery.commands.program_tables import effects, network_programs
from rookery.commands.programs import CommandEffect, Operand
from rookery.commands.words import Split, Word, split
from rookery.commands.wrappers import only_name
from rookery.core.command_lines import Deed, program_name

_HERE = Word(".")
_RECURSIVE = {"-r", "-R"}
_TEST = re.compile(r"-(i?name|i?path|i?regex|type|[acm](time|min)|size|empty|newer)")
_FIND_OUTPUTS = {"-fprint", "-fprint0", "-fls", "-fprintf"}
_COMPRESSORS = "gzip gunzip pigz bzip2 bunzip2 xz unxz lzma zstd unzstd compress uncompress"
_SQL_CLIENTS = {"psql", "mysql", "mariadb", "sqlite3", "clickhouse-client", "cqlsh", "duckdb"}
_DESTROYING_SQL = re.compile(r"\b(drop\s+(database|schema|table)|truncate\s+(table\s+)?\w)", re.I)


def _operands(deed: Deed, words: Sequence[Word], *, deep: bool = False) -> tuple[Operand, ...]:
    return tuple(Operand(deed, word, deep=deep) for word in words)


def _names(sources: Sequence[Word]) -> tuple[str, ...]:
    return tuple(word.text.rstrip("/").rpartition("/")[2] for word in sources)


def _is_deep(said: Split) -> bool:
    return bool(said.flags & _RECURSIVE) or said.has("--recursive")


def _rm(words: Sequence[Word]) -> CommandEffect:
    said = split(words)
    return CommandEffect(operands=_operands(Deed.DELETE, said.operands, deep=_is_deep(said)))


def _deleting(words: Sequence[Word]) -> CommandEffect:
    return CommandEffect(operands=_operands(Deed.DELETE, split(words, "-n -s --size").operands))


def _shred(words: Sequence[Word]) -> CommandEffect:
    said = split(words, "-n -s --iterations --size --random-source")
    return CommandEffect(
        operands=_operands(Deed.DELETE, said.operands),
        dangers=("shred overwrites files so that they cannot be restored",),
    )


def _writing(words: Sequence[Word]) -> CommandEffect:
    said = split(words, "-t -d -r -s -m -o -g --date --reference --size --mode --suffix --owner")
    return CommandEffect(operands=_operands(Deed.WRITE, said.operands))


def _mode(words: Sequence[Word]) -> CommandEffect:
    """chmod, chown, chgrp: the first operand is no path, unless a reference is given."""
    said = split(words, "--reference --from")
    paths = said.operands if "--reference" in said.values else said.operands[1:]
    if words and not said.operands[:1]:
        paths = ()
    deep = _is_deep(said)
    rights = deep or not re.match(r"[ugoa]*\+", said.operands[0].text if said.operands else "")
    return CommandEffect(
        operands=tuple(Operand(Deed.WRITE, one, deep=deep, rights=rights) for one in paths)
    )


def _copying(source: Deed) -> Callable[[Sequence[Word]], CommandEffect]:
    def copy(words: Sequence[Word]) -> CommandEffect:
        said = split(words, "-t -S -m -o -g --target-directory --suffix --mode --owner --group")
        sources, to = list(said.operands), said.value("-t", "--target-directory")
        if to is None and len(sources) > 1:
            to = sources.pop()
        copies_all = "-a" in said.flags or said.has("--archive")
        deep = _is_deep(said) or copies_all or source is Deed.DELETE
        written = [Operand(Deed.WRITE, to, names=_names(sources))] if to else []
        return CommandEffect(operands=(*_operands(source, sources, deep=deep), *written))

    return copy


def _ln(words: Sequence[Word]) -> CommandEffect:
    said = split(words, "-t -S --target-directory --suffix")
    to = said.value("-t", "--target-directory")
    if to is None:
        to = said.operands[-1] if len(said.operands) > 1 else _HERE
    return CommandEffect(operands=(Operand(Deed.WRITE, to, names=_names(said.operands[:1])),))


def _rsync(words: Sequence[Word]) -> CommandEffect:
    said = split(
        words, "-e -f --rsh --exclude --include --filter --files-from --rsync-path --bwlimit"
    )
    *sources, to = said.operands or (_HERE,)
    remote = any(re.match(r"[^/]*:", word.text) for word in said.operands)
    local = [word for word in sources if not re.match(r"[^/]*:", word.text)]
    deletes = said.has("--delete") or any(flag.startswith("--del") for flag in said.flags)
    moves = any(flag.startswith("--remove") for flag in said.flags)
    moves = moves or said.has("--remove-source-files")
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
    said = split(words, "-e -f -l --expression --file --line-length")
    edits = said.letter("i") or any(flag.startswith("--in-place") for flag in said.flags)
    paths = said.operands if {"-e", "-f", "--expression"} & set(said.values) else said.operands[1:]
    scripts = "what the sed script does is not known"
    return CommandEffect(
        operands=_operands(Deed.WRITE if edits else Deed.READ, paths), why_not=scripts
    )


def _perl(words: Sequence[Word]) -> CommandEffect:
    said = split(words, "-e -E -M -I")
    edits = said.letter("i") and said.letter("e")
    why_not = "perl runs code that cannot be checked"
    return CommandEffect(
        operands=_operands(Deed.WRITE, said.operands if edits else ()), why_not=why_not
    )


def _tar(words: Sequence[Word]) -> CommandEffect:
    said = split(words, "-f -C --file --directory -T -X --exclude --files-from")
    mode = said.operands[0].text if said.operands and "-f" not in said.values else ""
    letters = "".join(flag[1:] for flag in said.flags if not flag.startswith("--")) + mode
    folder = said.value("-C", "--directory") or _HERE
    archive = said.value("-f", "--file")
    if archive is None and len(said.operands) > 1:
        archive = said.operands[1]
    operands: list[Operand] = []
    if "x" in letters or said.has("--extract", "--get"):
        operands += _operands(Deed.WRITE, [folder], deep=True)
        operands += _operands(Deed.READ, [archive] if archive else [])
    elif "t" not in letters:
        operands += _operands(Deed.WRITE, [archive] if archive else [])
        packed = said.operands[2:] if mode else said.operands
        operands += _operands(Deed.READ, packed, deep=True)
    if said.has("--remove-files"):
        operands += _operands(Deed.DELETE, said.operands, deep=True)
    return CommandEffect(
        operands=tuple(operands), why_not="the content of the archive is not known"
    )


def _zip(words: Sequence[Word]) -> CommandEffect:
    """The first operand is the archive. With -m, what is packed is removed."""
    said = split(words, "-b -n -x -i -t -tt -P --exclude --include --temp-path --password")
    moves = said.letter("m") or said.has("--move")
    packed = _operands(Deed.DELETE if moves else Deed.READ, said.operands[1:], deep=_is_deep(said))
    return CommandEffect(
        operands=(*_operands(Deed.WRITE, said.operands[:1]), *packed),
        why_not="zip has unknown options",
    )


def _compress(words: Sequence[Word]) -> CommandEffect:
    """gzip and its kin put another file in the place of each that they are given."""
    said = split(words, "-S -T -D --suffix --threads --output-dir")
    deep = said.letter("r") or said.has("--recursive")
    return CommandEffect(
        operands=_operands(Deed.DELETE if deep else Deed.WRITE, said.operands, deep=deep),
        why_not="it has unknown options",
    )


def _unzip(words: Sequence[Word]) -> CommandEffect:
    said = split(words, "-d -x")
    folder = said.value("-d") or _HERE
    lists = {"-l", "-t", "-p", "-v"} & said.flags
    written = () if lists else _operands(Deed.WRITE, [folder], deep=True)
    return CommandEffect(
        operands=(*_operands(Deed.READ, said.operands[:1]), *written),
        why_not="the content of the archive is not known",
    )


def _curl(words: Sequence[Word]) -> CommandEffect:
    said = split(
        words,
        "-o --output -H --header -d --data --data-binary --data-raw -X --request -u --user -A -e -b"
        " -c --cookie-jar -F --form -T --upload-file -x -m --max-time -D --dump-header -K --config"
        " --output-dir --retry -w --write-out -C --cacert --cert --key",
    )
    files = [said.value("-o", "--output"), said.value("-D", "--dump-header")]
    files += [said.value("-c", "--cookie-jar")]
    if {"-O", "--remote-name"} & said.flags:
        files.append(said.value("--output-dir") or _HERE)
    sent = [
        Word(word.text.rpartition("@")[2], known=word.known)
        for flag in ("-d", "--data", "--data-binary", "-F", "--form")
        if (word := said.value(flag)) and "@" in word.text
    ]
    sent += [word for word in [said.value("-T", "--upload-file")] if word]
    return CommandEffect(
        operands=(
            *_operands(Deed.WRITE, [file for file in files if file]),
            *_operands(Deed.READ, sent),
        ),
        network=True,
    )


def _wget(words: Sequence[Word]) -> CommandEffect:
    said = split(
        words, "-O -P -o -U -t -T --output-document --directory-prefix --header --post-data"
    )
    to = said.value("-O", "--output-document") or said.value("-P", "--directory-prefix") or _HERE
    written = () if to.text == "-" else _operands(Deed.WRITE, [to])
    return CommandEffect(operands=written, network=True)


def _find(words: Sequence[Word]) -> CommandEffect:
    """Starting points, tests, actions. Without a test everything below is meant."""
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


def _reading_files(valued: str, skip: int = 0) -> Callable[[Sequence[Word]], CommandEffect]:
    def read(words: Sequence[Word]) -> CommandEffect:
        said: Split = split(words, valued)
        return CommandEffect(
            operands=_operands(Deed.READ, said.operands[skip:]),
            why_not="it has unknown options",
        )

    return read


FILE_CHANGERS: dict[str, Callable[[Sequence[Word]], CommandEffect]] = {
    "rm": _rm,
    "rmdir": _deleting,
    "unlink": _deleting,
    "shred": _shred,
    "srm": _rm,
    "trash": _rm,
    "mv": _copying(Deed.DELETE),
    "cp": _copying(Deed.READ),
    "install": _copying(Deed.READ),
    "scp": _rsync,
    "ln": _ln,
    "mkdir": _writing,
    "touch": _writing,
    "truncate": _writing,
    "tee": _writing,
    "mknod": _writing,
    "mkfifo": _writing,
    "chmod": _mode,
    "chown": _mode,
    "chgrp": _mode,
    "chattr": _mode,
    "rsync": _rsync,
    "dd": _dd,
    "sed": _sed,
    "gsed": _sed,
    "perl": _perl,
    "tar": _tar,
    "bsdtar": _tar,
    "unzip": _unzip,
    "curl": _curl,
    "wget": _wget,
    "find": _find,
    "gfind": _find,
    "awk": _reading_files("-F -v -f", 1),
    "gawk": _reading_files("-F -v -f", 1),
    "less": _reading_files(""),
    "more": _reading_files(""),
    "bat": _reading_files("-l -r"),
    "base64": _reading_files("-w"),
    "xxd": _reading_files("-l -s -c"),
    "zip": _zip,
    **dict.fromkeys(_COMPRESSORS.split(), _compress),
    "nano": _writing,
    "vim": _writing,
    "vi": _writing,
    "ed": _writing,
    "ex": _writing,
    "source": _reading_files(""),
    ".": _reading_files(""),
}


def changing(words: Sequence[Word]) -> CommandEffect | None:
    """What a command changes, if its program is known for changing things."""
    texts = [word.text for word in words]
    name = program_name(texts[0])
    dangers = tuple(_dangers(name, texts))
    network = name in network_programs()
    if name == "git":
        return git_changes(words)
    if handler := FILE_CHANGERS.get(name):
        done = handler(words[1:])
        return CommandEffect(
            operands=done.operands,
            network=network or done.network,
            why_not=done.why_not or _unlisted(name, words),
            dangers=(*dangers, *done.dangers),
        )
    if dangers or network:
        return CommandEffect(
            network=network, dangers=dangers, why_not=f"what {name} does is not known"
        )
    return None


def _unlisted(name: str, words: Sequence[Word]) -> str:
    """Why a program's options are not all understood; empty if they are."""
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
    said = tuple(text for text in (name, *texts[1:]) if not text.startswith("-"))
    for prefix in (" ".join(said[:2]), " ".join(said[:3])):
        if " " in prefix and prefix in dangerous:
            yield f"{prefix} {dangerous[prefix]}"
    if said[:3] == ("aws", "s3", "rm") and "--recursive" in texts:
        yield "aws s3 rm --recursive deletes everything below a key"
    if name == "crontab" and "-r" in texts:
        yield "crontab -r removes every scheduled job"
    if name in _SQL_CLIENTS and any(_DESTROYING_SQL.search(text) for text in texts[1:]):
        yield f"{name} drops or empties a database"
    if name == "redis-cli" and {text.lower() for text in texts} & {"flushall", "flushdb"}:
        yield "redis-cli empties a database"
