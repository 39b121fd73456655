"""What happens in a page between two looks at it, as much as a model should read of it."""

from collections import deque

from rookery.core.instructions import revealed
from rookery.core.text.characters import whole

MOST_LINES = 40
LONGEST_LINE = 300
MOST_NOTES = 8


class Happenings:
    """The newest lines of the console, and the first of our own notes."""

    def __init__(self) -> None:
        self._console: deque[str] = deque(maxlen=MOST_LINES)
        self._lost = 0
        self._notes: dict[str, None] = {}

    def said(self, line: str) -> None:
        self._lost += len(self._console) == MOST_LINES
        self._console.append(in_line(line, LONGEST_LINE))

    def note(self, sentence: str) -> None:
        """What a page says belongs to `said`; of its words only addresses are told in a note."""
        if len(self._notes) < MOST_NOTES:
            self._notes[sentence] = None

    def take_console(self) -> tuple[str, ...]:
        """The lines since the last time."""
        lost = [f"({self._lost} earlier lines are left out.)"] if self._lost else []
        lines = (*lost, *self._console)
        self._console.clear()
        self._lost = 0
        return lines

    def take_notes(self) -> tuple[str, ...]:
        notes = tuple(self._notes)
        self._notes.clear()
        return notes


def told(text: str, most: int = LONGEST_LINE) -> str:
    """Words of a page for a sentence of ours: in one line, with nothing in them that is unseen or
    could be taken for a tag."""
    return revealed(in_line(text, most))[0].replace("<", "&lt;").replace(">", "&gt;")


def in_line(text: str, most: int) -> str:
    line = " ".join(whole(text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"
