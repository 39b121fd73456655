"""Stops commands from planting programs that git would run.

Checkpoints do not cover git's own folders, and a sandbox can only protect files that exist. So
after a command, and when a background command ends, everything new or changed among the files that
git executes or obeys is moved aside. A repository made by a command is moved aside as a whole,
unless git would run nothing from it or it was only moved. Locks and unfinished operations are
reported and left to the user.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Lock

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from rookery.checkpoints.file_restore import set_aside
from rookery.checkpoints.git_copies import make_room
from rookery.checkpoints.git_repair import GitRepair
from rookery.checkpoints.git_views import (
    LARGEST,
    GitEntry,
    GitScanner,
    GitView,
    is_harmless,
    is_harmless_worktree,
    moved_from,
)
from rookery.core.asks import Ruling, ask
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action, Deed, GitUse, Judgement, Outcome
from rookery.engine.ports.hooks import Hook
from rookery.platform.descriptors import opened_folder, present
from rookery.platform.disk import write_new
from rookery.platform.git_folders import is_folder

TOO_MANY_FOLDERS = (
    "This workspace has too many folders to check whether the command creates repositories in "
    "which git would run programs."
)
TOO_MANY_NOW = "This workspace now has too many folders to check for new repositories."


class GitWatch(Hook, Struct, kw_only=True):
    """A hook. Files are moved to `aside`, and `report` gets a sentence about it."""

    root: Path
    aside: Path
    report: Callable[[str], None]
    attended: Callable[[], bool]
    """Whether a person approves commands one by one."""
    running: Callable[[], bool]
    """Whether a command runs in the background."""
    started: Callable[[str], bool]
    """Whether the call was allowed and has started."""
    approved: Callable[[str], bool]
    """Whether a person approved the call."""
    unconfined: Callable[[], bool]
    """Whether there is no sandbox to escape from through git."""
    scanner: GitScanner
    repair: GitRepair
    exposed: Callable[[Action], bool]
    """Whether a command could destroy repositories: they are copied before it and repaired."""
    _call: str = ""
    _action: Action | None = None
    """The last command."""
    _known: GitView | None = None
    _announced: str = ""
    """Id of the call whose command was about to start, until it has ended."""
    _left_running: bool = False
    _lock: Lock = field(default_factory=Lock)

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        """Take the state before the command; changes made while no command ran are the user's."""
        if action.command:
            unsettled = self._is_unsettled()
            if unsettled:
                await self._settle()
            self._announced = call.id
            self._call, self._action = call.id, action
            if problem := await anyio.to_thread.run_sync(self._protect, action, unsettled):
                return ask(problem)
        return Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        if action.command:
            await self._settle(partial(self._accept, call, action))
            self._announced = ""

    async def settle(self) -> None:
        """Check again, and undo changes, if a command may have changed something since."""
        if self._is_unsettled():
            await self._settle()

    def _is_unsettled(self) -> bool:
        """Whether a command may have changed something; one that was denied has not."""
        has_started = bool(self._announced) and self.started(self._announced)
        return self._known is not None and (self._left_running or has_started)

    async def _settle(self, accept: Callable[[GitView], None] = lambda now: None) -> None:
        # before the check, because a command that ends during it may change checked files
        running = self.running()
        sentences, unfinished = await anyio.to_thread.run_sync(self._undo_changes, accept)
        # a running command may still finish its git operation
        for sentence in sentences if running else (*sentences, *self._unfinished_notes(unfinished)):
            self.report(sentence)
        self._left_running = running
        if not running:
            self.repair.close()

    def _protect(self, action: Action, settled: bool) -> str:
        """Copy what the command could destroy; return a problem as a sentence. `settled` if the
        changes of the last command have just been checked."""
        self._known = known = self._known if settled and self._known else self._scan()
        if not known.whole and action.may_change_files:
            return TOO_MANY_FOLDERS
        if not self._left_running:
            self.repair.close()  # the last command was denied
        if not self.exposed(action):
            return ""
        return self.repair.save(known.repositories, alone=self._runs_git_alone(action))

    def _runs_git_alone(self, action: Action) -> bool:
        judged = action.judgement or Judgement()
        return judged.git is GitUse.ONLY and not self._left_running

    def _repair_repositories(self) -> list[str]:
        """Restore what the last command destroyed; return sentences that describe it."""
        if self._action is None:
            return []
        judged = self._action.judgement or Judgement()
        approved = self.approved(self._call)
        if approved and judged.only_moves_files:
            return []
        thorough = judged.keeps_references and not self._left_running
        alone = self._runs_git_alone(self._action)
        return self.repair.repair(thorough=thorough, approved=approved, alone=alone)

    def _accept(self, call: ToolCall, action: Action, now: GitView) -> None:
        """Accept changes that the user approved: files by name, or everything git itself does."""
        judged = action.judgement
        if judged is None or self._known is None:
            return
        everything = (judged.needs_keys and self.attended()) or (
            self.approved(call.id) and (judged.only_moves_files or self.unconfined())
        )
        written = [each for each in judged.targets if each.deed is Deed.WRITE]
        if everything:
            self._known = now
        for target in written:
            path = os.path.relpath(self.root / target.path, self.root)
            if path in now.obeyed or path in now.repositories:
                self._known = self._known.with_part(now, path)
            else:
                kept = {at: found for at, found in self._known.obeyed.items() if at != path}
                self._known = replace(self._known, obeyed=kept)

    def _scan(self) -> GitView:
        return self.scanner.scan(self._known.repositories if self._known else ())

    def _undo_changes(self, accept: Callable[[GitView], None]) -> tuple[list[str], frozenset[str]]:
        """Undo all changes that were not accepted. Return sentences that describe it, and the
        unfinished git operations."""
        with self._lock:
            fixed = self._repair_repositories()
            now = self._scan()
            accept(now)
            known = self._known
            assert known
            notes = [TOO_MANY_NOW] if known.whole and not now.whole else []
            known, sentences = self._judge_new(known, now)
            self._known = known = self._with_harmless_worktrees(known, now)
            undone, left = list[str](), list[str]()
            for path in filter(known.contains, _changed_paths(known, now)):
                try:
                    if self._undo(path, known.obeyed.get(path)):
                        undone.append(path)
                except OSError as error:
                    left.append(f"{path}: {error.strerror}")
        sentences = [*fixed, *notes, *sentences, *self._restored(sorted(undone)), *_failed(left)]
        return sentences, now.unfinished

    def _unfinished_notes(self, unfinished: frozenset[str]) -> Iterator[str]:
        assert self._known
        known, self._known = self._known, replace(self._known, unfinished=unfinished)
        if new := sorted(filter(known.contains, unfinished - known.unfinished)):
            yield (
                f"A command left an unfinished git operation ({', '.join(new)}). "
                "Check it before you use git here: git may refuse to work, or "
                "continue it."
            )

    def _judge_new(self, known: GitView, now: GitView) -> tuple[GitView, list[str]]:
        """Accept harmless new repositories, and move the others aside."""
        notes: list[str] = []
        new = now.repositories - known.repositories
        if not (known.whole and now.whole):
            new &= {".git"}  # others may have been missed before
        # folders first, because .git files may point to them
        for path in sorted(new, key=lambda path: (not is_folder(self._absolute(path)), path)):
            if is_harmless(self._absolute(path), str(self.root), self._sound(known)):
                known = known.with_part(now, path)
                notes.append(f"A command made a repository: {path}. Git runs no programs in it.")
                continue
            if gone := moved_from(known, now, path):
                known = known.with_part(now, path)
                notes.append(f"A command moved a repository: {gone} is {path} now.")
                continue
            try:
                kept = set_aside(self.root, path, self.aside)
            except OSError as error:
                notes += _failed([f"{path}: {error.strerror}"])
            else:
                notes.append(f"A command made a repository ({path}); it was moved to {kept}.")
        return known, notes

    def _with_harmless_worktrees(self, known: GitView, now: GitView) -> GitView:
        before = {found.git for found in known.obeyed.values()}
        for git in {found.git for found in now.obeyed.values()} - before:
            if is_harmless_worktree(self._absolute(git), str(self.root), self._sound(known)):
                known = known.with_part(now, git)
        return known

    def _sound(self, known: GitView) -> list[str]:
        return [self._absolute(path) for path in known.repositories]

    def _absolute(self, path: str) -> str:
        return str(self.root / path)

    def _undo(self, path: str, known: GitEntry | None) -> bool:
        """Restore one file; False if its git folder is gone, and with it all that git could run."""
        *folders, name = path.split("/")
        if known and not self._make_folders(folders, known.git):
            return False
        with opened_folder(self.root, folders) as folder:
            make_room(present(folder), name, self.aside)
            if known and len(known.data) >= LARGEST:
                raise OSError(errno.EFBIG, "the original was too large to keep")
            if known:
                _restore(present(folder), name, known)
        return True

    def _make_folders(self, folders: list[str], git: str) -> bool:
        """Create missing folders inside the git folder; False if that is gone itself."""
        for depth in range(git.count("/") + 1, len(folders) + 1):
            with opened_folder(self.root, folders[:depth]) as folder:
                if folder is None:
                    return False
                if depth < len(folders) and folders[depth] not in os.listdir(folder):
                    os.mkdir(folders[depth], dir_fd=folder)
        return True

    def _restored(self, paths: list[str]) -> Iterator[str]:
        if paths:
            yield (
                "A command changed files that git runs or reads "
                f"({', '.join(paths)}); they were restored. The command's versions "
                f"are in {self.aside}."
            )


def _changed_paths(known: GitView, now: GitView) -> Iterator[str]:
    """Paths that appeared, changed or disappeared. Repositories that were removed as a whole do
    not count, except the workspace's own."""
    yield from (path for path, found in now.obeyed.items() if known.obeyed.get(path) != found)
    for path in known.obeyed:
        if path not in now.obeyed and (path == ".git" or path not in known.repositories):
            yield path


def _failed(problems: list[str]) -> Iterator[str]:
    if problems:
        yield (
            "A command changed files that git runs or reads, and they could not be "
            f"restored ({'; '.join(problems)}). Check them before you use git here."
        )


def _restore(at: int, name: str, known: GitEntry) -> None:
    if stat.S_ISLNK(known.mode):
        os.symlink(known.data, os.fsencode(name), dir_fd=at)
    elif stat.S_ISREG(known.mode):
        give = partial(os.fchmod, mode=stat.S_IMODE(known.mode))
        write_new(name, [known.data], folder=at, give=give, durable=False)
