"""A command's output as the model should see it: readable and bounded.

Output comes in pieces that end anywhere, may be endless and may not be text. `Cleaner` turns them
into plain text much as a terminal would show it. `Preview` keeps the beginning and the end. Both
use constant memory.
"""

from itertools import groupby

from rookery.first_use import lazy_pattern

LONGEST_LINE = 4096
"""Characters after which an unfinished line is emitted and can no longer be overwritten."""
LONGEST_ESCAPE = 1024

_ESCAPE = lazy_pattern(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # commands to the terminal: titles, links, clipboard
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # other strings
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # short ones
)
_UNFINISHED_ESCAPE = lazy_pattern(
    r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)\Z"
)
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SYMBOLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}


class Cleaner:
    """Removes escape sequences and applies carriage returns.

    Of a progress bar the last state is left. Other control characters become visible symbols.
    """

    def __init__(self) -> None:
        self._escape = ""
        self._line = ""

    def add(self, piece: str) -> str:
        """Return the part of the text so far that cannot change any more."""
        text = self._line + self._without_escapes(piece)
        if _CONTROL.search(text):
            *lines, line = text.split("\n")
            settled = "".join(_settled(line) + "\n" for line in lines)
            self._line = _last_state(line)
        else:
            settled, end, self._line = text.rpartition("\n")
            settled += end
        if len(self._line) > LONGEST_LINE:
            settled += _settled(self._line)
            self._line = ""
        return settled

    def finish(self) -> str:
        rest = _settled(self._line + self._escape)
        self._line = self._escape = ""
        return rest

    def _without_escapes(self, piece: str) -> str:
        if not self._escape and "\x1b" not in piece:
            return piece
        text = self._escape + piece
        cut = _UNFINISHED_ESCAPE.search(text)
        self._escape = cut[0] if cut and len(cut[0]) <= LONGEST_ESCAPE else ""
        return _ESCAPE.sub("", text.removesuffix(self._escape))


class Preview:
    """The first `head` bytes of a text and its last ones, `size` bytes in all."""

    def __init__(self, *, size: int, head: int) -> None:
        self.total = 0
        self._head_size = head
        self._tail_size = size - head
        self._head = b""
        self._tail = bytearray()

    def add(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        self.total += len(data)
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: -self._tail_size]

    @property
    def complete(self) -> bool:
        return self.total == len(self._head) + len(self._tail)

    def text(self) -> str:
        """The kept text, with the number of omitted bytes in between."""
        if self.complete:
            return collapsed((self._head + self._tail).decode())
        head, tail = (part.decode("utf-8", "ignore") for part in (self._head, self._tail))
        omitted = self.total - len(head.encode()) - len(tail.encode())
        return f"{collapsed(head)}\n[… {omitted} bytes omitted …]\n{collapsed(tail)}"


def readable(text: str) -> str:
    """A whole text, cleaned."""
    cleaner = Cleaner()
    return cleaner.add(text) + cleaner.finish()


def collapsed(text: str) -> str:
    """The text with runs of equal lines collapsed, where that is shorter."""
    lines: list[str] = []
    for line, run in groupby(text.splitlines(keepends=True)):
        repeated = list(run)[1:]
        message = f"[… the line above {len(repeated)} more times …]\n"
        lines.append(line)
        lines += repeated if len(line) * len(repeated) <= len(message) else [message]
    return "".join(lines)


def _last_state(line: str) -> str:
    """An unfinished line after applying carriage returns."""
    states = [state for state in line.split("\r") if state]
    return (states[-1] if states else "") + ("\r" if line.endswith("\r") else "")


def _settled(line: str) -> str:
    text = _last_state(line).removesuffix("\r")
    if "\b" in text:
        text = _without_backspaces(text)
    return text.translate(_SYMBOLS)


def _without_backspaces(text: str) -> str:
    kept: list[str] = []
    for character in text:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)
