"""Wait until another process has read a file, using inotify."""

import ctypes
import os
import select
from pathlib import Path
from types import TracebackType
from typing import Self

IN_CLOSE_NOWRITE = 0x10
PATIENCE = 60.0


class FileWatch:
    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> Self:
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(os.O_CLOEXEC)
        added = libc.inotify_add_watch(self._events, os.fsencode(self._file), IN_CLOSE_NOWRITE)
        assert added >= 0, os.strerror(ctypes.get_errno())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._events)

    def wait_until_read(self) -> None:
        """Wait until another process has opened the file and closed it without writing."""
        ready, _, _ = select.select([self._events], [], [], PATIENCE)
        assert ready, f"No process reads {self._file}."
