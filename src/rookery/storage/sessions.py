"""All stored tasks: create, open, read, list, search, delete.

A task is a folder named by its id. Everything known about tasks is derived from their folders, so a
damaged task does not affect others.

The output of a task's commands is stored in files in its folder. A regular expression for searching
them comes from a model and may run forever, and `re` cannot be interrupted. So each search runs in
its own process.
"""

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rookery.core.facts import Event
from rookery.core.folds.task_record import TaskRecord
from rookery.errors import StorageError, ToolError
from rookery.faults import kp
from rookery.first_use import lazy_pattern
from rookery.platform.disk import PRIVATE_FILE, private_folder, put, reason, sync_folder
from rookery.platform.user_folders import HOME_VARIABLE, Places
from rookery.storage.journal import Journal, TaskLock, is_locked, read_events
from rookery.storage.journal_contents import read_record, unreadable
from rookery.storage.journal_lines import JOURNAL, lost_lines, never_started

if TYPE_CHECKING:
    from rookery.core.stored_tasks import SearchHit, TaskSummary
    from rookery.storage.index import SessionIndex

_TASK_ID = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")
_TOMB = ".deleted-"
HIDDEN = "hidden"
"""A file with this name in a task's folder hides it from lists."""
_HASH = lazy_pattern(rb"[0-9a-f]{40}")
T = TypeVar("T")
OUTPUT_FOLDER = "command-output"
OUTPUT_SEARCH = Path(__file__).with_name("artifact_search.py")
SEARCH_SECONDS = 2.0

_OUTPUT_NAME = lazy_pattern(r"cmd-([0-9]{1,18})\.txt")


class TaskStore:
    """The stored tasks. Several processes may use it at once."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.before_delete: Callable[[str], object] = lambda _: None
        """Called before a task is deleted. Raises `StorageError` if it must stay."""
        self.after_delete: Callable[[Collection[str]], object] = lambda _: None
        """Called with the hashes in a deleted task, for data stored elsewhere."""

    def folder(self, task_id: str) -> Path:
        """The folder of a task, which may not exist. Rejects ids that could be other paths."""
        if not _TASK_ID.fullmatch(task_id):
            raise StorageError(
                f"{task_id!r} is not a session id: use up to 64 letters, digits, '-' and '_'."
            )
        return self._places.tasks / task_id

    def exists(self, task_id: str) -> bool:
        try:
            return not never_started(self.folder(task_id) / JOURNAL)
        except OSError:
            return True  # it cannot be read, but it is there

    def create(self, task_id: str) -> Journal:
        return Journal.create(self.folder(task_id))

    def open(self, task_id: str) -> Journal:
        return Journal.open(self.folder(task_id))

    def read(self, task_id: str) -> Iterator[Event]:
        """The events of a task, even while another process writes it."""
        return read_events(self.folder(task_id))

    def record(self, task_id: str) -> TaskRecord:
        """The same, and what is known from them. Those of a long task are not kept in memory."""
        return read_record(self.folder(task_id))

    def list(self, workspace: str | None = None, *, hidden: bool = True) -> "Sequence[TaskSummary]":
        """Newest first; of one workspace or all; with or without hidden ones and their
        sub-tasks."""
        found = self._ask(lambda index: index.summaries(workspace))
        if hidden:
            return found
        left_out = {each.id for each in found if self.is_hidden(each.id)}
        while more := {each.id for each in found if each.parent in left_out} - left_out:
            left_out |= more
        return [each for each in found if each.id not in left_out]

    def hide(self, task_id: str) -> None:
        """Hide a task from lists. Deletes nothing."""
        try:
            put(self.folder(task_id) / HIDDEN, [b""])
        except OSError as error:
            raise StorageError(
                f"Session {task_id} could not be hidden ({reason(error)}). Make "
                f"{self._places.tasks} writable, then remove it again."
            ) from error

    def is_hidden(self, task_id: str) -> bool:
        return os.path.exists(self.folder(task_id) / HIDDEN)  # False if its folder is closed to us

    def size(self, task_id: str) -> int:
        with suppress(OSError):
            return (self.folder(task_id) / JOURNAL).stat().st_size
        return 0

    def in_use(self, task_id: str) -> bool:
        """Whether a process works on the task."""
        return is_locked(self.folder(task_id))

    def search(self, words: str, workspace: str | None = None) -> "Sequence[SearchHit]":
        """The tasks that contain all of the words, newest first."""
        return self._ask(lambda index: index.search(words, workspace))

    def delete(self, task_id: str) -> None:
        """Delete a task. Once its folder is renamed it is gone for all processes; after a crash
        `sweep` finishes the rest."""
        folder = self.folder(task_id)
        self.before_delete(task_id)
        lock = TaskLock(folder)
        try:
            named = _hashes_in(folder)
            tomb = folder.with_name(f"{_TOMB}{task_id}-{os.urandom(4).hex()}")
            folder.rename(tomb)
            sync_folder(tomb.parent)
            kp("delete.marked")
            self._forget_deleted()
            _remove_deleted(tomb)
        except OSError as error:
            raise StorageError(
                f"Session {task_id} could not be deleted ({reason(error)}). Make "
                f"{folder.parent} writable, then delete it again."
            ) from error
        finally:
            lock.release()
        self.after_delete(named)

    def hashes(self) -> set[str]:
        """Every 40-digit hash in all journals, which includes the checkpoints they need."""
        return {known for entry in self._tasks() for known in _hashes_in(Path(entry.path))}

    def some_run(self) -> bool:
        """Whether a process works on any task."""
        return any(is_locked(Path(entry.path)) for entry in self._tasks())

    def _tasks(self) -> Iterator[os.DirEntry[str]]:
        return (entry for entry in self._entries() if not entry.name.startswith(_TOMB))

    def sweep(self) -> None:
        """Finish deletions that a crash interrupted. Called once at every start."""
        tombs = [Path(entry.path) for entry in self._entries() if entry.name.startswith(_TOMB)]
        try:
            if tombs:
                self._forget_deleted()
            for tomb in tombs:
                _remove_deleted(tomb)
        except OSError as error:
            raise StorageError(
                f"A deleted session could not be removed from {self._places.tasks} "
                f"({reason(error)}). Make that folder writable."
            ) from error

    def _forget_deleted(self) -> None:
        """Remove deleted tasks from the index too."""
        from rookery.storage.index import damaged_copy

        damaged_copy(self._places.index_file).unlink(missing_ok=True)
        if self._places.index_file.exists():
            self._ask(lambda index: index.scrub())

    def _ask(self, question: "Callable[[SessionIndex], T]") -> T:
        from rookery.storage.index import ask_index

        folders = {
            entry.name: Path(entry.path)
            for entry in self._entries()
            if _TASK_ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        }
        return ask_index(self._places.index_file, folders, question)

    def _entries(self) -> "Sequence[os.DirEntry[str]]":
        try:
            with os.scandir(self._places.tasks) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(
                f"The sessions in {self._places.tasks} cannot be listed "
                f"({reason(error)}). Make that folder readable, set {HOME_VARIABLE} "
                "to another one, or run with --ephemeral to store nothing."
            ) from error


def _remove_deleted(tomb: Path) -> None:
    while tomb.exists():
        with suppress(FileNotFoundError):  # another process buries it too
            shutil.rmtree(tomb)
    kp("delete.removed")
    sync_folder(tomb.parent)


def _hashes_in(folder: Path) -> set[str]:
    try:
        return {known.decode() for known in _HASH.findall((folder / JOURNAL).read_bytes())}
    except FileNotFoundError:
        return set()


class Journals:
    """The journals of all tasks, by folder."""

    def __init__(self, folder_of: Callable[[str], Path]) -> None:
        self._folder_of = folder_of

    def events_of(self, task_id: str) -> list[Event] | None:
        folder = self._folder_of(task_id)
        if is_locked(folder):
            return None
        return list(read_events(folder)) if (folder / JOURNAL).exists() else []

    def lost_lines(self, task_id: str) -> int:
        folder = self._folder_of(task_id)
        try:
            return lost_lines(folder, held=is_locked(folder))
        except OSError as error:
            raise unreadable(folder, error) from error


class TaskArtifacts:
    """The artifacts of one task. `folder` is the task's; theirs is created with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / OUTPUT_FOLDER
        self._last = 0

    def create(self) -> "OutputFile":
        """An artifact whose file is created with the first write."""
        self._last = max([self._last, *self._numbers()]) + 1
        return OutputFile(self._folder / f"cmd-{self._last}.txt")

    def read(self, artifact_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        try:
            with self._locate(artifact_id).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if not 0 <= offset <= size:
                    raise ToolError(
                        f"{artifact_id} has only {size} bytes; offset {offset} is outside it."
                    )
                file.seek(offset)
                return file.read(limit), size
        except FileNotFoundError as error:
            raise _missing(artifact_id) from error

    def lines(self, artifact_id: str, pattern: str, limit: int) -> list[tuple[int, str]]:
        """Matching lines with their numbers, up to the first that exceeds `limit` bytes."""
        path = self._locate(artifact_id)
        if not path.exists():
            raise _missing(artifact_id)
        from rookery.platform.own_programs import ProgramTimeout, run_program

        try:
            search = run_program(
                [sys.executable, "-I", "-S", str(OUTPUT_SEARCH), str(path), str(limit)],
                cwd="/",
                environment={},
                given=pattern.encode("utf-8", "replace"),
                seconds=SEARCH_SECONDS,
            )
        except ProgramTimeout as error:
            ended = f"Searching {artifact_id} took more than {SEARCH_SECONDS:g} s and was ended."
            raise ToolError(f"{ended} Use a simpler pattern.") from error
        if search.status:
            raise ToolError(f"{artifact_id} could not be searched.")
        found = (line.partition(":") for line in search.out.decode().split("\n")[:-1])
        return [(int(number), text) for number, _, text in found]

    def _locate(self, artifact_id: str) -> Path:
        if not _OUTPUT_NAME.fullmatch(artifact_id):
            raise ToolError(f"{artifact_id} is not an artifact id; they look like cmd-1.txt.")
        return self._folder / artifact_id

    def _numbers(self) -> list[int]:
        names = os.listdir(self._folder) if self._folder.is_dir() else []
        return [int(match[1]) for name in names if (match := _OUTPUT_NAME.fullmatch(name))]


class OutputFile:
    """One command's output on disk; `size` is the number of bytes written so far."""

    def __init__(self, path: Path) -> None:
        self.id = path.name
        self.size = 0
        self._path = path
        self._fd: int | None = None

    def write(self, data: bytes) -> None:
        try:
            fd = self._open()
            rest = memoryview(data)
            while rest:
                written = os.write(fd, rest)
                self.size += written
                rest = rest[written:]
        except OSError as error:
            raise StorageError(
                f"The output of a command could not be kept in {self._path} ({reason(error)}). "
                "Make room, then run it again."
            ) from error

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        if self._fd is None:
            private_folder(self._path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self._path, flags, PRIVATE_FILE)
        return self._fd


def _missing(artifact_id: str) -> ToolError:
    return ToolError(f"No such artifact: {artifact_id}. The command's result has its id.")
