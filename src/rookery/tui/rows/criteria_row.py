"""What became of an intent's acceptance criteria, one below the other."""

from collections.abc import Iterator

from rich.text import Text

from rookery.tui.rows.lines import indented, wrapped
from rookery.tui.theme import Look

_HEAD = "Acceptance criteria of "
_INKS = {"✓": "good", "✗": "bad", "?": "careful"}


def tells_criteria(note: str) -> bool:
    return note.startswith(_HEAD)


def drawn_criteria(note: str, width: int, look: Look) -> Iterator[Text]:
    """Each behind its mark, in the colour of that: met, not met, or only claimed."""
    head, *rows = note.split("\n")
    yield from wrapped(Text(head, look.ink(look.words)), width)
    for row in rows:
        mark, _, words = row.strip().partition(" ")
        if mark not in _INKS:
            yield from indented(wrapped(Text(row.strip()), width - 2), Text("  "), Text("  "))
            continue
        ink = look.ink(getattr(look, _INKS[mark]))
        yield from indented(wrapped(Text(words, ink), width - 2), Text(f"{mark} ", ink), Text("  "))
