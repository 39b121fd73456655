"""`rookery sessions`: all that the Agent Manager can be asked, for people and for scripts."""

import json
from typing import Any

import click

from rookery.cli.reports import Exit
from rookery.core.commands import repeated_field
from rookery.errors import SettingsError
from rookery.governance.cli.intents_common import SAID
from rookery.manager import requests as asked
from rookery.manager import worktree_requests as trees
from rookery.manager.cli import sessions_follow as follow
from rookery.manager.cli import sessions_list as listing
from rookery.manager.cli import sessions_review as review
from rookery.manager.cli import sessions_start as start
from rookery.manager.cli.sessions_common import (
    ManagerClient,
    as_json,
    json_option,
    with_manager,
    words_of,
    workspace_option,
)
from rookery.manager.cli.sessions_table import SPECS, request_command
from rookery.manager.handlers.router import request_from_json

_WRITTEN: dict[type[Any], str] = {
    asked.ListSessions: "list",
    asked.StartSessions: "start",
    asked.TrustProject: "trust",
    asked.ApproveAction: "approve",
    asked.RejectAction: "reject",
    asked.ForkSession: "fork",
    asked.RehearseRestore: "restore",
    asked.RestoreSession: "restore",
    trees.PlanApply: "apply",
    trees.ApplyWorktree: "apply",
    trees.PlanRemoval: "worktrees remove",
    trees.RemoveWorktree: "worktrees remove",
    trees.AgreeScript: "worktrees agree",
    trees.ReviewChanges: "diff",
    trees.ReadDiff: "diff",
    trees.RevertFile: "revert",
    trees.SendComments: "comment",
    trees.CompareVersions: "compare",
    asked.ReadSettings: "settings",
    asked.ChangeSetting: "settings",
}
SUBCOMMANDS: dict[type[Any], str] = {**{each.request: each.name for each in SPECS}, **_WRITTEN}
"""Where each request is made from the command line."""


LONGEST = 68
"""Letters of a command's help in the list of all."""


class _Group(click.Group):
    """Shows its commands under headings, in the order in which one comes to need them."""

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
    said = {name: held for name, held in given.items() if ctx.get_parameter_source(name) in SAID}
    ctx.default_map = {name: _for_all_in(each, said) for name, each in command.commands.items()}
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(listing.list_command, **given))


def _for_all_in(found: click.Command, said: dict[str, Any]) -> dict[str, Any]:
    """Options that stand before the name of a command are meant for it."""
    return dict.fromkeys(found.commands, said) if isinstance(found, click.Group) else said


@click.command("do")
@click.argument("request", metavar="JSON")
@with_manager
async def do_command(client: ManagerClient, request: str) -> int:
    """Send any request, given as JSON, and print the answer. - reads standard input."""
    text = words_of(request)
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
    """A session without a command means the list."""

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
    top: list[click.Command] = [*groups.values(), *_ALONE]
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


_ALONE = (
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
