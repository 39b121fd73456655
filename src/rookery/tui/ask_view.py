"""Draws a question into the parts of its panel."""

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from rookery.core.facts import Asked
from rookery.tui.ask_lines import Standing, keys_line, long_title, short_title, title_line
from rookery.tui.ask_size import room_for
from rookery.tui.question_page import Step, body_of, footing_of, page_of
from rookery.tui.rows.lines import cut
from rookery.tui.rows.pieces import Piece
from rookery.tui.scroll_view import Paper
from rookery.tui.theme import Look


class AskDrawing:
    """Title, text, notes and keys. What is drawn is kept until something else is turned to."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.paper = Paper(id="ask-body")
        self._title = Static(id="ask-title")
        self._notes = Static(id="ask-footing")
        self._keys = Static(id="ask-keys")
        self._is_cramped = False

    @property
    def parts(self) -> tuple[Widget, ...]:
        return self._title, self.paper, self._notes, self._keys

    def write(self, asked: Asked, step: Step, at: int) -> None:
        """The text, from its beginning."""
        look, cramped = self.look, self._is_cramped

        def lines(width: int) -> list[Text | Piece]:
            title, body = long_title(asked, step, width), body_of(asked, step, at, width, look)
            footing = footing_of(asked, step, width, look) if cramped else []
            return [*title, *body, *footing]

        self.paper.show(lines)

    def fit(self, asked: Asked, step: Step, at: int, screen: Size) -> None:
        """Be as high as there is room."""
        paper = self.paper
        width = paper.room if paper.size.width else max(16, screen.width - 6)
        notes = footing_of(asked, step, width, self.look)
        room = room_for(asked, step, notes=len(notes), width=width, height=screen.height)
        if room.cramped != self._is_cramped:
            self._is_cramped = room.cramped
            self.write(asked, step, at)
        paper.styles.height = max(1, min(room.body, paper.lines_at(width)))
        self._notes.update(Text("\n").join(notes))
        self._notes.display = bool(notes) and not room.cramped

    def tell(
        self,
        asked: Asked,
        step: Step,
        standing: Standing,
        *,
        unread: int,
        counting: str,
        width: int,
    ) -> None:
        """The lines that change: what is scrolled to, and the keys that work now."""
        words = short_title(asked, step, self.paper.room)
        self._title.update(title_line(words, self.paper.position, self.look))
        keys = page_of(asked, step).keys
        line = keys_line(keys, standing, unread=unread, counting=counting, look=self.look)
        line.rstrip()  # what is behind the last key must not be what does not fit
        self._keys.update(cut(line, width))
