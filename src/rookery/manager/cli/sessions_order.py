"""The commands of `rookery sessions` about the list as a whole: search, tags, cost."""

from collections.abc import Iterable, Iterator

import click

from rookery.core.text.terminal_text import aligned, harmless_line
from rookery.manager import list_requests as asked
from rookery.manager.cli.sessions_common import ManagerClient, short
from rookery.manager.cli.sessions_table import CommandSpec, table
from rookery.manager.list_requests import CostRow, Costs

_DONE = {
    "archive": "Archived {}.",
    "unarchive": "Unarchived {}.",
    "mark_read": "Marked {} as read.",
    "stop": "Stopped {}.",
}


def _changed(request: asked.ChangeSessions) -> str:
    count = len(request.session_ids)
    return _DONE[request.action].format(f"{count} session{'s' * (count != 1)}")


def _costs(found: Costs, client: ManagerClient) -> list[str]:
    return list(_cost_lines(found))


def _cost_lines(found: Costs) -> Iterator[str]:
    budget = f" of ${found.daily_budget:.2f}" if found.daily_budget else ""
    yield f"Today, in all projects: {_dollars(found.today)}{budget}"
    parts = {
        "DAY": found.days,
        "MODEL": found.models,
        "SESSION": found.sessions,
        "PROJECT": found.projects,
    }
    for head, rows in parts.items():
        if rows:
            yield ""
            yield from aligned([[head, "COST", "TOKENS IN", "OUT"], *_cost_rows(rows)])


def _cost_rows(rows: Iterable[CostRow]) -> Iterator[list[str]]:
    for row in rows:
        name = f"{short(row.session_id)} {row.name}" if row.session_id else row.name
        yield [harmless_line(name), _dollars(row), str(row.tokens_in), str(row.tokens_out)]


def _dollars(row: CostRow) -> str:
    return "unknown" if row.cost is None and row.tokens_in else f"${row.cost or 0:.4f}"


ORDER_SPECS = (
    CommandSpec(
        "search",
        asked.SearchSessions,
        options={"most": click.Option(["--most"], type=click.IntRange(1, 100), default=50)},
        lines=table(
            lambda each: [short(each.session_id), each.name, each.excerpt], "Nothing was found."
        ),
    ),
    CommandSpec("bulk", asked.ChangeSessions, done=_changed),
    CommandSpec(
        "pin",
        asked.PinSession,
        options={
            "pinned": click.Option(
                ["--undo", "pinned"], flag_value=False, default=True, help="Unpin it."
            )
        },
        done=lambda request: f"{{id}} is {'pinned' if request.pinned else 'no longer pinned'}.",
    ),
    CommandSpec(
        "tag",
        asked.TagSession,
        arguments=("tags",),
        done=lambda request: "Tagged {id}." if request.tags else "Removed the tags of {id}.",
    ),
    CommandSpec(
        "commands",
        asked.ListCommands,
        lines=table(lambda each: [f"/{each.name}", each.description], "None."),
    ),
    CommandSpec(
        "issues",
        asked.ListIssues,
        lines=table(lambda each: [f"#{each.number}", each.title], "No open issues."),
    ),
    CommandSpec(
        "costs",
        asked.ReadCosts,
        options={
            "days": click.Option(
                ["--days"], type=click.IntRange(1), default=30, help="How many days."
            )
        },
        lines=_costs,
    ),
)
