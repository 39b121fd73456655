"""The header with the session's figures, and the status line below the input area."""

from pathlib import PurePath

from msgspec import Struct
from rich.text import Text
from textual.widgets import Static

from rookery.core.folds.run_tallies import Totals
from rookery.core.modes import Level
from rookery.core.queries import About
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.interfaces import ToastKind
from rookery.tui.rows.lines import cut
from rookery.tui.short_texts import short_number, short_path
from rookery.tui.theme import Theme, theme_of

CELLS = 12
HALF, MOST = 50, 75
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SCRIPTS = (".yaml", ".yml", ".json")
MIN_MODEL_COLUMNS = 8
"""Minimum columns for a model's name."""
DEFAULT_WINDOW = 200_000
"""Context window assumed for an unknown model."""


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
    leaving: bool = False
    escape_warning: str = ""
    toast: str = ""
    kind: ToastKind = "info"
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
    if doing.leaving:
        line = Text("Press Ctrl+C again to exit; the session is kept.", theme.fg(theme.warning))
    elif doing.escape_warning:
        line = Text(doing.escape_warning, theme.fg(theme.warning))
    elif doing.toast:
        line = Text(harmless_line(doing.toast), theme.fg(getattr(theme, _COLOURS[doing.kind])))
        right = ""
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
