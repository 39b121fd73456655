"""No change of a file that is no longer as the model knows it.

What the model knows is folded from the log: the files it was shown, and those it changed.
"""

from collections.abc import Callable, Iterable, Sequence

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
from rookery.core.rulings import Decision, Ruling
from rookery.core.values import record
from rookery.engine.ports import Action, Outcome


@record
class _Known:
    """A file as the model last knew it. The hash of a file too large to be read is not known."""

    sha: str
    whole: bool


@record
class _Stale:
    """Why a file must not be changed: what the model knew, and what is there."""

    path: str
    reason: str
    sentence: str
    expected: str
    actual: str


class StaleGuard:
    """Reads on in the log where it had stopped, so that a long one costs no more than a short."""

    def __init__(self, events: Callable[[], Sequence[Event]]) -> None:
        self._events = events
        self._folded = 0
        self._known: dict[str, _Known] = {}
        self._started: dict[str, tuple[Change, ...]] = {}

    def known(self) -> dict[str, str]:
        """The hash of each file as the model last knew it."""
        self._read_on()
        return {path: known.sha for path, known in self._known.items()}

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        self._read_on()
        problems = (self._problem(change, action) for change in action.changes)
        stale = next(filter(None, problems), None)
        if stale is None:
            return Ruling()
        from rookery.core.intents.errors import Refusal, RefusedTarget

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
                f"{path} has changed since you read it; nothing was written. Read it again, then "
                "repeat the edit.",
            )
        if path not in action.whole:
            return None
        if known is None:
            return stale(
                "not_read",
                f"{path} is there already and you have not read it; nothing was written. Read it "
                "first, then write it or change part of it.",
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
        unless it may be one that was elsewhere before."""
        known = self._known.pop(change.path, None)
        if change.after:
            made = not change.before and not moves
            whole = made or (known is not None and known.whole)
            self._known[change.path] = _Known(change.after, whole)

    def _learn_seen(self, seen: Seen) -> None:
        known = self._known.get(seen.path)
        follows = known is not None and (known.sha == seen.sha or seen.amended)
        seen_before = known is not None and known.whole and follows
        self._known[seen.path] = _Known(seen.sha, seen.whole or seen_before)
