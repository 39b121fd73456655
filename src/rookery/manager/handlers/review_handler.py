"""Review of what sessions changed: files, lines, comments on them, versions compared.

A worktree is compared by git. What a session changed elsewhere is told by its log and checkpoints;
neither the project's repository nor a process of the session is asked.
"""

import base64
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import anyio.to_thread
from msgspec.structs import replace

from rookery.core.facts import ChildBegan, Event
from rookery.errors import CommandRejected, StorageError
from rookery.manager.dependencies import Dependencies
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.rendering.safe_html import lines_of
from rookery.manager.review.file_diffs import ShownPicture, TextDiff
from rookery.manager.review.file_sides import ChangedLine
from rookery.manager.review.reviews import (
    SessionFile,
    diff_of_session,
    find_file,
    review_of,
    session_files,
    steps_of,
)
from rookery.manager.sessions.session_summary import ShownSession
from rookery.manager.shown_rows import (
    Comment,
    DiffLine,
    Done,
    FileDiff,
    Review,
    Version,
    WorktreeStats,
)
from rookery.manager.worktree_requests import (
    CompareVersions,
    ReadDiff,
    RevertFile,
    ReviewChanges,
    Scope,
    SendComments,
)
from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.manager.worktrees.worktree_values import Code, Obstacle, Worktree
from rookery.platform.own_programs import find_own_program

NO_END = '<span class="unseen">no newline at the end</span>'
RETURN = '<span class="unseen">CR</span>'


def diff_lines(diff: TextDiff) -> tuple[DiffLine, ...]:
    if not diff.lines:
        return ()
    old = _coloured(diff.file.old_path or diff.file.path, diff.old)
    new = _coloured(diff.file.path, diff.new)
    ends_differ = (b"\r\n" in diff.old) != (b"\r\n" in diff.new)
    return tuple(_line(line, old, new, ends_differ=ends_differ) for line in diff.lines)


def _coloured(path: str, text: bytes) -> tuple[str, ...]:
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
    """What the end of a line is, where two lines might differ in nothing else."""
    if not line.data.endswith(b"\n"):
        return NO_END
    shows = ends_differ and line.kind != "same" and line.data.endswith(b"\r\n")
    return RETURN if shows else ""


MOST_CONTEXT = 1_000_000
COMMENTED: tuple[Scope, ...] = ("branch", "unstaged", "staged", "session")
"""Where the line of a comment is looked for."""
NO_REPOSITORY = "This is not a git repository: showing the session's own changes."
LONGEST_QUOTE = 300
"""Characters of a line that are quoted."""
Steps: TypeAlias = tuple[tuple[str, str], ...]
T = TypeVar("T")


class ReviewHandler:
    def __init__(self, access: WorktreeAccess, dependencies: Dependencies) -> None:
        self._access = access
        self._supervisor = access.supervisor
        self._operations = access.review
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
        return await self._access.done(partial(self._operations.changes, worktree, scope))

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
            partial(self._operations.diff, worktree, scope, path, context=context)
        )

    async def _revert(self, request: RevertFile) -> Done:
        """The digest says what was compared, and so what the file goes back to."""
        session_id, path = request.session_id, request.path
        self._find(session_id)
        worktree = await self._worktree(session_id)
        done = await self._access.tried(
            partial(self._operations.revert, worktree, path, request.digest)
        )
        if isinstance(done, Obstacle) and done.code is Code.CHANGED:
            own = await self._own_file(session_id, path, request.digest)
            if own:
                back = partial(
                    self._operations.revert_to, worktree, path, now=own.new, then=own.old
                )
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
            raise CommandRejected("There are no comments to send.")
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
            f"{comment.path} is no longer changed, so nothing was sent; look again."
        )

    async def _compare(self, request: CompareVersions) -> tuple[Version, ...]:
        records = [each for each in self._supervisor.records() if request.group_id]
        ids = [each.session_id for each in records if each.group_id == request.group_id]
        found = [shown for shown in map(self._supervisor.session, ids) if shown]
        if not found:
            raise CommandRejected(f"No such versions: {request.group_id!r}.")
        found.sort(key=lambda shown: (shown.record.start_time, shown.record.label))
        return tuple([await self._version(shown) for shown in found])

    async def _version(self, shown: ShownSession) -> Version:
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
        stats = await self._access.tried(partial(self._operations.stats, worktree))
        return WorktreeStats() if isinstance(stats, Obstacle) else stats

    async def _worktree(self, session_id: str) -> Worktree | None:
        return await self._access.of_session(session_id)

    @property
    def _has_repository(self) -> bool:
        return os.path.lexists(self._access.project / ".git")

    def _find(self, session_id: str) -> ShownSession:
        if shown := self._supervisor.session(session_id):
            return shown
        raise CommandRejected(f"No such session: {session_id}.")


def _data_uri(picture: ShownPicture | None) -> str:
    if picture is None:
        return ""
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"


def quoted_line(diff: TextDiff, comment: Comment) -> str:
    """The line that a comment is on. Raises `CommandRejected` if there is none."""
    text = (diff.old if comment.old else diff.new).decode("utf-8", "replace")
    lines = text.split("\n")
    if not 1 <= comment.line <= len(lines):
        raise CommandRejected(
            f"{comment.path} no longer has line {comment.line}, so nothing was sent; look again."
        )
    return lines[comment.line - 1].rstrip("\r")[:LONGEST_QUOTE]


def letter_of(comments: Sequence[tuple[Comment, str]], text: str) -> str:
    """Each comment with the line it is on, then what is said about all of them."""
    said = [
        f"{comment.path}, line {comment.line}{' before the change' if comment.old else ''}:\n"
        f"> {quote}\n{comment.text.strip()}"
        for comment, quote in comments
    ]
    return "\n\n".join(["Comments on your changes:", *said, *([text.strip()] if text else [])])


class SessionReviews:
    """Remembers what it has read last: a page asks for one file after the other."""

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
        """Raises `CommandRejected` if the session has not changed it."""
        files = await self._files(session_id)
        program = self._git(session_id)
        if not program:
            raise CommandRejected("git is needed to compare lines; install it.")
        return await anyio.to_thread.run_sync(
            lambda: _refused(lambda: diff_of_session(program, files, path, context=context))
        )

    async def file(self, session_id: str, path: str) -> SessionFile:
        files = await self._files(session_id)
        return _refused(lambda: find_file(files, path))

    async def _files(self, session_id: str) -> tuple[SessionFile, ...]:
        place = self._access.place_of(session_id)
        steps = await anyio.to_thread.run_sync(self._steps, session_id)
        if not steps or not place.is_dir():
            return ()
        if self._read[:2] == (session_id, steps):
            return self._read[2]
        limits = self._settings().as_limits()
        try:
            files = await session_files(self._snapshots(place, limits), steps)
        except (StorageError, OSError) as error:
            raise CommandRejected(
                f"Some checkpoints of this session were removed ({error}); compare "
                "with its branch instead."
            ) from error
        self._read = (session_id, steps, files)
        return files

    def _steps(self, session_id: str) -> Steps:
        """Of the session and of those who work for it, in the order they were taken."""
        found: list[tuple[int, tuple[str, str]]] = []
        waiting, seen = [session_id], {session_id}
        while waiting:
            events = self._events(waiting.pop())
            for event in events:
                found += [(event.ts, step) for step in steps_of([event])]
                fact = event.fact
                if isinstance(fact, ChildBegan) and fact.task_id not in seen:
                    seen.add(fact.task_id)
                    waiting.append(fact.task_id)
        return tuple(step for _, step in sorted(found, key=lambda each: each[0]))

    def _events(self, task_id: str) -> list[Event]:
        return list(self._tasks.read(task_id)) if self._tasks.exists(task_id) else []

    def _git(self, session_id: str) -> str:
        return find_own_program("git", Path(self._access.place_of(session_id)))


def _refused(operation: Callable[[], T]) -> T:
    """What is in the way, as a refusal."""
    try:
        return operation()
    except InTheWay as error:
        raise CommandRejected(str(error)) from error
