"""What the task has used, request by request, and what its children have."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from rich.style import Style
from rich.text import Text

from rookery.core.facts import (
    AssistantSpoke,
    Condensed,
    Event,
    RequestFailed,
    RequestStarted,
    TaskOpened,
    Usage,
)
from rookery.core.folds.run_tallies import added
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.interfaces import Controller
from rookery.tui.rows.lines import cut
from rookery.tui.screens.side_screen import LOOK_AGAIN_SECONDS, ReadingScreen
from rookery.tui.short_texts import clock, counted, fine_money, money, one_line
from rookery.tui.status import short_number
from rookery.tui.theme import Theme, theme_of

NO_USAGE = Usage()
ROWS = 200
"""Requests of a task that have a row of their own; the earlier ones share one."""


class Spending(Struct, frozen=True):
    """What one request used. `what` is told of those that were no ordinary ones."""

    ts: int
    model: str
    usage: Usage
    what: str = ""


class Account(Struct, frozen=True):
    """What one task used."""

    title: str
    spendings: tuple[Spending, ...]

    @property
    def sum(self) -> Usage:
        return summed(each.usage for each in self.spendings)


def summed(usages: Iterable[Usage]) -> Usage:
    total = NO_USAGE
    for usage in usages:
        total = added(total, usage)
    return total


def account(events: Sequence[Event]) -> Account:
    """What was rewound was paid for too."""
    title = ""
    models: dict[str, str] = {}
    found: list[Spending] = []
    for event in events:
        match event.fact:
            case TaskOpened(text=text):
                title = text
            case RequestStarted(request_id=request_id, model=model):
                models[request_id] = model
            case AssistantSpoke(request_id=request_id, usage=usage) as said:
                what = "interrupted" if said.interrupted else ""
                found.append(Spending(event.ts, models.get(request_id, ""), usage, what))
            case RequestFailed(request_id=request_id, usage=usage) if usage != NO_USAGE:
                found.append(Spending(event.ts, models.get(request_id, ""), usage, "failed"))
            case Condensed(usage=usage) if usage != NO_USAGE:
                found.append(Spending(event.ts, "", usage, "summary"))
            case _:
                pass
    return Account(title, tuple(found))


class CostScreen(ReadingScreen[None]):
    TITLE_WORDS = "Cost"

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._events = -1
        self._requests: list[int] | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self._look()
        self.set_interval(LOOK_AGAIN_SECONDS, self._look)

    def _look(self) -> None:
        logs = [self._controller.events(task_id) for task_id in self._controller.views]
        if (count := sum(map(len, logs))) == self._events:
            return
        self._events = count
        accounts = [account(log) for log in logs]
        requests = [len(each.spendings) for each in accounts]
        if requests == self._requests:
            return
        self._requests = requests
        self.write_on(lambda width: drawn_accounts(accounts, width, theme_of(self)))
        total = summed(each.sum for each in accounts)
        self.tell(f"{money(total.cost or 0.0)} in total")


def drawn_accounts(accounts: Sequence[Account], width: int, theme: Theme) -> list[Text]:
    if not any(each.spendings for each in accounts):
        return [Text("No requests yet.", theme.ink(theme.quiet))]
    lines = [_row("time", "model", ("in", "cached", "out"), "cost", width, theme.ink(theme.quiet))]
    for each in accounts:
        if len(accounts) > 1:
            title = Text(harmless_line(one_line(each.title)), theme.ink(theme.words, bold=True))
            lines += [Text(), cut(title, width)]
        lines += _drawn_account(each, width, theme)
    return lines


def _drawn_account(account: Account, width: int, theme: Theme) -> Iterator[Text]:
    ink = theme.ink(theme.words)
    earlier, recent = account.spendings[:-ROWS], account.spendings[-ROWS:]
    if earlier:
        before = summed(each.usage for each in earlier)
        words = counted(len(earlier), "earlier request")
        quiet = theme.ink(theme.quiet)
        yield _row("", words, _tokens(before), fine_money(before.cost), width, quiet)
    for each in recent:
        what = "  ".join(filter(None, [harmless_line(each.model), each.what]))
        yield _row(
            clock(each.ts), what, _tokens(each.usage), fine_money(each.usage.cost), width, ink
        )
    count = len(account.spendings)
    requests = f"{count} request" + ("" if count == 1 else "s")
    total, strong = account.sum, theme.ink(theme.accent, bold=True)
    yield _row("", requests, _tokens(total), fine_money(total.cost), width, strong)


def _tokens(usage: Usage) -> tuple[str, str, str]:
    cached = short_number(usage.cache_reads) if usage.cache_reads else ""
    return short_number(usage.tokens_in), cached, short_number(usage.tokens_out)


def _row(
    when: str, what: str, tokens: tuple[str, str, str], cost: str, width: int, ink: Style
) -> Text:
    figures = "".join(f"{each:>9}" for each in tokens) + f"{cost:>12}"
    room = max(8, width - len(figures) - 10)
    name = cut(Text(what), room)
    name.pad_right(max(0, room - name.cell_len))
    line = Text.assemble(f"{when:<8}  ", name, figures)
    line.stylize(ink)
    return line
