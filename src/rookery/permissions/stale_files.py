"""Denies changes to files that changed since the model last saw them.

What the model has seen is folded from the log: files it read and files it changed.

If the policy of an intent tolerates it, an edit may change a file that was also changed elsewhere.
The edit must contain the exact text it replaces, and none of those lines may have changed.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePosixPath

import anyio.to_thread
from msgspec import Struct

from rookery.core.asks import Decision, Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.core.folds.task_record import KnownFiles
from rookery.core.replies import CHANGED_BESIDE
from rookery.core.text.text_lines import shown_difference, unchanged_around
from rookery.engine.ports.actions import Action
from rookery.engine.ports.hooks import Hook


class _Stale(Struct, frozen=True):
    """Why a file must not be changed: the expected version and the actual one."""

    path: str
    reason: str
    sentence: str
    expected: str
    actual: str


NOTE = "{path} changed since the model read it, but not in the lines of this edit."


class StaleGuard(Hook):
    def __init__(
        self,
        files: Callable[[], KnownFiles],
        text_of: Callable[[str], str | None] = lambda sha: None,
        *,
        tolerates: Callable[[ToolCall, Action], Awaitable[bool]] | None = None,
    ) -> None:
        """`files` returns those the model has seen, `text_of` the text for a file hash, if known.
        `tolerates` says whether a call may edit files that changed elsewhere; by default none
        may."""
        self._files = files
        self._text_of = text_of
        self._tolerates = tolerates

    def known(self) -> dict[str, str]:
        """The hash of each file as the model last saw it."""
        return {path: known.sha for path, known in self._files().by_path.items()}

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
        if not problems or self._tolerates is None or not await self._tolerates(call, action):
            return notes
        for each in problems:
            difference = await self._difference_elsewhere(each, action)
            if not difference:
                break
            notes.append(CHANGED_BESIDE.format(path=each.path, difference=difference))
        return notes

    async def _difference_elsewhere(self, stale: _Stale, action: Action) -> str:
        """The difference since the model saw the file; empty if the edit must not be made."""
        was, now = self._text_of(stale.expected), self._text_of(stale.actual)
        pieces = action.searched.get(stale.path, ())
        outside = PurePosixPath(stale.path).is_absolute()  # reading there is always asked about
        if stale.reason != "changed" or outside or not pieces or was is None or now is None:
            return ""
        if not await anyio.to_thread.run_sync(unchanged_around, was, now, pieces):
            return ""
        return (await anyio.to_thread.run_sync(shown_difference, was, now))[0]

    def _problem(self, change: Change, action: Action) -> _Stale | None:
        path, known = change.path, self._files().by_path.get(change.path)
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
