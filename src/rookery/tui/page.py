"""The main page: its widgets and their layout (`CSS`)."""

from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from rookery.core.facts import UserSpoke
from rookery.core.folds.run_tallies import Totals
from rookery.core.levels import Level
from rookery.core.queries import About
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.ask_panel import AskPanel
from rookery.tui.attachments import Attached
from rookery.tui.composer import Composer
from rookery.tui.input_files import InputHistory
from rookery.tui.interfaces import ToastKind
from rookery.tui.pickers import TRIGGERS
from rookery.tui.rows.lines import cut
from rookery.tui.short_texts import image_labels, labels, short_number, short_path
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
CELLS = 12
HALF, MOST = 50, 75
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SCRIPTS = (".yaml", ".yml", ".json")
MIN_MODEL_COLUMNS = 8
"""Minimum columns for a model's name."""
DEFAULT_WINDOW = 200_000
"""Context window assumed for an unknown model."""


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
        """Show the queued messages."""
        self._queue.display = bool(waiting)
        if waiting:
            theme, width = theme_of(self), self.size.width - 4
            ink = theme.fg(theme.muted)
            rows = [Text(f"⋯ {_queued_text(message)}", ink) for message in waiting[-MAX_QUEUED:]]
            self._queue.update(Text("\n").join(cut(row, width) for row in rows))

    def show_own_status(self, words: str) -> None:
        """Show the user's own status line."""
        self._own_status.display = True
        theme = theme_of(self)
        self._own_status.update(cut(Text(words, theme.fg(theme.muted)), self.size.width - 2))

    def set_placeholder(self, words: str) -> None:
        if self.composer.placeholder != words:
            self.composer.placeholder = words


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
        text.append("\n\nThis folder is not trusted: read-only.", theme.fg(theme.warning))
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


class HeaderFacts(Struct, frozen=True, kw_only=True):
    about: About = About()
    home: str = ""
    model: str = ""
    window: int = 0
    """The context window of the last request's model; 0 if unknown."""
    mode: str = ""
    intent: str = ""
    """Id of the active intent."""
    intent_name: str = ""
    automatic: bool = False
    usage: Totals = Totals()


def context_bar(used: int, window: int, theme: Theme) -> Text:
    """How full the model's context is: a bar and a percentage."""
    share = min(100, round(100 * used / (window or DEFAULT_WINDOW)))
    full = round(CELLS * share / 100)
    ink = theme.bad if share > MOST else theme.warning if share > HALF else theme.good
    return Text.assemble(
        ("━" * full, theme.fg(ink)),
        ("━" * (CELLS - full), theme.fg(theme.line)),
        (f" {share}%", theme.fg(theme.muted if share <= HALF else ink)),
    )


def metrics(header: HeaderFacts, theme: Theme, room: int) -> Text:
    """Cost, tokens and context; the context is the last to be left out if there is no room."""
    usage = header.usage
    bar = context_bar(usage.context_tokens, header.window or header.about.window, theme)
    muted = theme.fg(theme.muted)
    cost = Text(f"${usage.cost:.2f}", muted)
    tokens = Text(f"↑{short_number(usage.tokens_in)} ↓{short_number(usage.tokens_out)}", muted)
    for parts in ([cost, tokens, bar], [cost, bar], [bar]):
        line = Text("  ").join(parts)
        if line.cell_len <= room:
            return line
    return Text()


def _model_name(model: str) -> str:
    """The file name, if the model is a script (used in tests)."""
    path = PurePath(model)
    return path.name if path.suffix in SCRIPTS else model


def header_line(header: HeaderFacts, theme: Theme, width: int) -> Text:
    muted = theme.fg(theme.muted)
    left = Text("♜ rookery", theme.fg(theme.accent, bold=True))
    if header.automatic:
        left.append("  auto-approve", theme.fg(theme.warning, bold=True))
    right = metrics(header, theme, width // 2)
    middle = _middle(header, width - left.cell_len - right.cell_len - 4)
    line = Text.assemble(left, "  ", (middle, muted))
    line = cut(line, max(8, width - right.cell_len - 2))
    line.append(" " * max(1, width - line.cell_len - right.cell_len))
    line.append_text(right)
    return line


def _middle(header: HeaderFacts, room: int) -> str:
    """Mode, intent, model and workspace, as much as fits."""
    about = header.about
    where = harmless_line(short_path(about.workspace, header.home))
    model = harmless_line(_model_name(header.model or about.model))
    mode = harmless_line(header.mode or about.mode)
    intent = harmless_line(header.intent)
    named = f"{intent} {harmless_line(header.intent_name)}" if intent else ""
    short = model.rpartition("/")[2]
    taken = Text(" · ".join(filter(None, (mode, intent)))).cell_len
    shorter = cut(Text(short), max(MIN_MODEL_COLUMNS, room - taken - 3)).plain
    for parts in (
        (mode, named, model, where),
        (mode, named, model),
        (mode, intent, model, where),
        (mode, intent, model),
        (mode, intent, short),
        (mode, intent, shorter),
        (mode, intent),
        (intent or mode,),
    ):
        middle = " · ".join(filter(None, parts))
        if Text(middle).cell_len <= room:
            break
    return middle


class HeaderBar(Static):
    def __init__(self) -> None:
        super().__init__()
        self._header = HeaderFacts()

    def show(self, header: HeaderFacts) -> None:
        if header != self._header:
            self._header = header
            self.refresh()

    def render(self) -> Text:
        return header_line(self._header, theme_of(self), max(20, self.size.width))


class BottomLine(Struct, frozen=True, kw_only=True):
    """Content of the status line, most urgent first. The level is always shown."""

    level: Level | None = None
    toast: str = ""
    kind: ToastKind = "info"
    leaving: bool = False
    escape_warning: str = ""
    vim: str = ""
    """The mode of vim's keys."""
    working: str = ""
    seconds: int = 0
    place: str = ""
    """Scroll position, unless the end is visible."""
    todo: str = ""
    hint: str = "? shortcuts"


_COLOURS = {"info": "accent", "success": "good", "warning": "warning", "error": "bad"}


def status_line(doing: BottomLine, frame: int, theme: Theme, width: int) -> Text:
    level = _level_text(doing.level, theme)
    return level + _status_text(doing, frame, theme, width - level.cell_len)


def _level_text(level: Level | None, theme: Theme) -> Text:
    if level is None:
        return Text()
    inks = {Level.ASK: theme.muted, Level.PLAN: theme.good, Level.AUTO: theme.warning}
    return Text(f"{level} · ", theme.fg(inks.get(level, theme.accent), bold=level is Level.AUTO))


def _status_text(doing: BottomLine, frame: int, theme: Theme, width: int) -> Text:
    muted = theme.fg(theme.muted)
    right = doing.todo
    if doing.toast:
        line = Text(harmless_line(doing.toast), theme.fg(getattr(theme, _COLOURS[doing.kind])))
        right = ""
    elif doing.leaving:
        line = Text("Press Ctrl+C again to exit; the session is kept.", theme.fg(theme.warning))
    elif doing.escape_warning:
        line = Text(doing.escape_warning, theme.fg(theme.warning))
    elif doing.working:
        spin = SPINNER[frame % len(SPINNER)]
        seconds = f" {doing.seconds} s" if doing.seconds else ""
        line = Text.assemble(
            (f"{spin} ", theme.fg(theme.accent)),
            (f"{doing.working}{seconds}", theme.fg(theme.text)),
            ("  Esc stops", muted),
            (f"  {doing.place}" if doing.place else "", muted),
        )
    elif doing.place:
        line = Text(doing.place, muted)
    else:
        line = Text(doing.hint, muted)
    if doing.vim:
        line = Text.assemble((f"{doing.vim}  ", theme.fg(theme.accent, bold=True)), line)
    if not right:
        return cut(line, width)
    room = max(8, min(width // 3, width - line.cell_len - 2))
    tail = cut(Text(harmless_line(right), muted), room)
    line = cut(line, max(8, width - tail.cell_len - 2))
    line.append(" " * max(1, width - line.cell_len - tail.cell_len))
    line.append_text(tail)
    return line


class StatusLine(Static):
    def __init__(self) -> None:
        super().__init__()
        self._doing = BottomLine()
        self._frame = 0

    def show(self, doing: BottomLine) -> None:
        if doing != self._doing:
            self._doing = doing
            self.refresh()

    def spin(self) -> None:
        """Advance the spinner."""
        if self._doing.working and not (self._doing.toast or self._doing.leaving):
            self._frame += 1
            self.refresh()

    def render(self) -> Text:
        return status_line(self._doing, self._frame, theme_of(self), max(20, self.size.width))
