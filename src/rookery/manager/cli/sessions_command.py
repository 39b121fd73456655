"""`rookery sessions`: every request to the Agent Manager, for people and scripts.

Here are the group itself, `start`, `fork`, `trust`, `queue list`, `settings` and `do`.
"""

import json
import sys
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

import anyio.to_thread
import click

from rookery import NAME
from rookery.cli.command_line import json_option
from rookery.cli.reports import Exit
from rookery.core.commands import repeated_field
from rookery.core.text.terminal_text import aligned, harmless, harmless_line
from rookery.errors import CommandRejected, SettingsError
from rookery.governance.cli.common import GIVEN
from rookery.manager.cli import sessions_follow as follow
from rookery.manager.cli import sessions_list as listing
from rookery.manager.cli import sessions_review as review
from rookery.manager.cli.sessions_common import (
    ManagerClient,
    as_json,
    one_session,
    request_command,
    short,
    text_of,
    with_manager,
    workspace_option,
)
from rookery.manager.cli.sessions_table import SCHEDULE_SPECS, SESSION_SPECS
from rookery.manager.cli.worktree_table import WORKTREE_SPECS
from rookery.manager.handlers.router import request_from_json
from rookery.manager.requests import (
    ChangeSetting,
    ForkSession,
    ListSessions,
    ReadSettings,
    StartSessions,
    TrustProject,
)
from rookery.manager.shown_rows import Started, UndeliveredRow
from rookery.manager.worktrees.create import MOST_VERSIONS
from rookery.permissions.cli import ask_trust
from rookery.permissions.trust import TrustStore
from rookery.protocol.picture_files import load_pictures

LONGEST = 68
"""Characters of a command's help in the list of commands."""


class _Group(click.Group):
    """Lists its commands under headings."""

    headings: dict[str, list[click.Command]]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in self.headings.items():
            with formatter.section(heading):
                rows = [(each.name or "", each.get_short_help_str(LONGEST)) for each in commands]
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """`mail` is the former name of `queue`."""
        return super().get_command(ctx, "queue" if cmd_name == "mail" else cmd_name)


@click.group("sessions", cls=_Group, invoke_without_command=True)
@json_option
@workspace_option
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Start, follow, answer and manage background sessions, each in its own process. The
    beginning of a session's id is enough. Without a command, list them."""
    chosen = {key: given[key] for key in given if ctx.get_parameter_source(key) in GIVEN}
    ctx.default_map = {name: _defaults_for(each, chosen) for name, each in command.commands.items()}
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(listing.list_command, **given))


def _defaults_for(found: click.Command, chosen: dict[str, Any]) -> dict[str, Any]:
    """Pass options given before a command's name on to the command."""
    return dict.fromkeys(found.commands, chosen) if isinstance(found, click.Group) else chosen


@click.command("do")
@click.argument("request", metavar="JSON")
@with_manager
async def do_command(client: ManagerClient, request: str) -> int:
    """Send any request as JSON and print the answer. - reads standard input."""
    text = text_of(request)
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"That is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise SettingsError('A request must be an object, such as {"kind": "list_sessions"}.')
    if clause := repeated_field(text):
        raise SettingsError(f"The request {clause} Nothing was done.")
    print(as_json(await client.do(request_from_json(fields))), flush=True)
    return Exit.DONE


class _QueueGroup(click.Group):
    """Treats a session id in place of a command as `list`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names_none = bool(args) and args[0] not in self.commands and args[0][:1] != "-"
        return super().resolve_command(ctx, ["list", *args] if names_none else args)


@click.group("queue", cls=_QueueGroup)
def queue_group() -> None:
    """Manage queued messages. With an ID, list them."""


@click.group("worktrees")
def worktrees_group() -> None:
    """Manage the git worktrees of sessions, named by branch, id or session."""


@click.group("pr")
def pull_requests_group() -> None:
    """Pull requests of worktrees, through your gh or glab."""


@click.group("schedules")
def schedules_group() -> None:
    """Start sessions at set times or by a webhook, while `rookery manager` runs."""


@click.group("devices")
def devices_group() -> None:
    """Manage phones and other machines that are paired with the manager."""


@click.command("start")
@click.argument("prompt")
@click.option("--worktree", is_flag=True, help="Work in a new worktree with its own branch.")
@click.option(
    "--versions",
    type=click.IntRange(1, MOST_VERSIONS),
    help="Run the prompt this many times, each in a worktree.",
)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="The model, as PROVIDER/MODEL or MODEL. Repeat it for each version.",
)
@click.option("-M", "--mode", default="", help="The mode to start in.")
@click.option("--base", default="", help="The branch to start the new one from.")
@click.option("--branch", default="", help="The branch to work on, existing or new.")
@click.option("--in", "worktree_id", help="Work in this worktree: a branch, an id or a session.")
@click.option("--label", default="", help="The name of the session.")
@click.option("--image", "images", multiple=True, metavar="FILE", help="An image for the model.")
@click.option("--ask", is_flag=True, help="Ask before every change.")
@click.option("--intent", default="", help="The intent, such as INT-001.")
@click.option(
    "--max-cost", type=click.FloatRange(0), default=0.0, help="Ask after this many dollars."
)
@with_manager
async def start_command(
    client: ManagerClient,
    prompt: str,
    worktree: bool,
    versions: int | None,
    models: Sequence[str],
    worktree_id: str | None,
    images: Sequence[str],
    ask: bool,
    max_cost: float,
    **named: str,
) -> int:
    """Start a session in the background. The prompt - is read from standard input."""
    wanted = versions or max(1, len(models))
    if len(models) > 1 and len(models) != wanted:
        raise SettingsError(
            f"There are {len(models)} models for {wanted} versions. Give one, or one per version."
        )
    apart = worktree or wanted > 1 or named["branch"] or named["base"] or worktree_id
    request = StartSessions(
        prompt=text_of(prompt),
        images=await _pictures(client, images),
        where="worktree" if apart else "local",
        versions=wanted,
        model=models[0] if len(models) == 1 else "",
        models=tuple(models) if len(models) > 1 else (),
        worktree_id=(await client.worktree(worktree_id)).id if worktree_id else "",
        auto_approve=client.settings.manager.auto_approve and not ask,
        max_cost=max_cost,
        **named,
    )
    await _ask_for_trust(client)
    started = await client.do(request)
    client.print(started, started.session_ids)
    if not client.as_json:
        waiting = [each for each in await client.sessions() if each.queued]
        for line in _start_notes(started, {each.session_id for each in waiting}):
            print(line, file=sys.stderr, flush=True)
    return Exit.DONE if started.session_ids else Exit.FAILED


async def _ask_for_trust(client: ManagerClient) -> None:
    """Ask at a terminal whether to trust the project; elsewhere the manager returns an error."""
    overview = (await client.do(ListSessions())).overview
    if overview.trusted or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    store = TrustStore(client.places.trust_file)
    if await anyio.to_thread.run_sync(ask_trust, store, client.folder, sys.stderr):
        await client.do(TrustProject(path=overview.project))  # notifies open pages


async def _pictures(client: ManagerClient, files: Sequence[str]) -> tuple[str, ...]:
    images, problems = await load_pictures(files, str(client.folder))
    for each in problems:
        raise SettingsError(f"{each['path']} cannot be sent: {each['error']}")
    return tuple(f"data:{each.media_type};base64,{each.data}" for each in images)


def _start_notes(started: Started, waiting: Collection[str]) -> Iterator[str]:
    """Messages for standard error; the ids go to standard output for scripts."""
    for session_id in started.session_ids:
        if session_id in waiting:
            yield f"{short(session_id)} is queued: manager.running_limit is reached."
    yield from map(harmless, (*started.notes, *started.failed))
    if started.session_ids:
        yield f"To watch it: {NAME} sessions follow {short(started.session_ids[0])}"


@click.command("fork")
@one_session
@click.option("--ts", type=int, help="Copy only up to this message.")
@click.option("--worktree", is_flag=True, help="Continue in a new worktree.")
@with_manager
async def fork_command(client: ManagerClient, session: str, ts: int | None, worktree: bool) -> int:
    """Copy a session into a new one."""
    row = await client.session(session)
    started = await client.do(
        ForkSession(session_id=row.session_id, ts=ts, where="worktree" if worktree else "local")
    )
    client.print(started, started.session_ids)
    if not client.as_json:
        for note in started.notes:
            print(harmless(note), file=sys.stderr, flush=True)
    return Exit.DONE


@click.command("trust")
@with_manager
async def trust_command(client: ManagerClient) -> int:
    """Trust the project, so that sessions can be started in it."""
    project = (await client.do(ListSessions())).overview.project
    return await client.carry_out(
        TrustProject(path=project), f"{harmless_line(project)} is trusted."
    )


@click.command("list")
@one_session
@with_manager
async def queue_list_command(client: ManagerClient, session: str) -> int:
    """List the messages that a session has not read yet."""
    row = await client.session(session)
    unread = await _unread_messages(client, row.session_id)
    lines = [*map(_undelivered, row.undelivered), *map(_queued, unread)]
    messages = {"undelivered": row.undelivered, "queue": unread}
    client.print(messages, lines or ["No queued messages."])
    return Exit.DONE


async def _unread_messages(client: ManagerClient, session_id: str) -> Sequence[Mapping[str, Any]]:
    """Messages that arrived but that the model has not read yet."""
    news = cast(AsyncGenerator[Any, None], client.manager.follow_session(session_id, tail=1))
    with suppress(CommandRejected):  # not started yet, so no messages
        async with aclosing(news):
            async for each in news:
                if (queue := each["change"].get("parts", {}).get("queue")) is not None:
                    return tuple(queue)
    return ()


def _queued(message: Mapping[str, Any]) -> str:
    return f"{harmless_line(message['message_id'])}  queued  {harmless_line(message['text'])}"


def _undelivered(row: UndeliveredRow) -> str:
    problem = f"  ({harmless_line(row.problem)})" if row.problem else ""
    return f"{row.number}  {row.state}  {harmless_line(row.text)}{problem}"


@click.command("settings")
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--reset", is_flag=True, help="Reset to the default.")
@with_manager
async def settings_command(
    client: ManagerClient, key: str | None, value: str | None, reset: bool
) -> int:
    """Print the settings of the manager. With a VALUE, change one in your user settings."""
    if key is not None and (reset or value is not None):
        if reset and value is not None:
            raise SettingsError("Give a VALUE or --reset, not both.")
        request = ChangeSetting(key=key, value=None if value is None else _as_json(value))
        return await client.carry_out(request, f"Changed {harmless_line(key)}.")
    found = await client.do(ReadSettings())
    wanted = tuple(each for each in found if key in (None, each.key))
    if not wanted:
        raise SettingsError(f"No such setting: {key}.")
    rows = [[each.key, each.value, each.source, each.summary] for each in wanted]
    client.print(wanted, aligned(rows))
    return Exit.DONE


def _as_json(value: str) -> str:
    """The value if it is JSON; otherwise as a JSON string."""
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return json.dumps(value)
    return value


_HEADINGS = {
    "Watch": "list inbox show follow wait",
    "Run": "start send approve reject answer cancel resume retry stop-all trust switch queue",
    "Review and apply": "diff comment revert compare apply merge finish worktrees pr edit",
    "Search and organise": "search costs bulk pin tag",
    "Schedules": "schedules",
    "Manage": "rename mark-read archive remove fork export checkpoints restore",
    "Project and settings": "models modes commands issues branches paths intents trace blame "
    "settings devices editors do",
}


def _collect() -> None:
    groups = {
        "queue": queue_group,
        "worktrees": worktrees_group,
        "pr": pull_requests_group,
        "devices": devices_group,
        "schedules": schedules_group,
    }
    queue_group.add_command(queue_list_command)
    worktrees_group.add_command(review.remove_command)
    worktrees_group.add_command(review.agree_command)
    top: list[click.Command] = [*groups.values(), *_TOP_COMMANDS]
    for spec in (*SESSION_SPECS, *WORKTREE_SPECS, *SCHEDULE_SPECS):
        group = spec.name.rpartition(" ")[0]
        (groups[group].add_command if group else top.append)(request_command(spec))
    found = {each.name or "": each for each in top}
    command.headings = {
        head: [found[each] for each in names.split()] for head, names in _HEADINGS.items()
    }
    for commands in command.headings.values():
        for each in commands:
            command.add_command(each)


_TOP_COMMANDS = (
    listing.list_command,
    listing.approve_command,
    listing.reject_command,
    listing.answer_command,
    follow.show_command,
    follow.follow_command,
    follow.wait_command,
    start_command,
    fork_command,
    trust_command,
    settings_command,
    review.diff_command,
    review.comment_command,
    review.revert_command,
    review.compare_command,
    review.restore_command,
    review.apply_command,
    do_command,
)
_collect()
