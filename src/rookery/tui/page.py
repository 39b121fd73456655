"""The main page: its widgets and their layout (`CSS`)."""

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from rookery.core.facts import UserSpoke
from rookery.core.queries import About
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.ask_panel import AskPanel
from rookery.tui.attachments import Attached
from rookery.tui.composer import Composer
from rookery.tui.input_files import InputHistory
from rookery.tui.pickers import TRIGGERS
from rookery.tui.rows.lines import cut
from rookery.tui.short_texts import image_labels, labels
from rookery.tui.status_bars import HeaderBar, StatusLine
from rookery.tui.theme import Theme, theme_of
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
Composer > .text-area--placeholder { color: $muted; }
Composer > .text-area--cursor-line { background: $background; }
.-behind #input:focus-within { border-top: solid $line; border-bottom: solid $line; }
.-behind Composer > .text-area--cursor { background: $background; color: $muted; }
StatusLine { height: 1; padding: 0 1; }
#own-status { height: 1; padding: 0 1; display: none; }
"""


ASKS_FIRST = "I'll ask before changing anything."
AUTO_APPROVES = "Auto-approve is on; every change can be undone."

MAX_QUEUED = 4
"""Number of queued messages shown above the input area."""


class Page(Vertical):
    def __init__(self, inputs: InputHistory) -> None:
        super().__init__()
        self.header = HeaderBar()
        self.transcript = TranscriptView()
        self.panel = AskPanel(self._type)
        self.composer = Composer(inputs)
        self.status = StatusLine()
        self.slot = Vertical(id="slot")
        """Where a picker or the to-do list opens."""
        self._empty = Static(id="welcome")
        self._queue = Static(id="queue")
        self.attached = AttachedLine()
        self._own_status = Static(id="own-status")

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
            yield self._own_status

    def on_resize(self) -> None:
        self.panel.refit()

    def on_transcript_view_typed(self, message: TranscriptView.Typed) -> None:
        self._type(message.letter)

    def _type(self, text: str) -> None:
        """Pass text typed elsewhere, and the focus, to the input area."""
        self.screen.set_focus(self.composer)
        if text == "\n":
            self.composer.action_submit()
        else:
            self.composer.type_text(text)

    def redraw(self) -> None:
        """Draw everything again, in the theme of the app."""
        self.transcript.refit()
        self.panel.redraw()
        for line in (self.header, self.attached, self.status):
            line.refresh()

    def show_conversation(self, has_session: bool, about: About) -> None:
        """Show the conversation or the empty page."""
        if self._empty.display == has_session:
            self._empty.display = not has_session
            self.transcript.display = has_session
        if not has_session:
            self._empty.update(welcome(about, theme_of(self)))

    def show_queue(self, waiting: Sequence[UserSpoke]) -> None:
        self._queue.display = bool(waiting)
        if waiting:
            theme, width = theme_of(self), self.size.width - 4
            ink = theme.fg(theme.muted)
            rows = [Text(f"⋯ {_queued_text(message)}", ink) for message in waiting[-MAX_QUEUED:]]
            self._queue.update(Text("\n").join(cut(row, width) for row in rows))

    def show_own_status(self, words: str) -> None:
        self._own_status.display = True
        theme = theme_of(self)
        self._own_status.update(cut(Text(words, theme.fg(theme.muted)), self.size.width - 2))

    def set_placeholder(self, words: str) -> None:
        if self.composer.placeholder != words:
            self.composer.placeholder = words


READ_ONLY = "This folder is not trusted: read-only. To change that: rookery trust"


def welcome(about: About, theme: Theme) -> Text:
    """Content of the empty page."""
    muted = theme.fg(theme.muted)
    text = Text.assemble(
        ("♜ rookery", theme.fg(theme.accent, bold=True)),
        (f" {about.version}\n\n", muted),
        f"What should I do? {AUTO_APPROVES if about.automatic else ASKS_FIRST}\n",
    )
    for trigger in TRIGGERS:
        text.append(f"\n{trigger.char}", theme.fg(theme.accent, bold=True))
        text.append(f"  {trigger.what}", muted)
    if not about.trusted:
        text.append(f"\n\n{READ_ONLY}", theme.fg(theme.warning))
    return text


def _queued_text(message: UserSpoke) -> str:
    return harmless_line("  ".join(filter(None, (message.text, image_labels(message.images)))))


def attached_line(attached: Sequence[Attached], width: int) -> Text:
    """If not all fit, the last are shown: they are the first to be removed."""
    images = [(harmless_line(each.name), each.image) for each in attached if each.image]
    texts = [harmless_line(each.name) for each in attached if each.text]
    parts = [*labels(images), *texts]
    line = Text("  ".join(parts))
    while len(parts) > 1 and line.cell_len > width:
        parts = parts[1:]
        line = Text("  ".join(["…", *parts]))
    return cut(line, width)


class AttachedLine(Static):
    def __init__(self) -> None:
        super().__init__()
        self._attached: Sequence[Attached] = ()

    def show(self, attached: Sequence[Attached]) -> None:
        self._attached = attached
        self.display = bool(attached)
        self.refresh()

    def render(self) -> Text:
        theme, width = theme_of(self), max(20, self.content_size.width)
        line = attached_line(self._attached, width)
        line.stylize(theme.fg(theme.accent))
        return line
