"""`rookery sessions worktrees`, `apply`, `merge`, `finish`: the checkouts that sessions work in,
and what becomes of the work."""

from collections.abc import Iterator, Sequence

import click

from rookery import NAME
from rookery.cli.exit_codes import Exit
from rookery.core.text.terminal_text import (
    harmless,
    harmless_line,
    plainly_visible,
    visible_line,
)
from rookery.errors import SettingsError
from rookery.governance.cli.intents_common import aligned
from rookery.manager.cli.sessions_common import ManagerClient, short, with_manager
from rookery.manager.cli.sessions_review import stats_of
from rookery.manager.requests import (
    AgreeScript,
    ApplyWorktree,
    BringBack,
    FinishWorktree,
    ImportWork,
    ListImportable,
    ListKept,
    ListScripts,
    ListWorktrees,
    MergeWorktree,
    Plan,
    PlanApply,
    PlanRemoval,
    ReadStats,
    RecreateWorktree,
    RemoveWorktree,
    RunScript,
    StopScript,
)
from rookery.manager.shown_rows import ScriptRow, WorktreeRow
from rookery.storage.cli.session_listing import confirmed

_one_worktree = click.argument("which", metavar="ID|BRANCH")
SHORTEST_DIGEST = 12
"""Characters that name a text well enough."""
_HEAD = ["ID", "BRANCH", "STATE", "FROM", "SESSIONS", "FOLDER"]


@click.command("apply")
@_one_worktree
@click.argument("paths", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@with_manager
async def apply_command(
    client: ManagerClient, which: str, paths: Sequence[str], dry_run: bool
) -> int:
    """Bring a worktree's changes into the project. If there are conflicts nothing is changed."""
    row = await client.worktree(which)
    plan = await client.do(PlanApply(worktree_id=row.id, paths=tuple(paths)))
    if dry_run or not plan.token:
        client.tell(plan, _plan(plan))
        return Exit.FAILED if plan.conflicts else Exit.DONE
    request = ApplyWorktree(worktree_id=row.id, paths=tuple(paths), token=plan.token)
    return await client.bring_home(request, f"Applied {harmless_line(row.branch)}.")


@click.command("merge")
@_one_worktree
@with_manager
async def merge_command(client: ManagerClient, which: str) -> int:
    """Merge a worktree's branch into the one it came from."""
    row = await client.worktree(which)
    request = MergeWorktree(worktree_id=row.id)
    return await client.bring_home(request, f"Merged {harmless_line(row.branch)}.")


@click.command("finish")
@_one_worktree
@click.option("-m", "--message", default="", help="For the commit; else the agent is asked.")
@with_manager
async def finish_command(client: ManagerClient, which: str, message: str) -> int:
    """Commit all that is in a worktree to its branch."""
    row = await client.worktree(which)
    request = FinishWorktree(worktree_id=row.id, message=message)
    return await client.bring_home(request, f"Committed to {harmless_line(row.branch)}.")


@click.group("worktrees")
def worktrees_group() -> None:
    """The checkouts that sessions work in. One is named by its branch, its id, or a session."""


@worktrees_group.command("list")
@with_manager
async def list_command(client: ManagerClient) -> int:
    """Print the worktrees there are."""
    rows = await client.do(ListWorktrees())
    client.tell(rows, aligned([_HEAD, *map(_cells, rows)]) if rows else ["There is no worktree."])
    return Exit.DONE


@worktrees_group.command("stats")
@_one_worktree
@with_manager
async def stats_command(client: ManagerClient, which: str) -> int:
    """Print how much is in a worktree that the branch it came from does not have."""
    row = await client.worktree(which)
    stats = await client.do(ReadStats(worktree_id=row.id))
    client.tell(stats, [stats_of(stats)])
    return Exit.DONE


@worktrees_group.command("remove")
@_one_worktree
@click.option("--delete-branch", is_flag=True, help="Also the branch, and what only it holds.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask first.")
@with_manager
async def remove_command(
    client: ManagerClient, which: str, delete_branch: bool, dry_run: bool, yes: bool
) -> int:
    """Stop a worktree's sessions and remove its folder. Uncommitted work is kept."""
    row = await client.worktree(which)
    plan = await client.do(PlanRemoval(worktree_id=row.id))
    if dry_run:
        client.tell(plan, _plan(plan))
        return Exit.DONE
    if not yes:
        print("\n".join(_plan(plan)), flush=True)
        if not confirmed(f"Remove {harmless_line(row.branch)}?"):
            return Exit.FAILED
    request = RemoveWorktree(worktree_id=row.id, token=plan.token, delete_branch=delete_branch)
    return await client.carry_out(request, f"Removed {harmless_line(row.branch)}.")


@worktrees_group.command("importable")
@with_manager
async def importable_command(client: ManagerClient) -> int:
    """Print branches and folders that could be imported."""
    found = await client.do(ListImportable())
    branches = [f"branch  {harmless_line(each)}" for each in found.branches]
    folders = [f"folder  {harmless_line(each)}" for each in found.worktrees]
    client.tell(found, [*branches, *folders] or ["There is nothing to import."])
    return Exit.DONE


@worktrees_group.command("import")
@click.option("--branch", default="", help="A branch to work on in a new worktree.")
@click.option("--folder", default="", help="A worktree that is there already.")
@with_manager
async def import_command(client: ManagerClient, branch: str, folder: str) -> int:
    """Take up work that was begun elsewhere: a branch, or a worktree."""
    if bool(branch) == bool(folder):
        raise SettingsError("Give --branch or --folder, one of them.")
    return _tell_row(client, await client.do(ImportWork(branch=branch, folder=folder)))


@worktrees_group.command("recreate")
@_one_worktree
@with_manager
async def recreate_command(client: ManagerClient, which: str) -> int:
    """Make the folder of a worktree again that is gone, from its branch."""
    row = await client.worktree(which)
    request = RecreateWorktree(worktree_id=row.id)
    return await client.carry_out(request, f"{harmless_line(row.branch)} is there again.")


@worktrees_group.command("kept")
@with_manager
async def kept_command(client: ManagerClient) -> int:
    """Print work that was kept when a worktree was removed or a file reverted."""
    found = await client.do(ListKept())
    lines = [f"{harmless_line(each.ref)}  {harmless_line(each.about)}" for each in found]
    client.tell(found, lines or ["Nothing is kept."])
    return Exit.DONE


@worktrees_group.command("bring-back")
@click.argument("ref")
@click.argument("branch")
@with_manager
async def bring_back_command(client: ManagerClient, ref: str, branch: str) -> int:
    """Put kept work into a new worktree, on a new BRANCH."""
    return _tell_row(client, await client.do(BringBack(ref=ref, branch=branch)))


@worktrees_group.command("run")
@_one_worktree
@with_manager
async def run_command(client: ManagerClient, which: str) -> int:
    """Start the project's run script in a worktree."""
    row = await client.worktree(which)
    request = RunScript(worktree_id=row.id)
    return await client.carry_out(request, f"Runs in {harmless_line(row.path)}.")


@worktrees_group.command("stop")
@_one_worktree
@with_manager
async def stop_command(client: ManagerClient, which: str) -> int:
    """End the run script of a worktree."""
    row = await client.worktree(which)
    return await client.carry_out(StopScript(worktree_id=row.id), "Stopped.")


@worktrees_group.command("scripts")
@with_manager
async def scripts_command(client: ManagerClient) -> int:
    """Print the programs that the project brings for its worktrees."""
    found = await client.do(ListScripts())
    client.tell(found, [line for row in found for line in _script(row)] or ["It brings none."])
    return Exit.DONE


@worktrees_group.command("agree")
@click.argument("digest")
@with_manager
async def agree_command(client: ManagerClient, digest: str) -> int:
    """Let a script of the project run as it is now. Its DIGEST is printed by scripts."""
    found = [row for row in await client.do(ListScripts()) if row.digest.startswith(digest)]
    if len({row.digest for row in found}) != 1 or len(digest) < SHORTEST_DIGEST:
        raise SettingsError(
            f"No script has the digest {digest}. See {NAME} sessions worktrees scripts."
        )
    names = " and ".join(harmless_line(row.name) for row in found)
    request = AgreeScript(digest=found[0].digest)
    return await client.carry_out(request, f"{names} may run as it is.")


def _script(row: ScriptRow) -> Iterator[str]:
    """All of its text, with nothing in it that one would not see."""
    digest = harmless_line(row.digest[:SHORTEST_DIGEST])
    until = f"is not run before: {NAME} sessions worktrees agree {digest}"
    yield f"{visible_line(row.path)} {'may run as it is.' if row.agreed else until}"
    yield from (f"  {line}" for line in plainly_visible(row.text).split("\n"))


def _tell_row(client: ManagerClient, row: WorktreeRow) -> int:
    client.tell(row, aligned([_HEAD, _cells(row)]))
    return Exit.DONE


def _cells(row: WorktreeRow) -> list[str]:
    state = f"{row.state}, runs" if row.running else str(row.state)
    sessions = ", ".join(map(short, row.sessions)) or "-"
    return [row.id, row.branch, state, row.parent_branch or "-", sessions, row.path]


def _plan(plan: Plan) -> Iterator[str]:
    yield harmless(plan.text)
    yield from (f"  {harmless_line(path)}" for path in plan.paths)
    yield from (f"  conflict: {harmless_line(each)}" for each in plan.conflicts)
