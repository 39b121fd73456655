"""Converts changes of the followed tasks to changes of transcript rows.

Repeated attempts of a request are shown as one row with a count.
"""

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from rookery.core.asks import FAILED_REQUESTS
from rookery.core.folds.view import View, changes
from rookery.core.message import REQUEST, Message
from rookery.tui.followed_tasks import BACKLOG, SLICE_SECONDS, Following, WatchedTask
from rookery.tui.rows.lines import ShownRow
from rookery.tui.transcript_view import TranscriptView
from rookery.tui.virtual_list import Name, Row

BATCH_ROWS = 500
"""Rows added at a time, so that the keyboard stays responsive."""
APPROVED = "Carry out the plan."


class Rendering:
    """Keeps track of what the transcript shows of each task."""

    def __init__(self, transcript: TranscriptView) -> None:
        self._transcript = transcript
        self._drawn: dict[str, View] = {}
        self._ended: dict[str, int] = {}
        self._tries: dict[Name, int] = {}
        self._previewed = False
        self._older: list[Message] = []
        """Rows of a long session that are not in the transcript yet."""

    def forget(self) -> None:
        self._drawn, self._ended, self._tries = {}, {}, {}
        self._previewed, self._older = False, []
        self._transcript.clear_rows()

    def catch_up(self, following: Following) -> bool:
        """Show what has arrived. Returns whether more is left."""
        root = following.root
        if root is None:
            return False
        is_new = root.task_id not in self._drawn
        if is_new and root.waiting > BACKLOG and not self._previewed:
            self._previewed = True
            self._transcript.set_rows(self._row(root, row) for row in root.preview().messages)
            return True
        for task in following.tasks:
            task.catch_up(SLICE_SECONDS)
        if root.waiting:
            return True
        for task in following.tasks:
            self._update(task)
        return self._show_older(root)

    def _show_older(self, root: WatchedTask) -> bool:
        """Prepend the next older rows. Returns whether more are left."""
        part, self._older = self._older[-BATCH_ROWS:], self._older[:-BATCH_ROWS]
        if part:
            self._transcript.prepend_rows(self._row(root, message) for message in part)
        return bool(self._older)

    def _update(self, task: WatchedTask) -> None:
        before, after = self._drawn.get(task.task_id), task.view
        if before is None and task.parent is None:
            self._older = after.messages[: max(0, len(after.messages) - BATCH_ROWS)]
            recent = after.messages[len(self._older) :]
            self._count_tries(task, after.messages)
            self._transcript.set_rows(self._row(task, message) for message in recent)
        elif before is not after:
            self._apply(task, before or View(), after)
        elif task.ended_version == self._ended.get(task.task_id, 0):
            return
        self._drawn[task.task_id] = after
        self._update_ends(task)

    def _apply(self, task: WatchedTask, before: View, after: View) -> None:
        change = changes(before, after)
        if not (change.added or change.changed or change.removed):
            return
        added = list(change.added)
        if after.start < before.start and before.messages:  # older events were read
            older = [row for row in added if row.ts < before.messages[0].ts]
            added = added[len(older) :]
            self._count_tries(task, older)
            self._older = older + self._older
        self._transcript.change_rows(
            changed=[self._row(task, message) for message in change.changed],
            removed=[(task.task_id, ts) for ts in change.removed],
            added=((self._place(task, each), *self._row(task, each)) for each in added),
        )
        run = last_tries(after.messages)
        counted = self._count_tries(task, run)
        again = [self._row(task, message) for message in run if message.ts in counted]
        self._transcript.change_rows(again, (), ())

    def _count_tries(self, task: WatchedTask, messages: Sequence[Message]) -> Collection[int]:
        """Update the counts, and return the rows whose count has changed."""
        now = tries(messages)
        other = [ts for ts, count in now.items() if self._tries.get((task.task_id, ts), 1) != count]
        self._tries |= {(task.task_id, ts): count for ts, count in now.items()}
        return other

    def _place(self, task: WatchedTask, message: Message) -> int:
        """Index for a new row: after the task's previous row and its sub-tasks. The first row of
        a sub-task goes below the call that started it."""
        rows = self._transcript.rows
        at = len(rows) - 1
        while at >= 0 and not _comes_before(rows[at].name, task, message):
            at -= 1
        if at < 0 and task.parent:
            at = self._call_row(task)
        at += 1
        while at < len(rows) and rows[at].shown.depth > task.depth:
            at += 1
        return at

    def _call_row(self, task: WatchedTask) -> int:
        rows = self._transcript.rows
        assert task.parent
        for at in range(len(rows) - 1, -1, -1):
            same_task = rows[at].name[0] == task.parent.task_id
            if same_task and rows[at].shown.message.call_id == task.call_id:
                return at
        return len(rows) - 1

    def _update_ends(self, task: WatchedTask) -> None:
        """Update rows of calls that ended or were undone; the messages themselves may be
        unchanged."""
        if task.ended_version == self._ended.get(task.task_id, 0):
            return
        self._ended[task.task_id] = task.ended_version
        rows = [row for row in self._transcript.rows[-400:] if row.name[0] == task.task_id]
        again = [self._row(task, row.shown.message) for row in rows if _ends_otherwise(task, row)]
        self._transcript.change_rows(again, (), ())

    def _row(self, task: WatchedTask, message: Message) -> tuple[Name, ShownRow]:
        name = task.task_id, message.ts
        return name, replace(_row(task, message), tries=self._tries.get(name, 1))


def _comes_before(name: Name, task: WatchedTask, message: Message) -> bool:
    return name[0] == task.task_id and name[1] < message.ts


def _ends_otherwise(task: WatchedTask, row: Row) -> bool:
    return _row(task, row.shown.message).ended != row.shown.ended


def _row(task: WatchedTask, message: Message) -> ShownRow:
    if message.say == "user_feedback" and _approves_plan(task.view.messages, message):
        message = replace(message, content=APPROVED)
    end = task.ended.get(message.call_id) if message.call_id and message.type == "ask" else None
    return ShownRow(
        message=message,
        opening=message.say == "text" and message.seq == 1,
        ended=end.ending.value if end else "",
        result=end.text if end else "",
        exit_code=end.exit_code if end else None,
        depth=task.depth,
    )


def _approves_plan(messages: Sequence[Message], answer: Message) -> bool:
    """Whether the answer repeats the result before it: a plan that was approved as it is."""
    if "\n" not in (answer.text or ""):
        return False
    before = (each for each in reversed(messages) if each.ts < answer.ts)
    result = next((each for each in before if each.say == "completion_result"), None)
    return result is not None and result.text == answer.text


_DELAYED = "api_req_retry_delayed"
_STOPPED = "resume_task"
_ABOUT_TRIES = (*FAILED_REQUESTS, _STOPPED)


def tries(messages: Iterable[Message]) -> dict[int, int]:
    """Number of attempts by row: the last row of a request gets the count, the others 0. Of
    several stops without work between them, only the last is shown."""
    counts: dict[int, int] = {}
    run: list[Message] = []
    before: Message | None = None
    for message in messages:
        is_new = _is_first(message) and not (before and before.ask in FAILED_REQUESTS)
        if is_new or not (_is_try(message) or message.ask in FAILED_REQUESTS):
            counts |= _counts_of(run)
            run = []
        if _is_try(message):
            run.append(message)
        if before and message.ask == before.ask == _STOPPED:
            counts[before.ts] = 0
        before = message
    return counts | _counts_of(run)


def last_tries(messages: Sequence[Message]) -> Sequence[Message]:
    """The rows at the end that belong to one request, and the questions about it."""
    begin = len(messages)
    while begin and (_is_try(messages[begin - 1]) or messages[begin - 1].ask in _ABOUT_TRIES):
        begin -= 1
    return messages[begin:]


def _counts_of(run: Sequence[Message]) -> dict[int, int]:
    failed = sum(bool(each.failure) for each in run)
    seen = [each.ts for each in run if each.say == _DELAYED or each.failure]
    return dict.fromkeys(seen, 0) | ({seen[-1]: max(1, failed)} if seen else {})


def _is_try(message: Message) -> bool:
    return message.say in (REQUEST, _DELAYED)


def _is_first(message: Message) -> bool:
    return message.say == REQUEST and '"attempt"' not in (message.text or "")
