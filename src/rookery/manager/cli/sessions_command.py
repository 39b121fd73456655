"""`rookery sessions`: all that the Agent Manager can be asked, for people and for scripts."""

import json
from typing import Any

import click

from rookery.cli.exit_codes import Exit
from rookery.core.unknown_fields import repeated_field
from rookery.errors import SettingsError
from rookery.governance.cli.intents_common import SAID
from rookery.manager import requests as asked
from rookery.manager.cli import sessions_control as acts
from rookery.manager.cli import sessions_follow as following
from rookery.manager.cli import sessions_list as listing
from rookery.manager.cli import sessions_lookups as lookups
from rookery.manager.cli import sessions_review as review
from rookery.manager.cli import sessions_worktrees as worktrees
from rookery.manager.cli.sessions_common import (
    ManagerClient,
    as_json,
    json_option,
    with_manager,
    words_of,
    workspace_option,
)
from rookery.manager.request_json import request_from_json

SUBCOMMANDS: dict[type[Any], str] = {
    asked.ListSessions: "list",
    asked.ListQuestions: "inbox",
    asked.StartSessions: "start",
    asked.TrustProject: "trust",
    asked.SendWords: "send",
    asked.ApproveAction: "approve",
    asked.RejectAction: "reject",
    asked.CancelSession: "cancel",
    asked.ResumeSession: "resume",
    asked.RetrySession: "retry",
    asked.RemoveSession: "remove",
    asked.StopAll: "stop-all",
    asked.RenameSession: "rename",
    asked.ArchiveSession: "archive",
    asked.MarkRead: "mark-read",
    asked.RetryMail: "mail retry",
    asked.DiscardMail: "mail discard",
    asked.EditQueued: "mail edit",
    asked.SwitchSession: "switch",
    asked.ForkSession: "fork",
    asked.ExportSession: "export",
    asked.ListCheckpoints: "checkpoints",
    asked.RehearseRestore: "restore",
    asked.RestoreSession: "restore",
    asked.ListModels: "models",
    asked.ListModes: "modes",
    asked.ListBranches: "branches",
    asked.FindPaths: "paths",
    asked.ListWorktrees: "worktrees list",
    asked.ReadStats: "worktrees stats",
    asked.RecreateWorktree: "worktrees recreate",
    asked.FinishWorktree: "finish",
    asked.PlanApply: "apply",
    asked.ApplyWorktree: "apply",
    asked.MergeWorktree: "merge",
    asked.PlanRemoval: "worktrees remove",
    asked.RemoveWorktree: "worktrees remove",
    asked.ListImportable: "worktrees importable",
    asked.ImportWork: "worktrees import",
    asked.ListKept: "worktrees kept",
    asked.BringBack: "worktrees bring-back",
    asked.RunScript: "worktrees run",
    asked.StopScript: "worktrees stop",
    asked.ListScripts: "worktrees scripts",
    asked.AgreeScript: "worktrees agree",
    asked.ReviewChanges: "diff",
    asked.ReadDiff: "diff",
    asked.RevertFile: "revert",
    asked.SendComments: "comment",
    asked.CompareVersions: "compare",
    asked.ListIntents: "intents",
    asked.ReadTrace: "trace",
    asked.BlameFile: "blame",
    asked.ReadSettings: "settings",
    asked.ChangeSetting: "settings",
    asked.ListDevices: "devices list",
    asked.RevokeDevice: "devices revoke",
}
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
    """Start, watch, answer and look after sessions that run by themselves, each with a process of
    its own. A session is named by the beginning of its id. Without a command they are listed."""
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
    """Make any request, written as JSON, and print its answer. - reads standard input."""
    text = words_of(request)
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"That is no JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise SettingsError('A request is an object, such as {"kind": "list_sessions"}.')
    if clause := repeated_field(text):
        raise SettingsError(f"The request {clause} Nothing was done.")
    print(as_json(await client.do(request_from_json(fields))), flush=True)
    return Exit.DONE


_HEADINGS: dict[str, list[click.Command]] = {
    "Look": [
        listing.list_command,
        listing.inbox_command,
        following.show_command,
        following.follow_command,
        following.wait_command,
    ],
    "Work": [
        acts.start_command,
        acts.send_command,
        listing.approve_command,
        listing.reject_command,
        listing.answer_command,
        acts.cancel_command,
        acts.resume_command,
        acts.retry_command,
        acts.stop_all_command,
        acts.trust_command,
        acts.switch_command,
        acts.mail_group,
    ],
    "Review and take over": [
        review.diff_command,
        review.comment_command,
        review.revert_command,
        review.compare_command,
        worktrees.apply_command,
        worktrees.merge_command,
        worktrees.finish_command,
        worktrees.worktrees_group,
    ],
    "Look after": [
        acts.rename_command,
        acts.mark_read_command,
        acts.archive_command,
        acts.remove_command,
        review.fork_command,
        review.export_command,
        review.checkpoints_command,
        review.restore_command,
    ],
    "Look up": [
        lookups.models_command,
        lookups.modes_command,
        lookups.branches_command,
        lookups.paths_command,
        lookups.intents_command,
        lookups.trace_command,
        lookups.blame_command,
        lookups.settings_command,
        lookups.devices_group,
        do_command,
    ],
}
command.headings = _HEADINGS
for _each in _HEADINGS.values():
    for _one in _each:
        command.add_command(_one)
