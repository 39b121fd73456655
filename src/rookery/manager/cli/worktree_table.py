"""Commands of `rookery sessions` about worktrees: merge, scripts, editors, pull requests."""

from collections.abc import Iterable, Iterator

import click

from rookery import NAME
from rookery.core.text.terminal_text import aligned, harmless_line, plainly_visible, visible_line
from rookery.manager import requests
from rookery.manager.cli.sessions_common import CommandSpec, ManagerClient, short, table
from rookery.manager.cli.sessions_review import SHORTEST_DIGEST, stats_of
from rookery.manager.shown_rows import (
    PullRequestRow,
    ScriptLog,
    ScriptRow,
    WorktreeRow,
)
from rookery.platform.paths import visible
from rookery.platform.worktree_values import Importable, KeptWork

_WORKTREE_HEAD = ["ID", "BRANCH", "STATE", "FROM", "SESSIONS", "FOLDER"]


def _importable(found: Importable, client: ManagerClient) -> list[str]:
    branches = [f"branch  {harmless_line(each)}" for each in found.branches]
    folders = [f"folder  {harmless_line(each)}" for each in found.worktrees]
    return [*branches, *folders] or ["Nothing to import."]


def _saved_work(found: Iterable[KeptWork], client: ManagerClient) -> list[str]:
    lines = [f"{harmless_line(each.ref)}  {harmless_line(each.about)}" for each in found]
    return lines or ["No saved work."]


def _scripts(found: Iterable[ScriptRow], client: ManagerClient) -> list[str]:
    return [line for row in found for line in _script(row)] or ["The project has no scripts."]


def _script(row: ScriptRow) -> Iterator[str]:
    """The whole text of a script, with hidden characters made visible."""
    digest = harmless_line(row.digest[:SHORTEST_DIGEST])
    until = f"runs only after: {NAME} sessions worktrees agree {digest}"
    yield f"{visible_line(row.path)} {'is allowed to run.' if row.agreed else until}"
    yield from (f"  {line}" for line in plainly_visible(row.text).split("\n"))


def _one_worktree(row: WorktreeRow, client: ManagerClient) -> list[str]:
    return aligned([_WORKTREE_HEAD, _worktree(row)])


def _worktree(row: WorktreeRow) -> list[str]:
    state = f"{row.state}, running" if row.running else str(row.state)
    sessions = ", ".join(map(short, row.sessions)) or "-"
    return [row.id, row.branch, state, row.parent_branch or "-", sessions, row.path]


def _check_import(request: requests.ImportWork) -> str:
    one = bool(request.branch) != bool(request.folder)
    return "" if one else "Give either --branch or --folder."


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


WORKTREE_SPECS = (
    CommandSpec("merge", requests.MergeWorktree, done="Merged {branch}.", notes_instead=True),
    CommandSpec(
        "finish",
        requests.FinishWorktree,
        options={
            "message": click.Option(
                ["-m", "--message"],
                default="",
                help="The commit message; without it the agent writes one.",
            )
        },
        done="Committed to {branch}.",
        notes_instead=True,
    ),
    CommandSpec(
        "worktrees list",
        requests.ListWorktrees,
        lines=table(_worktree, "No worktrees.", _WORKTREE_HEAD),
    ),
    CommandSpec(
        "worktrees stats", requests.ReadStats, lines=lambda stats, client: [stats_of(stats)]
    ),
    CommandSpec("worktrees importable", requests.ListImportable, lines=_importable),
    CommandSpec(
        "worktrees import",
        requests.ImportWork,
        options={
            "branch": "A branch to work on in a new worktree.",
            "folder": "The folder of an existing worktree.",
        },
        refuse=_check_import,
        lines=_one_worktree,
    ),
    CommandSpec("worktrees recreate", requests.RecreateWorktree, done="Recreated {branch}."),
    CommandSpec("worktrees kept", requests.ListKept, lines=_saved_work),
    CommandSpec("worktrees bring-back", requests.BringBack, lines=_one_worktree),
    CommandSpec("worktrees run", requests.RunScript, done="Run script started in {path}."),
    CommandSpec("worktrees stop", requests.StopScript, done="Run script stopped."),
    CommandSpec("worktrees scripts", requests.ListScripts, lines=_scripts),
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
    CommandSpec(
        "editors",
        requests.ListEditors,
        lines=table(lambda each: [each.id, each.name], "No editors found."),
    ),
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
    CommandSpec("pr import", requests.ImportPullRequest, lines=_one_worktree),
)
