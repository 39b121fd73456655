"""All that is on the screen while one works: the conversation and what stands around it."""

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from rookery.core.facts import UserSpoke
from rookery.core.queries import About
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.ask_panel import AskPanel
from rookery.tui.attached_line import AttachedLine
from rookery.tui.composer import Composer, Remembered
from rookery.tui.rows.lines import cut
from rookery.tui.rows.picture_line import nameless
from rookery.tui.status import HeaderBar, StatusLine
from rookery.tui.texts import welcome
from rookery.tui.theme import Look
from rookery.tui.transcript_view import Transcript

QUEUED = 4
"""Of what the model has not heard yet, what is shown above the input area."""


class Page(Vertical):
    def __init__(self, look: Look, remembered: Remembered) -> None:
        super().__init__()
        self._look = look
        self.header = HeaderBar(look)
        self.transcript = Transcript(look)
        self.panel = AskPanel(look, self._type)
        self.composer = Composer(remembered)
        self.status = StatusLine(look)
        self.slot = Vertical(id="slot")
        """Where a picker or a list opens."""
        self._empty = Static(id="welcome")
        self._queue = Static(id="queue")
        self.attached = AttachedLine(look)

    def compose(self) -> ComposeResult:
        yield self.header
        yield self._empty
        yield self.transcript
        with Vertical(id="bottom"):
            yield self._queue
            yield self.panel
            yield self.attached
            with Horizontal(id="input"):
                yield Static("›", id="prompt")
                yield self.composer
            yield self.slot
            yield self.status

    def on_resize(self, event: events.Resize) -> None:
        self.panel.refit()

    def on_transcript_typed(self, message: Transcript.Typed) -> None:
        self._type(message.letter)

    def _type(self, text: str) -> None:
        """What was typed elsewhere and is meant for the input area, which has the keys now."""
        self.screen.set_focus(self.composer)
        if text == "\n":
            self.composer.action_submit()
        else:
            self.composer.take(text)

    def wear(self, look: Look) -> None:
        self._look = look
        for part in (self.header, self.transcript, self.panel, self.attached, self.status):
            part.wear(look)

    def show_conversation(self, there_is_one: bool, about: About) -> None:
        """The conversation, or the empty page."""
        if self._empty.display == there_is_one:
            self._empty.display = not there_is_one
            self.transcript.display = there_is_one
        if not there_is_one:
            self._empty.update(welcome(about, self._look))

    def show_queue(self, waiting: Sequence[UserSpoke]) -> None:
        """What was said and not heard yet."""
        self._queue.display = bool(waiting)
        if waiting:
            ink, width = self._look.ink(self._look.quiet), self.size.width - 4
            rows = [Text(f"⋯ {_unheard(said)}", ink) for said in waiting[-QUEUED:]]
            self._queue.update(Text("\n").join(cut(row, width) for row in rows))

    def invite(self, words: str) -> None:
        if self.composer.placeholder != words:
            self.composer.placeholder = words


def _unheard(said: UserSpoke) -> str:
    return harmless_line("  ".join(filter(None, (said.text, nameless(said.images)))))
