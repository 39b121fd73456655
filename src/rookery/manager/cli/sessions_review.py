"""`rookery sessions diff`, `comment`, `revert`, `compare`, `restore`, `apply`, and `worktrees
remove` and `agree`: review, undo or apply what a session did."""

import re
from collections.abc import Iterator, Sequence
from html import unescape

import click

from rookery import NAME
from rookery.cli.reports import Exit
from rookery.core.queries import RestoreRehearsal
from rookery.core.text.terminal_text import Paint, aligned, counted, harmless, harmless_line
from rookery.errors import CommandRejected, SettingsError
from rookery.manager.cli.sessions_common import ManagerClient, one_session, short, with_manager
from rookery.manager.cli.sessions_list import label_of
from rookery.manager.requests import (
    AgreeScript,
    ApplyWorktree,
    CompareVersions,
    ListScripts,
    PlanApply,
    PlanRemoval,
    ReadDiff,
    RehearseRestore,
    RemoveWorktree,
    RestoreSession,
    RevertFile,
    ReviewChanges,
    Scope,
    SendComments,
)
from rookery.manager.shown_rows import (
    ChangedFile,
    Comment,
    DiffLine,
    FileDiff,
    Plan,
    Review,
    Version,
    WorktreeStats,
)
from rookery.storage.cli.session_listing import confirmed, cut, money, one_line

_TAG = re.compile(r"<[^>]*>")
SHORTEST_DIGEST = 12
"""Minimum length of a digest prefix."""
_one_worktree = click.argument("which", metavar="ID|BRANCH")
_SIGNS = {"added": "+", "removed": "-", "same": " "}
_scope_option = click.option(
    "--scope",
    type=click.Choice(["branch", "staged", "unstaged", "session"]),
    default="branch",
    help="The changes to show. Default: all on the branch.",
)


@click.command("diff")
@one_session
@click.argument("path", required=False)
@_scope_option
@click.option(
    "--context", type=click.IntRange(0, 1000), default=3, help="Lines of context around a change."
)
@with_manager
async def diff_command(
    client: ManagerClient, session: str, path: str | None, scope: Scope, context: int
) -> int:
    """Show the files that a session changed, or the diff of one of them."""
    row = await client.session(session)
    if path is None:
        review = await client.do(ReviewChanges(session_id=row.session_id, scope=scope))
        client.print(review, _review(review))
        return Exit.DONE
    diff = await client.do(
        ReadDiff(session_id=row.session_id, path=path, scope=scope, context=context)
    )
    client.print(diff, _diff(diff, client.paint))
    return Exit.DONE


@click.command("comment")
@one_session
@click.argument("notes", nargs=-1, required=True, metavar="PATH:LINE TEXT...")
@click.option("--old", is_flag=True, help="Line numbers refer to the old file.")
@click.option("--words", default="", help="A message to send with the comments.")
@with_manager
async def comment_command(
    client: ManagerClient, session: str, notes: Sequence[str], old: bool, words: str
) -> int:
    """Comment on lines that a session changed. All comments go in one message."""
    if len(notes) % 2:
        raise SettingsError("Give each comment as PATH:LINE and its text.")
    pairs = zip(notes[::2], notes[1::2], strict=True)
    comments = tuple(_comment(place, text, old=old) for place, text in pairs)
    row = await client.session(session)
    request = SendComments(session_id=row.session_id, comments=comments, text=words)
    return await client.carry_out(request, f"Sent {counted(len(comments), 'comment')}.")


@click.command("revert")
@one_session
@click.argument("path")
@click.option("--digest", help="Revert only if this is still the digest (see diff --json).")
@with_manager
async def revert_command(client: ManagerClient, session: str, path: str, digest: str | None) -> int:
    """Revert one file. Its content is kept under a git reference."""
    row = await client.session(session)
    review = await client.do(ReviewChanges(session_id=row.session_id))
    file = next((each for each in review.files if each.path == path), None)
    if file is None:
        raise SettingsError(f"{path} has no changes. See {NAME} sessions diff {session}.")
    if digest not in (None, file.digest):
        raise CommandRejected(f"{path} changed since, so it was not reverted. Look again.")
    request = RevertFile(session_id=row.session_id, path=path, digest=file.digest)
    return await client.carry_out(request, f"Reverted {harmless_line(path)}.")


@click.command("compare")
@click.argument("which", metavar="ID|GROUP")
@with_manager
async def compare_command(client: ManagerClient, which: str) -> int:
    """Compare the versions of one prompt side by side. Name any of their sessions."""
    groups = {each.group_id for each in await client.sessions() if each.group_id}
    group = which if which in groups else (await client.session(which)).group_id
    if not group:
        raise SettingsError(f"Session {which} is not one of several versions.")
    versions = await client.do(CompareVersions(group_id=group))
    notes = [f"{short(each.session_id)}: {harmless(each.note)}" for each in versions if each.note]
    client.print(versions, [*aligned([_HEAD, *map(_version, versions)]), *notes])
    return Exit.DONE


def stats_of(stats: WorktreeStats) -> str:
    """Summary of a worktree's changes."""
    commits = [
        f"{stats.ahead} ahead" if stats.ahead else "",
        f"{stats.behind} behind" if stats.behind else "",
        f"{stats.uncommitted} uncommitted" if stats.uncommitted else "",
    ]
    files = f"{counted(stats.files, 'file')} +{stats.added} -{stats.removed}"
    return ", ".join([files, *filter(None, commits)])


def _review(review: Review) -> Iterator[str]:
    yield from map(_file, review.files)
    yield f"{stats_of(review.stats)}."
    yield from map(harmless, review.notes)


def _file(file: ChangedFile) -> str:
    name = harmless_line(f"{file.old_path} -> {file.path}" if file.old_path else file.path)
    kinds = ("binary", "generated", "too_large")
    marks = [each.replace("_", " ") for each in kinds if getattr(file, each)]
    marked = f"  ({', '.join(marks)})" if marks else ""
    return f"{file.kind:<8}  +{file.added:<5} -{file.removed:<5}  {name}{marked}"


def _diff(diff: FileDiff, paint: Paint) -> Iterator[str]:
    yield paint.bold(_file(diff.file))
    if diff.note:
        yield harmless(diff.note)
    for line in diff.lines:
        yield paint.diff(_line(line))


def _line(line: DiffLine) -> str:
    """A diff line as plain text."""
    text = harmless_line(unescape(_TAG.sub("", line.html)).rstrip("\n"))
    if line.kind == "gap":
        return f"@@ {text}"
    return f"{_SIGNS[line.kind]}{line.new or line.old or '':>5} {text}"


def _comment(place: str, text: str, *, old: bool) -> Comment:
    path, colon, line = place.rpartition(":")
    if not colon or not path or not line.isdecimal():
        raise SettingsError(f"{place} is not a line. Write PATH:LINE.")
    return Comment(path=path, line=int(line), text=text, old=old)


_HEAD = ["ID", "STATE", "MODEL", "CHANGES", "COST", "TIME", "RESULT"]


def _version(version: Version) -> list[str]:
    return [
        short(version.session_id),
        label_of(version.state),
        version.model or "-",
        "removed" if version.note else stats_of(version.stats),
        money(version.cost),
        f"{version.seconds:.0f} s",
        cut(one_line(version.result), 60) if version.result else "-",
    ]


@click.command("restore")
@one_session
@click.option(
    "--to",
    type=int,
    required=True,
    metavar="NUMBER",
    help="The number of the checkpoint (see checkpoints).",
)
@click.option("--files/--no-files", default=True, help="Restore files. Default: yes.")
@click.option("--conversation", is_flag=True, help="Also rewind the conversation.")
@click.option(
    "--overwrite", is_flag=True, help="Also restore files that someone else changed since."
)
@click.option("--dry-run", is_flag=True, help="Show which files would change.")
@with_manager
async def restore_command(
    client: ManagerClient,
    session: str,
    to: int,
    files: bool,
    conversation: bool,
    overwrite: bool,
    dry_run: bool,
) -> int:
    """Restore a session to one of its checkpoints."""
    if not (files or conversation):
        raise SettingsError("Give --files, --conversation, or both.")
    row = await client.session(session)
    if dry_run:
        rehearsal = await client.do(
            RehearseRestore(session_id=row.session_id, to=to, overwrite=overwrite)
        )
        client.print(rehearsal, _rehearsal_lines(rehearsal))
        return Exit.DONE
    request = RestoreSession(
        session_id=row.session_id,
        to=to,
        files=files,
        conversation=conversation,
        overwrite=overwrite,
    )
    return await client.carry_out(request, f"{short(row.session_id)} was rewound to {to}.")


def _rehearsal_lines(rehearsal: RestoreRehearsal) -> Iterator[str]:
    for verb, paths in (
        ("would be restored", rehearsal.written),
        ("would be removed", rehearsal.removed),
        ("would be skipped, because someone else changed it", rehearsal.kept),
        ("was never saved", rehearsal.unsaved),
    ):
        yield from (f"{harmless_line(path)} {verb}" for path in paths)
    if rehearsal.problem:
        yield harmless(rehearsal.problem)
    changed = len(rehearsal.written) + len(rehearsal.removed)
    yield f"{counted(changed, 'file')} would change. To do it, leave out --dry-run."


@click.command("apply")
@_one_worktree
@click.argument("paths", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@with_manager
async def apply_command(
    client: ManagerClient, which: str, paths: Sequence[str], dry_run: bool
) -> int:
    """Apply the changes of a worktree to the project. With conflicts, nothing is changed."""
    row = await client.worktree(which)
    plan = await client.do(PlanApply(worktree_id=row.id, paths=tuple(paths)))
    if dry_run or not plan.token:
        client.print(plan, _plan(plan))
        return Exit.FAILED if plan.conflicts else Exit.DONE
    request = ApplyWorktree(worktree_id=row.id, paths=tuple(paths), token=plan.token)
    done = await client.do(request)
    return client.print_done(done, f"Applied {harmless_line(row.branch)}.", instead=True)


@click.command("remove")
@_one_worktree
@click.option("--delete-branch", is_flag=True, help="Also delete the branch and its commits.")
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@with_manager
async def remove_command(
    client: ManagerClient, which: str, delete_branch: bool, dry_run: bool, yes: bool
) -> int:
    """Stop the sessions of a worktree and delete its folder. Uncommitted work is kept."""
    row = await client.worktree(which)
    plan = await client.do(PlanRemoval(worktree_id=row.id))
    if dry_run:
        client.print(plan, _plan(plan))
        return Exit.DONE
    if not yes:
        print("\n".join(_plan(plan)), flush=True)
        if not confirmed(f"Remove {harmless_line(row.branch)}?"):
            return Exit.FAILED
    request = RemoveWorktree(worktree_id=row.id, token=plan.token, delete_branch=delete_branch)
    return await client.carry_out(request, f"Removed {harmless_line(row.branch)}.")


@click.command("agree")
@click.argument("digest")
@with_manager
async def agree_command(client: ManagerClient, digest: str) -> int:
    """Allow a script of the project to run as it is now. `scripts` prints its DIGEST."""
    found = [row for row in await client.do(ListScripts()) if row.digest.startswith(digest)]
    if len({row.digest for row in found}) != 1 or len(digest) < SHORTEST_DIGEST:
        raise SettingsError(
            f"No script with the digest {digest}. See {NAME} sessions worktrees scripts."
        )
    names = " and ".join(harmless_line(row.name) for row in found)
    request = AgreeScript(digest=found[0].digest)
    return await client.carry_out(request, f"{names} may run now.")


def _plan(plan: Plan) -> Iterator[str]:
    yield harmless(plan.text)
    yield from (f"  {harmless_line(path)}" for path in plan.paths)
    yield from (f"  conflict: {harmless_line(each)}" for each in plan.conflicts)
