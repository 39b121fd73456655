"""Where a Markdown text that grows can be cut so that each part stands for itself.

Each line is looked at once. A cut is only made where nothing that may still come can change what
is before it: behind a fence that is closed, or before a line at the margin that follows a blank
one and does not go on with a list. In doubt there is no cut.
"""

import re
from collections.abc import Iterator

_LINE_END = re.compile(r"\r\n|\n|\r(?!\Z)")
"""At the very end a carriage return may become the first half of one."""
_FENCE = re.compile(r"( {0,3})(?:(`{3,})[^`]*|(~{3,}).*)\Z", re.DOTALL)
_ITEM = re.compile(r"([ \t]*)([-+*]|\d{1,9}[.)])([ \t]+|\Z)")
_BLANKS = " \t"
_OF_ITEMS = "-+*0123456789"


class BlockScanner:
    def __init__(self) -> None:
        self._read = 0
        """Up to where lines were looked at."""
        self._start = 0
        """Of the part that is not complete yet."""
        self._begin()

    def _begin(self) -> None:
        self._fence: tuple[str, int] | None = None
        self._has_words = False
        self._after_blank = False
        self._in_list = False
        self._inside = 0
        """How far the words of the last item at the margin are indented; 0 once it is not sure
        that what is indented belongs to it."""
        self._doubtful = False

    def cut(self, text: str, *, complete: bool) -> Iterator[tuple[int, int]]:
        """Begin and end of each part that has become complete; `text` is all there is so far."""
        for found in _LINE_END.finditer(text, self._read):
            start, self._read = self._read, found.end()
            yield from self._take(text[start : found.start()], start, found.end())
        if self._surely_begins_another(text[self._read : self._read + 1]):
            yield from self._cut_at(self._read)
        if complete and self._start < len(text):
            yield from self._cut_at(len(text))

    def _take(self, line: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        if self._doubtful:
            return
        if self._fence:
            if self._closes(line):
                yield from self._cut_at(end)
            return
        if not line.strip(_BLANKS):
            self._after_blank = True
            return
        if self._begins_another(line):
            yield from self._cut_at(start)
        self._has_words, self._after_blank = True, False
        self._note(line)

    def _begins_another(self, line: str) -> bool:
        if not (self._has_words and self._after_blank) or line[0] in _BLANKS:
            return False
        return not (self._in_list and _ITEM.match(line))

    def _surely_begins_another(self, first: str) -> bool:
        """Whether a line does of which only the first character is known."""
        if not first or first in "\r\n" or self._fence or self._doubtful:
            return False
        if self._in_list and first in _OF_ITEMS:
            return False
        return self._begins_another(first)

    def _note(self, line: str) -> None:
        if item := _ITEM.match(line):
            self._in_list = True
            if not item[1]:
                self._inside = len(item[2]) + min(4, len(item[3])) if item[3].strip("\t") else 0
        elif len(line) - len(line.lstrip(" ")) < self._inside:
            self._inside = 0
        if fence := _FENCE.match(line):
            self._open(fence)

    def _open(self, fence: re.Match[str]) -> None:
        indent, marks = len(fence[1]), fence[2] or fence[3]
        if not self._in_list or not indent:
            self._fence = marks[0], len(marks)
        elif not 0 < self._inside <= indent:
            self._doubtful = True

    def _closes(self, line: str) -> bool:
        assert self._fence
        mark, length = self._fence
        marks = line.strip(_BLANKS)
        indent = len(line) - len(line.lstrip(_BLANKS))
        return indent < 4 and len(marks) >= length and not marks.strip(mark)

    def _cut_at(self, end: int) -> Iterator[tuple[int, int]]:
        yield self._start, end
        self._start = end
        self._begin()
