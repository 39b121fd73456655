"""What is asked of sessions one by one: words, answers, an end, another name."""

from collections.abc import Callable

from rookery.core.asks import Choice, reply_of
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import Handlers
from rookery.manager.rendering.session_rows import inbox_row, session_row
from rookery.manager.requests import (
    ApproveAction,
    ArchiveSession,
    CancelSession,
    DiscardMail,
    Done,
    EditQueued,
    Listing,
    ListQuestions,
    ListSessions,
    MarkRead,
    RejectAction,
    RemoveSession,
    RenameSession,
    ResumeSession,
    RetryMail,
    RetrySession,
    SendWords,
    StopAll,
    SwitchSession,
)
from rookery.manager.sessions.message_queue import Terms
from rookery.manager.sessions.session_edits import Switches
from rookery.manager.sessions.session_record import (
    active_first,
    archived_records,
    matching,
)
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import InboxRow, Overview

__all__ = ["SessionFamily", "inbox_row", "overview_of", "session_row"]

DONE = Done()


def overview_of(
    supervisor: Supervisor, blocked_requests: int = 0, *, trusted: bool = True
) -> Overview:
    return Overview(
        counts=supervisor.counts(),
        project=str(supervisor.project),
        running_limit=supervisor.limit,
        notices=supervisor.notices,
        read_only=supervisor.read_only,
        trusted=trusted,
        blocked_requests=blocked_requests,
    )


class SessionFamily:
    def __init__(
        self, supervisor: Supervisor, overview: Callable[[], Overview] | None = None
    ) -> None:
        self._supervisor = supervisor
        self._overview = overview or (lambda: overview_of(supervisor))

    @property
    def handlers(self) -> Handlers:
        return {
            ListSessions: self._list,
            ListQuestions: self._questions,
            SendWords: self._send,
            ApproveAction: self._approve,
            RejectAction: self._reject,
            CancelSession: self._cancel,
            ResumeSession: self._resume,
            RetrySession: self._retry,
            RemoveSession: self._remove,
            StopAll: self._stop_all,
            RenameSession: self._rename,
            ArchiveSession: self._archive,
            MarkRead: self._mark_read,
            RetryMail: self._retry_mail,
            DiscardMail: self._discard_mail,
            EditQueued: self._edit_queued,
            SwitchSession: self._switch,
        }

    async def _list(self, request: ListSessions) -> Listing:
        by_id = {shown.record.session_id: shown for shown in self._supervisor.all()}
        records = [shown.record for shown in by_id.values()]
        wanted = active_first(records)
        if request.archived:
            wanted = (*wanted, *archived_records(records))
        found = matching(wanted, request.words)
        rows = tuple(session_row(by_id[record.session_id]) for record in found)
        return Listing(overview=self._overview(), sessions=rows)

    async def _questions(self, _: ListQuestions) -> tuple[InboxRow, ...]:
        return tuple(inbox_row(question) for question in self._supervisor.inbox())

    async def _send(self, request: SendWords) -> Done:
        await self._supervisor.send(
            request.session_id, request.text, request.images, ask_ts=request.ask_ts
        )
        return DONE

    async def _approve(self, request: ApproveAction) -> Done:
        _check_choice(request.choice, "yes")
        terms = Terms(digest=request.digest, always=request.always, choice=request.choice)
        await self._supervisor.approve(request.session_id, request.ask_ts, request.text, terms)
        return DONE

    async def _reject(self, request: RejectAction) -> Done:
        _check_choice(request.choice, "no")
        terms = Terms(choice=request.choice)
        await self._supervisor.reject(request.session_id, request.ask_ts, request.text, terms)
        return DONE

    async def _cancel(self, request: CancelSession) -> Done:
        await self._supervisor.cancel(request.session_id)
        return DONE

    async def _resume(self, request: ResumeSession) -> Done:
        await self._supervisor.resume(request.session_id, request.text)
        return DONE

    async def _retry(self, request: RetrySession) -> Done:
        await self._supervisor.retry(request.session_id)
        return DONE

    async def _remove(self, request: RemoveSession) -> Done:
        await self._supervisor.remove(request.session_id)
        return DONE

    async def _stop_all(self, _: StopAll) -> Done:
        await self._supervisor.stop_all()
        return DONE

    async def _rename(self, request: RenameSession) -> Done:
        self._supervisor.rename(request.session_id, request.label)
        return DONE

    async def _archive(self, request: ArchiveSession) -> Done:
        self._supervisor.archive(request.session_id, archived=request.archived)
        return DONE

    async def _mark_read(self, request: MarkRead) -> Done:
        self._supervisor.mark_read(request.session_id)
        return DONE

    async def _retry_mail(self, request: RetryMail) -> Done:
        self._supervisor.retry_message(request.session_id, request.number)
        return DONE

    async def _discard_mail(self, request: DiscardMail) -> Done:
        self._supervisor.discard_message(request.session_id, request.number)
        return DONE

    async def _edit_queued(self, request: EditQueued) -> Done:
        await self._supervisor.edit_queued(request.session_id, request.message_id, request.text)
        return DONE

    async def _switch(self, request: SwitchSession) -> Done:
        provider, model = model_named(request.model)
        switches = Switches(
            mode=request.mode,
            provider=provider,
            model=model,
            intent=request.intent,
            auto_approve=request.auto_approve,
        )
        await self._supervisor.switch(request.session_id, switches)
        return DONE


def model_named(said: str | None) -> tuple[str | None, str | None]:
    """The provider, if one is named before a slash, and the model."""
    provider, slash, model = (said or "").partition("/")
    return (provider, model) if slash else (None, said)


def _check_choice(choice: Choice | None, reply: str) -> None:
    if choice is not None and reply_of(choice) != reply:
        raise CommandRejected(f"{choice!r} is no way to say {reply}. Nothing was answered.")
