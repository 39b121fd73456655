"""The main page: the conversation, what stands around it, and where each part stands (`CSS`)."""

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
from rookery.tui.attachments import Attached
from rookery.tui.composer import Composer, Remembered
from rookery.tui.rows.lines import cut
from rookery.tui.short_texts import labels, nameless
from rookery.tui.status import HeaderBar, StatusLine
from rookery.tui.texts import welcome
from rookery.tui.theme import Theme
from rookery.tui.transcript_view import TranscriptView

CSS = """
Screen { background: $background; color: $foreground; }
HeaderBar { height: 1; padding: 0 1; dock: top; background: $band; }
#bottom { height: auto; dock: bottom; background: $background; }
TranscriptView { height: 1fr; padding: 0 0 0 1; background: $background; }
TranscriptView { scrollbar-size-vertical: 1; }
#welcome { height: 1fr; padding: 1 3; color: $foreground; display: none; }
#queue { height: auto; max-height: 5; padding: 0 1; display: none; }
AttachedLine { height: 1; padding: 0 1; display: none; }
#slot { height: auto; max-height: 11; padding: 0 1; display: none; }
Page { height: 1fr; }
AskPanel {
    height: auto; padding: 0 1 0 2; display: none;
    border-top: solid $line; border-left: none; background: $background;
}
AskPanel:focus { border-top: solid $primary; }
#ask-title { height: auto; padding: 0 1; }
#ask-body { height: 3; padding: 0 0 0 1; scrollbar-size-vertical: 1; }
#ask-footing { height: auto; padding: 0 1; margin-top: 1; }
#ask-keys { height: 1; padding: 0 1; margin-top: 1; }
#input { height: auto; border-top: solid $line; border-bottom: solid $line; }
#input:focus-within { border-top: solid $primary; border-bottom: solid $primary; }
#input > #prompt { width: 2; padding: 0 0 0 1; color: $primary; text-style: bold; }
Composer {
    height: auto; min-height: 1; max-height: 8; width: 1fr; padding: 0 1 0 1; border: none;
    background: $background; color: $foreground; scrollbar-size-vertical: 1;
}
Composer:focus { border: none; }
Composer > .text-area--placeholder { color: $quiet; }
Composer > .text-area--cursor-line { background: $background; }
StatusLine { height: 1; padding: 0 1; }
"""


QUEUED = 4
"""Of what the model has not heard yet, what is shown above the input area."""


class Page(Vertical):
    def __init__(self, theme: Theme, remembered: Remembered) -> None:
        super().__init__()
        self._theme = theme
        self.header = HeaderBar(theme)
        self.transcript = TranscriptView(theme)
        self.panel = AskPanel(theme, self._type)
        self.composer = Composer(remembered)
        self.status = StatusLine(theme)
        self.slot = Vertical(id="slot")
        """Where a picker or a list opens."""
        self._empty = Static(id="welcome")
        self._queue = Static(id="queue")
        self.attached = AttachedLine(theme)

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

    def on_transcript_view_typed(self, message: TranscriptView.Typed) -> None:
        self._type(message.letter)

    def _type(self, text: str) -> None:
        """What was typed elsewhere and is meant for the input area, which has the keys now."""
        self.screen.set_focus(self.composer)
        if text == "\n":
            self.composer.action_submit()
        else:
            self.composer.take(text)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for part in (self.header, self.transcript, self.panel, self.attached, self.status):
            part.set_theme(theme)

    def show_conversation(self, there_is_one: bool, about: About) -> None:
        """The conversation, or the empty page."""
        if self._empty.display == there_is_one:
            self._empty.display = not there_is_one
            self.transcript.display = there_is_one
        if not there_is_one:
            self._empty.update(welcome(about, self._theme))

    def show_queue(self, waiting: Sequence[UserSpoke]) -> None:
        """What was said and not heard yet."""
        self._queue.display = bool(waiting)
        if waiting:
            ink, width = self._theme.ink(self._theme.quiet), self.size.width - 4
            rows = [Text(f"⋯ {_unheard(said)}", ink) for said in waiting[-QUEUED:]]
            self._queue.update(Text("\n").join(cut(row, width) for row in rows))

    def invite(self, words: str) -> None:
        if self.composer.placeholder != words:
            self.composer.placeholder = words


def _unheard(said: UserSpoke) -> str:
    return harmless_line("  ".join(filter(None, (said.text, nameless(said.images)))))


def attached_line(attached: Sequence[Attached], width: int) -> Text:
    """Where there is no room for all, the last are shown: those are the first to be removed."""
    parts = labels((harmless_line(each.name), each.image) for each in attached)
    line = Text("  ".join(parts))
    while len(parts) > 1 and line.cell_len > width:
        parts = parts[1:]
        line = Text("  ".join(["…", *parts]))
    return cut(line, width)


class AttachedLine(Static):
    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self._attached: Sequence[Attached] = ()

    def show(self, attached: Sequence[Attached]) -> None:
        self._attached = attached
        self.display = bool(attached)
        self.refresh()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.refresh()

    def render(self) -> Text:
        line = attached_line(self._attached, max(20, self.content_size.width))
        line.stylize(self.theme.ink(self.theme.accent))
        return line
