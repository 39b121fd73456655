"""Keeps commands from planting programs where git would run them.

Checkpoints leave git's own folders alone, and a sandbox can only shield what is there already.
So what has appeared or changed in those parts of them is moved aside after the command.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio.to_thread

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling
from rookery.core.shell.judgement import Deed
from rookery.engine.ports import Action, Outcome
from rookery.workspace.git_folders import git_folders, git_programs
from rookery.workspace.text_files import sha

LARGEST = 1024 * 1024
"""Bytes of a file that are looked at: what git runs or obeys is small."""


class GitWatch:
    """A hook. `aside` is where things are moved, `tell` hears a sentence about it. `attended`
    if a person allows commands one by one."""

    def __init__(
        self, root: Path, aside: Path, tell: Callable[[str], None], *, attended: bool
    ) -> None:
        self._root = root
        self._attended = attended
        self._aside = aside
        self._tell = tell
        self._before: dict[str, dict[str, bytes]] = {}

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if action.command and not self._may(action):
            self._before[call.id] = await anyio.to_thread.run_sync(self._look)
        return Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        if (before := self._before.pop(call.id, None)) is None:
            return
        now = await anyio.to_thread.run_sync(self._look)
        changed = [path for path, data in now.items() if before.get(path) != data]
        changed += [path for path in before if path not in now]
        changed = [path for path in changed if path not in self._meant(action)]
        if changed:
            await anyio.to_thread.run_sync(self._put_back, changed, before)
            paths = ", ".join(self._named(path) for path in sorted(changed))
            self._tell(
                f"A command changed what git runs or obeys ({paths}); it was put back, and what "
                f"it wrote is in {self._aside}."
            )

    def _meant(self, action: Action) -> set[str]:
        """What the user was asked about and has allowed."""
        targets = action.judgement.targets if action.judgement else ()
        return {str(self._root / target.path) for target in targets if target.deed is Deed.WRITE}

    def _named(self, path: str) -> str:
        return os.path.relpath(path, self._root)

    def _may(self, action: Action) -> bool:
        """It changes nothing, or is git's own doing that a person has read and allowed."""
        judged = action.judgement
        return judged is not None and (judged.only_reads or (judged.needs_keys and self._attended))

    def _look(self) -> dict[str, bytes]:
        """All that git would run or obey, by where it is."""
        git = str(self._root / ".git")
        parts = [part for folder in git_folders([git]) for part in git_programs(folder)]
        return {str(file): _content(file) for part in parts for file in _files(Path(part))}

    def _put_back(self, changed: list[str], before: dict[str, bytes]) -> None:
        self._aside.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in changed:
            file = Path(path)
            if os.path.lexists(file):
                data = _content(file)
                (self._aside / f"{file.name}-{sha(data)[:12]}").write_bytes(data)
                file.unlink()
            if path in before:
                file.write_bytes(before[path])


def _files(part: Path) -> Iterator[Path]:
    if part.is_dir() and not part.is_symlink():
        yield from (entry for entry in sorted(part.iterdir()) if not entry.is_dir())
    elif os.path.lexists(part):
        yield part


def _content(file: Path) -> bytes:
    """What a file holds, or where a link leads."""
    if file.is_symlink():
        return b"-> " + os.fsencode(os.readlink(file))
    with file.open("rb") as stream:
        return stream.read(LARGEST)
