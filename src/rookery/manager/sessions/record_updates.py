"""What a record takes over from elsewhere: figures from the messages, a past from its folder."""

from collections.abc import Iterable

from msgspec.structs import replace

from rookery.core.facts import Answered, Event, TaskOpened, UserSpoke
from rookery.core.folds.view import View
from rookery.errors import StorageError
from rookery.manager.sessions.message_ids import number_of
from rookery.manager.sessions.session_folders import Launch, SessionFolder
from rookery.manager.sessions.session_json import KeptSession
from rookery.manager.sessions.session_record import SessionRecord, TodoStats, label_of
from rookery.manager.sessions.session_states import SessionState, SessionStatus
from rookery.storage.sessions import TaskStore


def with_figures(record: SessionRecord, view: View) -> SessionRecord:
    """With what its messages say it has taken and done."""
    if not view.seq:
        return record
    todos = view.todos
    done = sum(todo.status == "completed" for todo in todos)
    return replace(
        record,
        tokens=view.usage.tokens_in + view.usage.tokens_out,
        cost=view.usage.cost,
        todo_stats=TodoStats(done=done, total=len(todos)) if todos else None,
        mode=view.mode or record.mode,
        model=view.model or record.model,
        intent=view.intent.intent_id if view.intent else "",
    )


def found_again(folder: SessionFolder, launch: Launch, tasks: TaskStore) -> KeptSession | None:
    """A session that the list has lost, from its own folder and its log; None if it has none."""
    try:
        events = list(tasks.read(folder.session_id)) if tasks.exists(folder.session_id) else []
    except StorageError:
        return None
    openings = ((each.fact.text, each.ts) for each in events if isinstance(each.fact, TaskOpened))
    if not (opened := next(openings, None)):
        return None
    text, start_time = opened
    mark = folder.mark()
    record = SessionRecord(
        session_id=folder.session_id,
        label=label_of(text),
        prompt=text,
        start_time=start_time,
        model=launch.model,
        mode=launch.mode,
        provider=launch.provider,
        auto_approve=launch.auto_approve,
        workspace=launch.workspace,
        status=SessionStatus.RUNNING,
        state=SessionState.STREAMING,
        generation=mark.generation if mark else 0,
        process_open=mark is not None,
        saw_session_created=True,
        saw_api_req_started=True,
        pid=mark.pid if mark else None,
    )
    return KeptSession(record=record, announced=True, taken=_next_number(events))


def _next_number(events: Iterable[Event]) -> int:
    """Of the next letter: one that was given before would be taken for one that was heard."""
    said = (event.fact for event in events if isinstance(event.fact, UserSpoke | Answered))
    numbers = (number_of(fact.message_id) for fact in said)
    return 1 + max((number for number in numbers if number is not None), default=-1)
