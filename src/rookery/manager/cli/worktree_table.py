"""Commands for worktrees in use: update, editor, script output, pull requests."""

import click

from rookery.manager import requests
from rookery.manager.cli.sessions_common import ManagerClient
from rookery.manager.cli.sessions_table import CommandSpec, one_worktree, table
from rookery.manager.shown_rows import EditorRow, PullRequestRow, ScriptLog
from rookery.platform.paths import visible


def _editor(row: EditorRow) -> list[str]:
    return [row.id, row.name]


def _log(log: ScriptLog, client: ManagerClient) -> list[str]:
    state = "The run script is running." if log.running else "The run script is not running."
    return [state, *map(visible, log.text.splitlines())]


def _pull_request(row: PullRequestRow, client: ManagerClient) -> list[str]:
    if not row.number:
        return ["No pull request."]
    checks = row.checks
    counts = f"{checks.passed} passed, {checks.failed} failed, {checks.pending} pending"
    review = f", {row.review}" if row.review else ""
    first = f"#{row.number} {row.state}{review}: {row.title}"
    return list(map(visible, (first, f"Checks: {counts}", row.url)))


SPECS = (
    CommandSpec(
        "worktrees update",
        requests.UpdateWorktree,
        options={
            "rebase": click.Option(
                ["--rebase"], is_flag=True, help="Rebase its commits instead of merging."
            )
        },
        done="Updated {branch}.",
        notes_instead=True,
    ),
    CommandSpec("worktrees log", requests.ReadScriptLog, lines=_log),
    CommandSpec("editors", requests.ListEditors, lines=table(_editor, "No editors found.")),
    CommandSpec(
        "edit",
        requests.OpenEditor,
        options={
            "editor": "An editor from `editors`. Default: the first one.",
            "path": "A file in the session's folder.",
        },
        done="Opened {id}.",
        notes_instead=True,
    ),
    CommandSpec("pr show", requests.ReadPullRequest, lines=_pull_request),
    CommandSpec(
        "pr create",
        requests.CreatePullRequest,
        options={
            "body": "The description.",
            "draft": click.Option(["--draft"], is_flag=True, help="Open it as a draft."),
        },
        lines=_pull_request,
    ),
    CommandSpec(
        "pr comments", requests.BringReviewComments, done="Sent to {branch}.", notes_instead=True
    ),
    CommandSpec("pr import", requests.ImportPullRequest, lines=one_worktree),
)
