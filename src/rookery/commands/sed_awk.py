"""What sed scripts and awk programs do besides printing: files they write, commands they run.

Whether a slash in awk starts a regular expression or divides cannot be told without the whole
grammar, so an awk program counts as only printing if it does so either way.
"""

import re

from msgspec import Struct

from rookery.first_use import lazy_pattern

LONGEST_AWK = 4096
_STRING = r'"(?:\\.|[^"\\\n])*"'
_TOKEN = lazy_pattern(
    rf"""(?P<string>{_STRING})|(?P<word>[A-Za-z_]\w*)|(?P<number>[0-9][\w.]*)|(?P<gap>[ \t\n]+)"""
    r"""|(?P<or>\|\|)|(?P<append>>>)|(?P<least>>=)|(?P<sign>.)""",
    re.S,
)
_REGEX = lazy_pattern(r"/(?:\\.|[^/\\\n\"\[])*/")
_BEFORE_REGEX = frozenset({"", "or", *"({,;!~&}"})
_FORBIDDEN_LISTED = """
    system getline close fflush ENVIRON PROCINFO ARGV ARGC SYMTAB FUNCTAB function func while do
"""
_FORBIDDEN = frozenset(_FORBIDDEN_LISTED.split())
_WORDS = lazy_pattern(r"[A-Za-z_]\w*")
_LOOP = lazy_pattern(r"\bfor\b(?!\s*\(\s*\w+\s+in\s+\w+\s*\))")
_SET = lazy_pattern(rf"\b([A-Za-z_]\w*)\s*=\s*({_STRING})")
_TO_FILE = lazy_pattern(rf"\bprintf?\b[^;{{}}\n]*?>>?\s*({_STRING}|[A-Za-z_]\w*)")
_TO_COMMAND = lazy_pattern(rf"\|&?\s*({_STRING})")
_FROM_COMMAND = lazy_pattern(rf"({_STRING})\s*\|&?\s*getline|\bsystem\s*\(\s*({_STRING})")

LONGEST = 4096
_PATTERN = r"/(?:\\.|[^/\\\n\[])+/[IM]*"
_ADDRESS = lazy_pattern(
    rf"(?:(?:[0-9]+(?:~[0-9]+)?|\$|{_PATTERN})(?:[ \t]*,[ \t]*(?:[+~]?[0-9]+|\$|{_PATTERN}))?)?"
    r"[ \t]*!?[ \t]*"
)
_GAP = lazy_pattern(r"[ \t;\n]*")
_NUMBER = lazy_pattern(r"[ \t]*[0-9]*")
_LABEL = lazy_pattern(r"[^;\n}]*")
_LINE = lazy_pattern(r"[^\n]*")
_FLAGS = lazy_pattern(r"[gpiImMe0-9]*")
_BEHIND = lazy_pattern(r"[ \t;\n}]|$")
_REGEX_TOKEN = lazy_pattern(r"\\.|\[\^?\]?[^\]\n]*\]|.", re.S)
_WRITES, _READS, _RUNS = "wW", "rR", "e"


class AwkProgram(Struct, frozen=True):
    """`writes` are files and `runs` are shell texts, as far as the program contains them
    literally."""

    writes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


def awk_program(text: str, variables: dict[str, str]) -> AwkProgram:
    """Find the files and commands of an awk program. `variables` are set on the command line."""
    known = variables | {name: _unquote(value) for name, value in _SET.findall(text[:LONGEST_AWK])}
    named = _TO_FILE.findall(text[:LONGEST_AWK])
    writes = [_unquote(one) if one[0] == '"' else known.get(one, "") for one in named]
    commands = [one for pair in _FROM_COMMAND.findall(text[:LONGEST_AWK]) for one in pair]
    commands += _TO_COMMAND.findall(text[:LONGEST_AWK])
    return AwkProgram(tuple(filter(None, writes)), tuple(_unquote(one) for one in commands if one))


def only_prints(text: str) -> bool:
    """Whether the program terminates and does nothing but print."""
    if len(text) > LONGEST_AWK or "@" in text or "\\\n" in text or "#" in text:
        return False
    if _FORBIDDEN & set(_WORDS.findall(text)) or _LOOP.search(text):
        return False
    if ">" not in text and "|" not in text.replace("||", ""):
        return "|||" not in text
    return _prints_only_to_stdout(text)


def _prints_only_to_stdout(text: str) -> bool:
    """Read the program token by token; False if a slash might be a division."""
    at, before, printing = 0, "", False
    while at < len(text):
        if text[at] == "/":
            found = _REGEX.match(text, at) if before in _BEFORE_REGEX else None
            if found is None:
                return False
            at, before = found.end(), "regex"
            continue
        token = _TOKEN.match(text, at)
        if token is None:
            return False
        at = token.end()
        kind, piece = token.lastgroup, token[0]
        if kind == "gap":
            continue
        if piece in {"print", "printf"}:
            printing = True
        elif piece in {";", "}"}:
            printing = False
        elif kind == "append" or piece in {"|", '"'} or (piece in {">", ">="} and printing):
            return False
        before = piece if kind == "sign" else kind or ""
    return True


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


class SedScript(Struct, frozen=True, kw_only=True):
    """`writes` and `reads` are files, `runs` are shell texts. `loops`: it has labels.
    `runs_lines`: it runs the text it processes (`s///e`)."""

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    runs_lines: bool = False
    loops: bool = False

    @property
    def only_prints(self) -> bool:
        effects = self.writes or self.reads or self.runs
        return not (effects or self.runs_lines or self.loops)


def sed_script(text: str) -> SedScript | None:
    """Parse a sed script; None if it is not understood."""
    try:
        return _Script(text).read() if len(text) <= LONGEST else None
    except _NotUnderstood:
        return None


class _NotUnderstood(Exception):
    pass


class _Script:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._named: dict[str, list[str]] = {}
        self._runs_lines = self._loops = False

    def read(self) -> SedScript:
        while self._take(_GAP) or self._at < len(self._text):
            if self._at == len(self._text):
                break
            self._take(_ADDRESS)
            self._command(self._take(re.compile(".")))
        return SedScript(
            writes=self._named_by(_WRITES),
            reads=self._named_by(_READS),
            runs=self._named_by(_RUNS),
            runs_lines=self._runs_lines,
            loops=self._loops,
        )

    def _named_by(self, letters: str) -> tuple[str, ...]:
        return tuple(name for letter in letters for name in self._named.get(letter, ()))

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found[0] if found else ""

    def _command(self, letter: str) -> None:
        match letter:
            case "p" | "P" | "d" | "D" | "g" | "G" | "h" | "H" | "x" | "n" | "N" | "F" | "z" | "=":
                self._end()
            case "{" | "}":
                pass
            case "l" | "q" | "Q":
                self._take(_NUMBER)
                self._end()
            case "b" | "t" | "T" | ":":
                self._loops = True
                self._take(_LABEL)
            case "a" | "i" | "c" | "w" | "W" | "r" | "R" | "e":
                self._named.setdefault(letter, []).append(self._rest_of_line())
            case "s":
                self._substitution()
            case "y":
                self._parts()
                self._end()
            case _:
                raise _NotUnderstood

    def _end(self) -> None:
        if not _BEHIND.match(self._text, self._at):
            raise _NotUnderstood

    def _rest_of_line(self) -> str:
        line = self._take(_LINE)
        if "\\" in line:
            raise _NotUnderstood  # implementations differ in where the text ends
        return line.strip()

    def _substitution(self) -> None:
        self._parts()
        flags = self._take(_FLAGS)
        self._runs_lines = self._runs_lines or "e" in flags
        if self._text[self._at : self._at + 1] == "w":
            self._at += 1
            self._named.setdefault("w", []).append(self._rest_of_line())
        self._end()

    def _parts(self) -> None:
        mark = self._take(re.compile("."))
        if not mark or mark in "\\[]" or mark.isalnum() or mark.isspace():
            raise _NotUnderstood
        part = re.compile(rf"((?:\\.|[^\\\n{re.escape(mark)}])*){re.escape(mark)}", re.S)
        for place in range(2):
            found = part.match(self._text, self._at)
            if found is None or (place == 0 and "[" in _REGEX_TOKEN.findall(found[1])):
                raise _NotUnderstood
            self._at = found.end()
