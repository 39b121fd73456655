"""The screens for cost and help, and the export of a conversation as Markdown."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from pathlib import Path

from msgspec import Struct
from rich.style import Style
from rich.text import Text
from textual.app import App
from textual.dom import DOMNode
from textual.widget import Widget

from rookery.core.facts import (
    AssistantSpoke,
    Condensed,
    Event,
    Noted,
    RequestFailed,
    RequestStarted,
    TaskOpened,
    Usage,
)
from rookery.core.folds.run_tallies import added
from rookery.core.folds.view import View
from rookery.core.text.terminal_text import counted, harmless_line
from rookery.protocol.transcript_text import as_markdown, passages
from rookery.tui.interfaces import Controller
from rookery.tui.own_commands import COMMANDS
from rookery.tui.pickers import TRIGGERS
from rookery.tui.rows.lines import column, cut, indented, wrapped
from rookery.tui.screens.side_screen import (
    RELOAD_SECONDS,
    KeyUse,
    ReadingScreen,
    key_uses,
    own_bindings,
)
from rookery.tui.short_texts import clock, money, one_line, precise_money, short_number
from rookery.tui.theme import Theme, theme_of


def export(view: View, task_id: str, workspace: str, file_name: str = "") -> Path:
    """Write the conversation to the file `file_name`, or to a new one in the workspace.

    Raises `OSError` if it cannot be written, or if the file exists.
    """
    folder = Path(workspace) if os.path.isdir(workspace) else Path.cwd()
    path = folder / os.path.expanduser(file_name) if file_name else _free_path(folder, task_id)
    with open(path, "x", encoding="utf-8", errors="replace", opener=_open_private) as file:
        file.write("\n\n".join(as_markdown(passages(view.messages))) + "\n")
    return path


def _open_private(path: str, flags: int) -> int:
    """Readable only by the owner: the conversation may contain secrets."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _free_path(folder: Path, task_id: str) -> Path:
    name = f"rookery-{task_id[:8]}"
    path, number = folder / f"{name}.md", 2
    while os.path.lexists(path):
        path, number = folder / f"{name}-{number}.md", number + 1
    return path


_LAST_NUMBER = re.compile(r"\s*\d+$")
_WORDS = re.compile(r"(?<!^)(?=[A-Z])")
_TITLES = {"Composer": "In the input area", "TranscriptView": "In the conversation"}
COLUMN = 60
GAP = 4


class HelpSection(Struct, frozen=True):
    title: str
    rows: Sequence[tuple[str, str]]


def sections(app: App[object]) -> list[HelpSection]:
    """Keys that work everywhere, keys of each widget, triggers and commands."""
    kinds = dict.fromkeys(type(each) for each in app.screen_stack[0].walk_children(Widget))
    parts = [
        HelpSection("Everywhere", _keys_of(type(app))),
        *(HelpSection(_title(kind), _keys_of(kind)) for kind in kinds),
        HelpSection("At the beginning of a line", [(each.char, each.what) for each in TRIGGERS]),
        HelpSection(
            "Commands", [(f"/{each.name} {each.hint}".strip(), each.what) for each in COMMANDS]
        ),
    ]
    return [part for part in parts if part.rows]


def _title(kind: type[Widget]) -> str:
    """Where the keys of a widget work."""
    words = _WORDS.sub(" ", kind.__name__).lower()
    return _TITLES.get(kind.__name__, f"In the {words}")


def _keys_of(kind: type[DOMNode]) -> list[tuple[str, str]]:
    return [*_merge_keys(key_uses(own_bindings(kind)))]


def _merge_keys(uses: Iterable[KeyUse]) -> Iterator[tuple[str, str]]:
    """One row per action; keys that differ only in a number are shown as a range."""
    for _, group in groupby(uses, key=lambda use: _LAST_NUMBER.sub("", use.what)):
        same = list(group)
        keys = [use.key for use in same]
        if len(same) > 2:
            yield f"{keys[0]} … {keys[-1]}", _LAST_NUMBER.sub("", same[0].what)
        else:
            yield " or ".join(keys), same[0].what


def draw_help(parts: Sequence[HelpSection], width: int, theme: Theme) -> list[Text]:
    """The help, in two columns if there is room."""
    if width < 2 * COLUMN + GAP:
        return [line for part in parts for line in _draw_section(part, width, theme)]
    blocks = [_draw_section(part, COLUMN, theme) for part in parts]
    left, right = _halves(blocks)
    lines: list[Text] = []
    for at in range(max(len(left), len(right))):
        line = left[at].copy() if at < len(left) else Text()
        line.pad_right(COLUMN + GAP - line.cell_len)
        lines.append(Text.assemble(line, right[at]) if at < len(right) else line)
    return lines


def _halves(blocks: Sequence[Sequence[Text]]) -> tuple[list[Text], list[Text]]:
    half = sum(map(len, blocks)) / 2
    left: list[Text] = []
    right: list[Text] = []
    for block in blocks:
        if not right and len(left) + len(block) / 2 <= half:
            left += block
        else:
            right += block
    return left, right


def _draw_section(part: HelpSection, width: int, theme: Theme) -> list[Text]:
    first = min(width // 2, max(Text(key).cell_len for key, _ in part.rows))
    lines = [Text(part.title, theme.fg(theme.accent, bold=True))]
    for key, what in part.rows:
        keys = Text(key, theme.fg(theme.text))
        keys.pad_right(max(0, first - keys.cell_len) + 2)
        words = wrapped(Text(what, theme.fg(theme.muted)), max(16, width - keys.cell_len - 2))
        margin = Text.assemble("  ", keys)
        lines += indented(words, margin, Text(" " * margin.cell_len))
    return [*lines, Text()]


class HelpScreen(ReadingScreen[None]):
    TITLE_TEXT = "Help"

    def on_mount(self) -> None:
        super().on_mount()
        parts = sections(self.app)
        self.write(lambda width: draw_help(parts, width, theme_of(self)))


NO_USAGE = Usage()
ROWS = 200
"""Requests of a task shown in a row of their own; earlier ones share one."""


class Spending(Struct, frozen=True):
    """Usage of one request. `what` marks unusual ones, such as failed requests."""

    ts: int
    model: str
    usage: Usage
    what: str = ""


class Account(Struct, frozen=True):
    """Usage of one task."""

    title: str
    spendings: tuple[Spending, ...]

    @property
    def sum(self) -> Usage:
        return sum_usage(each.usage for each in self.spendings)


def sum_usage(usages: Iterable[Usage]) -> Usage:
    return reduce(added, usages, NO_USAGE)


def account(events: Sequence[Event]) -> Account:
    """Includes rewound requests, as they were paid for too."""
    title = ""
    models: dict[str, str] = {}
    found: list[Spending] = []
    for event in events:
        match event.fact:
            case TaskOpened(text=text):
                title = text
            case RequestStarted(request_id=request_id, model=model):
                models[request_id] = model
            case AssistantSpoke(request_id=request_id, usage=usage) as answer:
                what = "interrupted" if answer.interrupted else ""
                found.append(Spending(event.ts, models.get(request_id, ""), usage, what))
            case RequestFailed(request_id=request_id, usage=usage) if usage != NO_USAGE:
                found.append(Spending(event.ts, models.get(request_id, ""), usage, "failed"))
            case Condensed(usage=usage) if usage != NO_USAGE:
                found.append(Spending(event.ts, "", usage, "summary"))
            case Noted(usage=Usage() as usage):
                found.append(Spending(event.ts, "", usage, "MCP server"))
            case _:
                pass
    return Account(title, tuple(found))


class CostScreen(ReadingScreen[None]):
    TITLE_TEXT = "Cost"

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._events = -1
        self._requests: list[int] | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self._reload()
        self.set_interval(RELOAD_SECONDS, self._reload)

    def _reload(self) -> None:
        logs = [self._controller.events(task_id) for task_id in self._controller.views]
        if (count := sum(map(len, logs))) == self._events:
            return
        self._events = count
        accounts = [account(log) for log in logs]
        requests = [len(each.spendings) for each in accounts]
        if requests == self._requests:
            return
        self._requests = requests
        self.write_on(lambda width: draw_accounts(accounts, width, theme_of(self)))
        total = sum_usage(each.sum for each in accounts)
        self.set_subtitle(f"{money(total.cost or 0.0)} in total")


def draw_accounts(accounts: Sequence[Account], width: int, theme: Theme) -> list[Text]:
    if not any(each.spendings for each in accounts):
        return [Text("No requests yet.", theme.fg(theme.muted))]
    lines = [_row("time", "model", ("in", "cached", "out"), "cost", width, theme.fg(theme.muted))]
    for each in accounts:
        if len(accounts) > 1:
            title = Text(harmless_line(one_line(each.title)), theme.fg(theme.text, bold=True))
            lines += [Text(), cut(title, width)]
        lines += _draw_account(each, width, theme)
    return lines


def _draw_account(account: Account, width: int, theme: Theme) -> Iterator[Text]:
    ink = theme.fg(theme.text)
    earlier, recent = account.spendings[:-ROWS], account.spendings[-ROWS:]
    if earlier:
        before = sum_usage(each.usage for each in earlier)
        words = counted(len(earlier), "earlier request")
        muted = theme.fg(theme.muted)
        yield _row("", words, _tokens(before), precise_money(before.cost), width, muted)
    for each in recent:
        what = "  ".join(filter(None, [harmless_line(each.model), each.what]))
        yield _row(
            clock(each.ts), what, _tokens(each.usage), precise_money(each.usage.cost), width, ink
        )
    requests = counted(len(account.spendings), "request")
    total, strong = account.sum, theme.fg(theme.accent, bold=True)
    yield _row("", requests, _tokens(total), precise_money(total.cost), width, strong)


def _tokens(usage: Usage) -> tuple[str, str, str]:
    cached = short_number(usage.cache_reads) if usage.cache_reads else ""
    return short_number(usage.tokens_in), cached, short_number(usage.tokens_out)


def _row(
    when: str, what: str, tokens: tuple[str, str, str], cost: str, width: int, ink: Style
) -> Text:
    figures = "".join(f"{each:>9}" for each in tokens) + f"{cost:>12}"
    room = max(8, width - len(figures) - 10)
    line = Text.assemble(f"{when:<8}  ", column(Text(what), room), figures)
    line.stylize(ink)
    return line
