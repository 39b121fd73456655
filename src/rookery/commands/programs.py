"""What known programs do with their arguments.

Each reader has a list of allowed options and the kinds of its operands. Anything else is not
understood, because many programs that only print can be told to write files or run programs.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from rookery.commands.program_tables import Reader, readers
from rookery.commands.sed_awk import only_prints, sed_script
from rookery.commands.words import Word
from rookery.engine.ports.actions import Deed, program_name
from rookery.first_use import lazy_pattern


class Operand(Struct, frozen=True):
    """A path that a program is given.

    `deep`: with everything below it; `some`: not all of that, and `only` is the pattern of the
    affected names, if known. `maybe`: it may not be a path at all. `names`: if it is a folder, the
    files written in it. `rights`: its permissions or owner are changed.
    """

    deed: Deed
    word: Word
    deep: bool = False
    maybe: bool = False
    some: bool = False
    names: tuple[str, ...] = ()
    only: str = ""
    rights: bool = False


class CommandEffect(Struct, frozen=True, kw_only=True):
    """What a command does. `reads_only`: its program and options need no approval.
    `follows_links`: it does when it searches a folder. `why_not`: why it is not understood."""

    operands: tuple[Operand, ...] = ()
    reads_only: bool = False
    follows_links: bool = False
    network: bool = False
    why_not: str = ""
    dangers: tuple[str, ...] = ()
    unless: str = ""
    """Patterns of project files that would make it run something."""


_PATHS = frozenset({"PATH", "FILE", "ARCHIVE"})
_SCRIPT_OPTIONS = {"-e", "--regexp", "--expression"}
_FLAG = lazy_pattern(r"^(-[^=+\[]*)(=|\+|\[=|)([A-Z]*)\]?$")
_KINDS = {
    "NUM": lazy_pattern(r"[+-]?[0-9]+[A-Za-z]{0,3}"),
    "COUNT": lazy_pattern(r"[+-]?([0-9]{1,6}|1000000)"),
    "LIST": lazy_pattern(r"[0-9,+-]+"),
    "TEXT": lazy_pattern(r".*", re.S),
    "GLOB": lazy_pattern(r".*", re.S),
    "PATH": lazy_pattern(r".+", re.S),
    "REV": lazy_pattern(r"[A-Za-z0-9_.@/:^~{}+,-]+"),
    "FORMAT": lazy_pattern(r"(?!.*(%G|signature)).*", re.S),
    "DATE": lazy_pattern(r"\+.*", re.S),
    "KEY": lazy_pattern(
        r"(?!core\.(fsmonitor|hookspath|pager|editor|sshcommand|attributesfile|untrackedcache)$)"
        r"(user|core|init|branch|pull|push|merge|commit)\.[A-Za-z0-9._/-]+",
        re.I,
    ),  # without the settings that we override when we run git
    "SED": lazy_pattern(r".+", re.S),
    "AWK": lazy_pattern(r".+", re.S),
    "SET": lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.S),
    "NAME": lazy_pattern(r"[A-Za-z0-9@_][A-Za-z0-9@/._-]*"),
    "FILE": lazy_pattern(r"[^+].*", re.S),
    "ARCHIVE": lazy_pattern(r"[^:]+", re.S),
    "COLUMNS": lazy_pattern(r"(?!.*env)[a-z_%,=]+"),
    "LETTERS": lazy_pattern(r"[aAuxwflj]{1,8}"),
    "GO": lazy_pattern(
        r"GO(PATH|ROOT|MOD|BIN|OS|ARCH|VERSION|CACHE|MODCACHE|WORK|TOOLCHAIN|EXE)|CGO_ENABLED"
    ),
    "JQ": lazy_pattern(
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
"""Kinds that need a parser, not only a pattern."""


def _matches_kind(kind: str, text: str) -> bool:
    return bool(_KINDS[kind].fullmatch(text)) and (kind not in _SCRIPTS or _SCRIPTS[kind](text))


def known_reader(texts: Sequence[str]) -> bool:
    return bool(reader_row(texts)[0])


def reading(words: Sequence[Word]) -> CommandEffect:
    """Return what a reader does with these words, according to its row in the table."""
    texts = [word.text for word in words]
    texts[0] = program_name(texts[0]) if "/" in texts[0] else texts[0]
    if texts[:2] == ["git", "-C"]:
        return _in_folder(words)
    name, used = reader_row(texts)
    if not name:
        return CommandEffect(why_not=f"{texts[0]} is not a known program")
    reader = readers()[name]
    read = _ArgumentParser(_flags(reader.flags), reader)
    doubt = read.take(without_readers(words) if name == "find" else words[used:])
    if not doubt:
        doubt = read.sort(reader.operands)
    if doubt:
        return CommandEffect(why_not=f"{name}: {doubt}", operands=tuple(read.paths))
    deep = reader.deep == "always" or any(flag in reader.deep.split() for flag in read.flags)
    paths = tuple(
        replace(one, deep=deep or bool(one.word.below), only=_only_names(one.word, reader, deep))
        for one in read.paths
    )
    if (reader.here or deep) and all(one.maybe for one in paths):
        paths = (*paths, Operand(Deed.READ, Word("."), deep=deep))
    follows = reader.follows
    return CommandEffect(
        operands=paths, reads_only=True, follows_links=follows, unless=reader.unless
    )


def _only_names(word: Word, reader: Reader, deep: bool) -> str:
    """The pattern that the names match, unless folders of such names are read too."""
    simple = re.fullmatch(r"[\w.*?-]+", word.below)
    return word.below if simple and not deep and not reader.here else ""


def _in_folder(words: Sequence[Word]) -> CommandEffect:
    """`git -C FOLDER`: the command is judged separately, as run in that folder."""
    if len(words) < 4 or words[3].text.startswith("-"):
        return CommandEffect(why_not="git has -C before its command")
    inner = reading((words[0], *words[3:]))
    return replace(inner, operands=(Operand(Deed.READ, words[2]),))


def without_readers(words: Sequence[Word]) -> list[Word]:
    """The words after `find`, with each `-exec` of a reader replaced by `-true`."""
    rest, kept = list(words[1:]), list[Word]()
    while rest:
        texts = [word.text for word in rest]
        end = next((at for at, text in enumerate(texts) if text in {";", "+"}), 0)
        if texts[0] == "-exec" and _is_reader(rest[1:end], texts[end]):
            rest = [Word("-true"), *rest[end + 1 :]]
        kept.append(rest.pop(0))
    return kept


def _is_reader(words: Sequence[Word], end: str) -> bool:
    """Whether the command is a reader that gets each found name once, as a file to read."""
    texts = [word.text for word in words]
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
    return reading([given if word.text == "{}" else word for word in words]).reads_only


def reader_row(texts: Sequence[str]) -> tuple[str, int]:
    """The longest row that the words start with, and how many words that are."""
    first_words = list(texts[:4])
    dropped = 0
    if not first_words:
        return "", 0
    if first_words[0] == "git" and first_words[1:2] in (["--no-pager"], ["-P"]):
        first_words.pop(1)
        dropped = 1
    for length in range(min(3, len(first_words)), 0, -1):
        name = " ".join(first_words[:length])
        if name in readers():
            return name, length + dropped
    return "", 0


@cache
def _flags(spec: str) -> dict[str, tuple[str, bool, bool]]:
    """Each option with the kind of its value, whether the value is optional and whether it may
    be attached."""
    flags: dict[str, tuple[str, bool, bool]] = {}
    for entry in spec.split():
        name, sign, kind = _FLAG.findall(entry)[0]
        flags[name] = (kind, sign == "[=", sign in {"+", "[="})
    return flags


class _ArgumentParser:
    """Sorts the words of a command into options, values and operands."""

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
        """Process the words; returns why they are not understood, or an empty string."""
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
        if not _matches_kind(kind, value):
            return f"{value[:40]} for {name}"
        self.flags.append(name)
        if kind == "PATH":
            self.paths.append(Operand(Deed.READ, Word(value)))
        return ""

    def sort(self, kinds: str) -> str:
        """Check each operand against its kind; the kind with a star applies to the rest."""
        wanted = kinds.split()
        if wanted[:1] in (["TEXT"], ["SED"]) and _SCRIPT_OPTIONS & set(self.flags):
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
            printed = self._all_operands and word.pattern  # the matching names are only printed
            if kind not in {*_PATHS, "REV"} and not word.known and not printed:
                return f"{word.text[:40]} is known only when it runs"
            if not _matches_kind(kind, word.text):
                return f"{word.text[:40]} is not a known operand"
            if kind in _PATHS and word.text != "-":
                self.paths.append(Operand(Deed.READ, word))
            elif kind == "REV":
                self.paths.append(Operand(Deed.READ, word, maybe=True))
        if any(not kind.endswith(("*", "?")) for kind in wanted):
            return "an operand is missing"
        return ""
