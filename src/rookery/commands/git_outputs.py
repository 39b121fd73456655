"""Where git writes outside of what a command is usually about."""

from collections.abc import Iterator, Sequence

from rookery.commands.git_runs import without_settings
from rookery.commands.option_words import Split, split
from rookery.commands.programs import Doing, Operand, reading
from rookery.commands.words import Word
from rookery.core.judgement import Deed

_VALUED = "-o -O -f --output --output-directory --export-marks --prefix --file --separate-git-dir"
_ELSEWHERE = {"-C", "--work-tree", "--git-dir"}
_WITH_O = {"format-patch", "archive", "bugreport", "diagnose", "mailsplit"}
_FOR_ALL = {"--global": "all your repositories", "--system": "everybody on this machine"}
_CONFIG_CHANGES = {
    *("--add", "--replace-all", "--unset", "--unset-all", "--rename-section"),
    *("--remove-section", "--edit", "-e", "set", "unset", "rename-section", "remove-section"),
    *("edit", "replace-all", "add"),
}
_CONFIG_LOOKS = {
    *("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color", "--get-colorbool"),
    *("--list", "-l", "get", "list"),
}


def git_outputs(words: Sequence[Word]) -> Doing:
    rest = without_settings(words)
    if len(rest) < 2:
        return Doing()
    command = rest[1].text
    said = split(rest[2:], _VALUED)
    written = [*_written(command, said), *_elsewhere(words, rest)]
    return Doing(
        operands=tuple(Operand(Deed.WRITE, word) for word in written if word.text != "-"),
        grave=tuple(_grave(command, said)),
    )


def _written(command: str, said: Split) -> Iterator[Word]:
    for option in ("--output", "--output-directory", "--export-marks", "--separate-git-dir"):
        if word := said.value(option):
            yield word
    operands = list(said.operands)
    first = operands[0].text if operands else ""
    match command:
        case _ if command in _WITH_O and (word := said.value("-o")):
            yield word
        case "bundle" if first == "create":
            yield from operands[1:2]
        case "init":
            yield from operands[:1]
        case "submodule" if first == "add":
            yield from operands[2:3]
        case "checkout-index" if word := said.value("--prefix"):
            yield word
        case "config" if _changes_config(said) and (word := said.value("-f", "--file")):
            yield word
        case "apply" if said.has("--unsafe-paths"):
            yield Word("..")


def _elsewhere(words: Sequence[Word], rest: Sequence[Word]) -> Iterator[Word]:
    """Another folder that git is told to work in, unless it only looks there."""
    if reading(rest).reads_only:
        return
    before = words[1 : len(words) - len(rest) + 1]
    for place, word in enumerate(before):
        name, equals, value = word.text.partition("=")
        if name in _ELSEWHERE:
            yield from [Word(value, known=word.known)] if equals else before[place + 1 : place + 2]


def _grave(command: str, said: Split) -> Iterator[str]:
    if command == "config" and _changes_config(said):
        for option, whose in _FOR_ALL.items():
            if said.has(option):
                yield f"git config {option} changes git for {whose}"
    if command == "grep" and ("-O" in said.flags or said.has("--open-files-in-pager")):
        yield "git grep -O runs another program"


def _changes_config(said: Split) -> bool:
    texts = [word.text for word in said.operands]
    words = {*said.flags, *texts[:1]}
    if words & _CONFIG_CHANGES:
        return True
    return len(texts) > 1 and not words & _CONFIG_LOOKS
