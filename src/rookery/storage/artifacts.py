"""The outputs of a task's commands, one file each in the task's folder.

The regular expression of a search comes from a model and may take for ever on the wrong
line, and nothing can stop `re` once it runs. A search is therefore a process of its own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from rookery.errors import StorageError, ToolError
from rookery.platform.disk import PRIVATE_FILE, private_folder, reason

FOLDER = "command-output"
SEARCH = Path(__file__).with_name("artifact_search.py")
SEARCH_SECONDS = 2.0

_NAME = re.compile(r"cmd-([0-9]{1,18})\.txt")


class TaskArtifacts:
    """The artifacts of one task. `folder` is the task's own; theirs is made when one is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._last = 0

    def create(self) -> "OutputFile":
        """An artifact that has no file until something is written to it."""
        self._last = max([self._last, *self._numbers()]) + 1
        return OutputFile(self._folder / f"cmd-{self._last}.txt")

    def read(self, artifact_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        try:
            with self._locate(artifact_id).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if not 0 <= offset <= size:
                    raise ToolError(f"{artifact_id} has {size} bytes, so none at {offset}.")
                file.seek(offset)
                return file.read(limit), size
        except FileNotFoundError as error:
            raise _missing(artifact_id) from error

    def lines(self, artifact_id: str, pattern: str, limit: int) -> list[tuple[int, str]]:
        """Numbered lines that match, up to the first that goes beyond `limit` bytes."""
        path = self._locate(artifact_id)
        if not path.exists():
            raise _missing(artifact_id)
        try:
            search = subprocess.run(
                [sys.executable, "-I", "-S", str(SEARCH), str(path), str(limit)],
                input=pattern.encode("utf-8", "replace"),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=SEARCH_SECONDS,
                check=True,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(
                f"Searching {artifact_id} took more than {SEARCH_SECONDS:g} s and was ended. "
                "Use a simpler pattern."
            ) from error
        found = (line.partition(":") for line in search.stdout.decode().split("\n")[:-1])
        return [(int(number), text) for number, _, text in found]

    def _locate(self, artifact_id: str) -> Path:
        if not _NAME.fullmatch(artifact_id):
            raise ToolError(f"{artifact_id} is no artifact id; they look like cmd-1.txt.")
        return self._folder / artifact_id

    def _numbers(self) -> list[int]:
        names = os.listdir(self._folder) if self._folder.is_dir() else []
        return [int(match[1]) for name in names if (match := _NAME.fullmatch(name))]


class OutputFile:
    """One command's output on disk; `size` is what has been written so far."""

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
    return ToolError(f"There is no artifact {artifact_id}; the command's result names its id.")
