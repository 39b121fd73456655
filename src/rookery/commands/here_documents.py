"""Removes here-documents and comments from shell text, and finds commands inside quotes.

The text is scanned once with a stack of open constructs. Where shells differ, or where a
here-document cannot be told from other text, the result carries a doubt.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from rookery.first_use import lazy_pattern

_UNCERTAIN = "it is not certain which of its lines are here-documents"
_IN_COMMANDS = lazy_pattern(r"[\\'\"`$#<()\[\]\n]")
_SPECIAL = {
    "commands": _IN_COMMANDS,
    "(": _IN_COMMANDS,
    "`": _IN_COMMANDS,
    "((": lazy_pattern(r"[\\'\"`$<()]"),
    "group": lazy_pattern(r"[\\'\"`$<()]"),
    '"': lazy_pattern(r"[\\\"`$\n]"),
    "{": lazy_pattern(r"[\\'\"`$}\n]"),
    "document": lazy_pattern(r"[\\`$]"),
}
_START = lazy_pattern(
    r"<<(-?)[ \t]*((?:\\[^\n]|'[^'\n]*'|\"[^\"\n\\$`]*\"|[^ \t\n;&|<>()'\"\\$`#]"
    r"|(?<=[^ \t<-])#)++)(?![\\'\"$`])"
)
_PIECE = lazy_pattern(r"\\(.)|'([^']*)'|\"([^\"]*)\"|([^\\'\"]+)")
_ANSI = lazy_pattern(r"\$'(?:[^'\\]|\\.)*'", re.S)
_NUMBER_BEFORE = lazy_pattern(r"(?:^|[\s;&|()<>])([0-9]{1,9})$")
_LINE_END = lazy_pattern(r"\n")
_END_IN_BACKTICKS = lazy_pattern(r"[\n`]")
_PLAIN_VALUE = lazy_pattern(r"\$\{\w+\}")
_OPENINGS = {"$(": "(", "${": "{"}
_CLOSED_BY = {"(": ")", "{": "}", '"': '"'}


class Document(Struct, frozen=True):
    """A here-document. If it is not quoted, the shell expands it."""

    body: str
    quoted: bool


class SplitText(Struct, frozen=True):
    """A shell text, split into its parts.

    `rest` is the text without here-documents and comments; `doubt` says why the split is not
    certain. `runs` are texts that the shell runs: the content of backticks, and the substitutions
    in unquoted here-documents.
    """

    rest: str
    documents: tuple[Document, ...] = ()
    runs: tuple[str, ...] = ()
    doubt: str = ""


def split_documents(text: str) -> SplitText:
    return _read(text, "commands")


def substitutions(body: str) -> SplitText:
    """Find the commands that the shell runs when it expands a here-document."""
    return _read(body, "document")


def _read(text: str, outermost: str) -> SplitText:
    if outermost == "commands" and not re.search("<<|`|#", text):
        return SplitText(text)
    if outermost == "document" and "$" not in text and "`" not in text:
        return SplitText(text)
    scanner = _Scanner(text, outermost)
    scanner.scan()
    runs = list(scanner.runs)
    for document in scanner.documents:
        if not document.quoted:
            inside = substitutions(document.body)
            runs += inside.runs
            scanner.doubtful = scanner.doubtful or bool(inside.doubt)
    return SplitText(
        scanner.rest(),
        tuple(scanner.documents),
        tuple(runs),
        _UNCERTAIN if scanner.doubtful else "",
    )


class _Scanner:
    def __init__(self, text: str, outermost: str) -> None:
        self._text = text
        self._at = 0
        self._open = [outermost]
        self._since = [0]
        self._waiting: list[tuple[str, bool, bool]] = []
        self._kept: list[str] = []
        self._copied = 0
        self._escaped = -1
        self._in_index = False
        self._nested = False
        self.documents: list[Document] = []
        self.runs: list[str] = []
        self.doubtful = False

    def scan(self) -> None:
        while special := _SPECIAL[self._open[-1]].search(self._text, self._at):
            self._at = special.start()
            self._handle(special[0])
        if len(self._open) > 1:
            self.doubtful = True
            if self._open[0] == "document":
                self.runs.append(f": {self._text[self._since[1] :]}")

    def rest(self) -> str:
        rest = "".join((*self._kept, self._text[self._copied :]))
        if self.documents and self._nested and re.search(r"\bcase\b", rest):
            # its patterns have unbalanced parentheses
            self.doubtful = True
        return rest

    def _handle(self, sign: str) -> None:
        inside, text, at = self._open[-1], self._text, self._at
        if sign == "\\":
            self._at += 2
            self._escaped = self._at
        elif sign == "`":
            self._backtick()
        elif sign == "$":
            self._dollar()
        elif sign == _CLOSED_BY.get(inside):
            self._close(1)
        elif sign == '"':
            self._enter('"', 1)
        elif sign == "\n":
            self._line_end()
        elif sign == "'":
            self._quote()
        elif inside in {"((", "group"}:
            self._arithmetic(sign)
        elif sign == "#":
            self._hash()
        elif sign in "[]":
            self._bracket(sign)
        elif sign == "<":
            self._less()
        elif sign == "(":
            twice = text.startswith("((", at)
            self._enter("((" if twice else "(", 2 if twice else 1)
        else:
            self._at += 1

    def _enter(self, what: str, length: int) -> None:
        if what == "(" and not self._text.startswith("()", self._at):
            self._nested = True
        self._since.append(self._at)
        self._open.append(what)
        self._at += length

    def _close(self, length: int) -> None:
        closed, since = self._open.pop(), self._since.pop()
        if closed in {"(", "`"} and self._waiting:
            self.doubtful = True
        self._at += length
        text = self._text[since : self._at] if self._open == ["document"] else ""
        if text and closed != "`" and not _PLAIN_VALUE.fullmatch(text):
            self.runs.append(f": {text}")

    def _backtick(self) -> None:
        if "`" not in self._open:
            self._enter("`", 1)
            return
        while self._open[-1] != "`":
            self.doubtful = True
            self._open.pop()
            self._since.pop()
        inside = self._text[self._since[-1] + 1 : self._at]
        quoted = '"' in self._open or self._open[0] == "document"
        self.runs.append(re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", inside))
        self._close(1)

    def _dollar(self) -> None:
        text, at = self._text, self._at
        if text.startswith("$((", at):
            self._enter("((", 3)
        elif opened := _OPENINGS.get(text[at : at + 2]):
            self._enter(opened, 2)
        elif text.startswith("$[", at):
            self.doubtful = True
            self._at += 2
        elif text.startswith("$'", at) and self._open[-1] not in {'"', "document"}:
            self.doubtful = self.doubtful or '"' in self._open
            ended = _ANSI.match(text, at)
            self._skip_to(ended.end() if ended else -1)
        else:
            self._at += 2 if text[at + 1 : at + 2] in {"#", "$"} else 1

    def _quote(self) -> None:
        if self._open[-1] == "{" and '"' in self._open:
            self.doubtful = True
            self._at += 1
            return
        self._skip_to(self._text.find("'", self._at + 1) + 1 or -1)

    def _skip_to(self, end: int) -> None:
        if end < 0:
            self.doubtful = True
            end = len(self._text)
        if self._waiting and "\n" in self._text[self._at : end]:
            self.doubtful = True
        self._at = end

    def _arithmetic(self, sign: str) -> None:
        """Handle a sign inside `((`. It may also be a nested subshell, where `<<` is not a
        shift."""
        if sign == "<":
            self.doubtful = self.doubtful or self._text.startswith("<<", self._at)
            self._at += 1
        elif sign == "(":
            self._enter("group", 1)
        elif self._open[-1] == "group":
            self._close(1)
        else:
            whole = self._text.startswith("))", self._at)
            self.doubtful = self.doubtful or not whole
            self._close(2 if whole else 1)

    def _bracket(self, sign: str) -> None:
        """Track array indexes, in which `<<` is a shift."""
        named = bool(re.match(r"\w", self._text[self._at - 1 : self._at]))
        self._in_index = sign == "[" and (named or self._in_index)
        self._at += 1

    def _hash(self) -> None:
        """Skip a comment, if the sign is at the start of a word."""
        before = self._text[self._at - 1] if self._at else "\n"
        if before not in " \t\n;&|()`<>" or (self._escaped == self._at and before != "\n"):
            self._at += 1
            return
        if before in ")`<>" or self._escaped == self._at:
            # may be in the middle of a word
            self.doubtful = True
        ended = (_END_IN_BACKTICKS if "`" in self._open else _LINE_END).search(self._text, self._at)
        self._kept.append(self._text[self._copied : self._at])
        self._at = self._copied = ended.start() if ended else len(self._text)

    def _less(self) -> None:
        text, at = self._text, self._at
        if not text.startswith("<<", at):
            self._at += 1
            return
        if text.startswith("<<<", at):
            self._at += 3
            return
        start = _START.match(text, at)
        self.doubtful = self.doubtful or self._in_index
        if start is None or "`" in self._open:
            self.doubtful = True
            self._at += 2
            return
        pieces = ["".join(filter(None, piece)) for piece in _PIECE.findall(start[2])]
        quoted = bool(re.search(r"[\\'\"]", start[2]))
        self._waiting.append(("".join(pieces), quoted, bool(start[1])))
        number = _NUMBER_BEFORE.search(text, max(self._copied, at - 10), at)
        self._kept += (text[self._copied : number.start(1) if number else at], " ")
        self._at = self._copied = start.end()

    def _line_end(self) -> None:
        if self._open[-1] in {'"', "{"}:
            self.doubtful = self.doubtful or bool(self._waiting)
            self._at += 1
            return
        self._at += 1
        if not self._waiting:
            return
        self._kept.append(self._text[self._copied : self._at])
        for name, quoted, tabs in self._waiting:
            self.documents.append(Document(self._body(name, quoted, tabs), quoted))
        self._waiting.clear()
        self._copied = self._at

    def _body(self, name: str, quoted: bool, tabs: bool) -> str:
        start = self._at
        nested = len(self._open) > 1
        for begin, end, line in self._lines(quoted):
            text = line.lstrip("\t") if tabs else line
            if text == name:
                self._at = end
                return self._text[start:begin]
            if nested and text.startswith(name) and re.match(r"\s*[)`]", text[len(name) :]):
                self.doubtful = True
        self.doubtful = True
        self._at = len(self._text)
        return self._text[start:]

    def _lines(self, quoted: bool) -> Iterator[tuple[int, int, str]]:
        """The start, end and text of each line. If the document is not quoted, a backslash at
        the end joins the next line."""
        begin = at = self._at
        parts: list[str] = []
        while at < len(self._text):
            end = self._text.find("\n", at)
            end = len(self._text) if end < 0 else end
            line = self._text[at:end]
            at = end + 1
            slashes = len(line) - len(line.rstrip("\\"))
            if not quoted and slashes % 2:
                parts.append(line[:-1])
                continue
            if parts and any(line.strip("\t") == name for name, _, _ in self._waiting):
                self.doubtful = True
            joined = "".join((*parts, line))
            parts.clear()
            yield begin, min(at, len(self._text)), joined
            begin = at
