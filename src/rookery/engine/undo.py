"""Keeps what is needed to take back what calls do to files.

Before a call that changes things its files are saved, after it again, and the two checkpoints
go on record: what lies between them is what the call did. After a command nobody waits for
that: the model is asked meanwhile, and only the next call that changes things must wait.
"""

from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Deed, GitUse
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
    named_checkpoints,
    running_on,
    steps_since,
    unsettled,
)
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action
from rookery.engine.ports.hooks import ChangeRecorder, Ungoverned
from rookery.engine.ports.workspace import Checkpoints, Restored

MOST_NAMED = 20
CHANGED = "A command changed protected files"
APPROVED = "The command you approved changed protected files; its changes stay"
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
    """Files that the call was allowed to change although they are protected."""
    approved: bool
    """A person said yes to the call. What it did stands."""
    git: GitUse = GitUse.NONE
    began: int = 0
    """When its files were saved, in milliseconds."""
    narrowed: bool = False
    """It could not write the files of governance, so others have if they are changed."""


class _Saved(Struct, frozen=True):
    """A checkpoint, and the event that put it on record."""

    id: str
    seq: int


def _nothing_known(effects: Sequence[Effect], git: GitUse, began: int) -> Collection[str]:
    return ()


class Undo:
    def __init__(
        self,
        log: EventLog,
        checkpoints: Callable[[], Checkpoints],
        *,
        shielded: Callable[[Sequence[Effect], Collection[str]], Sequence[str]],
        start_soon: Callable[[Callable[[], Coroutine[Any, Any, None]]], object],
        governance: ChangeRecorder | None = None,
        checked_out: Callable[[Sequence[Effect], GitUse, int], Collection[str]] = _nothing_known,
    ) -> None:
        """`governance` is told what commands did, and does not let the model go on before.
        `checked_out` says which files are now as git has them."""
        self._checked_out = checked_out
        self._governance = governance or Ungoverned()
        self._steps: dict[str, tuple[str, str, int]] = {}
        """Between which checkpoints a command's changes lie, and the event that says so."""
        self._trespasses: dict[str, Sequence[str]] = {}
        """Files that a command changed and that a person may want to have put back."""
        self._log = log
        self._checkpoints = checkpoints
        self._shielded = shielded
        self._start_soon = start_soon
        self._watched: dict[str, _Watched] = {}
        self._newest: _Saved | None = None
        """Where the next change begins: no two of them overlap, whichever calls made them."""
        self._complained = False
        self._tidied = False
        self._unsettled = 0
        self._open: set[str] = set()
        """Calls that are over and of which it is not on record yet what they did."""
        self._recovered: tuple[str, str, str, Sequence[Effect]] | None = None
        self._in_turn = anyio.Lock()
        self._settled = anyio.Event()
        self._settled.set()

    async def before(self, call: ToolCall, action: Action, *, narrowed: bool = False) -> None:
        """Save what the call may change, once what the last one did is settled. `narrowed` if it
        is a command that can only write to a part of the workspace."""
        if not action.may_change_files:
            return
        await self._settled.wait()
        paths = None if action.command or action.external else [c.path for c in action.changes]
        began = self._log.append(SavingFiles(call_id=call.id)).ts
        saved = await self._checkpoints().save(paths)
        if not saved.id:
            self._complain(saved.problem)
            return
        checkpoint = saved.id
        if self._newest and (command := running_on(self._log.events)):
            meanwhile = self._watched.get(command) or self._unwatched(command)
            checkpoint = await self._put_on_record(meanwhile, self._newest, saved.id)
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
            frozenset(t.path for t in judged if t.deed is not Deed.READ),
            approved=approved_by_user(self._log.events, call.id),
            git=action.judgement.git if action.judgement else GitUse.NONE,
            began=began,
            narrowed=narrowed,
        )

    async def after(self, call_id: str) -> None:
        """Put on record what the call did. For a command that is done while others go on."""
        self.settle_soon(call_id)  # so that cancelling the step only ends the waiting
        watched = self._watched.get(call_id)
        if watched and (watched.paths is not None or self._governed):
            await self._settled.wait()

    @property
    def _governed(self) -> bool:
        return self._log.state.governed is not None

    def intruders(self, call_id: str) -> Sequence[str]:
        """What the user is asked about, once."""
        return self._trespasses.pop(call_id, ())

    def settle_soon(self, call_id: str) -> None:
        """The same, without waiting for it."""
        if call_id in self._watched:
            if not self._unsettled:
                self._settled = anyio.Event()
            self._unsettled += 1
            self._open.add(call_id)
            self._start_soon(partial(self._settle, call_id))

    async def settled(self) -> None:
        """Until all is on record that was done to files, also by what still runs."""
        if command := running_on(self._log.events):
            self.settle_soon(command)
        await self._settled.wait()

    async def settle_rest(self) -> None:
        """The task ends while it was being found out what calls did: governance must know."""
        if self._governed:
            for call_id in sorted(self._open):
                await self._record(self._watched[call_id])
            self._open.clear()

    async def tell_recovered(self) -> None:
        """Tell governance, once it is there, what was done before the crash."""
        if self._recovered and self._governed:
            call_id, before, after, effects = self._recovered
            await self._governance.changed(call_id, before, after, effects)
        self._recovered = None

    async def recover(self) -> None:
        """Find out what a call did whose process died before it could tell.

        Protected files may have changed since the crash too. They are put back all the same,
        unless a person approved the call; but as a step of its own, that is told and can be
        taken back by itself.
        """
        lost = unsettled(self._log.events)
        if lost is None:
            return
        watched = replace(self._unwatched(lost.call_id), paths=lost.paths)
        self._newest = before = _Saved(lost.checkpoint, lost.since)
        saved = await self._checkpoints().save(lost.paths)
        if not saved.id:
            self._complain(saved.problem)
            return
        effects = await self._checkpoints().effects(before.id, saved.id)
        intruders, done = self._intruders(effects, watched), Restored()
        if intruders:
            done = await self._put_back(before.id, saved.id, intruders, CHANGED_BEFORE_A_CRASH)
        changed = await self._enter(watched, before, saved.id)
        if lost.paths is None:
            left = [effect for effect in effects if effect.path not in intruders]
            self._recovered = (lost.call_id, before.id, saved.id, left)
        if done.after:
            self._enter_restored(changed, done, named=())
            again = f"Rewind to event {changed} to get the changed versions back."
            self._log.append(Noted(text=again))

    async def rehearse(self, to: int, *, overwrite: bool) -> Restored:
        """What restoring the files as of event `to` would do."""
        steps = steps_since(self._log.events, to)
        return await self._checkpoints().restore(steps, overwrite=overwrite, rehearse=True)

    async def restore(self, to: int, *, overwrite: bool) -> None:
        """Put the files back as they were at event `to`."""
        await self.settled()
        steps = steps_since(self._log.events, to)
        done = await self._checkpoints().restore(steps, overwrite=overwrite)
        if done.problem:
            self._log.append(Noted(text=done.problem))
        if not done.after or all(before == after for before, after in steps):
            return
        # also if nothing had to be done: then the next undo takes back what was before that
        self._enter_restored(to, done, named=[effect.path for effect in done.effects])
        if done.before != done.after:
            await self._governance.restored(done)

    async def put_back(self, call_id: str, paths: Collection[str]) -> None:
        """Take back what a command did to some files, because the user wants it."""
        async with self._in_turn:
            before, after, changed = self._steps[call_id]
            done = await self._put_back(before, after, paths, CHANGED_OUTSIDE)
            if done.after:
                self._enter_restored(changed, done, named=())
                await self._governance.restored(done)

    async def _settle(self, call_id: str) -> None:
        try:
            async with self._in_turn:
                await self._record(self._watched[call_id])
                self._open.discard(call_id)
        finally:
            self._unsettled -= 1
            if not self._unsettled:
                self._settled.set()

    async def _record(self, watched: _Watched) -> None:
        before = self._newest
        assert before
        saved = await self._checkpoints().save(watched.paths)
        if not saved.id:
            self._complain(saved.problem)
            return
        await self._put_on_record(watched, before, saved.id)

    async def _put_on_record(self, watched: _Watched, before: _Saved, after: str) -> str:
        """The checkpoint at which the change ends, once what must not be is put back."""
        effects = await self._checkpoints().effects(before.id, after)
        if intruders := self._intruders(effects, watched):
            after = (await self._put_back(before.id, after, intruders, CHANGED)).after or after
        changed = await self._enter(watched, before, after)
        if watched.paths is None and self._governed:
            self._steps[watched.call_id] = (before.id, after, changed)
            left = [effect for effect in effects if effect.path not in intruders]
            if found := await self._governance.changed(watched.call_id, before.id, after, left):
                self._trespasses[watched.call_id] = found
        return after

    async def _enter(self, watched: _Watched, before: _Saved, after: str) -> int:
        """Put a change on record; the event that does. If only ignored files changed, both of
        its checkpoints are the same: then there is nothing to undo."""
        if not await self._checkpoints().changed_files(before.id, after):
            after = before.id
        change = FilesChanged(
            call_id=watched.call_id, before=before.id, after=after, since=before.seq
        )
        event = self._log.append(change)
        self._newest = _Saved(after, event.seq)
        return event.seq

    def _enter_restored(self, to: int, done: Restored, *, named: Sequence[str]) -> None:
        """The model hears of what is named."""
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

    def _intruders(self, effects: Sequence[Effect], watched: _Watched) -> Sequence[str]:
        """Protected files that a command changed without anybody having been asked."""
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

    def _unwatched(self, call_id: str) -> _Watched:
        """A call of which only the log knows."""
        approved = approved_by_user(self._log.events, call_id)
        return _Watched(call_id, None, frozenset(), approved=approved)

    async def _put_back(
        self, before: str, after: str, paths: Collection[str], what: str
    ) -> Restored:
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
        """Make room once the checkpoints take more than they may."""
        if told := await self._checkpoints().tidy(keep=named_checkpoints(self._log.events)):
            self._log.append(Noted(text=told))

    def _complain(self, problem: str) -> None:
        if problem and not self._complained:
            self._complained = True
            self._log.append(Noted(text=problem))


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join([*paths[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
