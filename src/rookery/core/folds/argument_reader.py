"""Incremental reader for the JSON arguments of a call that is still streaming.

Every character is read once, however the text is split, so the cost is linear. The result is for
display only: whether a call may run is decided by the strict parser in `answer_assembler`.
"""

import json
import re
from enum import Enum, auto
from typing import Any

from rookery.first_use import lazy_pattern

DEEPEST = 100

_BLANK = lazy_pattern(r"[ \t\r\n]*")
_IN_STRING = lazy_pattern(r'[^"\\]*')
_OUTSIDE_STRING = lazy_pattern(r'[^"\[\]{}]*')
_SCALAR = lazy_pattern(r"[^,} \t\r\n]*")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class _ReaderState(Enum):
    """The reader's position in the grammar."""

    START = auto()
    KEY_OR_END = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    STRING = auto()
    SCALAR = auto()
    NESTED = auto()
    NESTED_STRING = auto()
    COMMA_OR_END = auto()
    END = auto()


class ArgumentReader:
    """The top-level fields of a partial JSON object.

    `fields` has the complete values. While the value of `growing_key` is an unfinished string,
    `growing_text` is its text so far. Text that is not a JSON object stops the reader silently.
    """

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.growing_key: str | None = None
        self.scanned = 0
        self._place = _ReaderState.START
        self._words = _StringPieces()
        self._key = ""
        self._source: list[str] = []
        self._depth = 0
        self._escaped = False

    @property
    def growing_text(self) -> str:
        return self._words.text() if self.growing_key is not None else ""

    def known(self) -> dict[str, Any]:
        """The complete fields and the unfinished one so far."""
        if self.growing_key is None:
            return dict(self.fields)
        return {**self.fields, self.growing_key: self.growing_text}

    def feed(self, piece: str) -> None:
        at = 0
        while at < len(piece) and self._place is not _ReaderState.END:
            after = self._step(piece, at)
            self.scanned += after - at
            at = after

    def _step(self, piece: str, at: int) -> int:
        """Consume one token from `at` and return the next position."""
        match self._place:
            case _ReaderState.KEY | _ReaderState.STRING:
                return self._read_string(piece, at)
            case _ReaderState.NESTED:
                return self._read_nested(piece, at)
            case _ReaderState.NESTED_STRING:
                return self._read_nested_string(piece, at)
            case _ReaderState.SCALAR:
                return self._read_scalar(piece, at)
            case _:
                return self._read_mark(piece, at)

    def _read_mark(self, piece: str, at: int) -> int:
        at = _end(_BLANK, piece, at)
        if at == len(piece):
            return at
        mark = piece[at]
        match self._place, mark:
            case _ReaderState.START, "{":
                self._place = _ReaderState.KEY_OR_END
            case (_ReaderState.KEY_OR_END, "}") | (_ReaderState.COMMA_OR_END, "}"):
                self._place = _ReaderState.END
            case _ReaderState.KEY_OR_END, '"':
                self._words = _StringPieces()
                self._place = _ReaderState.KEY
            case _ReaderState.COLON, ":":
                self._place = _ReaderState.VALUE
            case _ReaderState.COMMA_OR_END, ",":
                self._place = _ReaderState.KEY_OR_END
            case _ReaderState.VALUE, '"':
                self._words = _StringPieces()
                self.growing_key = self._key
                self.fields.pop(self._key, None)
                self._place = _ReaderState.STRING
            case _ReaderState.VALUE, "{" | "[":
                self._source, self._depth = [], 0
                self._place = _ReaderState.NESTED
                return at
            case _ReaderState.VALUE, _:
                self._source = []
                self._place = _ReaderState.SCALAR
                return at
            case _:
                self._place = _ReaderState.END
        return at + 1

    def _read_string(self, piece: str, at: int) -> int:
        if self._words.in_escape:
            self._words.add_to_escape(piece[at])
            return at + 1
        end = _end(_IN_STRING, piece, at)
        self._words.add(piece[at:end])
        if end == len(piece):
            return end
        if piece[end] == "\\":
            self._words.begin_escape()
        else:
            self._end_string()
        return end + 1

    def _end_string(self) -> None:
        text = self._words.finish()
        if self._place is _ReaderState.KEY:
            self._key = text
            self._place = _ReaderState.COLON
        else:
            self.fields[self._key] = text
            self.growing_key = None
            self._place = _ReaderState.COMMA_OR_END

    def _read_nested(self, piece: str, at: int) -> int:
        end = _end(_OUTSIDE_STRING, piece, at)
        if end == len(piece):
            self._source.append(piece[at:])
            return end
        self._source.append(piece[at : end + 1])
        match piece[end]:
            case '"':
                self._place = _ReaderState.NESTED_STRING
            case "{" | "[":
                self._depth += 1
            case _:
                self._depth -= 1
        if self._depth > DEEPEST:
            self._place = _ReaderState.END
        elif self._depth == 0:
            self._keep_value()
        return end + 1

    def _read_nested_string(self, piece: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            self._source.append(piece[at])
            return at + 1
        end = _end(_IN_STRING, piece, at)
        self._source.append(piece[at : end + 1])
        if end == len(piece):
            return end
        if piece[end] == "\\":
            self._escaped = True
        else:
            self._place = _ReaderState.NESTED
        return end + 1

    def _read_scalar(self, piece: str, at: int) -> int:
        end = _end(_SCALAR, piece, at)
        self._source.append(piece[at:end])
        if end < len(piece):
            self._keep_value()
        return end

    def _keep_value(self) -> None:
        source = "".join(self._source)
        self.scanned += len(source)
        try:
            self.fields[self._key] = json.loads(source)
        except ValueError:
            self._place = _ReaderState.END
        else:
            self._place = _ReaderState.COMMA_OR_END


class _StringPieces:
    """A string in progress, with escapes decoded.

    Half of a surrogate pair is held back until the other half may follow.
    """

    def __init__(self) -> None:
        self.in_escape = False
        self._pieces: list[str] = []
        self._escape = ""
        self._high = ""

    def text(self) -> str:
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, run: str) -> None:
        if run:
            self._release_high()
            self._keep(run)

    def begin_escape(self) -> None:
        self.in_escape, self._escape = True, ""

    def add_to_escape(self, character: str) -> None:
        self._escape += character
        if self._escape[0] == "u" and len(self._escape) < 5:
            return
        self.in_escape = False
        self._keep_unit(_unescaped(self._escape))

    def finish(self) -> str:
        self._release_high()
        return self.text()

    def _keep_unit(self, unit: str) -> None:
        if self._high and "\udc00" <= unit <= "\udfff":
            pair = (self._high + unit).encode("utf-16", "surrogatepass").decode("utf-16")
            self._high = ""
            self._keep(pair)
            return
        self._release_high()
        if "\ud800" <= unit <= "\udbff":
            self._high = unit
        else:
            self._keep(unit)

    def _release_high(self) -> None:
        if self._high:
            self._keep(self._high)
            self._high = ""

    def _keep(self, text: str) -> None:
        self._pieces.append(text)


def _unescaped(escape: str) -> str:
    """The character for an escape; empty for an invalid one."""
    if escape[0] != "u":
        return _ESCAPES.get(escape, "")
    try:
        return chr(int(escape[1:], 16))
    except ValueError:
        return ""


def _end(run: re.Pattern[str], piece: str, at: int) -> int:
    found = run.match(piece, at)
    assert found is not None
    return found.end()
