"""Records what calls did to files, so that it can be undone.

Files are saved before and after a call that changes things, and both checkpoints are recorded: the
difference is what the call did. After a command this happens in the background while the model is
asked; only the next call that changes things waits for it.
"""

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    CheckpointSaved,
    Effect,
    FilesChanged,
    FilesRestored,
    Noted,
    Reminded,
    SavingFiles,
)
from rookery.core.modes import is_hosts_own
from rookery.core.replies import PUT_BACK
from rookery.core.undo_plan import (
    approved_by_user,
    background_call,
    is_folder,
    named_checkpoints,
    recorded_since,
    steps_since,
    unrecorded,
    unsettled,
)
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action, Deed, GitUse
from rookery.engine.ports.hooks import SessionHook
from rookery.engine.ports.workspace import Checkpoints, Restored

MOST_NAMED = 20
CHANGED = "A command changed protected files"
APPROVED = "The command you approved changed protected files; its changes stay"
FORMATTED = "While an edited file was formatted, others changed too; undo covers them"
CHANGED_OUTSIDE = "A command changed files outside the scope"
CHANGED_BEFORE_A_CRASH = (
    "The last command of this session was interrupted, and protected files have "
    "changed since it began"
)


class _Watched(Struct, frozen=True):
    """A call whose files were saved before it."""

    call_id: str
    paths: Sequence[str] | None
    expected: frozenset[str]
    """Protected files that the call was allowed to change."""
    approved: bool
    """Whether a person approved the call. Its changes stay."""
    git: GitUse = GitUse.NONE
    began: int = 0
    """When its files were saved, in milliseconds."""
    narrowed: bool = False
    """Whether it could not write the host's own files; changes of those came from elsewhere."""
    formatted: bool = False
    """Whether it is an edit after which a formatter ran, which could write anywhere."""


class _Saved(Struct, frozen=True):
    """A checkpoint and the event that recorded it."""

    id: str
    seq: int


class Undo:
    def __init__(
        self,
        log: EventLog,
        checkpoints: Callable[[], Checkpoints],
        *,
        shielded: Callable[[Sequence[Effect], Collection[str]], Sequence[str]],
        start_soon: Callable[[Callable[[], Coroutine[Any, Any, None]]], object],
        hooks: Sequence[SessionHook] = (),
        checked_out: Callable[[Sequence[Effect], GitUse, int], Collection[str]] = lambda *_: (),
    ) -> None:
        """`hooks` are informed of what commands changed before the model continues.
        `checked_out` returns the files that now match git."""
        self._checked_out = checked_out
        self._hooks = hooks
        self._steps: dict[str, tuple[str, str, int]] = {}
        """The checkpoints before and after each command, and the event that records the change."""
        self._out_of_scope: dict[str, Sequence[str]] = {}
        """Files outside the scope that a command changed and the user may want to restore."""
        self._log = log
        self._checkpoints = checkpoints
        self._shielded = shielded
        self._start_soon = start_soon
        self._watched: dict[str, _Watched] = {}
        self._newest: _Saved | None = None
        """Start of the next change. Changes never overlap."""
        self._problem_reported = False
        self._tidied = False
        self._unsettled = 0
        self._open: set[str] = set()
        """Finished calls whose changes are not recorded yet."""
        self._recovered: tuple[str, str, str, Sequence[Effect]] | None = None
        self._lock = anyio.Lock()
        self._settled = anyio.Event()
        self._settled.set()

    async def before(
        self, call: ToolCall, action: Action, *, narrowed: bool = False, formatted: bool = False
    ) -> None:
        """Save the files that the call may change, after the previous call's changes are
        recorded. `narrowed` marks a command that can write only part of the workspace,
        `formatted` an edit after which a formatter runs, which could write anywhere."""
        if not action.may_change_files:
            return
        await self._settled.wait()
        edits = [change.path for change in action.changes]
        paths = None if action.command or action.external or formatted else edits
        began = self._log.append(SavingFiles(call_id=call.id)).ts
        saved = await self._checkpoints().save(paths)
        if not saved.id:
            self._report_problem(saved.problem)
            return
        checkpoint = saved.id
        if self._newest and (command := background_call(self._log.events)):
            meanwhile = self._watched.get(command) or self._from_log(command)
            effects = await self._checkpoints().effects(self._newest.id, saved.id)
            checkpoint = await self._record_change(meanwhile, self._newest, saved.id, effects)
        event = self._log.append(
            CheckpointSaved(id=checkpoint, call_id=call.id, skipped=saved.skipped)
        )
        self._newest = _Saved(checkpoint, event.seq)
        if not self._tidied:
            self._tidied = True
            self._start_soon(self._tidy)
        judged = action.judgement.targets if action.judgement else ()
        self._watched[call.id] = _Watched(
            call.id,
            paths,
            frozenset([*(t.path for t in judged if t.deed is not Deed.READ), *edits]),
            approved=approved_by_user(self._log.events, call.id),
            git=action.judgement.git if action.judgement else GitUse.NONE,
            began=began,
            narrowed=narrowed,
            formatted=formatted,
        )

    async def after(self, call_id: str) -> None:
        """Record what the call changed; for a command, in the background."""
        self.settle_soon(call_id)  # so that cancelling the step only ends the waiting
        watched = self._watched.get(call_id)
        known = watched and (watched.paths is not None or watched.formatted)
        if watched and (known or self._followed):
            await self._settled.wait()

    @property
    def _followed(self) -> bool:
        return any(hook.follows_files for hook in self._hooks)

    def files_to_restore(self, call_id: str) -> Sequence[str]:
        """Files to ask the user about. Each call returns them once."""
        return self._out_of_scope.pop(call_id, ())

    def settle_soon(self, call_id: str) -> None:
        """Record what the call changed, without waiting."""
        if call_id in self._watched:
            if not self._unsettled:
                self._settled = anyio.Event()
            self._unsettled += 1
            self._open.add(call_id)
            self._start_soon(partial(self._settle, call_id))

    async def settled(self) -> None:
        """Wait until all changes are recorded, including those of running commands."""
        if command := background_call(self._log.events):
            self.settle_soon(command)
        await self._settled.wait()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Record what changed before, and nothing during a sub-task: it records its own."""
        await self.settled()
        async with self._lock:
            yield

    async def settle_rest(self) -> None:
        """Record the remaining changes for the hooks when the task ends."""
        if self._followed:
            for call_id in sorted(self._open):
                await self._record(self._watched[call_id])
            self._open.clear()

    async def report_recovered(self) -> None:
        """Report changes from before a crash to the hooks."""
        if self._recovered:
            await self._report_change(*self._recovered)
        self._recovered = None

    async def recover(self) -> None:
        """Determine what a call changed whose process died.

        Protected files may also have changed since the crash. They are restored unless a person
        approved the call, but as a separate step that is reported and can be undone.
        """
        lost = unsettled(self._log.events)
        if lost is None:
            return
        found = self._from_log(lost.call_id)
        watched = replace(found, paths=lost.paths, expected=frozenset(lost.edits))
        self._newest = before = _Saved(lost.checkpoint, lost.since)
        saved = await self._checkpoints().save(lost.paths)
        if not saved.id:
            self._report_problem(saved.problem)
            return
        effects = await self._checkpoints().effects(before.id, saved.id)
        forbidden, done = self._forbidden_changes(effects, watched), Restored()
        if forbidden:
            done = await self._revert(before.id, saved.id, forbidden, CHANGED_BEFORE_A_CRASH)
        changed = await self._append_change(watched, before, saved.id)
        if lost.paths is None:
            left = [effect for effect in effects if effect.path not in forbidden]
            self._recovered = (lost.call_id, before.id, saved.id, left)
        if done.after:
            self._append_restore(changed, done, named=())
            again = f"Rewind to event {changed} to get the changed versions back."
            self._log.append(Noted(text=again))

    async def rehearse(self, to: int, *, overwrite: bool) -> Restored:
        """What restoring the files as of event `to` would do."""
        steps = steps_since(self._log.events, to)
        return await self._checkpoints().restore(steps, overwrite=overwrite, rehearse=True)

    async def restore(self, to: int, *, overwrite: bool) -> None:
        """Restore the files as of event `to`."""
        await self.settled()
        steps = steps_since(self._log.events, to)
        done = await self._checkpoints().restore(steps, overwrite=overwrite)
        if done.problem:
            self._log.append(Noted(text=done.problem))
        if not done.after or all(before == after for before, after in steps):
            return
        # also if nothing had to be done: then the next undo takes back what was before that
        self._append_restore(to, done, named=[effect.path for effect in done.effects])
        if done.before != done.after:
            await self._report_restore(done)

    async def revert(self, call_id: str, paths: Collection[str]) -> None:
        """Undo what a command did to some files, at the user's request."""
        async with self._lock:
            before, after, changed = self._steps[call_id]
            done = await self._revert(before, after, paths, CHANGED_OUTSIDE)
            if done.after:
                self._append_restore(changed, done, named=())
                await self._report_restore(done)

    async def _report_restore(self, done: Restored) -> None:
        for hook in self._hooks:
            await hook.files_restored(done)

    async def _report_change(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> list[str]:
        """Report what a command changed. Returns the files that the user may want to restore."""
        found = [await each.files_changed(call_id, before, after, effects) for each in self._hooks]
        return [path for paths in found for path in paths]

    async def _settle(self, call_id: str) -> None:
        try:
            async with self._lock:
                await self._record(self._watched[call_id])
                self._open.discard(call_id)
        finally:
            self._unsettled -= 1
            if not self._unsettled:
                self._settled.set()

    async def _record(self, watched: _Watched) -> None:
        before = self._newest
        assert before
        saved, effects = await self._checkpoints().save_after(before.id, watched.paths)
        if not saved.id:
            self._report_problem(saved.problem)
            return
        await self._record_change(watched, before, saved.id, effects)

    async def _record_change(
        self, watched: _Watched, before: _Saved, after: str, effects: Sequence[Effect]
    ) -> str:
        """Restore forbidden changes and record the rest. Returns the checkpoint after the
        change."""
        differs = bool(effects)
        recorded = recorded_since(self._log.events, before.seq)  # by sub-tasks, which checked it
        effects = unrecorded(
            effects, [await self._checkpoints().effects(*each) for each in recorded]
        )
        if forbidden := self._forbidden_changes(effects, watched):
            after = (await self._revert(before.id, after, forbidden, CHANGED)).after or after
            differs = False  # everything may have been reverted
        changed = await self._append_change(watched, before, after, differs=differs)
        if watched.formatted:
            self._note_other_changes(effects, watched)
        elif watched.paths is None and self._followed:
            self._steps[watched.call_id] = (before.id, after, changed)
            left = [effect for effect in effects if effect.path not in forbidden]
            if found := await self._report_change(watched.call_id, before.id, after, left):
                self._out_of_scope[watched.call_id] = found
        return after

    async def _append_change(
        self, watched: _Watched, before: _Saved, after: str, *, differs: bool = False
    ) -> int:
        """Append the change to the log and return its event. If only ignored files changed, both
        checkpoints are the same and there is nothing to undo. `differs` if that is known."""
        if not differs and not await self._checkpoints().changed_files(before.id, after):
            after = before.id
        change = FilesChanged(
            call_id=watched.call_id, before=before.id, after=after, since=before.seq
        )
        event = self._log.append(change)
        self._newest = _Saved(after, event.seq)
        return event.seq

    def _append_restore(self, to: int, done: Restored, *, named: Sequence[str]) -> None:
        """Append the restore to the log. The model is informed of the `named` files."""
        event = self._log.append(
            FilesRestored(
                to=to,
                before=done.before,
                after=done.after,
                paths=tuple(named[:MOST_NAMED]),
                count=len(done.effects),
                kept=done.kept,
            )
        )
        self._newest = _Saved(done.after, event.seq)

    def _note_other_changes(self, effects: Sequence[Effect], watched: _Watched) -> None:
        """Tell the user what else changed while an edit was made and formatted."""
        files = (e.path for e in effects if not is_folder(e.before) and not is_folder(e.after))
        if found := [path for path in files if path not in watched.expected]:
            self._log.append(Noted(text=f"{FORMATTED}: {_named(found)}."))

    def _forbidden_changes(self, effects: Sequence[Effect], watched: _Watched) -> Sequence[str]:
        """Protected files that a command changed without approval."""
        if watched.paths is not None:
            return ()
        found = self._shielded(effects, watched.expected)
        if watched.narrowed:
            found = [path for path in found if not is_hosts_own(path)]
        if found and watched.approved:
            self._log.append(Noted(text=f"{APPROVED}: {_named(found)}."))
            return ()
        suspects = [effect for effect in effects if effect.path in found]
        known = self._checked_out(suspects, watched.git, watched.began) if suspects else ()
        return [path for path in found if path not in known]

    def _from_log(self, call_id: str) -> _Watched:
        """A call that is known only from the log."""
        approved = approved_by_user(self._log.events, call_id)
        return _Watched(call_id, None, frozenset(), approved=approved)

    async def _revert(self, before: str, after: str, paths: Collection[str], what: str) -> Restored:
        only = {*paths, *(str(folder) for path in paths for folder in PurePosixPath(path).parents)}
        done = await self._checkpoints().restore([(before, after)], overwrite=True, only=only)
        back = sorted({effect.path for effect in done.effects} & set(paths))
        left = sorted(set(paths) - set(back))
        if back:
            named = _named(back)
            kept = f" What the command wrote is kept in {done.aside}." if done.aside else ""
            self._log.append(Noted(text=f"{what}; restored: {named}.{kept}"))
            self._log.append(Reminded(text=PUT_BACK.format(paths=named) + kept))
        if left:
            named = _named(left)
            why = done.problem or "they could not be restored"
            self._log.append(Noted(text=f"{what} ({named}): {why}."))
        return done

    async def _tidy(self) -> None:
        """Free space if the checkpoints take too much."""
        if message := await self._checkpoints().tidy(keep=named_checkpoints(self._log.events)):
            self._log.append(Noted(text=message))

    def _report_problem(self, problem: str) -> None:
        if problem and not self._problem_reported:
            self._problem_reported = True
            self._log.append(Noted(text=problem))


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join([*paths[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
