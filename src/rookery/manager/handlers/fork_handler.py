"""What can be made of a session: a second one that begins as it did, or a document."""

import time
import uuid
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import msgspec

from rookery import NAME
from rookery.core.limits import MIB
from rookery.core.text.characters import whole
from rookery.errors import CommandRejected
from rookery.manager.dependencies import Form
from rookery.manager.handlers.router import Handlers
from rookery.manager.requests import Exported, ExportSession, ForkSession, Started
from rookery.manager.row_events import event_of_row
from rookery.manager.sessions.session_folders import Launch, Wish, Workspaces
from rookery.manager.sessions.session_record import LABEL_LENGTH, SessionRecord
from rookery.manager.sessions.session_summary import Shown
from rookery.manager.worktrees.names import slug
from rookery.protocol.channels import LONGEST_MESSAGE
from rookery.storage.sessions import TaskStore, fork

ENDINGS: dict[Form, str] = {"markdown": "md", "json": "json", "html": "html"}
LONGEST_DOCUMENT = LONGEST_MESSAGE - MIB
FORKED = " (fork)"


class Sessions(Protocol):
    """What is needed of the supervisor."""

    tasks: TaskStore

    @property
    def read_only(self) -> str: ...

    def session(self, session_id: str) -> Shown | None: ...

    async def take_in(self, session_id: str, wish: Wish) -> None:
        """A session for a task that is stored already. It rests until the user goes on with it."""
        ...


class Documents(Protocol):
    def document(self, task_id: str, form: Form) -> str:
        """A stored task and those that worked for it, to be read by people or programs."""
        ...


class ForkFamily:
    def __init__(self, sessions: Sessions, workspaces: Workspaces, documents: Documents) -> None:
        self._sessions = sessions
        self._workspaces = workspaces
        self._documents = documents

    @property
    def handlers(self) -> Handlers:
        return {ForkSession: self._fork, ExportSession: self._export}

    async def _fork(self, request: ForkSession) -> Started:
        """The source is only read, so it may be working meanwhile."""
        if self._sessions.read_only:
            raise CommandRejected(self._sessions.read_only)
        record = self._stored(request.session_id)
        wish = _wish(record, self._workspaces.launch_of(record.session_id))
        fork_id = str(uuid.uuid4())
        note = await anyio.to_thread.run_sync(self._copy, record.session_id, fork_id, request.ts)
        try:
            await self._sessions.take_in(fork_id, wish)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._sessions.tasks.delete, fork_id)
            raise
        return Started(session_ids=(fork_id,), notes=(note,) if note else ())

    def _copy(self, source: str, fork_id: str, ts: int | None) -> str:
        """A sentence if the fork could not be cut just there."""
        tasks, at = self._sessions.tasks, None
        if ts is not None:
            at = event_of_row(list(tasks.read(source)), ts)
            if at is None:
                raise CommandRejected("Nothing had been said in this session at that time.")
        cut = fork(tasks, source, fork_id, at=at, now=time.time_ns() // 1_000_000)
        if at is None or cut == at:
            return ""
        return "A call was under way there, so the fork ends before it."

    async def _export(self, request: ExportSession) -> Exported:
        record, form = self._stored(request.session_id), request.format
        session_id = record.session_id
        text = await anyio.to_thread.run_sync(self._documents.document, session_id, form)
        exported = Exported(name=_file_name(record, form), text=whole(text))
        if len(msgspec.json.encode(exported)) > LONGEST_DOCUMENT:
            raise CommandRejected(
                "The session is too long to be handed over in one piece. Write it to a file with: "
                f"{NAME} export {session_id} --format {form} -o FILE"
            )
        return exported

    def _stored(self, session_id: str) -> SessionRecord:
        shown = self._sessions.session(session_id)
        if shown is None:
            raise CommandRejected(f"There is no session {session_id} here.")
        if not self._sessions.tasks.exists(session_id):
            raise CommandRejected("Nothing has been said in this session yet.")
        return shown.record


def _wish(source: SessionRecord, launch: Launch) -> Wish:
    """A session like its source, in the same folder, which the two share from now on."""
    return Wish(
        prompt=source.prompt,
        workspace=Path(launch.workspace),
        label=f"{source.name[: LABEL_LENGTH - len(FORKED)]}{FORKED}",
        provider=launch.provider,
        model=launch.model,
        mode=launch.mode,
        auto_approve=launch.auto_approve,
        intent=launch.intent,
        options=launch.options,
        env=launch.env,
        parallel_mode=source.parallel_mode,
        worktree_id=source.worktree_id,
        git_url=source.git_url,
    )


def _file_name(record: SessionRecord, form: Form) -> str:
    """One that every system takes, whatever the session is called."""
    words = filter(None, (slug(record.name), record.session_id[:8]))
    return f"{'-'.join(words)}.{ENDINGS[form]}"
