"""Looking at what sessions have changed: files, lines, comments on them, and versions compared."""

import base64
import os
import time
from collections.abc import Callable
from functools import partial

import anyio.to_thread
from msgspec.structs import replace

from rookery.core.settings import Settings
from rookery.errors import CommandRejected
from rookery.manager.handlers.line_comments import letter_of, quoted_line
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.session_reviews import SessionReviews
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.rendering.diff_html import diff_lines
from rookery.manager.requests import (
    Comment,
    CompareVersions,
    Done,
    ReadDiff,
    RevertFile,
    ReviewChanges,
    Scope,
    SendComments,
)
from rookery.manager.review.file_diffs import Picture, TextDiff
from rookery.manager.review.session_changes import SessionFile
from rookery.manager.sessions.session_summary import Shown
from rookery.manager.shown_rows import FileDiff, Review, Version, WorktreeStats
from rookery.manager.worktrees.worktree_values import Code, Obstacle, Worktree
from rookery.platform.user_folders import Places

MOST_CONTEXT = 1_000_000
COMMENTED: tuple[Scope, ...] = ("branch", "unstaged", "staged", "session")
"""Where the line of a comment is looked for."""
NO_REPOSITORY = "There is no git repository here, so what the session itself has changed is shown."


class ReviewFamily:
    """`settings` gives those that hold now."""

    def __init__(
        self, access: WorktreeAccess, places: Places, settings: Callable[[], Settings]
    ) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._desk = access.review
        self._own = SessionReviews(access, places, settings)

    @property
    def handlers(self) -> Handlers:
        return {
            ReviewChanges: self._review,
            ReadDiff: self._read_diff,
            RevertFile: self._revert,
            SendComments: self._send_comments,
            CompareVersions: self._compare,
        }

    async def _review(self, request: ReviewChanges) -> Review:
        session_id, scope = request.session_id, request.scope
        self._find(session_id)
        if removed := await self._access.removed(session_id):
            own = await self._own.review(session_id)
            return replace(own, notes=(removed, *own.notes))
        if scope == "session":
            return await self._own.review(session_id)
        worktree = await self._worktree(session_id)
        if worktree is None and not self._has_repository:
            own = await self._own.review(session_id)
            return replace(own, notes=(NO_REPOSITORY, *own.notes))
        return await self._access.done(partial(self._desk.changes, worktree, scope))

    async def _read_diff(self, request: ReadDiff) -> FileDiff:
        self._find(request.session_id)
        context = max(0, min(request.context, MOST_CONTEXT))
        diff = await self._diff(request.session_id, request.scope, request.path, context)
        lines = await anyio.to_thread.run_sync(diff_lines, diff)
        return FileDiff(
            file=diff.file,
            lines=lines,
            note=diff.note,
            old_image=_data_uri(diff.old_picture),
            new_image=_data_uri(diff.new_picture),
        )

    async def _diff(self, session_id: str, scope: Scope, path: str, context: int) -> TextDiff:
        if scope == "session":
            return await self._own.diff(session_id, path, context)
        worktree = await self._worktree(session_id)
        if worktree is None and not self._has_repository:
            return await self._own.diff(session_id, path, context)
        return await self._access.done(
            partial(self._desk.diff, worktree, scope, path, context=context)
        )

    async def _revert(self, request: RevertFile) -> Done:
        """The digest says what was compared, and so what the file goes back to."""
        session_id, path = request.session_id, request.path
        self._find(session_id)
        worktree = await self._worktree(session_id)
        done = await self._access.tried(partial(self._desk.revert, worktree, path, request.digest))
        if isinstance(done, Obstacle) and done.code is Code.CHANGED:
            own = await self._own_file(session_id, path, request.digest)
            if own:
                back = partial(self._desk.revert_to, worktree, path, now=own.new, then=own.old)
                done = await self._access.tried(back)
        if isinstance(done, Obstacle):
            raise CommandRejected(done.text)
        return Done(notes=(done.keep.told,) if done.keep else ())

    async def _own_file(self, session_id: str, path: str, digest: str) -> SessionFile | None:
        """The file as the session has changed it, if that is what was shown."""
        try:
            own = await self._own.file(session_id, path)
        except CommandRejected:
            return None
        return own if own.digest == digest and not own.large else None

    async def _send_comments(self, request: SendComments) -> Done:
        if not request.comments:
            raise CommandRejected("There is no comment to send.")
        self._find(request.session_id)
        quoted = [
            (comment, await self._quoted(request.session_id, comment))
            for comment in request.comments
        ]
        await self._supervisor.send(request.session_id, letter_of(quoted, request.text))
        return Done()

    async def _quoted(self, session_id: str, comment: Comment) -> str:
        for scope in COMMENTED:
            try:
                diff = await self._diff(session_id, scope, comment.path, 0)
            except CommandRejected:
                continue
            return quoted_line(diff, comment)
        raise CommandRejected(
            f"{comment.path} has no changes any more, so nothing was sent; look again."
        )

    async def _compare(self, request: CompareVersions) -> tuple[Version, ...]:
        records = [each for each in self._supervisor.records() if request.group_id]
        ids = [each.session_id for each in records if each.group_id == request.group_id]
        found = [shown for shown in map(self._supervisor.session, ids) if shown]
        if not found:
            raise CommandRejected(f"There are no versions {request.group_id!r} here.")
        found.sort(key=lambda shown: (shown.record.start_time, shown.record.label))
        return tuple([await self._version(shown) for shown in found])

    async def _version(self, shown: Shown) -> Version:
        record = shown.record
        removed = await self._access.removed(record.session_id)
        end = record.end_time or time.time_ns() // 1_000_000
        return Version(
            session_id=record.session_id,
            worktree_id=record.worktree_id or "",
            name=record.name,
            model="/".join(filter(None, (record.provider, record.model))),
            state=shown.session.state,
            stats=WorktreeStats() if removed else await self._stats(record.session_id),
            cost=record.cost,
            tokens=record.tokens,
            seconds=max(0, end - record.start_time) / 1000,
            result=shown.session.completion_text or record.completion_text,
            note=removed,
        )

    async def _stats(self, session_id: str) -> WorktreeStats:
        """Of a version whose worktree is gone there is nothing to count."""
        try:
            worktree = await self._access.of_session(session_id)
        except CommandRejected:
            return WorktreeStats()
        if worktree is None:
            return WorktreeStats()
        stats = await self._access.tried(partial(self._desk.stats, worktree))
        return WorktreeStats() if isinstance(stats, Obstacle) else stats

    async def _worktree(self, session_id: str) -> Worktree | None:
        return await self._access.of_session(session_id)

    @property
    def _has_repository(self) -> bool:
        return os.path.lexists(self._access.project / ".git")

    def _find(self, session_id: str) -> Shown:
        if shown := self._supervisor.session(session_id):
            return shown
        raise CommandRejected(f"There is no session {session_id} here.")


def _data_uri(picture: Picture | None) -> str:
    if picture is None:
        return ""
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"
