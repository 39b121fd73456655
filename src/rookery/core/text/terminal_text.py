"""Makes text safe and readable for a terminal, and hides known secrets.

`Hiding` removes secrets also from text that comes in pieces. Short secrets are left, because they
would match ordinary words.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from rookery.core.text.characters import EMOJI, INVISIBLE, JOINER
from rookery.first_use import lazy_pattern

_KEPT = {"\n", "\t"}


def _shown(code: int) -> str:
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


class _Table(dict[int, str | int]):
    """A translation table that is filled on demand."""

    def __missing__(self, code: int) -> str | int:
        hidden = any(first <= code <= last for first, last in INVISIBLE)
        self[code] = shown = f"<U+{code:04X}>" if hidden else code
        return shown


_CONTROLS = {
    code: _shown(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in _KEPT
}
_TABLE = _Table(_CONTROLS)
_LINE_TABLE = _Table({**_CONTROLS, 0x09: "␉", 0x0A: "␊", 0x0D: "␍"})


def harmless(text: str) -> str:
    """The text without anything that moves the cursor, or hides or reorders text."""
    if text.isascii() and text.isprintable():
        return text
    return _translated(text.replace("\r\n", "\n"), _TABLE)


def harmless_line(text: str) -> str:
    """A name or title on one line."""
    return _translated(text, _LINE_TABLE)


_JOINER = chr(JOINER)
_INSIDE_EMOJI = f"(?<=[{EMOJI}\ufe0f]){_JOINER}(?=[{EMOJI}])"


def _translated(text: str, table: _Table) -> str:
    """A joiner between two emoji is kept: it hides nothing."""
    if _JOINER not in text:
        return text.translate(table)
    return _JOINER.join(part.translate(table) for part in re.split(_INSIDE_EMOJI, text))


_COLOUR = lazy_pattern(r"\x1b\[[0-9;]*m")


def cells_of(text: str) -> int:
    """The number of terminal columns of a text; colours take none."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(map(_cells, _COLOUR.sub("", text)))


def _cells(char: str) -> int:
    if unicodedata.category(char) in _NO_COLUMN:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_NO_COLUMN = {"Mn", "Me", "Cf"}
_UNSEEN_CATEGORIES = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}
_EMOJI_LOOK = "\ufe0f"
_RUN = lazy_pattern(r"[ \t]{4,}")
_DRAWN = {" ": "␣", "\t": "␉"}
_BLANK_LINES = lazy_pattern(r"^(?:[ \t␍]*\n){3,}", re.M)
_BLANK_DIFF_LINES = lazy_pattern(r"^([+ -]?)[ \t]*\n(?:\1[ \t]*\n){2,}", re.M)
LONGEST_DRAWN = 16
"""Blanks in a row that are drawn; longer runs are shown as a number."""


def plainly_visible(text: str) -> str:
    """A command or path with invisible characters spelled out, and with long runs of blanks,
    which push words out of sight. Lines stay lines, but a run of blank ones becomes one line
    with their number."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(map(_spelled_out, text))
        text = _BLANK_LINES.sub(lambda run: _counted_lines(run[0]), text)
    return _RUN.sub(lambda run: _drawn(run[0]), text)


def visible_line(text: str) -> str:
    """The same on one line: a title, a path, a note."""
    return plainly_visible(harmless_line(text))


def folded_diff(diff: str) -> str:
    """A diff without long runs of blank lines, which push the rest out of sight."""
    return _BLANK_DIFF_LINES.sub(lambda run: run[1] + _counted_lines(run[0]), diff)


def _counted_lines(lines: str) -> str:
    return f"<{lines.count(chr(10))} blank lines>\n"


_UNKNOWN = "[\ue000-\uf8ff\U000f0000-\U0010ffff]"


def approvable(text: str) -> str:
    """A diff for approval: safe to print, and without private-use characters, which look
    different everywhere."""
    return re.sub(_UNKNOWN, lambda found: f"<U+{ord(found[0]):04X}>", harmless(text))


def visible_characters(text: str) -> str:
    """Each character as a visible one, for a field in which positions count."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_letter, text))


def _letter(char: str) -> str:
    if char in " \n\t" or _spelled_out(char) == char or char == _EMOJI_LOOK:
        return char
    if unicodedata.category(char) == "Zs":
        return char
    return _CONTROLS.get(ord(char), "\ufffd")


def _spelled_out(char: str) -> str:
    if char in " \n\t":
        return char
    if isinstance(shown := _TABLE[ord(char)], str):
        return shown
    unseen = char == _EMOJI_LOOK or unicodedata.category(char) in _UNSEEN_CATEGORIES
    return f"<U+{ord(char):04X}>" if unseen else char


def _drawn(blanks: str) -> str:
    if len(blanks) <= LONGEST_DRAWN:
        return "".join(_DRAWN[blank] for blank in blanks)
    return "".join(f"{_DRAWN[kind[0]]}×{len(kind)}" for kind in re.findall(r" +|\t+", blanks))


_STAND_INS = {
    "●": "*",
    "✔": "+",
    "✗": "x",
    "…": "...",
    "·": "-",
    "−": "-",
    "→": "->",
    "│": "|",
    "─": "-",
    "┼": "+",
    "␣": "_",
    "␉": "<tab>",
    "×": "x",
}


def spell_plainly(error: UnicodeError) -> tuple[str, int]:
    """A `codecs` error handler: prints a replacement for characters the encoding lacks."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(char, "?") for char in lacking), error.end


_END = "\x1b[0m"


class Paint(Struct, frozen=True):
    """Colours text, if `on`."""

    on: bool

    def _wrap(self, code: str, text: str) -> str:
        if not self.on:
            return text
        # a style inside another one must not end both
        return f"\x1b[{code}m{text.replace(_END, f'{_END}{chr(27)}[{code}m')}{_END}"

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def italic(self, text: str) -> str:
        return self._wrap("3", text)

    def red(self, text: str) -> str:
        return self._wrap("31", text)

    def green(self, text: str) -> str:
        return self._wrap("32", text)

    def yellow(self, text: str) -> str:
        return self._wrap("33", text)

    def cyan(self, text: str) -> str:
        return self._wrap("36", text)

    def diff(self, text: str) -> str:
        return "\n".join(self._diff_line(line) for line in harmless(text).splitlines())

    def _diff_line(self, line: str) -> str:
        match line[:1]:
            case "+":
                return self.green(line)
            case "-":
                return self.red(line)
            case "@":
                return self.cyan(line)
            case _:
                return line


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shortened(text: str, most: int, mark: str = "…") -> str:
    """The text, or as much of it as fits before a mark."""
    return text if len(text) <= most else text[: most - len(mark)] + mark


def aligned(
    rows: Sequence[Sequence[str]],
    *,
    right: frozenset[int] = frozenset(),
    shown: Callable[[str], str] = harmless_line,
) -> list[str]:
    """A table; the columns named in `right` are numbers."""
    cells = [list(map(shown, row)) for row in rows]
    widths = [max(map(cells_of, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            _padded(cell, width, right=place in right)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - cells_of(cell))
    return space + cell if right else cell + space


_GAP = lazy_pattern(r"\[… (\d+) lines, \d+ characters not shown …\]\n")


def gap(lines: int, characters: int) -> str:
    """A line in place of output that is not shown live."""
    return f"[… {lines} lines, {characters} characters not shown …]\n"


def lines_in_gap(text: str) -> int | None:
    """The number of lines such a line stands for; None for other text."""
    found = _GAP.fullmatch(text)
    return int(found[1]) if found else None


SHORTEST = 12
HIDDEN = "[secret hidden]"
"""Replaces a secret."""


class Hiding:
    """Removes known secrets from text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: list[str] = []
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        known |= {json.dumps(secret)[1:-1] for secret in known}  # as JSON
        # longest first: one secret can be the start of another
        self._secrets = sorted(known.union(self._secrets), key=len, reverse=True)
        found = "|".join(map(re.escape, self._secrets))
        self._found = re.compile(found) if found else None

    def __call__(self, text: str) -> str:
        return self._found.sub(HIDDEN, text) if self._found else text

    def stream(self) -> "HidingStream":
        return HidingStream(self)

    def begun_in(self, text: str) -> int:
        """The number of trailing characters that may start a secret."""
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
    """The same for streamed text. A possible start of a secret is held back until the next
    piece."""

    def __init__(self, hide: Hiding) -> None:
        self._hide = hide
        self._held = ""

    def add(self, piece: str) -> str:
        """Return the part of the text so far that cannot be part of a secret any more."""
        text = self._hide(self._held + piece)
        at = len(text) - self._hide.begun_in(text)
        self._held = text[at:]
        return text[:at]

    def finish(self) -> str:
        rest, self._held = self._held, ""
        return rest


def _places(character: str, text: str) -> Iterable[int]:
    return (match.start() for match in re.finditer(re.escape(character), text))
