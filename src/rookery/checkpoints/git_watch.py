"""Keeps commands from planting programs where git would run them.

Checkpoints leave git's own folders alone, and a sandbox can only shield what is there already.
So what has appeared or changed in those parts of them is moved aside after the command, and once
more when a command ends that ran on in the background. A repository that a command made is moved
aside as a whole, unless it holds nothing that git would run, or was only moved. Locks and
half-done work that a command leaves behind are told, and left to the user.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Lock

import anyio.to_thread
from msgspec.structs import replace

from rookery.checkpoints.file_restore import move_aside, set_aside
from rookery.checkpoints.git_repair import GitMending
from rookery.checkpoints.git_views import (
    LARGEST,
    GitEntry,
    GitEyes,
    GitView,
    is_harmless,
    is_harmless_worktree,
    moved_from,
)
from rookery.core.asks import Ruling, ask
from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Deed, GitUse, Judgement
from rookery.engine.ports.actions import Action, Outcome
from rookery.platform.descriptors import opened_folder, present
from rookery.platform.disk import write_new
from rookery.platform.git_folders import is_folder

TOO_MANY_FOLDERS = (
    "This workspace has too many folders to check whether the command creates repositories in "
    "which git would run programs."
)


class GitWatch:
    """A hook. `aside` is where things are moved, `tell` hears a sentence about it. `attended`
    if a person allows commands one by one; `running` if a command runs in the background;
    `started` if a call was let through and begun; `approved` if a person said yes to it, and
    `unconfined` if there is no sandbox that it could get around by what it leaves to git. What
    a command could destroy, being `exposed` to it, is copied first and mended after it."""

    def __init__(
        self,
        root: Path,
        aside: Path,
        tell: Callable[[str], None],
        *,
        attended: Callable[[], bool],
        running: Callable[[], bool] = lambda: False,
        started: Callable[[str], bool] = lambda call_id: True,
        approved: Callable[[str], bool] = lambda call_id: False,
        unconfined: Callable[[], bool] = lambda: False,
        eyes: GitEyes | None = None,
        mending: GitMending | None = None,
        exposed: Callable[[Action], bool] = lambda action: False,
    ) -> None:
        self._root = root
        self._eyes = eyes or GitEyes(root, aside)
        self._attended = attended
        self._aside = aside
        self._tell = tell
        self._running = running
        self._started = started
        self._approved = approved
        self._unconfined = unconfined
        self._mending = mending
        self._exposed = exposed
        self._call = ""
        self._action: Action | None = None
        """The last command."""
        self._known: GitView | None = None
        self._announced = ""
        """The call whose command was about to begin, until it has ended."""
        self._left_running = False
        self._one_at_a_time = Lock()

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        """What has changed while no command was under way is the user's doing."""
        if action.command:
            if self._is_unsettled():
                await self._settle()
            else:
                self._known = await anyio.to_thread.run_sync(self._look)
            self._announced = call.id
            self._call, self._action = call.id, action
            assert self._known
            if not self._known.whole and action.may_change_files:
                return ask(TOO_MANY_FOLDERS)
            if problem := await anyio.to_thread.run_sync(self._protect, action):
                return ask(problem)
        return Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        if action.command:
            await anyio.to_thread.run_sync(self._accept, call, action)
            await self._settle()
            self._announced = ""

    async def settle(self) -> None:
        """Look once more if a command may have changed something since, and put it back."""
        if self._is_unsettled():
            await self._settle()

    def _is_unsettled(self) -> bool:
        """A command that was refused after all has changed nothing."""
        begun = bool(self._announced) and self._started(self._announced)
        return self._known is not None and (self._left_running or begun)

    async def _settle(self) -> None:
        # asked first: a command that ends meanwhile may have changed what was looked at
        running = self._running()
        sentences, unfinished = await anyio.to_thread.run_sync(self._put_right)
        # as long as a command runs, it may be about to end what it has begun
        for sentence in sentences if running else (*sentences, *self._left_behind(unfinished)):
            self._tell(sentence)
        self._left_running = running
        if self._mending and not running:
            self._mending.close()

    def _protect(self, action: Action) -> str:
        """Copy what the command could destroy; a sentence if that is not possible."""
        if self._mending is None or self._known is None:
            return ""
        if not self._left_running:
            self._mending.close()  # the last one was denied
        if not self._exposed(action):
            return ""
        return self._mending.save(self._known.repositories, alone=self._runs_git_alone(action))

    def _runs_git_alone(self, action: Action) -> bool:
        judged = action.judgement or Judgement()
        return judged.git is GitUse.ONLY and not self._left_running

    def _mended(self) -> list[str]:
        """Bring back what the last command destroyed; the sentences that tell of it."""
        if self._mending is None or self._action is None:
            return []
        judged = self._action.judgement or Judgement()
        approved = self._approved(self._call)
        if approved and judged.only_moves_files:
            return []
        thorough = judged.keeps_references and not self._left_running
        alone = self._runs_git_alone(self._action)
        return self._mending.mend(thorough=thorough, approved=approved, alone=alone)

    def _accept(self, call: ToolCall, action: Action) -> None:
        """What the user was asked about and has allowed: files by name, or git's own doing."""
        judged = action.judgement
        if judged is None or self._known is None:
            return
        everything = (judged.needs_keys and self._attended()) or (
            self._approved(call.id) and (judged.only_moves_files or self._unconfined())
        )
        written = [each for each in judged.targets if each.deed is Deed.WRITE]
        if not (everything or written):
            return
        now = self._look()
        if everything:
            self._known = now
        for target in written:
            path = os.path.relpath(self._root / target.path, self._root)
            if path in now.obeyed or path in now.repositories:
                self._known = self._known.with_part(now, path)
            else:
                kept = {at: found for at, found in self._known.obeyed.items() if at != path}
                self._known = replace(self._known, obeyed=kept)

    def _look(self) -> GitView:
        return self._eyes.look(self._known.repositories if self._known else ())

    def _put_right(self) -> tuple[list[str], frozenset[str]]:
        """Undo all that was not accepted; the sentences that tell of it, and what git was found
        to have begun and not ended."""
        with self._one_at_a_time:
            mended = self._mended()
            known, now = self._known, self._look()
            assert known
            told = _unseen() if known.whole and not now.whole else []
            known, sentences = self._judge_new(known, now)
            self._known = known = self._with_harmless_worktrees(known, now)
            put_back, left = list[str](), list[str]()
            for path in filter(known.of_known, _differing(known, now)):
                try:
                    if self._undo(path, known.obeyed.get(path)):
                        put_back.append(path)
                except OSError as error:
                    left.append(f"{path}: {error.strerror}")
        sentences = [*mended, *told, *sentences, *self._done(sorted(put_back)), *_not_done(left)]
        return sentences, now.unfinished

    def _left_behind(self, unfinished: frozenset[str]) -> Iterator[str]:
        assert self._known
        known, self._known = self._known, replace(self._known, unfinished=unfinished)
        if new := sorted(filter(known.of_known, unfinished - known.unfinished)):
            yield (
                f"A command left an unfinished git operation ({', '.join(new)}). "
                "Check it before you use git here: git may refuse to work, or "
                "continue it."
            )

    def _judge_new(self, known: GitView, now: GitView) -> tuple[GitView, list[str]]:
        """Let harmless new repositories be, and move the others aside."""
        told: list[str] = []
        new = now.repositories - known.repositories
        if not (known.whole and now.whole):
            new &= {".git"}  # of the others nobody can say whether they are new
        # folders first: the files may lead to them
        for path in sorted(new, key=lambda path: (not is_folder(self._whole(path)), path)):
            if is_harmless(self._whole(path), str(self._root), self._sound(known)):
                known = known.with_part(now, path)
                told.append(f"A command made a repository: {path}. Git runs no programs in it.")
                continue
            if gone := moved_from(known, now, path):
                known = known.with_part(now, path)
                told.append(f"A command moved a repository: {gone} is {path} now.")
                continue
            try:
                kept = set_aside(self._root, path, self._aside)
            except OSError as error:
                told += _not_done([f"{path}: {error.strerror}"])
            else:
                told.append(f"A command made a repository ({path}); it was moved to {kept}.")
        return known, told

    def _with_harmless_worktrees(self, known: GitView, now: GitView) -> GitView:
        before = {found.git for found in known.obeyed.values()}
        for git in {found.git for found in now.obeyed.values()} - before:
            if is_harmless_worktree(self._whole(git), str(self._root), self._sound(known)):
                known = known.with_part(now, git)
        return known

    def _sound(self, known: GitView) -> list[str]:
        return [self._whole(path) for path in known.repositories]

    def _whole(self, path: str) -> str:
        return str(self._root / path)

    def _undo(self, path: str, known: GitEntry | None) -> bool:
        """Whether there was anything to do: with a whole git folder, nothing is lost that git
        could run."""
        *folders, name = path.split("/")
        if known and not self._make_folders(folders, known.git):
            return False
        with opened_folder(self._root, folders) as folder:
            _clear(present(folder), name, self._aside / f"{name}-{secrets.token_hex(4)}")
            if known and len(known.data) >= LARGEST:
                raise OSError(errno.EFBIG, "the original was too large to keep")
            if known:
                _restore(present(folder), name, known)
        return True

    def _make_folders(self, folders: list[str], git: str) -> bool:
        """Make those that are gone inside the git folder; False if that is gone itself."""
        for depth in range(git.count("/") + 1, len(folders) + 1):
            with opened_folder(self._root, folders[:depth]) as folder:
                if folder is None:
                    return False
                if depth < len(folders) and folders[depth] not in os.listdir(folder):
                    os.mkdir(folders[depth], dir_fd=folder)
        return True

    def _done(self, paths: list[str]) -> Iterator[str]:
        if paths:
            yield (
                "A command changed files that git runs or reads "
                f"({', '.join(paths)}); they were restored. The command's versions "
                f"are in {self._aside}."
            )


def _differing(known: GitView, now: GitView) -> Iterator[str]:
    """What has appeared, changed or gone; but with a whole repository nothing is lost that git
    could run. The workspace's own stays in any case."""
    yield from (path for path, found in now.obeyed.items() if known.obeyed.get(path) != found)
    for path in known.obeyed:
        if path not in now.obeyed and (path == ".git" or path not in known.repositories):
            yield path


def _unseen() -> list[str]:
    return ["This workspace now has too many folders to check for new repositories."]


def _not_done(problems: list[str]) -> Iterator[str]:
    if problems:
        yield (
            "A command changed files that git runs or reads, and they could not be "
            f"restored ({'; '.join(problems)}). Check them before you use git here."
        )


def _clear(at: int, name: str, aside: Path) -> None:
    """Make the place free. A folder gets a name that git does not know; all else goes aside,
    but a pipe or a device holds nothing."""
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        os.rename(name, f"{name}.set-aside-{secrets.token_hex(4)}", src_dir_fd=at, dst_dir_fd=at)
    elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        move_aside(at, name, aside)
    else:
        os.unlink(name, dir_fd=at)


def _restore(at: int, name: str, known: GitEntry) -> None:
    if stat.S_ISLNK(known.mode):
        os.symlink(known.data, os.fsencode(name), dir_fd=at)
    elif stat.S_ISREG(known.mode):
        give = partial(os.fchmod, mode=stat.S_IMODE(known.mode))
        write_new(name, [known.data], folder=at, give=give, durable=False)
