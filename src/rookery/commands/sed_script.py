"""What a sed script does, as far as it can be read: the files it writes, and what it runs.

Only the common grammar is read, and only where GNU's sed and others read it alike. A script
that does not fit has no reading, and is left to a person.
"""

import re

from msgspec import Struct

LONGEST = 4096
_PATTERN = r"/(?:\\.|[^/\\\n\[])+/[IM]*"
_ADDRESS = re.compile(
    rf"(?:(?:[0-9]+(?:~[0-9]+)?|\$|{_PATTERN})(?:[ \t]*,[ \t]*(?:[+~]?[0-9]+|\$|{_PATTERN}))?)?"
    r"[ \t]*!?[ \t]*"
)
_GAP = re.compile(r"[ \t;\n]*")
_NUMBER = re.compile(r"[ \t]*[0-9]*")
_LABEL = re.compile(r"[^;\n}]*")
_LINE = re.compile(r"[^\n]*")
_FLAGS = re.compile(r"[gpiImMe0-9]*")
_BEHIND = re.compile(r"[ \t;\n}]|$")
_REGEX_TOKEN = re.compile(r"\\.|\[\^?\]?[^\]\n]*\]|.", re.S)
_WRITES, _READS, _RUNS = "wW", "rR", "e"


class SedScript(Struct, frozen=True, kw_only=True):
    """`writes` and `reads` are files, `runs` texts for a shell. It `loops` if it has labels, and
    `runs_lines` if it runs what it finds."""

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
    """None if the script is not understood."""
    try:
        return _Script(text).read() if len(text) <= LONGEST else None
    except _Unread:
        return None


class _Unread(Exception):
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
            writes=self._all_named(_WRITES),
            reads=self._all_named(_READS),
            runs=self._all_named(_RUNS),
            runs_lines=self._runs_lines,
            loops=self._loops,
        )

    def _all_named(self, letters: str) -> tuple[str, ...]:
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
                raise _Unread

    def _end(self) -> None:
        if not _BEHIND.match(self._text, self._at):
            raise _Unread

    def _rest_of_line(self) -> str:
        said = self._take(_LINE)
        if "\\" in said:
            raise _Unread  # where it ends is another question for each sed
        return said.strip()

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
            raise _Unread
        part = re.compile(rf"((?:\\.|[^\\\n{re.escape(mark)}])*){re.escape(mark)}", re.S)
        for place in range(2):
            found = part.match(self._text, self._at)
            if found is None or (place == 0 and "[" in _REGEX_TOKEN.findall(found[1])):
                raise _Unread
            self._at = found.end()
