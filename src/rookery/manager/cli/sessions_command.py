"""`rookery sessions`: every request to the Agent Manager, for people and scripts."""

import json
from typing import Any

import click

from rookery.cli.reports import Exit
from rookery.core.commands import repeated_field
from rookery.errors import SettingsError
from rookery.governance.cli.common import GIVEN
from rookery.manager import requests
from rookery.manager import worktree_requests as worktrees
from rookery.manager.cli import sessions_follow as follow
from rookery.manager.cli import sessions_list as listing
from rookery.manager.cli import sessions_review as review
from rookery.manager.cli import sessions_start as start
from rookery.manager.cli.sessions_common import (
    ManagerClient,
    as_json,
    json_option,
    text_of,
    with_manager,
    workspace_option,
)
from rookery.manager.cli.sessions_table import SPECS, request_command
from rookery.manager.handlers.router import request_from_json

_HAND_WRITTEN: dict[type[Any], str] = {
    requests.ListSessions: "list",
    requests.StartSessions: "start",
    requests.TrustProject: "trust",
    requests.ApproveAction: "approve",
    requests.RejectAction: "reject",
    requests.ForkSession: "fork",
    requests.RehearseRestore: "restore",
    requests.RestoreSession: "restore",
    worktrees.PlanApply: "apply",
    worktrees.ApplyWorktree: "apply",
    worktrees.PlanRemoval: "worktrees remove",
    worktrees.RemoveWorktree: "worktrees remove",
    worktrees.AgreeScript: "worktrees agree",
    worktrees.ReviewChanges: "diff",
    worktrees.ReadDiff: "diff",
    worktrees.RevertFile: "revert",
    worktrees.SendComments: "comment",
    worktrees.CompareVersions: "compare",
    requests.ReadSettings: "settings",
    requests.ChangeSetting: "settings",
}
SUBCOMMANDS: dict[type[Any], str] = {**{each.request: each.name for each in SPECS}, **_HAND_WRITTEN}
"""The command that sends each request."""


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
    """Send any request, given as JSON, and print the answer. - reads standard input."""
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


class _MailGroup(click.Group):
    """Treats a session id in place of a command as `list`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names_none = bool(args) and args[0] not in self.commands and args[0][:1] != "-"
        return super().resolve_command(ctx, ["list", *args] if names_none else args)


@click.group("mail", cls=_MailGroup)
def mail_group() -> None:
    """Manage messages that a session has not read yet. With an ID, list them."""


@click.group("worktrees")
def worktrees_group() -> None:
    """Manage the git worktrees of sessions, named by branch, id or session."""


@click.group("devices")
def devices_group() -> None:
    """Manage phones and other machines that are paired with the manager."""


_HEADINGS = {
    "Watch": "list inbox show follow wait",
    "Run": "start send approve reject answer cancel resume retry stop-all trust switch mail",
    "Review and apply": "diff comment revert compare apply merge finish worktrees",
    "Manage": "rename mark-read archive remove fork export checkpoints restore",
    "Project and settings": "models modes branches paths intents trace blame settings devices do",
}


def _collect() -> None:
    groups = {"mail": mail_group, "worktrees": worktrees_group, "devices": devices_group}
    mail_group.add_command(start.mail_list_command)
    worktrees_group.add_command(review.remove_command)
    worktrees_group.add_command(review.agree_command)
    top: list[click.Command] = [*groups.values(), *_TOP_COMMANDS]
    for spec in SPECS:
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
    start.start_command,
    start.fork_command,
    start.trust_command,
    start.settings_command,
    review.diff_command,
    review.comment_command,
    review.revert_command,
    review.compare_command,
    review.restore_command,
    review.apply_command,
    do_command,
)
_collect()
