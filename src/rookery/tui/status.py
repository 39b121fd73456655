"""The lines around the conversation: who works where, what it cost, what goes on."""

from pathlib import PurePath

from msgspec import Struct
from rich.text import Text
from textual.widgets import Static

from rookery.core.folds.run_tallies import Totals
from rookery.core.queries import About
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.interfaces import ToastKind
from rookery.tui.rows.lines import cut
from rookery.tui.theme import Theme

CELLS = 12
HALF, MOST = 50, 75
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SCRIPTS = (".yaml", ".yml", ".json")
LEAST_MODEL = 8
"""Columns of a model's name that still tell which it is."""
WINDOW = 200_000
"""What is assumed of a model that nobody knows."""


class HeaderFacts(Struct, frozen=True, kw_only=True):
    """What the header shows."""

    about: About = About()
    home: str = ""
    model: str = ""
    mode: str = ""
    intent: str = ""
    """What the task works for, by its id."""
    intent_name: str = ""
    automatic: bool = False
    usage: Totals = Totals()


def short_number(count: int) -> str:
    if count < 1_000:
        return str(count)
    if count < 999_950:
        return f"{count / 1_000:.1f}K"
    return f"{count / 1_000_000:.1f}M"


def short_path(path: str, home: str) -> str:
    """A path with the home as `~`."""
    if home and PurePath(path).is_relative_to(home):
        return str(PurePath("~") / PurePath(path).relative_to(home))
    return path


def context_bar(used: int, window: int, theme: Theme) -> Text:
    """How full the model's context is: twelve cells and a number."""
    share = min(100, round(100 * used / (window or WINDOW)))
    full = round(CELLS * share / 100)
    ink = theme.bad if share > MOST else theme.careful if share > HALF else theme.good
    return Text.assemble(
        ("━" * full, theme.ink(ink)),
        ("━" * (CELLS - full), theme.ink(theme.line)),
        (f" {share}%", theme.ink(theme.quiet if share <= HALF else ink)),
    )


def metrics(around: HeaderFacts, theme: Theme, room: int) -> Text:
    """Cost, tokens and context; what does not fit is left out, the context last."""
    usage = around.usage
    bar = context_bar(usage.context_tokens, around.about.window, theme)
    quiet = theme.ink(theme.quiet)
    cost = Text(f"${usage.cost:.2f}", quiet)
    tokens = Text(f"↑{short_number(usage.tokens_in)} ↓{short_number(usage.tokens_out)}", quiet)
    for parts in ([cost, tokens, bar], [cost, bar], [bar]):
        line = Text("  ").join(parts)
        if line.cell_len <= room:
            return line
    return Text()


def _model_name(model: str) -> str:
    """A script that plays a model is called by its file."""
    path = PurePath(model)
    return path.name if path.suffix in SCRIPTS else model


def header_line(around: HeaderFacts, theme: Theme, width: int) -> Text:
    quiet = theme.ink(theme.quiet)
    left = Text("♜ rookery", theme.ink(theme.accent, bold=True))
    if around.automatic:
        left.append("  auto-approve", theme.ink(theme.careful, bold=True))
    right = metrics(around, theme, width // 2)
    middle = _middle(around, width - left.cell_len - right.cell_len - 4)
    line = Text.assemble(left, "  ", (middle, quiet))
    line = cut(line, max(8, width - right.cell_len - 2))
    line.append(" " * max(1, width - line.cell_len - right.cell_len))
    line.append_text(right)
    return line


def _middle(around: HeaderFacts, room: int) -> str:
    """As much as there is room for of who works for what, and where."""
    about = around.about
    where = harmless_line(short_path(about.workspace, around.home))
    model = harmless_line(_model_name(around.model or about.model))
    mode = harmless_line(around.mode or about.mode)
    intent = harmless_line(around.intent)
    named = f"{intent} {harmless_line(around.intent_name)}" if intent else ""
    short = model.rpartition("/")[2]
    taken = Text(" · ".join(filter(None, (mode, intent)))).cell_len
    shorter = cut(Text(short), max(LEAST_MODEL, room - taken - 3)).plain
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
    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self._around = HeaderFacts()

    def show(self, around: HeaderFacts) -> None:
        if around != self._around:
            self._around = around
            self.refresh()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.refresh()

    def render(self) -> Text:
        return header_line(self._around, self.theme, max(20, self.size.width))


class BottomLine(Struct, frozen=True, kw_only=True):
    """What the line at the bottom tells, the most urgent first."""

    toast: str = ""
    kind: ToastKind = "info"
    leaving: bool = False
    stopping: bool = False
    working: str = ""
    seconds: int = 0
    place: str = ""
    """Where in the conversation one looks, unless it is its end."""
    todo: str = ""
    hint: str = "? shortcuts"


_INKS = {"info": "accent", "success": "good", "warning": "careful", "error": "bad"}


def status_line(doing: BottomLine, frame: int, theme: Theme, width: int) -> Text:
    quiet = theme.ink(theme.quiet)
    right = doing.todo
    if doing.toast:
        line = Text(harmless_line(doing.toast), theme.ink(getattr(theme, _INKS[doing.kind])))
        right = ""
    elif doing.leaving:
        line = Text("Press Ctrl+C again to exit; the session is kept.", theme.ink(theme.careful))
    elif doing.stopping:
        line = Text("Press Esc again to stop the task.", theme.ink(theme.careful))
    elif doing.working:
        spin = SPINNER[frame % len(SPINNER)]
        seconds = f" {doing.seconds} s" if doing.seconds else ""
        line = Text.assemble(
            (f"{spin} ", theme.ink(theme.accent)),
            (f"{doing.working}{seconds}", theme.ink(theme.words)),
            ("  Esc stops", quiet),
            (f"  {doing.place}" if doing.place else "", quiet),
        )
    elif doing.place:
        line = Text(doing.place, quiet)
    else:
        line = Text(doing.hint, quiet)
    if not right:
        return cut(line, width)
    tail = cut(Text(harmless_line(right), quiet), max(8, width // 3))
    line = cut(line, max(8, width - tail.cell_len - 2))
    line.append(" " * max(1, width - line.cell_len - tail.cell_len))
    line.append_text(tail)
    return line


class StatusLine(Static):
    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self._doing = BottomLine()
        self._frame = 0

    @property
    def doing(self) -> BottomLine:
        return self._doing

    def show(self, doing: BottomLine) -> None:
        if doing != self._doing:
            self._doing = doing
            self.refresh()

    def spin(self) -> None:
        """Another moment has passed."""
        if self._doing.working and not (self._doing.toast or self._doing.leaving):
            self._frame += 1
            self.refresh()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.refresh()

    def render(self) -> Text:
        return status_line(self._doing, self._frame, self.theme, max(20, self.size.width))
