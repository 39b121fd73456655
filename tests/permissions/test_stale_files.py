from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from rookery.core.asks import Decision, Ruling
from rookery.core.blocks import ToolCall
from rookery.core.event_list import EventList
from rookery.core.facts import (
    Change,
    Ending,
    Event,
    Fact,
    Rewound,
    Seen,
    TaskOpened,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.task_record import KnownFiles, TaskRecord
from rookery.engine.ports.actions import Action
from rookery.permissions.restrictions import StaleGuard
from support.actions import never
from support.each_row import each_row

pytestmark = pytest.mark.anyio

CALL = ToolCall(id="c9", name="edit", arguments={})


def shown(sha: str, *, whole: bool = True, path: str = "a.txt") -> list[Fact]:
    return [ToolFinished(call_id="r", text="", seen=(Seen(path, sha, whole),))]


def changed(before: str, after: str, ending: Ending = Ending.DONE) -> list[Fact]:
    change = Change(path="a.txt", before=before, after=after)
    started = ToolStarted(call_id="w", tool="edit", title="", changes=(change,))
    return [started, ToolFinished(call_id="w", text="", ending=ending)]


def log(*facts: Fact) -> list[Event]:
    return [Event(number, 0, number, fact) for number, fact in enumerate(facts, start=1)]


def writing(before: str, *, whole: bool = False) -> Action:
    change = Change(path="a.txt", before=before, after="new")
    return Action(title="Write", perform=never, changes=[change], whole=["a.txt"] if whole else [])


async def said(events: Sequence[Event], action: Action) -> str:
    ruling = await StaleGuard(lambda: KnownFiles.of(events)).before(CALL, action)
    assert (ruling.decision is Decision.DENY) is bool(ruling.reasons)
    return " ".join(ruling.reasons)


CHANGED, UNREAD, PARTLY, FINE = "changed since", "have not read it", "only part of", ""
CASES = [
    ([], "1", False, FINE, "an exact edit of a file that was never read"),
    ([], "1", True, UNREAD, "a whole file that was never read"),
    ([], "", True, FINE, "a new file"),
    (shown("1"), "1", True, FINE, "a whole file that was read"),
    (shown("1"), "2", True, CHANGED, "changed since it was read"),
    (shown("1"), "2", False, CHANGED, "changed since, and edited"),
    (shown("1", whole=False), "1", False, FINE, "an edit of a file read in part"),
    (shown("1", whole=False), "1", True, PARTLY, "a file read in part"),
    (shown("", whole=False), "1", True, PARTLY, "a file too large to be read"),
    (shown("", whole=False), "1", False, FINE, "an edit of a file too large to be read"),
    ([*shown("1"), *shown("1", whole=False)], "1", True, FINE, "read whole, then a part again"),
    ([*shown("1"), *shown("2", whole=False)], "2", True, PARTLY, "changed, and read in part"),
    ([*shown("1"), *shown("2")], "2", True, FINE, "read again"),
    (changed("", "1"), "1", True, FINE, "its own new file"),
    (changed("", "1"), "2", False, CHANGED, "its own new file, changed by others"),
    ([*shown("1"), *changed("1", "2")], "2", True, FINE, "its own edit of a file it knows"),
    ([*shown("1"), *changed("1", "2")], "1", False, CHANGED, "its own edit, undone by others"),
    (changed("1", "2"), "2", True, PARTLY, "its own edit of a file it never read"),
    (changed("1", "2"), "2", False, FINE, "another edit of a file it never read"),
    (
        [*shown("1"), *changed("1", "2", Ending.FAILED)], "1", True, FINE,
        "an edit that failed taught nothing",
    ),
    ([*shown("1"), *changed("1", "")], "", True, FINE, "a file it removed is made anew"),
    ([*shown("1"), *changed("1", "")], "7", True, UNREAD, "a file it removed and others created"),
    (shown("1", path="b.txt"), "1", True, UNREAD, "another file was read"),
]  # fmt: skip


@each_row(
    ("facts", "before", "whole", "words"),
    [pytest.param(*row, id=name) for *row, name in CASES],
)
async def test_only_files_the_model_has_read_in_their_present_state_are_changed(
    facts: list[Fact], before: str, whole: bool, words: str
):
    answer = await said(log(*facts), writing(before, whole=whole))
    assert words in answer
    assert bool(words) is bool(answer)
    if answer:
        assert "a.txt" in answer
        assert "nothing was written" in answer


async def test_one_stale_file_stops_all_changes_of_a_call():
    changes = [Change(path="b.txt", after="n"), Change(path="a.txt", before="2", after="n")]
    action = Action(title="Patch", perform=never, changes=changes)
    assert CHANGED in await said(log(*shown("1")), action)


async def test_files_read_in_rewound_steps_count_as_unread():
    facts = [TaskOpened(text="t"), *shown("1"), *shown("2"), Rewound(to=2)]
    assert await said(log(*facts), writing("1", whole=True)) == ""
    assert CHANGED in await said(log(*facts), writing("2"))
    facts = [TaskOpened(text="t"), *shown("1"), Rewound(to=1)]
    assert UNREAD in await said(log(*facts), writing("1", whole=True))


class Counting(EventList):
    """A log that counts how often its events are read."""

    reads = 0

    def read(self, places: Iterable[int]) -> Iterable[Event]:
        self.reads += 1
        return super().read(places)


async def test_a_long_log_is_not_read_again():
    events = Counting()
    record = TaskRecord(events)
    for event in log(TaskOpened(text="t"), *shown("1") * 1000):
        record.append(event)
    guard = StaleGuard(lambda: record.files)
    for number in range(100):
        await guard.before(CALL, writing("1"))
        record.append(Event(2000 + number, 0, 0, shown("1")[0]))
    assert events.reads == 0
    record.append(Event(3000, 0, 0, shown("2")[0]))
    assert (await guard.before(CALL, writing("1"))).decision is Decision.DENY


async def test_a_rewind_is_noticed_while_the_task_runs():
    events = log(TaskOpened(text="t"), *shown("1"))
    guard = StaleGuard(lambda: KnownFiles.of(events))
    assert (await guard.before(CALL, writing("1", whole=True))).decision is Decision.NONE
    events.append(Event(3, 0, 3, Rewound(to=1)))
    assert (await guard.before(CALL, writing("1", whole=True))).decision is Decision.DENY


# ── files that changed elsewhere ────────────────────────────────────────────────────────

TEXTS = {"1": "a\nb\nc\n", "2": "a\nb\nC\n"}


async def tolerating(
    sha: str, *, tolerates: bool = True, path: str = "a.txt", **more: Any
) -> Ruling:
    """The verdict on editing a file that was read as 1 and is now `sha`."""

    async def by_policy(call: ToolCall, action: Action) -> bool:
        return tolerates

    change = Change(path=path, before=sha, after="new")
    action = Action(title="Edit", perform=never, changes=[change], **more)
    files = KnownFiles.of(log(*shown("1", path=path)))
    guard = StaleGuard(lambda: files, TEXTS.get, tolerates=by_policy)
    return await guard.before(CALL, action)


async def test_an_exact_edit_of_other_lines_is_allowed_and_noted():
    ruling = await tolerating("2", searched={"a.txt": ("a\n",)})
    assert ruling.decision is Decision.NONE
    assert "a.txt changed since the model read it" in ruling.notes[0]
    assert "-c\n+C" in ruling.result_notes[0]


OTHERS = [
    ("2", {"tolerates": False, "searched": {"a.txt": ("a\n",)}}, "the policy is strict"),
    ("2", {}, "an edit that is not exact"),
    ("2", {"whole": ["a.txt"]}, "a whole file"),
    ("2", {"searched": {"a.txt": ("C\n",)}}, "the changed line itself"),
    ("2", {"searched": {"b.txt": ("a\n",)}}, "an exact edit of another file"),
    ("3", {"searched": {"a.txt": ("a\n",)}}, "its content is unknown"),
    ("2", {"path": "/etc/a", "searched": {"/etc/a": ("a\n",)}}, "outside the workspace"),
]


@each_row(("sha", "more", "why"), OTHERS)
async def test_any_other_change_of_a_stale_file_is_refused(
    sha: str, more: dict[str, Any], why: str
):
    ruling = await tolerating(sha, **more)
    assert ruling.decision is Decision.DENY, why
    assert not ruling.result_notes


async def test_one_refused_file_refuses_the_whole_edit():
    async def by_policy(call: ToolCall, action: Action) -> bool:
        return True

    changes = [Change(path=path, before="2", after="new") for path in ("a.txt", "b.txt")]
    pieces = {"a.txt": ("a\n",), "b.txt": ("C\n",)}
    action = Action(title="Edit", perform=never, changes=changes, searched=pieces)
    events = log(*shown("1"), *shown("1", path="b.txt"))
    ruling = await StaleGuard(lambda: KnownFiles.of(events), TEXTS.get, tolerates=by_policy).before(
        CALL, action
    )
    assert ruling.reasons[0].startswith("b.txt changed")


async def test_after_an_edit_of_a_stale_file_its_other_lines_count_as_unread():
    assert PARTLY in await said(log(*shown("1"), *changed("2", "3")), writing("3", whole=True))
