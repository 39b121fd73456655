"""A command's output as a model should see it: readable, of a bounded length, without secrets.

Output comes in pieces that end anywhere, may be endless and may be no text at all. `Cleaner`
turns the pieces into plain text much as a terminal would have shown it; `Preview` keeps
the beginning and the end of any amount of text. Both take constant memory. `Hiding` takes out
secrets that are known, also where one comes in two pieces. A short one is left: it would be
found in ordinary words.
"""

import json
import re
from collections.abc import Iterable
from itertools import groupby

SHORTEST = 12
HIDDEN = "[secret hidden]"
"""What is read in the place of a secret."""


class Hiding:
    """Knows the secrets, and shows none of them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        known |= {json.dumps(secret)[1:-1] for secret in known}  # as it stands in a payload
        # of two secrets that begin alike, the longer one
        self._secrets = sorted(known, key=len, reverse=True)
        found = "|".join(map(re.escape, self._secrets))
        self._found = re.compile(found) if found else None

    def __call__(self, text: str) -> str:
        return self._found.sub(HIDDEN, text) if self._found else text

    def stream(self) -> "HidingStream":
        return HidingStream(self)

    def begun_in(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of a secret."""
        longest = max(map(len, self._secrets), default=1) - 1
        end = text[-longest:] if longest else ""
        return max(
            (
                len(end) - at
                for secret in self._secrets
                for at in _places(secret[0], end)
                if secret.startswith(end[at:])
            ),
            default=0,
        )


class HidingStream:
    """The same for a text that comes in pieces. What may be the beginning of a secret waits for
    the piece after it."""

    def __init__(self, hide: Hiding) -> None:
        self._hide = hide
        self._held = ""

    def add(self, piece: str) -> str:
        """As much of the text so far as can no longer be part of a secret."""
        text = self._hide(self._held + piece)
        at = len(text) - self._hide.begun_in(text)
        self._held = text[at:]
        return text[:at]

    def finish(self) -> str:
        rest, self._held = self._held, ""
        return rest


def _places(character: str, text: str) -> Iterable[int]:
    return (match.start() for match in re.finditer(re.escape(character), text))


LONGEST_LINE = 4096
"""Characters after which an unfinished line is given away, and can no longer be overwritten."""
LONGEST_ESCAPE = 1024

_GAP = re.compile(r"\[… (\d+) lines, \d+ characters not shown …\]\n")
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # commands to the terminal: titles, links, clipboard
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # other strings
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # short ones
)
_UNFINISHED_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)\Z"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SYMBOLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}


class Cleaner:
    """Takes out escape sequences, and settles what was overwritten on its line.

    Of a progress bar its last state is left. Control characters that mean nothing in a text
    become the symbols that stand for them.
    """

    def __init__(self) -> None:
        self._escape = ""
        self._line = ""

    def add(self, piece: str) -> str:
        """As much of the text so far as can no longer change."""
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
        """What was kept, and between its halves how much was not."""
        if self.complete:
            return collapsed((self._head + self._tail).decode())
        head, tail = (part.decode("utf-8", "ignore") for part in (self._head, self._tail))
        omitted = self.total - len(head.encode()) - len(tail.encode())
        return f"{collapsed(head)}\n[… {omitted} bytes omitted …]\n{collapsed(tail)}"


def gap(lines: int, characters: int) -> str:
    """A line that stands for output which is not shown while it comes."""
    return f"[… {lines} lines, {characters} characters not shown …]\n"


def lines_in_gap(text: str) -> int | None:
    """How many lines such a line stands for; None for any other text."""
    found = _GAP.fullmatch(text)
    return int(found[1]) if found else None


def readable(text: str) -> str:
    """A whole text, cleaned."""
    cleaner = Cleaner()
    return cleaner.add(text) + cleaner.finish()


def collapsed(text: str) -> str:
    """The text with runs of one and the same line told in a line, where that is shorter."""
    lines: list[str] = []
    for line, run in groupby(text.splitlines(keepends=True)):
        repeated = list(run)[1:]
        told = f"[… the line above {len(repeated)} more times …]\n"
        lines.append(line)
        lines += repeated if len(line) * len(repeated) <= len(told) else [told]
    return "".join(lines)


def _last_state(line: str) -> str:
    """An unfinished line without what a carriage return has had overwritten."""
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
