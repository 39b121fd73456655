"""Review of what sessions changed: files, lines, comments on them, comparison of versions.

Changes in a worktree come from git. Changes of a session elsewhere come from its journal and
checkpoints, without using the project's repository or the session's process.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

import anyio.to_thread
from msgspec.structs import replace

from rookery.core.facts import ChildBegan, Event
from rookery.errors import CommandRejected, StorageError
from rookery.manager.dependencies import Dependencies
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.rendering.safe_html import lines_of
from rookery.manager.requests import (
    CompareVersions,
    ReadDiff,
    RevertFile,
    ReviewChanges,
    Scope,
    SendComments,
)
from rookery.manager.review.checkout_changes import Checkout, checkout_of
from rookery.manager.review.file_diffs import TextDiff, changes_of, diff_of
from rookery.manager.review.file_sides import ChangedLine
from rookery.manager.review.reviews import (
    SessionFile,
    diff_of_session,
    find_file,
    revert,
    revert_to,
    review_of,
    session_files,
    steps_of,
)
from rookery.manager.review.word_changes import mark_words
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.manager.shown_rows import (
    Comment,
    DiffLine,
    Done,
    FileDiff,
    Review,
    Version,
    WorktreeStats,
)
from rookery.platform.user_folders import find_own_program
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_values import Code, Worktree

NO_END = '<span class="unseen">no newline at the end</span>'
RETURN = '<span class="unseen">CR</span>'


def diff_lines(diff: TextDiff) -> tuple[DiffLine, ...]:
    if not diff.lines:
        return ()
    old = _highlighted(diff.file.old_path or diff.file.path, diff.old)
    new = _highlighted(diff.file.path, diff.new)
    ends_differ = (b"\r\n" in diff.old) != (b"\r\n" in diff.new)
    return mark_words([_line(line, old, new, ends_differ=ends_differ) for line in diff.lines])


def _highlighted(path: str, text: bytes) -> tuple[str, ...]:
    return lines_of(path, text.decode("utf-8", "replace"))


def _line(
    line: ChangedLine, old: tuple[str, ...], new: tuple[str, ...], *, ends_differ: bool
) -> DiffLine:
    if line.kind == "gap":
        lines = "line" if line.left_out == 1 else "lines"
        return DiffLine(
            kind="gap", old=line.old, new=line.new, html=f"{line.left_out} {lines} left out"
        )
    html = new[line.new - 1] if line.new else old[(line.old or 1) - 1]
    return DiffLine(
        kind=line.kind, old=line.old, new=line.new, html=html + _end(line, ends_differ=ends_differ)
    )


def _end(line: ChangedLine, *, ends_differ: bool) -> str:
    """Show the line ending if two lines may differ in nothing else."""
    if not line.data.endswith(b"\n"):
        return NO_END
    shows = ends_differ and line.kind != "same" and line.data.endswith(b"\r\n")
    return RETURN if shows else ""


MAX_CONTEXT = 1_000_000
COMMENT_SCOPES: tuple[Scope, ...] = ("branch", "unstaged", "staged", "session")
"""Scopes in which the line of a comment is looked up, in this order."""
NO_REPOSITORY = "This is not a git repository: showing the session's own changes."
MAX_QUOTE = 300
"""Maximum length of a quoted line."""
Steps: TypeAlias = tuple[tuple[str, str], ...]
P = ParamSpec("P")
T = TypeVar("T")


class ReviewHandler:
    def __init__(self, access: WorktreeAccess, dependencies: Dependencies) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._own = SessionReviews(access, dependencies)

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
        self._supervisor.summary(session_id)
        if removed := await self._access.removal_note(session_id):
            own = await self._own.review(session_id)
            return replace(own, notes=(removed, *own.notes))
        if scope == "session":
            return await self._own.review(session_id)
        worktree = await self._access.of_session(session_id)
        if worktree is None and not self._has_repository:
            own = await self._own.review(session_id)
            return replace(own, notes=(NO_REPOSITORY, *own.notes))
        return await self._on_checkout(changes_of, worktree, scope)

    async def _read_diff(self, request: ReadDiff) -> FileDiff:
        self._supervisor.summary(request.session_id)
        context = max(0, min(request.context, MAX_CONTEXT))
        diff = await self._diff(request.session_id, request.scope, request.path, context)
        lines = await anyio.to_thread.run_sync(diff_lines, diff)
        return FileDiff(
            file=diff.file,
            lines=lines,
            note=diff.note,
            old_image=diff.old_image,
            new_image=diff.new_image,
        )

    async def _diff(self, session_id: str, scope: Scope, path: str, context: int) -> TextDiff:
        if scope == "session":
            return await self._own.diff(session_id, path, context)
        worktree = await self._access.of_session(session_id)
        if worktree is None and not self._has_repository:
            return await self._own.diff(session_id, path, context)
        return await self._on_checkout(diff_of, worktree, scope, path, context=context)

    async def _revert(self, request: RevertFile) -> Done:
        """Restore one file. The digest says which comparison it is restored from."""
        session_id, path = request.session_id, request.path
        self._supervisor.summary(session_id)
        worktree = await self._access.of_session(session_id)
        try:
            kept = await self._on_checkout(revert, worktree, path, request.digest)
        except InTheWay as error:
            if error.code is not Code.CHANGED:
                raise
            if not (own := await self._session_file(session_id, path, request.digest)):
                raise
            kept = await self._on_checkout(revert_to, worktree, path, now=own.new, then=own.old)
        return Done(notes=(kept.message,) if kept else ())

    async def _session_file(self, session_id: str, path: str, digest: str) -> SessionFile | None:
        """The file as the session changed it, if it still has the digest that was shown."""
        try:
            own = await self._own.file(session_id, path)
        except CommandRejected:
            return None
        return own if own.digest == digest and not own.large else None

    async def _send_comments(self, request: SendComments) -> Done:
        if not request.comments:
            raise CommandRejected("There are no comments to send.")
        self._supervisor.summary(request.session_id)
        quoted = [
            (comment, await self._quoted(request.session_id, comment))
            for comment in request.comments
        ]
        await self._supervisor.send(request.session_id, comments_text(quoted, request.text))
        return Done()

    async def _quoted(self, session_id: str, comment: Comment) -> str:
        for scope in COMMENT_SCOPES:
            try:
                diff = await self._diff(session_id, scope, comment.path, 0)
            except CommandRejected:
                continue
            return quoted_line(diff, comment)
        raise CommandRejected(
            f"{comment.path} is no longer changed, so nothing was sent; look again."
        )

    async def _compare(self, request: CompareVersions) -> tuple[Version, ...]:
        records = [each for each in self._supervisor.records() if request.group_id]
        ids = [each.session_id for each in records if each.group_id == request.group_id]
        found = [summary for summary in map(self._supervisor.session, ids) if summary]
        if not found:
            raise CommandRejected(f"No such versions: {request.group_id!r}.")
        found.sort(key=lambda summary: (summary.record.start_time, summary.record.label))
        return tuple([await self._version(summary) for summary in found])

    async def _version(self, summary: SessionSummary) -> Version:
        record = summary.record
        removed = await self._access.removal_note(record.session_id)
        end = record.end_time or time.time_ns() // 1_000_000
        return Version(
            session_id=record.session_id,
            worktree_id=record.worktree_id or "",
            name=record.name,
            model="/".join(filter(None, (record.provider, record.model))),
            state=record.state,
            stats=WorktreeStats() if removed else await self.stats(record.session_id),
            cost=record.cost,
            tokens=record.tokens,
            seconds=max(0, end - record.start_time) / 1000,
            result=record.completion_text,
            note=removed,
        )

    async def stats(self, session_id: str, *, local: bool = False) -> WorktreeStats:
        """Statistics of a session's worktree, empty if it is gone; of its own changes if it is
        `local`."""
        if local:
            return (await self._own.review(session_id)).stats
        with suppress(CommandRejected):
            if worktree := await self._access.of_session(session_id):
                return await self._access.stats(worktree)
        return WorktreeStats()

    async def _on_checkout(
        self,
        operation: Callable[Concatenate[Checkout, P], T],
        worktree: Worktree | None,
        /,
        *given: P.args,
        **named: P.kwargs,
    ) -> T:
        return await self._access.run(
            lambda project: operation(checkout_of(project, worktree), *given, **named)
        )

    @property
    def _has_repository(self) -> bool:
        return os.path.lexists(self._access.project / ".git")


def quoted_line(diff: TextDiff, comment: Comment) -> str:
    """The line that a comment is on. Raises `CommandRejected` if the file has no such line."""
    text = (diff.old if comment.old else diff.new).decode("utf-8", "replace")
    lines = text.split("\n")
    if not 1 <= comment.line <= len(lines):
        raise CommandRejected(
            f"{comment.path} no longer has line {comment.line}, so nothing was sent; look again."
        )
    return lines[comment.line - 1].rstrip("\r")[:MAX_QUOTE]


def comments_text(comments: Sequence[tuple[Comment, str]], text: str) -> str:
    """Format each comment with the line it is on, followed by the general text."""
    parts = [
        f"{comment.path}, line {comment.line}{' before the change' if comment.old else ''}:\n"
        f"> {quote}\n{comment.text.strip()}"
        for comment, quote in comments
    ]
    return "\n\n".join(["Comments on your changes:", *parts, *([text.strip()] if text else [])])


class SessionReviews:
    """Changes of sessions, from their checkpoints. Caches the last session read, because a page
    requests one file after the other."""

    def __init__(self, access: WorktreeAccess, dependencies: Dependencies) -> None:
        self._access = access
        self._tasks = access.supervisor.tasks
        self._snapshots = dependencies.snapshots
        self._settings = dependencies.settings
        self._read: tuple[str, Steps, tuple[SessionFile, ...]] = ("", (), ())

    async def review(self, session_id: str) -> Review:
        files = await self._files(session_id)
        program = self._git(session_id)
        return await anyio.to_thread.run_sync(review_of, program, files)

    async def diff(self, session_id: str, path: str, context: int) -> TextDiff:
        """Raises `CommandRejected` if the session has not changed the file."""
        files = await self._files(session_id)
        program = self._git(session_id)
        if not program:
            raise CommandRejected("git is needed to compare lines; install it.")
        return await anyio.to_thread.run_sync(
            lambda: diff_of_session(program, files, path, context=context)
        )

    async def file(self, session_id: str, path: str) -> SessionFile:
        return find_file(await self._files(session_id), path)

    async def _files(self, session_id: str) -> tuple[SessionFile, ...]:
        folder = self._access.folder_of(session_id)
        steps = await anyio.to_thread.run_sync(self._steps, session_id)
        if not steps or not folder.is_dir():
            return ()
        if self._read[:2] == (session_id, steps):
            return self._read[2]
        limits = self._settings().as_limits()
        try:
            files = await session_files(self._snapshots(folder, limits), steps)
        except (StorageError, OSError) as error:
            raise CommandRejected(
                f"Some checkpoints of this session were removed ({error}); compare "
                "with its branch instead."
            ) from error
        self._read = (session_id, steps, files)
        return files

    def _steps(self, session_id: str) -> Steps:
        """Checkpoint pairs of the session and its sub-tasks, in order of time."""
        found: list[tuple[int, tuple[str, str]]] = []
        waiting, seen = [session_id], {session_id}
        while waiting:
            events = self._events(waiting.pop())
            for event in events:
                found += [(event.ts, step) for step in steps_of([event])]
                fact = event.fact
                # agents that run side by side change nothing here
                if isinstance(fact, ChildBegan) and not fact.name and fact.task_id not in seen:
                    seen.add(fact.task_id)
                    waiting.append(fact.task_id)
        return tuple(step for _, step in sorted(found, key=lambda each: each[0]))

    def _events(self, task_id: str) -> list[Event]:
        return list(self._tasks.read(task_id)) if self._tasks.exists(task_id) else []

    def _git(self, session_id: str) -> str:
        return find_own_program("git", Path(self._access.folder_of(session_id)))
