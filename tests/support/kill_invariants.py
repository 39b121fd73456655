"""Invariants after any kill: the list is correct, nothing is lost, nothing is left over."""

import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from rookery.core.facts import (
    Answered,
    Ending,
    Event,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.manager.manager_socket import RemoteManager
from rookery.manager.requests import (
    ListSessions,
    ListWorktrees,
    PlanRemoval,
    RemoveWorktree,
    StopAll,
)
from rookery.manager.sessions.session_events import PendingAsk
from rookery.manager.sessions.session_process import is_alive
from rookery.manager.sessions.session_record import SessionRecord, session_from_json
from rookery.manager.sessions.session_task import FollowedTask
from rookery.manager.sessions.stored_session import rebuild_session
from rookery.manager.shown_rows import SessionRow, WorktreeRow
from rookery.storage.verify import verify
from support.kill_actions import User, Words
from support.killed_manager import Ground
from support.worktree_folders import git

SECONDS = 60
"""Seconds to wait for pending changes; errors are permanent."""
AT_WORK = ("creating", "streaming")
"""States of a session with a process; a question survives the loss of its process."""
WAITS_FOR = {
    "waiting_approval": ("tool", "command"),
    "waiting_input": ("followup",),
}


async def check_all(ground: Ground, user: User) -> None:
    """Check all invariants while no manager runs: start another one, and complete everything."""
    dead = _dead_sessions(ground)
    with ground.manager() as process:
        async with ground.visited(process) as remote:
            await check_no_dead_session_works(remote, dead)
            await check_shown_states(ground, remote)
            await check_no_stray_process(ground)
            await check_worktrees(ground, remote, user.removing)
            await user.settle(remote)
            await check_shown_states(ground, remote)
            check_messages(ground, user.words)
            check_changes(ground, user.removing)
            await check_worktrees(ground, remote, user.removing)
            await remote.do(StopAll())
        process.terminate()
        process.communicate(timeout=SECONDS)
    await check_no_process_left(ground)


def _dead_sessions(ground: Ground) -> set[str]:
    """Sessions whose process is gone and not being replaced. Call it while no manager runs."""
    saved = _saved(ground)
    return {
        session_id
        for session_id, mark in ground.marks().items()
        if not is_alive(mark) and mark.generation == saved[session_id].generation
    }


def _saved(ground: Ground) -> dict[str, SessionRecord]:
    said = json.loads(ground.project.file.read_text())["sessions"]
    kept = {session_id: session_from_json(each) for session_id, each in said.items()}
    return {session_id: each for session_id, each in kept.items() if each}


async def check_no_dead_session_works(remote: RemoteManager, dead: set[str]) -> None:
    """Check that the first list shows no session without a process as working."""
    rows = (await remote.do(ListSessions(archived=True))).sessions
    lies = [row for row in rows if row.session_id in dead and row.state in AT_WORK]
    assert lies == [], lies


async def check_shown_states(ground: Ground, remote: RemoteManager) -> None:
    """Check that each session is shown in the state of its process and its journal."""
    await _soon(lambda: _lies(ground, remote), "shown otherwise than it is")


async def _lies(ground: Ground, remote: RemoteManager) -> list[str]:
    rows = (await remote.do(ListSessions(archived=True))).sessions
    saved = _saved(ground)
    shown = {row.session_id for row in rows}
    lies = [_lie(ground, row, saved[row.session_id]) for row in rows if row.session_id in saved]
    lies = [lie for lie in lies if lie]
    lies += [f"{session_id} is not shown" for session_id in ground.folders() - shown]
    return lies + [f"{each} is shown, not kept" for each in shown - saved.keys()]


def _lie(ground: Ground, row: SessionRow, kept: SessionRecord) -> str:
    mark = ground.marks().get(row.session_id)
    current = mark is not None and mark.generation == kept.generation
    alive = mark is not None and current and is_alive(mark)
    ask = _last_ask(ground.project.log(row.session_id))
    at_hand = mark is not None and mark.at_rest and not kept.saw_session_created
    going = (alive or row.queued) and not at_hand
    expected = rebuild_session(kept, ask, alive=going).state
    about = f"{row.session_id} is shown as {row.state}"
    if row.state != expected:
        return f"{about}, and is {expected}: {mark}, alive {alive}, {ask}, {kept}"
    if row.state in AT_WORK and not (alive or row.queued or row.step):
        return f"{about} without a process"
    if row.queued and alive:
        return f"{about}, queued, with a process"
    if (kinds := WAITS_FOR.get(row.state)) and (ask is None or ask.ask not in kinds):
        return f"{about}, and asks {ask}"
    return ""


def _last_ask(events: list[Event]) -> PendingAsk | None:
    task = FollowedTask("any")
    task.load_events(events)
    return task.ask


async def check_no_stray_process(ground: Ground) -> None:
    """Check that each process belongs to a session, or was started by one."""

    async def strangers() -> list[str]:
        leaders = {mark.pid for mark in ground.marks().values() if is_alive(mark)}
        there = ground.processes()
        return [
            f"{pid} {line}"
            for pid, (leader, line) in there.items()
            if leader not in leaders and not _descends(pid, leaders)
        ]

    await _soon(strangers, "an orphaned process")


def _descends(pid: int, leaders: set[int]) -> bool:
    while pid > 1:
        if pid in leaders:
            return True
        try:
            said = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return True  # it has ended meanwhile
        pid = int(said[1])
    return False


async def check_no_process_left(ground: Ground) -> None:
    async def left() -> list[str]:
        return [line for _, line in ground.processes().values()]

    await _soon(left, "left over")


async def check_worktrees(ground: Ground, remote: RemoteManager, removed: set[str]) -> None:
    """Check that the worktrees on disk, in git and in the list are the same, and complete. An
    unfinished one must be shown as such, without a session, and be removable."""
    for row in await remote.do(ListWorktrees()):
        if row.state == "unfinished":
            assert row.sessions == (), row
            plan = await remote.do(PlanRemoval(worktree_id=row.id))
            await remote.do(RemoveWorktree(worktree_id=row.id, token=plan.token))

    async def differing() -> list[str]:
        shown = {row.path for row in await _wanted(remote, removed)}
        place = ground.path / ".roo" / "worktrees"
        there = {str(path) for path in place.glob("*")}
        known = git(ground.path, "worktree", "list", "--porcelain").decode().splitlines()
        gits = {line.removeprefix("worktree ") for line in known if str(place) in line}
        return sorted((shown ^ there) | (shown ^ gits))

    await _soon(differing, "a worktree that is not everywhere")
    rows = await _wanted(remote, removed)
    for row in rows:
        assert row.state == "ready", row
        on = git(Path(row.path), "symbolic-ref", "--short", "HEAD").decode().strip()
        assert on == row.branch, row
        changed = git(Path(row.path), "status", "--porcelain").decode().splitlines()
        assert [line for line in changed if not line.startswith("??")] == [], row
    for session in (await remote.do(ListSessions(archived=True))).sessions:
        if session.worktree_id:
            assert session.workspace in {*removed, *(row.path for row in rows)}, session


async def _wanted(remote: RemoteManager, removed: set[str]) -> list[WorktreeRow]:
    """The listed worktrees, without those that the user removed."""
    rows = await remote.do(ListWorktrees())
    return [row for row in rows if row.state == "ready" or row.path not in removed]


def check_messages(ground: Ground, words: Words) -> None:
    """Check that each accepted message is in a journal once, and refused ones are in none. A
    session that never started stores its messages, and also its refused prompt."""
    received = Counter(text for events in _journals(ground).values() for text in _heard(events))
    begun = ground.folders()
    kept_prompts = set()
    for session_id, kept in _saved(ground).items():
        if session_id not in begun:
            received.update(letter.text for letter in kept.outbox)
            if kept.undelivered or len(kept.outbox) > 1:
                kept_prompts.add(kept.prompt)
    wrong = [each for each in words.like("taken") if received[each] != words.times.get(each, 1)]
    refused = [each for each in words.like("refused") if each not in kept_prompts]
    wrong += [each for each in refused if received[each]]
    wrong += [each for each in words.like("unknown") if received[each] > words.times.get(each, 1)]
    assert wrong == [], [(each, words.reported[each], received[each]) for each in wrong]


def _heard(events: list[Event]) -> list[str]:
    """All messages of the user."""
    facts = [event.fact for event in events]
    said = [fact.text for fact in facts if isinstance(fact, TaskOpened | UserSpoke | Answered)]
    return [text for text in said if text]


def check_changes(ground: Ground, removed: set[str]) -> None:
    """Check that reports and files match, and that each journal is intact. The changes of a
    removed worktree must be stored."""
    begun: set[str] = set()
    for session_id, events in _journals(ground).items():
        assert verify(ground.project.tasks.folder(session_id)) == []
        workspace = next(e.fact.workspace for e in events if isinstance(e.fact, TaskOpened))
        calls = {e.fact.call_id: e.fact for e in events if isinstance(e.fact, ToolStarted)}
        done = [e.fact for e in events if isinstance(e.fact, ToolFinished)]
        begun |= {os.path.join(workspace, _file(call)) for call in calls.values()}
        for end in done:
            call = calls.get(end.call_id)
            if call and _file(call) and end.ending is Ending.DONE and end.exit_code in (None, 0):
                held = workspace in removed and not Path(workspace).exists()
                found = _kept(ground, _file(call)) if held else _read(workspace, _file(call))
                assert found == _file(call), (call, end)
    places = [ground.path, *(ground.path / ".roo" / "worktrees").glob("*")]
    made = {str(path) for place in places for path in place.glob("*[0-9]-*.txt")}
    assert made <= begun


def _read(workspace: str, file: str) -> str:
    path = Path(workspace, file)
    return path.read_text() if path.exists() else ""


def _kept(ground: Ground, file: str) -> str:
    """Content of the file in any git reference."""
    for ref in git(ground.path, "for-each-ref", "--format=%(refname)").decode().split():
        if git(ground.path, "ls-tree", ref, "--", file):
            return git(ground.path, "show", f"{ref}:{file}").decode()
    return ""


def _file(call: ToolStarted) -> str:
    if call.command:
        return call.command.rpartition(" ")[2]
    return call.changes[0].path if call.changes else ""


def _journals(ground: Ground) -> dict[str, list[Event]]:
    folders = ground.places.tasks.glob("*")
    return {folder.name: ground.project.log(folder.name) for folder in folders}


async def _soon(wrong: Callable[[], Awaitable[list[str]]], what: str) -> None:
    until = anyio.current_time() + SECONDS
    while found := await wrong():
        assert anyio.current_time() < until, f"{what}: {found}"
        await anyio.sleep(0.1)
