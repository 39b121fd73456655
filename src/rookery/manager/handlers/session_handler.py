"""Requests about one session: messages, answers, cancelling, renaming, forks, exports.

A fork only reads its source, which may be working at the same time.
"""

import time
import uuid
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import msgspec

from rookery import NAME
from rookery.core.asks import Choice, reply_of
from rookery.core.facts import Event
from rookery.core.folds.transcript import Transcript
from rookery.core.limits import MIB
from rookery.core.text.characters import whole
from rookery.errors import CommandRejected
from rookery.manager import requests
from rookery.manager.dependencies import Dependencies, Form
from rookery.manager.handlers.router import Handlers
from rookery.manager.rendering.session_rows import inbox_row, session_row
from rookery.manager.sessions.message_queue import Terms
from rookery.manager.sessions.session_folders import SessionLaunch, SessionOptions, Workspaces
from rookery.manager.sessions.session_record import (
    LABEL_LENGTH,
    SessionRecord,
    active_first,
    archived_records,
    matching,
    same_fields,
)
from rookery.manager.sessions.session_summary import Switches
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import Done, Exported, InboxRow, Listing, Overview, Started
from rookery.manager.worktrees.create import slug
from rookery.protocol.channels import LONGEST_MESSAGE

DONE = Done()
ANSWER_HELD = (
    "The agent is starting again. It gets your answer if it asks the same question; "
    "otherwise you are asked again."
)
EXTENSIONS: dict[Form, str] = {"markdown": "md", "json": "json", "html": "html"}
MAX_DOCUMENT = LONGEST_MESSAGE - MIB
FORKED = " (fork)"
Placed: TypeAlias = tuple[SessionOptions, tuple[str, ...]]


def overview_of(
    supervisor: Supervisor, blocked_requests: int = 0, *, trusted: bool = True
) -> Overview:
    return Overview(
        counts=supervisor.counts(),
        project=str(supervisor.project),
        running_limit=supervisor.admission.limit,
        notices=supervisor.notices,
        read_only=supervisor.read_only,
        trusted=trusted,
        blocked_requests=blocked_requests,
    )


class SessionHandler:
    def __init__(
        self, supervisor: Supervisor, overview: Callable[[], Overview] | None = None
    ) -> None:
        self._supervisor = supervisor
        self._overview = overview or (lambda: overview_of(supervisor))

    @property
    def handlers(self) -> Handlers:
        sessions = self._supervisor
        return {
            requests.ListSessions: self._list,
            requests.ListQuestions: self._questions,
            requests.SendWords: self._send,
            requests.ApproveAction: self._approve,
            requests.RejectAction: self._reject,
            requests.CancelSession: call(lambda each: sessions.cancel(each.session_id)),
            requests.ResumeSession: call(lambda each: sessions.resume(each.session_id, each.text)),
            requests.RetrySession: call(lambda each: sessions.retry(each.session_id)),
            requests.RemoveSession: call(lambda each: sessions.remove(each.session_id)),
            requests.StopAll: call(lambda _: sessions.stop_all()),
            requests.RenameSession: call(lambda each: sessions.rename(each.session_id, each.label)),
            requests.ArchiveSession: call(
                lambda each: sessions.archive(each.session_id, archived=each.archived)
            ),
            requests.MarkRead: call(lambda each: sessions.mark_read(each.session_id)),
            requests.RetryMessage: call(
                lambda each: sessions.retry_message(each.session_id, each.number)
            ),
            requests.DiscardMessage: call(
                lambda each: sessions.discard_message(each.session_id, each.number)
            ),
            requests.EditQueued: call(
                lambda each: sessions.edit_queued(each.session_id, each.message_id, each.text)
            ),
            requests.SwitchSession: self._switch,
        }

    async def _list(self, request: requests.ListSessions) -> Listing:
        await self._supervisor.refresh()
        by_id = {summary.record.session_id: summary for summary in self._supervisor.all()}
        records = [summary.record for summary in by_id.values()]
        wanted = active_first(records)
        if request.archived:
            wanted = (*wanted, *archived_records(records))
        found = matching(wanted, request.words)
        rows = tuple(session_row(by_id[record.session_id]) for record in found)
        return Listing(overview=self._overview(), sessions=rows)

    async def _questions(self, _: requests.ListQuestions) -> tuple[InboxRow, ...]:
        return tuple(inbox_row(question) for question in self._supervisor.inbox())

    async def _send(self, request: requests.SendWords) -> Done:
        await self._supervisor.send(
            request.session_id, request.text, request.images, ask_ts=request.ask_ts
        )
        return self._answered(request.session_id)

    async def _approve(self, request: requests.ApproveAction) -> Done:
        _check_choice(request.choice, "yes")
        terms = Terms(digest=request.digest, always=request.always, choice=request.choice)
        await self._supervisor.approve(request.session_id, request.ask_ts, request.text, terms)
        return self._answered(request.session_id)

    async def _reject(self, request: requests.RejectAction) -> Done:
        _check_choice(request.choice, "no")
        terms = Terms(choice=request.choice)
        await self._supervisor.reject(request.session_id, request.ask_ts, request.text, terms)
        return self._answered(request.session_id)

    def _answered(self, session_id: str) -> Done:
        held = self._supervisor.find(session_id).holds_answer
        return Done(notes=(ANSWER_HELD,)) if held else DONE

    async def _switch(self, request: requests.SwitchSession) -> Done:
        provider, model = split_model(request.model)
        given = same_fields(request, Switches) | {"provider": provider, "model": model}
        await self._supervisor.switch(request.session_id, Switches(**given))
        return DONE


def call(act: Callable[[Any], Awaitable[None] | None]) -> Callable[[Any], Awaitable[Done]]:
    """Make a handler that calls `act` and returns `DONE`."""

    async def handle(request: Any) -> Done:
        if (pending := act(request)) is not None:
            await pending
        return DONE

    return handle


def split_model(name: str | None) -> tuple[str | None, str | None]:
    """Split "provider/model"; the provider is None if there is no slash."""
    provider, slash, model = (name or "").partition("/")
    return (provider or None, model) if slash else (None, name)


def _check_choice(choice: Choice | None, reply: str) -> None:
    if choice is not None and reply_of(choice) != reply:
        raise CommandRejected(f"{choice!r} cannot be combined with {reply}. Nothing was answered.")


class ForkHandler:
    def __init__(
        self,
        sessions: Supervisor,
        workspaces: Workspaces,
        dependencies: Dependencies,
        place: Callable[[SessionRecord, SessionOptions], Awaitable[Placed]],
    ) -> None:
        """`place` moves the options of a fork into a new worktree."""
        self._place = place
        self._sessions = sessions
        self._workspaces = workspaces
        self._dependencies = dependencies

    @property
    def handlers(self) -> Handlers:
        return {requests.ForkSession: self._fork, requests.ExportSession: self._export}

    async def _fork(self, request: requests.ForkSession) -> Started:
        if self._sessions.read_only:
            raise CommandRejected(self._sessions.read_only)
        record = self._stored(request.session_id)
        options = _fork_options(record, self._workspaces.launch_of(record.session_id))
        fork_id, notes = str(uuid.uuid4()), tuple[str, ...]()
        note = await anyio.to_thread.run_sync(self._copy, record.session_id, fork_id, request.ts)
        try:
            if request.where == "worktree":
                options, notes = await self._place(record, options)
            await self._sessions.adopt_task(fork_id, options)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._sessions.tasks.delete, fork_id)
            raise
        return Started(session_ids=(fork_id,), notes=tuple(filter(None, (*notes, note))))

    def _copy(self, source: str, fork_id: str, ts: int | None) -> str:
        """Copy the task; return a note if the fork could not end exactly there."""
        tasks, at = self._sessions.tasks, None
        if ts is not None:
            at = event_of_row(list(tasks.read(source)), ts)
            if at is None:
                raise CommandRejected("This session had no messages at that time.")
        cut = self._dependencies.fork(source, fork_id, at=at, now=time.time_ns() // 1_000_000)
        if at is None or cut == at:
            return ""
        return "A call was running there, so the fork ends before it."

    async def _export(self, request: requests.ExportSession) -> Exported:
        record, form = self._stored(request.session_id), request.format
        session_id = record.session_id
        text = await anyio.to_thread.run_sync(self._dependencies.document, session_id, form)
        exported = Exported(name=_file_name(record, form), text=whole(text))
        if len(msgspec.json.encode(exported)) > MAX_DOCUMENT:
            raise CommandRejected(
                "The session is too long to send at once. Write it to a file with: "
                f"{NAME} export {session_id} --format {form} -o FILE"
            )
        return exported

    def _stored(self, session_id: str) -> SessionRecord:
        summary = self._sessions.summary(session_id)
        if not self._sessions.tasks.exists(session_id):
            raise CommandRejected("This session has no messages yet.")
        return summary.record


def _fork_options(source: SessionRecord, launch: SessionLaunch) -> SessionOptions:
    """Options of a fork: those of its source, in the same folder."""
    own = {
        "workspace": Path(launch.workspace),
        "label": f"{source.name[: LABEL_LENGTH - len(FORKED)]}{FORKED}",
        "group_id": "",
    }
    return SessionOptions(
        **{**same_fields(source, SessionOptions), **same_fields(launch, SessionOptions), **own}
    )


def _file_name(record: SessionRecord, form: Form) -> str:
    """A file name that is valid on every system."""
    words = filter(None, (slug(record.name), record.session_id[:8]))
    return f"{'-'.join(words)}.{EXTENSIONS[form]}"


def event_of_row(events: Sequence[Event], ts: int) -> int | None:
    """Sequence number of the event that completes the row of `ts`; None if `ts` is before the
    task. A streamed row has the time of its first chunk, which is not in the journal: the first
    event after that time completes it. For a row that is still streaming, this is the last
    event."""
    if not events or ts < events[0].ts:
        return None
    transcript = Transcript()
    for event in events:
        transcript.add(event)
    position = transcript.messages.find(ts)
    if position is not None:
        return transcript.messages[position].seq
    place = bisect_left([event.ts for event in events], ts)
    return events[min(place, len(events) - 1)].seq
