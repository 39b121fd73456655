"""No change of a file that is no longer as the model knows it.

What the model knows is folded from the log: the files it was shown, and those it changed.

Where the policy of an intent tolerates it, an edit may change a file that has changed elsewhere.
The edit must name the exact text that it replaces, and none of its lines may have changed.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import PurePosixPath

import anyio.to_thread
from msgspec import Struct

from rookery.core.asks import Decision, Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Change,
    Ending,
    Event,
    Gathered,
    Rewound,
    Seen,
    ToolFinished,
    ToolStarted,
    live,
)
from rookery.core.replies import CHANGED_BESIDE
from rookery.core.text.text_lines import shown_difference, stands_as_before
from rookery.engine.ports.actions import Action, Outcome


class _Known(Struct, frozen=True):
    """A file as the model last knew it. The hash of a file too large to be read is not known."""

    sha: str
    whole: bool


class _Stale(Struct, frozen=True):
    """Why a file must not be changed: what the model knew, and what is there."""

    path: str
    reason: str
    sentence: str
    expected: str
    actual: str


NOTE = "{path} changed since the model read it, but not in the lines of this edit."


class StaleGuard:
    """Reads on in the log where it had stopped, so that a long one costs no more than a short."""

    def __init__(
        self,
        events: Callable[[], Sequence[Event]],
        text_of: Callable[[str], str | None] = lambda sha: None,
        *,
        tolerates: Callable[[ToolCall, Action], Awaitable[bool]] | None = None,
    ) -> None:
        """`text_of` gives the text of a file by its hash, if it is still known. `tolerates` says
        whether a call may edit files that have changed elsewhere; without it, none may."""
        self._events = events
        self._text_of = text_of
        self._tolerates = tolerates
        self._folded = 0
        self._known: dict[str, _Known] = {}
        self._started: dict[str, tuple[Change, ...]] = {}

    def known(self) -> dict[str, str]:
        """The hash of each file as the model last knew it."""
        self._read_on()
        return {path: known.sha for path, known in self._known.items()}

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        self._read_on()
        problems = [found for each in action.changes if (found := self._problem(each, action))]
        beside = await self._beside(call, action, problems)
        if len(beside) == len(problems):
            return Ruling(
                notes=tuple(NOTE.format(path=each.path) for each in problems), told=tuple(beside)
            )
        return _refused(problems[len(beside)])

    async def _beside(
        self, call: ToolCall, action: Action, problems: Sequence[_Stale]
    ) -> list[str]:
        """What the model is told about files that changed only elsewhere, up to the first that
        must not be edited."""
        told: list[str] = []
        if not problems or self._tolerates is None or not await self._tolerates(call, action):
            return told
        for each in problems:
            difference = await self._changed_beside(each, action)
            if not difference:
                break
            told.append(CHANGED_BESIDE.format(path=each.path, difference=difference))
        return told

    async def _changed_beside(self, stale: _Stale, action: Action) -> str:
        """What changed about a file, if the edit may be made all the same."""
        was, now = self._text_of(stale.expected), self._text_of(stale.actual)
        pieces = action.searched.get(stale.path, ())
        outside = PurePosixPath(stale.path).is_absolute()  # reading there is always asked about
        if stale.reason != "changed" or outside or not pieces or was is None or now is None:
            return ""
        if not await anyio.to_thread.run_sync(stands_as_before, was, now, pieces):
            return ""
        return (await anyio.to_thread.run_sync(shown_difference, was, now))[0]

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    def _problem(self, change: Change, action: Action) -> _Stale | None:
        path, known = change.path, self._known.get(change.path)
        expected = known.sha if known else ""

        def stale(reason: str, sentence: str) -> _Stale:
            return _Stale(path, reason, sentence, expected, change.before)

        if not change.before:
            return None
        if known and known.sha and known.sha != change.before:
            return stale(
                "changed",
                (
                    f"{path} changed since you read it; nothing was written. Read it "
                    "again, then repeat the edit."
                ),
            )
        if path not in action.whole:
            return None
        if known is None:
            return stale(
                "not_read",
                (
                    f"{path} already exists and you have not read it; nothing was "
                    "written. Read it first, then write it or change part of it."
                ),
            )
        if not known.whole:
            return stale(
                "partly_read",
                f"You have read only part of {path}, and the rest would be lost; nothing was "
                "written. Read all of it at once, or use edit or apply_diff.",
            )
        return None

    def _read_on(self) -> None:
        events = self._events()
        fresh = events[self._folded :]
        self._folded = len(events)
        if any(isinstance(event.fact, Rewound) for event in fresh):
            self._known, self._started = {}, {}
            fresh = live(events)
        self._fold(fresh)

    def _fold(self, events: Iterable[Event]) -> None:
        for event in events:
            match event.fact:
                case ToolStarted(call_id=call_id, changes=changes) if changes:
                    self._started[call_id] = changes
                case ToolFinished(call_id=call_id, ending=ending, seen=seen):
                    changes = self._started.pop(call_id, ())
                    moves = any(not change.after for change in changes)
                    for change in changes if ending is Ending.DONE else ():
                        self._learn_change(change, moves=moves)
                    for each in seen:
                        self._learn_seen(each)
                case Gathered(seen=seen):
                    for each in seen:
                        self._learn_seen(each)

    def _learn_change(self, change: Change, *, moves: bool) -> None:
        """An edit shows nothing of the rest of a file; a file it made, the model knows whole,
        unless it may be one that was elsewhere before. What others changed it may not know."""
        known = self._known.pop(change.path, None)
        if change.after:
            made = not change.before and not moves
            followed = known is not None and known.sha == change.before
            whole = made or (known is not None and known.whole and followed)
            self._known[change.path] = _Known(change.after, whole)

    def _learn_seen(self, seen: Seen) -> None:
        known = self._known.get(seen.path)
        follows = known is not None and (known.sha == seen.sha or seen.amended)
        seen_before = known is not None and known.whole and follows
        self._known[seen.path] = _Known(seen.sha, seen.whole or seen_before)


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
