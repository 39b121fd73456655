"""Keeps commands from planting programs where git would run them.

Checkpoints leave git's own folders alone, and a sandbox can only shield what is there already.
So what has appeared or changed in those parts of them is moved aside after the command, and once
more when a command ends that ran on in the background.
"""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

import anyio.to_thread

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling
from rookery.core.shell.judgement import Deed
from rookery.core.values import value
from rookery.engine.ports import Action, Outcome
from rookery.workspace.descriptors import opened_folder, present
from rookery.workspace.git_folders import (
    entries,
    git_folders,
    git_programs,
    is_folder,
    links_inside,
)
from rookery.workspace.text_files import sha

LARGEST = 1024 * 1024
"""Bytes of a file that are looked at: what git runs or obeys is small."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@value
class Found:
    """What stands in a place: its kind and permissions, and what it holds or where it leads.
    `git` is the git folder it belongs to."""

    git: str
    mode: int
    data: bytes = b""


Picture = dict[str, Found]
"""All that git would run or obey, by its path in the workspace."""


class GitWatch:
    """A hook. `aside` is where things are moved, `tell` hears a sentence about it. `attended`
    if a person allows commands one by one; `running` if a command runs in the background."""

    def __init__(
        self,
        root: Path,
        aside: Path,
        tell: Callable[[str], None],
        *,
        attended: bool,
        running: Callable[[], bool] = lambda: False,
    ) -> None:
        self._root = root
        self._attended = attended
        self._aside = aside
        self._tell = tell
        self._running = running
        self._known: Picture | None = None
        self._unsettled = False
        self._one_at_a_time = Lock()

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        """What has changed while no command was under way is the user's doing."""
        if action.command:
            if self._unsettled:
                await self.settle()
            else:
                self._known = await anyio.to_thread.run_sync(self._look)
            self._unsettled = True
        return Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        if action.command:
            await anyio.to_thread.run_sync(self._accept, action)
            await self.settle()

    async def settle(self) -> None:
        """Look once more, and put back what has changed since the last accepted picture."""
        if self._known is None:
            return
        # asked first: a command that ends meanwhile may have changed what was looked at
        running = self._running()
        for sentence in await anyio.to_thread.run_sync(self._put_right):
            self._tell(sentence)
        self._unsettled = running

    def _accept(self, action: Action) -> None:
        """What the user was asked about and has allowed: files by name, or git's own doing."""
        now = self._look()
        judged = action.judgement
        if judged is None or self._known is None:
            return
        if judged.needs_keys and self._attended:
            self._known = now
        for target in judged.targets:
            path = os.path.relpath(self._root / target.path, self._root)
            if target.deed is Deed.WRITE and path in now:
                self._known = self._known | {path: now[path]}
            elif target.deed is Deed.WRITE:
                self._known = {at: found for at, found in self._known.items() if at != path}

    def _look(self) -> Picture:
        picture: Picture = {}
        for git in git_folders([str(self._root / ".git")]):
            for path in _obeyed(git):
                name = os.path.relpath(path, self._root)
                if found := self._found(name, os.path.relpath(git, self._root)):
                    picture[name] = found
        return picture

    def _found(self, path: str, git: str) -> Found | None:
        *folders, name = path.split("/")
        try:
            with opened_folder(self._root, folders) as folder:
                at = present(folder)
                mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
                return Found(git=git, mode=mode, data=_content(at, name, mode))
        except OSError:
            return None  # it has gone, or a link has come in its way, which is found itself

    def _put_right(self) -> list[str]:
        """Undo all that was not accepted; the sentences that tell of it."""
        with self._one_at_a_time:
            known, now = self._known or {}, self._look()
            new = [path for path, found in now.items() if known.get(path) != found]
            put_back, left = list[str](), list[str]()
            for path in (*new, *(path for path in known if path not in now)):
                try:
                    if self._undo(path, now.get(path), known.get(path)):
                        put_back.append(path)
                except OSError as error:
                    left.append(f"{path}: {error.strerror}")
        return [*self._done(sorted(put_back)), *_not_done(left)]

    def _undo(self, path: str, now: Found | None, known: Found | None) -> bool:
        """Whether there was anything to do: with a whole git folder, nothing is lost that git
        could run."""
        if now:
            self._aside.mkdir(parents=True, exist_ok=True, mode=0o700)
            kept = self._aside / f"{os.path.basename(path)}-{sha(now.data)[:12]}"
            kept.write_bytes(now.data)
        *folders, name = path.split("/")
        if known and not self._make_folders(folders, known.git):
            return False
        with opened_folder(self._root, folders) as folder:
            _clear(present(folder), name)
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
                f"A command changed what git runs or obeys ({', '.join(paths)}); it was put back, "
                f"and what it wrote is in {self._aside}."
            )


def _not_done(problems: list[str]) -> Iterator[str]:
    if problems:
        yield (
            f"A command changed what git runs or obeys, and it could not be put back "
            f"({'; '.join(problems)}). Look at it before you use git here."
        )


def _obeyed(git: str) -> Iterator[str]:
    """The paths in a git folder that matter, and links that stand on the way to them."""
    if not is_folder(git):
        yield git
        return
    yield from links_inside(git)
    for part in git_programs(git):
        on_the_way = os.path.dirname(part)
        if on_the_way != git and not is_folder(on_the_way):
            yield on_the_way
        elif is_folder(part):
            yield from (entry for entry in entries(part) if not is_folder(entry))
        else:
            yield part


def _content(at: int, name: str, mode: int) -> bytes:
    """What a file holds, or where a link leads; nothing else is opened."""
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(name, dir_fd=at))
    if not stat.S_ISREG(mode):
        return b""
    try:
        with open(os.open(name, _FILE, dir_fd=at), "rb") as file:
            return file.read(LARGEST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except PermissionError:
        return b""


def _clear(at: int, name: str) -> None:
    """Make the place free. A folder gets a name that git does not know."""
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        os.rename(name, f"{name}.set-aside-{secrets.token_hex(4)}", src_dir_fd=at, dst_dir_fd=at)
    else:
        os.unlink(name, dir_fd=at)


def _restore(at: int, name: str, known: Found) -> None:
    if stat.S_ISLNK(known.mode):
        os.symlink(known.data, os.fsencode(name), dir_fd=at)
    elif stat.S_ISREG(known.mode):
        with open(os.open(name, _NEW_FILE, 0o600, dir_fd=at), "wb") as file:
            file.write(known.data)
            os.fchmod(file.fileno(), stat.S_IMODE(known.mode))
