"""Requests about the list as a whole: search, order, many sessions at once, commands, cost,
the fleet."""

from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.core.fleet_rows import FleetListing
from rookery.core.queries import Asking, KnownCommand
from rookery.manager.shown_rows import Done

ListAction: TypeAlias = Literal["archive", "unarchive", "mark_read", "stop"]


class FoundSession(Struct, frozen=True, kw_only=True):
    """A session that contains all search words. `excerpt` is the text around one of them."""

    session_id: str
    name: str
    excerpt: str
    archived: bool = False
    updated: int = 0


class CostRow(Struct, frozen=True, kw_only=True):
    """What one day, model, session or project has used."""

    name: str
    session_id: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    """Dollars; null if no price is known."""


class Costs(Struct, frozen=True, kw_only=True):
    """Usage since some day. `days`, `models` and `sessions` are of this project."""

    since: str
    today: CostRow
    """Of all projects."""
    daily_budget: float
    """Dollars; 0 means none."""
    days: tuple[CostRow, ...] = ()
    models: tuple[CostRow, ...] = ()
    sessions: tuple[CostRow, ...] = ()
    projects: tuple[CostRow, ...] = ()


class IssueRow(Struct, frozen=True, kw_only=True):
    """An open issue of the repository. Anyone may have written its text."""

    number: int
    title: str
    body: str = ""
    url: str = ""


class SearchSessions(Asking[tuple[FoundSession, ...]], frozen=True, kw_only=True):
    """Search all conversations of the project for WORDS, newest first."""

    words: str
    most: int = 50


class ChangeSessions(Asking[Done], frozen=True, kw_only=True):
    """Archive or stop several sessions, or mark them as read. If one of them does not exist,
    nothing is done."""

    action: ListAction
    session_ids: tuple[str, ...]


class PinSession(Asking[Done], frozen=True, kw_only=True):
    """Pin a session to the top of the list."""

    session_id: str
    pinned: bool = True


class TagSession(Asking[Done], frozen=True, kw_only=True):
    """Replace the tags of a session. Without TAGS, remove them."""

    session_id: str
    tags: tuple[str, ...] = ()


class ListCommands(Asking[tuple[KnownCommand, ...]], frozen=True, kw_only=True):
    """List the slash commands that a prompt can begin with."""


class ListIssues(Asking[tuple[IssueRow, ...]], frozen=True, kw_only=True):
    """List the open issues of the repository, with your own gh."""


class ReadCosts(Asking[Costs], frozen=True, kw_only=True):
    """Show the cost per day, model, session and project, of the last DAYS days."""

    days: int = 30


class ListFleet(Asking[FleetListing], frozen=True, kw_only=True):
    """List the workers, queues and newest sessions of the fleet that the manager was given."""

    most: int = 200


class AnswerFleetSession(Asking[Done], frozen=True, kw_only=True):
    """Answer the question of a session of the fleet: about the action of `digest`, or any."""

    id: str
    reply: Literal["yes", "no", "message"] = "message"
    text: str = ""
    digest: str = ""


class CancelFleetSession(Asking[Done], frozen=True, kw_only=True):
    """Cancel a session of the fleet. Its files stay as they are at its last checkpoint."""

    id: str
