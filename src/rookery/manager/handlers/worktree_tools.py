"""Requests about a worktree in use: update it, read its script's output, open it in an editor, and
handle its pull request.

An editor is run only if the user configured it, or if it is found in the PATH outside the project.
"""

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio.to_thread

from rookery.core.limits import KIB
from rookery.core.settings import Settings
from rookery.errors import CommandRejected
from rookery.manager import requests as asked
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_handler import saved_work_notes
from rookery.manager.handlers.worktree_scripts import RunScripts
from rookery.manager.shown_rows import Done, EditorRow, PullRequestRow, ScriptLog, WorktreeRow
from rookery.manager.worktrees.forge import Forge, comments_message
from rookery.manager.worktrees.merge import update
from rookery.manager.worktrees.reuse import import_branch
from rookery.platform.disk import reason
from rookery.platform.paths import visible, within_any
from rookery.platform.user_folders import find_own_program
from rookery.platform.worktree_values import Worktree, counted

SHOWN_LOG = 64 * KIB
CONFIGURED, VISUAL = "configured", "visual"
EDITORS = {
    "code": "VS Code",
    "cursor": "Cursor",
    "zed": "Zed",
    "idea": "IntelliJ IDEA",
    "subl": "Sublime Text",
}
_IN_A_TERMINAL = frozenset(
    ("ed", "emacs", "helix", "hx", "joe", "kak", "micro", "nano", "nvim", "pico", "vi", "vim")
)


class WorktreeToolsHandler:
    def __init__(
        self,
        access: WorktreeAccess,
        scripts: RunScripts,
        settings: Callable[[], Settings],
        environ: Mapping[str, str],
    ) -> None:
        self._access = access
        self._scripts = scripts
        self._settings = settings
        self._environ = environ

    @property
    def handlers(self) -> Handlers:
        return {
            asked.UpdateWorktree: self._access.in_worktree(self._update),
            asked.ReadScriptLog: self._access.in_worktree(self._read_log),
            asked.ListEditors: self._list_editors,
            asked.OpenEditor: self._open_editor,
        }

    async def _update(self, worktree: Worktree, request: asked.UpdateWorktree) -> Done:
        for session_id in self._access.sessions_in(worktree):
            shown = self._access.supervisor.session(session_id)
            if shown and shown.flags.is_active:
                raise CommandRejected(
                    f"{shown.record.name} is working in {worktree.branch}. Stop it, then update."
                )
        kept = await self._access.run(update, worktree, rebase=request.rebase)
        how = "was rebased onto" if request.rebase else "now has all of"
        done = f"{worktree.branch} {how} {worktree.parent_branch}."
        return Done(notes=(done, *saved_work_notes(kept)))

    async def _read_log(self, worktree: Worktree, _: asked.ReadScriptLog) -> ScriptLog:
        text = await anyio.to_thread.run_sync(_end_of, self._scripts.log(worktree))
        return ScriptLog(
            running=self._scripts.runs(worktree),
            text=text,
            first_port=worktree.ports.first if worktree.ports else 0,
        )

    async def _list_editors(self, _: asked.ListEditors) -> tuple[EditorRow, ...]:
        return tuple(EditorRow(id=id, name=name) for id, name, _ in self._editors())

    async def _open_editor(self, request: asked.OpenEditor) -> Done:
        self._access.require_trust("no editor opens it")
        editors = list(self._editors())
        fitting = [each for each in editors if request.editor in ("", each[0])]
        if not fitting:
            raise CommandRejected(
                "No such editor was found. Set manager.editor to your editor's command."
            )
        _, name, command = fitting[0]
        target = _target(self._access.folder_of(request.session_id), request.path)
        try:
            process = _started([*command, str(target)], target, self._environ)
        except OSError as error:
            raise CommandRejected(f"{name} did not start ({reason(error)}).") from error
        wait = partial(anyio.to_thread.run_sync, process.wait, abandon_on_cancel=True)
        self._access.supervisor.group.start_soon(wait)
        return Done(notes=(f"Opened {target.name} in {name}.",))

    def _editors(self) -> Iterator[tuple[str, str, list[str]]]:
        """The id, name and command of each editor, the preferred one first."""
        configured = _words(self._settings().manager.editor)
        if command := self._found(configured):
            yield CONFIGURED, _name_of(command), command
        visual = self._found(_words(self._environ.get("VISUAL", "")))
        if visual and Path(visual[0]).name not in _IN_A_TERMINAL:
            yield VISUAL, _name_of(visual), visual
        for program, name in EDITORS.items():
            if command := self._found([program]):
                yield program, name, command

    def _found(self, words: list[str]) -> list[str]:
        """The command with the path of its program, which is not in the project; else empty."""
        if not words:
            return []
        project = self._access.project
        program = words[0] if os.path.isabs(words[0]) else find_own_program(words[0], project)
        outside = not within_any(os.path.realpath(program), [os.path.realpath(project)])
        usable = program and outside and os.access(program, os.X_OK)
        return [program, *words[1:]] if usable else []


def _started(
    command: list[str], target: Path, environ: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        cwd=target if target.is_dir() else target.parent,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an unbalanced quote
        return []


def _name_of(command: list[str]) -> str:
    program = Path(command[0]).name
    return EDITORS.get(program, program)


def _target(folder: Path, path: str) -> Path:
    """A file in the folder, or the folder. Raises `CommandRejected`."""
    target = Path(os.path.realpath(folder / path))
    if not target.is_relative_to(os.path.realpath(folder)):
        raise CommandRejected(f"{path} is outside {folder}.")
    if not target.exists():
        raise CommandRejected(f"{target} does not exist.")
    return target


def _end_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - SHOWN_LOG))
            return file.read(SHOWN_LOG).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


class PullRequestHandler:
    def __init__(self, access: WorktreeAccess) -> None:
        self._access = access

    @property
    def handlers(self) -> Handlers:
        in_worktree = self._access.in_worktree
        return {
            asked.ReadPullRequest: in_worktree(lambda worktree, _: self._pull_request(worktree)),
            asked.CreatePullRequest: in_worktree(self._create),
            asked.BringReviewComments: in_worktree(self._bring_comments),
            asked.ImportPullRequest: self._import,
        }

    async def _create(self, worktree: Worktree, request: asked.CreatePullRequest) -> PullRequestRow:
        if not request.title.strip():
            raise CommandRejected("Give a title for the pull request.")
        created = await self._access.run(
            lambda project: Forge(project).create(
                worktree, request.title, request.body, draft=request.draft
            )
        )
        return self._show(worktree, created)

    async def _bring_comments(self, worktree: Worktree, _: asked.BringReviewComments) -> Done:
        session_id = next(iter(self._access.sessions_in(worktree)), "")
        if not session_id:
            raise CommandRejected(f"No session works in {worktree.branch}.")
        found = await self._pull_request(worktree)
        if not found.number:
            raise CommandRejected(f"{worktree.branch} has no pull request.")
        comments = await self._access.run(lambda project: Forge(project).comments(found.number))
        if not comments:
            return Done(notes=(f"Pull request {found.number} has no comments.",))
        message = comments_message(found.number, comments)
        await self._access.supervisor.send(session_id, message)
        return Done(notes=(f"Sent {counted(len(comments), 'comment')} to the session.",))

    async def _import(self, request: asked.ImportPullRequest) -> WorktreeRow:
        branch = await self._access.run(lambda project: Forge(project).fetch(request.number))
        worktree = (await self._access.run(import_branch, branch)).worktree
        return WorktreeRow(
            id=worktree.id,
            branch=worktree.branch,
            path=visible(worktree.path),
            parent_branch=worktree.parent_branch,
            imported=worktree.imported,
        )

    async def _pull_request(self, worktree: Worktree) -> PullRequestRow:
        found = await self._access.run(lambda project: Forge(project).pull_request(worktree.branch))
        return self._show(worktree, found)

    def _show(self, worktree: Worktree, found: PullRequestRow) -> PullRequestRow:
        """Show it with the sessions of the worktree."""
        supervisor = self._access.supervisor
        for session_id in self._access.sessions_in(worktree):
            with suppress(CommandRejected):  # a session of a terminal
                supervisor.find(session_id).pull_request = found if found.number else None
                supervisor.changed(session_id)
        return found
