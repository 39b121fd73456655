"""Requests about pull requests: status, creation, review comments, import."""

from contextlib import suppress
from functools import partial

from rookery.errors import CommandRejected
from rookery.manager import requests as asked
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.shown_rows import Done, PullRequestRow, WorktreeRow
from rookery.manager.worktrees.forge import ReviewComment, comments_message
from rookery.platform.paths import visible
from rookery.platform.worktree_git import Fetching
from rookery.platform.worktree_values import Worktree, counted


class PullRequestHandler:
    def __init__(self, access: WorktreeAccess, fetching: Fetching) -> None:
        self._access = access
        self._operations = access.operations
        self._protocols = fetching.protocols

    @property
    def handlers(self) -> Handlers:
        return {
            asked.ReadPullRequest: self._read,
            asked.CreatePullRequest: self._create,
            asked.BringReviewComments: self._bring_comments,
            asked.ImportPullRequest: self._import,
        }

    async def _read(self, request: asked.ReadPullRequest) -> PullRequestRow:
        return await self._pull_request(await self._worktree(request.worktree_id))

    async def _create(self, request: asked.CreatePullRequest) -> PullRequestRow:
        worktree = await self._worktree(request.worktree_id)
        if not request.title.strip():
            raise CommandRejected("Give a title for the pull request.")
        create = partial(
            self._operations.create_pull_request,
            worktree,
            self._protocols,
            title=request.title,
            body=request.body,
            draft=request.draft,
        )
        return self._show(worktree, await self._access.run(create))

    async def _bring_comments(self, request: asked.BringReviewComments) -> Done:
        worktree = await self._worktree(request.worktree_id)
        session_id = next(iter(self._access.sessions_in(worktree)), "")
        if not session_id:
            raise CommandRejected(f"No session works in {worktree.branch}.")
        found = await self._pull_request(worktree)
        if not found.number:
            raise CommandRejected(f"{worktree.branch} has no pull request.")
        read = partial(self._operations.review_comments, self._protocols, number=found.number)
        comments: list[ReviewComment] = await self._access.run(read)
        if not comments:
            return Done(notes=(f"Pull request {found.number} has no comments.",))
        message = comments_message(found.number, comments)
        await self._access.supervisor.send(session_id, message)
        return Done(notes=(f"Sent {counted(len(comments), 'comment')} to the session.",))

    async def _import(self, request: asked.ImportPullRequest) -> WorktreeRow:
        fetch = partial(self._operations.fetch_pull_request, self._protocols, number=request.number)
        branch: str = await self._access.run(fetch)
        made = await self._access.run(partial(self._operations.import_branch, branch))
        worktree = made.worktree
        return WorktreeRow(
            id=worktree.id,
            branch=worktree.branch,
            path=visible(worktree.path),
            parent_branch=worktree.parent_branch,
            imported=worktree.imported,
        )

    async def _pull_request(self, worktree: Worktree) -> PullRequestRow:
        read = partial(self._operations.pull_request, worktree, self._protocols)
        return self._show(worktree, await self._access.run(read))

    def _show(self, worktree: Worktree, found: PullRequestRow) -> PullRequestRow:
        """Show it with the sessions of the worktree."""
        supervisor = self._access.supervisor
        for session_id in self._access.sessions_in(worktree):
            with suppress(CommandRejected):  # a session of a terminal
                supervisor.find(session_id).pull_request = found if found.number else None
                supervisor.changed(session_id)
        return found

    async def _worktree(self, worktree_id: str) -> Worktree:
        return (await self._access.find(worktree_id)).worktree
