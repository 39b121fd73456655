"""Restrictions that no setting lifts by itself.

`TrustGate`: an untrusted folder is read-only. `Restrictions`: ignored files, credentials, paths
outside the workspace, and files that are executed or that set policy. `ModeLimits`: what the
current mode forbids. A call without tools in the mode, or an edit of a file the mode does not edit,
counts as the model's mistake. A switch to a mode that may do more needs approval, also when a slash
command or a sub-task brings it. `StaleGuard`: files that changed since the model last saw them.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from pathlib import PurePosixPath

import anyio.to_thread
from msgspec import Struct

from rookery.core.asks import Decision, Ruling, ask, deny, joined
from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.core.folds.task_record import KnownFiles
from rookery.core.modes import (
    BUILT_IN,
    EVERYWHERE,
    Mode,
    find_mode,
    gains,
    may_change,
    offers,
    reading_only,
    why_not,
)
from rookery.core.protected_paths import ORDINARY_BY_HAND
from rookery.core.replies import CHANGED_BESIDE, CREDENTIALS, KEPT_FROM_YOU
from rookery.core.text.text_lines import shown_difference, unchanged_around
from rookery.core.tool_traits import traits_of
from rookery.engine.ports.actions import Action, Deed, program_name
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.workspace import Files, Place
from rookery.errors import BadArguments, ToolError

READ_ONLY = "This folder is not trusted, so it is read-only: nothing in it may be run or changed."
NOT_TRUSTED = (
    f"{READ_ONLY} The user can trust it with `rookery trust`, or by answering yes at the start; "
    "`--trust` or `-y` allows it for one run."
)


class Restrictions(Hook, Struct):
    """Checks every file an action reads or changes, and the folder a command runs in. Paths named
    in a command line are judged elsewhere, except files that the command could not read anyway:
    those need no question. The flags are set for runs whose user allowed it."""

    files: Files
    allow_outside: bool = False
    allow_protected: bool = False
    automatic: Callable[[], bool] = lambda: False

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        opinions = [*self._on_files(action), *self._on_command(action)]
        return joined(opinions) if opinions else Ruling()

    def _on_files(self, action: Action) -> Iterator[Ruling]:
        changed = dict.fromkeys(change.path for change in action.changes)
        read = dict.fromkeys(path for path in (*action.reads, action.cwd) if path)
        for path in dict.fromkeys([*changed, *read]):
            try:
                place = self.files.place(path)
            except ToolError as error:
                yield deny(str(error))
                continue
            yield from self._refused(place)
            yield from self._outside(place)
            if path in changed and path not in action.ordinary:
                yield from self._protected(place)
            if place.link:
                yield Ruling(notes=(f"a symbolic link points to {place.path}",))

    def _on_command(self, action: Action) -> Iterator[Ruling]:
        judged = action.judgement
        if judged is None or judged.why_not:
            return  # which of its words are files is then a guess
        for target in judged.targets:
            if target.deed is Deed.READ and self._is_ignored(target.path):
                yield deny(KEPT_FROM_YOU.format(path=target.path))

    def _is_ignored(self, path: str) -> bool:
        try:
            return self.files.place(path).ignored
        except ToolError:
            return False

    def _refused(self, place: Place) -> Iterator[Ruling]:
        if place.ignored:
            yield deny(KEPT_FROM_YOU.format(path=place.path))
        if place.credential:
            yield deny(CREDENTIALS.format(path=place.path))

    def _outside(self, place: Place) -> Iterator[Ruling]:
        if place.outside and not self.allow_outside:
            yield ask(f"outside the workspace: {place.path}")

    def _protected(self, place: Place) -> Iterator[Ruling]:
        ordinary = place.protected in ORDINARY_BY_HAND and not self.automatic()
        if place.protected and not ordinary and not self.allow_protected:
            yield ask(f"protected, because {place.protected}: {place.path}")


class ModeLimits(Hook, Struct):
    """`mode` returns the task's current mode, `group_of` the group of a tool, `modes` all modes.
    `automatic` runs do not ask: what exceeds the `chosen` mode is denied. Gains listed in
    `approved` are left to the hook that rules on the step itself.

    A mode without tools of its own only delegates: delegating is allowed and gains nothing.
    """

    mode: Callable[[], Mode]
    group_of: Callable[[str], str]
    modes: Callable[[], Sequence[Mode]] = lambda: BUILT_IN
    automatic: Callable[[], bool] = lambda: False
    approved: bool = False
    chosen: str = ""

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        """Raises `BadArguments` if the mode forbids it."""
        mode = self.mode()
        group = self.group_of(call.name)
        if not offers(mode, group):
            raise BadArguments(why_not(mode, call.name))
        on_server = action.external and not action.spares_files
        if on_server and group in EVERYWHERE and not offers(mode, "mcp"):
            raise BadArguments(why_not(mode, call.name))
        for change in action.changes:
            if not may_change(mode, change.path):
                raise BadArguments(why_not(mode, call.name, change.path))
        return self._on_other_mode(mode, action)

    def _on_other_mode(self, mode: Mode, action: Action) -> Ruling:
        return joined([self._on_target(mode, each, action) for each in self._targets(action)])

    def _on_target(self, mode: Mode, target: Mode, action: Action) -> Ruling:
        more = self._gains(mode, target, action)
        if not more:
            return Ruling()
        if self.automatic():
            return self._ruling_when_automatic(target, action)
        if self.approved:
            return Ruling()
        return ask(f"mode {target.slug} may do more than mode {mode.slug}: {', '.join(more)}")

    def _targets(self, action: Action) -> list[Mode]:
        """The modes of other work that the action starts, as far as that work may use them."""
        if not action.agents:
            slug = str(action.payload.get("mode", "")) if action.child else action.mode
            return [mode for mode in self.modes() if mode.slug == slug]
        found = [(find_mode(self.modes(), agent.mode), agent) for agent in action.agents]
        return [mode if agent.worktree else reading_only(mode) for mode, agent in found if mode]

    def _ruling_when_automatic(self, target: Mode, action: Action) -> Ruling:
        chosen = find_mode(self.modes(), self.chosen)
        more = self._gains(chosen, target, action) if chosen else ()
        if not (chosen and more):
            return Ruling()
        return deny(
            f"Not interactive: the user chose mode {chosen.slug} for this run, so no one can "
            f"approve what mode {target.slug} may do beyond it: {', '.join(more)}. Do without "
            "it, or finish and say what is left to do."
        )

    def _gains(self, here: Mode, target: Mode, action: Action) -> tuple[str, ...]:
        """What a step to another mode would add, in this task or in a sub-task."""
        if action.delegates and _only_delegates(here):
            return ()
        reached = self.modes() if _only_delegates(target) else (target,)
        return tuple(dict.fromkeys(name for mode in reached for name in gains(here, mode)))


def _only_delegates(mode: Mode) -> bool:
    return not mode.groups


class DeniedTools(Hook):
    """Denies the tools that a flag of this run names, by any of their names."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if not self._names or not {*traits_of(call.name).names} & {*self._names}:
            return Ruling()
        return deny(f"The user does not allow {call.name} in this run. Do without it.")


class TrustGate(Hook):
    """`acts_anyway` is set if the user (`-y`) or the driving program allowed actions for this run.
    The folder's own settings stay off. `never` is why the folder cannot be trusted, if so."""

    def __init__(self, *, trusted: bool, acts_anyway: bool, never: str = "") -> None:
        self._may_act = trusted or acts_anyway
        self._refusal = f"{READ_ONLY} {never}" if never else NOT_TRUSTED

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if self._may_act or not action.changes_things or _is_known_reader(action):
            return Ruling()
        return deny(self._refusal)


def _is_known_reader(action: Action) -> bool:
    """Whether the command consists of known read-only programs. Git is not one of them: it runs
    programs named in the repository's configuration."""
    judged = action.judgement
    if judged is None or action.may_change_files or action.changes or action.external:
        return False
    return all(program_name(said[0]) != "git" for said in judged.commands)


class _Stale(Struct, frozen=True):
    """Why a file must not be changed: the expected version and the actual one."""

    path: str
    reason: str
    sentence: str
    expected: str
    actual: str


NOTE = "{path} changed since the model read it, but not in the lines of this edit."


class StaleGuard(Hook, Struct):
    """Denies edits of files that changed since the model read or changed them.

    If the policy of an intent tolerates it, an edit may change a file that was changed elsewhere.
    It must contain the exact text it replaces, and none of those lines may have changed.
    """

    files: Callable[[], KnownFiles]
    """The files that the model has seen, folded from the log."""
    text_of: Callable[[str], str | None] = lambda sha: None
    """The text for a file hash, if known."""
    tolerates: Callable[[ToolCall, Action], Awaitable[bool]] | None = None
    """Whether a call may edit files that changed elsewhere."""

    def known(self) -> dict[str, str]:
        """The hash of each file as the model last saw it."""
        return {path: known.sha for path, known in self.files().by_path.items()}

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        problems = [found for each in action.changes if (found := self._problem(each, action))]
        beside = await self._notes_on_other_changes(call, action, problems)
        if len(beside) == len(problems):
            return Ruling(
                notes=tuple(NOTE.format(path=each.path) for each in problems),
                result_notes=tuple(beside),
            )
        return _refused(problems[len(beside)])

    async def _notes_on_other_changes(
        self, call: ToolCall, action: Action, problems: Sequence[_Stale]
    ) -> list[str]:
        """Notes for the model about files that changed only outside the edit, up to the first file
        that must not be edited."""
        notes: list[str] = []
        if not problems or self.tolerates is None or not await self.tolerates(call, action):
            return notes
        for each in problems:
            difference = await self._difference_elsewhere(each, action)
            if not difference:
                break
            notes.append(CHANGED_BESIDE.format(path=each.path, difference=difference))
        return notes

    async def _difference_elsewhere(self, stale: _Stale, action: Action) -> str:
        """The difference since the model saw the file; empty if the edit must not be made."""
        was, now = self.text_of(stale.expected), self.text_of(stale.actual)
        pieces = action.searched.get(stale.path, ())
        outside = PurePosixPath(stale.path).is_absolute()  # reading there is always asked about
        if stale.reason != "changed" or outside or not pieces or was is None or now is None:
            return ""
        if not await anyio.to_thread.run_sync(unchanged_around, was, now, pieces):
            return ""
        return (await anyio.to_thread.run_sync(shown_difference, was, now))[0]

    def _problem(self, change: Change, action: Action) -> _Stale | None:
        path, known = change.path, self.files().by_path.get(change.path)

        def stale(reason: str, sentence: str) -> _Stale:
            return _Stale(path, reason, sentence, known.sha if known else "", change.before)

        if not change.before:
            return None
        if known and known.sha and known.sha != change.before:
            return stale(
                "changed",
                f"{path} changed since you read it; nothing was written. Read it again, then "
                "repeat the edit.",
            )
        if path not in action.whole:
            return None
        if known is None:
            return stale(
                "not_read",
                f"{path} already exists and you have not read it; nothing was written. Read it "
                "first, then write it or change part of it.",
            )
        if not known.whole:
            return stale(
                "partly_read",
                f"You have read only part of {path}, and the rest would be lost; nothing was "
                "written. Read all of it at once, or use edit or apply_diff.",
            )
        return None


def _refused(stale: _Stale) -> Ruling:
    from rookery.core.refusals import Refusal, RefusedTarget

    refusal = Refusal(
        code="REQ-007",
        message=stale.sentence,
        reason=stale.reason,
        targets=(RefusedTarget(stale.path, "modify", "stale"),),
        details=(
            ("expected_hash", stale.expected or None),
            ("actual_hash", stale.actual or None),
        ),
    )
    return Ruling(Decision.DENY, (stale.sentence,), refusals=(refusal,))
