"""What known programs do with the words they are given.

For a reader there is a list of the options it may be given and the kind of each operand.
Anything not on the list is not understood: many programs that only show things can write
files or start programs if asked to.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from rookery.commands.program_tables import Reader, readers
from rookery.commands.sed_awk import only_prints, sed_script
from rookery.commands.words import Word
from rookery.core.command_lines import Deed, program_name


class Operand(Struct, frozen=True):
    """A path a program is given. `deep` means with all that is below, and `some` not all of it;
    `maybe` that it may be something else than a path. If it is a folder, what is written are
    the `names` in it. Of some, `only` is the pattern of the names that are meant, if it is known.
    `rights`: what is written is who may use it.
    """

    deed: Deed
    word: Word
    deep: bool = False
    maybe: bool = False
    some: bool = False
    names: tuple[str, ...] = ()
    only: str = ""
    rights: bool = False


class Search(Struct, frozen=True):
    """How a program goes through a folder."""

    follows_links: bool = False


class CommandEffect(Struct, frozen=True, kw_only=True):
    """What a command does. `reads_only` means that it may run unasked, as far as its program
    and its options go; `why_not` is why it is not understood."""

    operands: tuple[Operand, ...] = ()
    reads_only: bool = False
    search: Search = Search()
    network: bool = False
    why_not: str = ""
    dangers: tuple[str, ...] = ()
    unless: str = ""
    """Files of the project that would make it run something, if they are there."""


_PATHS = frozenset({"PATH", "FILE", "ARCHIVE"})
_GIVEN = {"-e", "--regexp", "--expression"}
_FLAG = re.compile(r"^(-[^=+\[]*)(=|\+|\[=|)([A-Z]*)\]?$")
_KINDS = {
    "NUM": re.compile(r"[+-]?[0-9]+[A-Za-z]{0,3}"),
    "COUNT": re.compile(r"[+-]?([0-9]{1,6}|1000000)"),
    "LIST": re.compile(r"[0-9,+-]+"),
    "TEXT": re.compile(r".*", re.S),
    "GLOB": re.compile(r".*", re.S),
    "PATH": re.compile(r".+", re.S),
    "REV": re.compile(r"[A-Za-z0-9_.@/:^~{}+,-]+"),
    "FORMAT": re.compile(r"(?!.*(%G|signature)).*", re.S),
    "DATE": re.compile(r"\+.*", re.S),
    "KEY": re.compile(
        r"(?!core\.(fsmonitor|hookspath|pager|editor|sshcommand|attributesfile|untrackedcache)$)"
        r"(user|core|init|branch|pull|push|merge|commit)\.[A-Za-z0-9._/-]+",
        re.I,
    ),  # not those that are set otherwise when git is run here
    "SED": re.compile(r".+", re.S),
    "AWK": re.compile(r".+", re.S),
    "SET": re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.S),
    "NAME": re.compile(r"[A-Za-z0-9@_][A-Za-z0-9@/._-]*"),
    "FILE": re.compile(r"[^+].*", re.S),
    "ARCHIVE": re.compile(r"[^:]+", re.S),
    "COLUMNS": re.compile(r"(?!.*env)[a-z_%,=]+"),
    "LETTERS": re.compile(r"[aAuxwflj]{1,8}"),
    "GO": re.compile(
        r"GO(PATH|ROOT|MOD|BIN|OS|ARCH|VERSION|CACHE|MODCACHE|WORK|TOOLCHAIN|EXE)|CGO_ENABLED"
    ),
    "JQ": re.compile(
        r"(?!.*[0-9]{6})(?!.*[0-9][eE][+-]?[0-9])"
        r"(?!.*\b(env|ENV|import|include|modulemeta|get_search_list|range|repeat|until|while|def"
        r"|inputs?|combinations|recurse(?=\s*\())\b).*",
        re.S,
    ),
}
_SCRIPTS: dict[str, Callable[[str], bool]] = {
    "SED": lambda text: (script := sed_script(text)) is not None and script.only_prints,
    "AWK": only_prints,
}
"""Programs in small languages, of which more must hold than a pattern can tell."""


def _fits(kind: str, text: str) -> bool:
    return bool(_KINDS[kind].fullmatch(text)) and (kind not in _SCRIPTS or _SCRIPTS[kind](text))


def known_reader(texts: Sequence[str]) -> bool:
    return bool(reader_row(texts)[0])


def reading(words: Sequence[Word]) -> CommandEffect:
    """What a reader would do, by its row in the table."""
    texts = [word.text for word in words]
    texts[0] = program_name(texts[0]) if "/" in texts[0] else texts[0]
    if texts[:2] == ["git", "-C"]:
        return _in_folder(words)
    name, used = reader_row(texts)
    if not name:
        return CommandEffect(why_not=f"{texts[0]} is not a known program")
    reader = readers()[name]
    read = _SortedWords(_flags(reader.flags), reader)
    doubt = read.take(without_readers(words) if name == "find" else words[used:])
    if not doubt:
        doubt = read.sort(reader.operands)
    if doubt:
        return CommandEffect(why_not=f"{name}: {doubt}", operands=tuple(read.paths))
    deep = reader.deep == "always" or any(flag in reader.deep.split() for flag in read.flags)
    paths = tuple(
        replace(one, deep=deep or bool(one.word.below), only=_only(one.word, reader, deep))
        for one in read.paths
    )
    if (reader.here or deep) and all(one.maybe for one in paths):
        paths = (*paths, Operand(Deed.READ, Word("."), deep=deep))
    search = Search(reader.follows)
    return CommandEffect(operands=paths, reads_only=True, search=search, unless=reader.unless)


def _only(word: Word, reader: Reader, deep: bool) -> str:
    """The pattern of the names that are meant, unless it reads folders of such names as well."""
    simple = re.fullmatch(r"[\w.*?-]+", word.below)
    return word.below if simple and not deep and not reader.here else ""


def _in_folder(words: Sequence[Word]) -> CommandEffect:
    """`git -C folder`: what it does there is looked at as a command by itself."""
    if len(words) < 4 or words[3].text.startswith("-"):
        return CommandEffect(why_not="git has -C before its command")
    inner = reading((words[0], *words[3:]))
    return replace(inner, operands=(Operand(Deed.READ, words[2]),))


def without_readers(words: Sequence[Word]) -> list[Word]:
    """The words behind `find`, without each `-exec` that gives what is found to a reader."""
    rest, kept = list(words[1:]), list[Word]()
    while rest:
        texts = [word.text for word in rest]
        end = next((at for at, text in enumerate(texts) if text in {";", "+"}), 0)
        if texts[0] == "-exec" and _is_reader(rest[1:end], texts[end]):
            rest = [Word("-true"), *rest[end + 1 :]]
        kept.append(rest.pop(0))
    return kept


def _is_reader(said: Sequence[Word], end: str) -> bool:
    """Whether it is a reader that is given each name once, as a file to read."""
    texts = [word.text for word in said]
    row, _ = reader_row(texts)
    if not row or row == "find" or row.startswith("git") or "/" in texts[0]:
        return False
    reader = readers()[row]
    if reader.unshadowed or reader.instead or reader.unless or reader.lead:
        return False
    many = texts[-1] == "{}" and reader.operands.endswith("PATH*")
    if "".join(texts).count("{}") != 1 or "{}" not in texts or (end == "+" and not many):
        return False
    given = Word("{}", known=False, pattern="{}")
    return reading([given if word.text == "{}" else word for word in said]).reads_only


def reader_row(texts: Sequence[str]) -> tuple[str, int]:
    """The longest row of the table that the words begin with, and how many words that is."""
    said = list(texts[:4])
    dropped = 0
    if not said:
        return "", 0
    if said[0] == "git" and said[1:2] in (["--no-pager"], ["-P"]):
        said.pop(1)
        dropped = 1
    for length in range(min(3, len(said)), 0, -1):
        name = " ".join(said[:length])
        if name in readers():
            return name, length + dropped
    return "", 0


@cache
def _flags(spec: str) -> dict[str, tuple[str, bool, bool]]:
    """Each option with the kind of its value, whether it may be left out, and be attached."""
    flags: dict[str, tuple[str, bool, bool]] = {}
    for entry in spec.split():
        name, sign, kind = _FLAG.findall(entry)[0]
        flags[name] = (kind, sign == "[=", sign in {"+", "[="})
    return flags


class _SortedWords:
    """One command's words, sorted into options, values and operands."""

    def __init__(self, known: dict[str, tuple[str, bool, bool]], reader: Reader) -> None:
        self._known = known
        self._whole = reader.whole_flags
        self._all_operands = reader.all_operands
        self._argument_files = reader.argument_files
        self._signs = frozenset(reader.signs.split())
        self._operands: list[tuple[Word, bool]] = []
        self.flags: list[str] = []
        self.paths: list[Operand] = []

    def take(self, words: Sequence[Word]) -> str:
        """Why the words are not understood; empty if they are."""
        waiting = list(reversed(words))
        ended = self._all_operands
        while waiting:
            word = waiting.pop()
            text = word.text
            if not word.known and not word.pattern:
                return f"{text[:40]} is known only when it runs"
            if text == "--" and not self._whole and not self._all_operands:
                if ended:
                    return "a second --"
                ended = True
            elif text in self._signs and word.known:
                continue
            elif ended or text == "-" or not text.startswith("-"):
                self._operands.append((word, ended))
            elif doubt := self._option(text, waiting):
                return doubt
        return ""

    def _option(self, text: str, waiting: list[Word]) -> str:
        name, equals, value = text.partition("=")
        if name in self._known and (name.startswith("--") or self._whole or not equals):
            return self._named(name, value if equals else None, waiting)
        if text.startswith("--") or self._whole:
            return f"unknown option {name}"
        if re.fullmatch(r"-[0-9]+", text) and "-#" in self._known:
            return ""
        for place in range(1, len(text)):
            flag = f"-{text[place]}"
            if flag not in self._known:
                return f"unknown option {flag} in {text}"
            kind, optional, attached = self._known[flag]
            rest = text[place + 1 :]
            if kind and rest:
                return self._value(flag, rest) if attached else f"{flag} with {rest} attached"
            if kind and not optional:
                return self._named(flag, None, waiting)
            self.flags.append(flag)
        return ""

    def _named(self, name: str, value: str | None, waiting: list[Word]) -> str:
        kind, optional, _ = self._known[name]
        if value is not None:
            return self._value(name, value) if kind else f"{name} with a value"
        if not kind or optional:
            self.flags.append(name)
            return ""
        if not waiting or not waiting[-1].known:
            return f"{name} without a known value"
        separate = waiting.pop().text
        if separate.startswith("-") and kind not in {"NUM", "LIST"}:
            return f"{separate} after {name} looks like an option"
        return self._value(name, separate)

    def _value(self, name: str, value: str) -> str:
        kind = self._known[name][0]
        if not _fits(kind, value):
            return f"{value[:40]} for {name}"
        self.flags.append(name)
        if kind == "PATH":
            self.paths.append(Operand(Deed.READ, Word(value)))
        return ""

    def sort(self, kinds: str) -> str:
        """Give each operand its kind: one each, then the one with a star for the rest."""
        wanted = kinds.split()
        if wanted[:1] in (["TEXT"], ["SED"]) and _GIVEN & set(self.flags):
            wanted.pop(0)
        for word, after_dashes in self._operands:
            if self._argument_files and word.text.startswith("@"):
                return f"{word.text[:40]} is a file with more words"
            if not wanted:
                return f"{word.text[:40]} is one operand too many"
            kind = wanted[0] if wanted[0].endswith("*") else wanted.pop(0)
            kind = kind.rstrip("*?")
            if kind == "REV" and after_dashes:
                kind = "PATH"
            printed = self._all_operands and word.pattern  # it reads no file of that name
            if kind not in {*_PATHS, "REV"} and not word.known and not printed:
                return f"{word.text[:40]} is known only when it runs"
            if not _fits(kind, word.text):
                return f"{word.text[:40]} is not a known operand"
            if kind in _PATHS and word.text != "-":
                self.paths.append(Operand(Deed.READ, word))
            elif kind == "REV":
                self.paths.append(Operand(Deed.READ, word, maybe=True))
        if any(not kind.endswith(("*", "?")) for kind in wanted):
            return "an operand is missing"
        return ""
