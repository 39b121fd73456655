"""The file that `transcript_path` names, brought up to date before each hook runs."""

import os
from collections.abc import Sequence
from pathlib import Path

from rookery.core.facts import Event
from rookery.governance.external_hooks.hook_transcript import transcript_lines

TRANSCRIPT = "transcript.jsonl"


class TranscriptFile:
    """`folder` is the task's own, which only its user can read."""

    def __init__(self, folder: Path, task_id: str, cwd: str) -> None:
        self._path = folder / TRANSCRIPT
        self._task_id = task_id
        self._cwd = cwd
        self._written = 0

    def brought_up_to_date(self, events: Sequence[Event]) -> str:
        """Its path; empty if it cannot be written, so that no hook reads half of it."""
        new = events[self._written :]
        text = "".join(f"{line}\n" for line in transcript_lines(new, self._task_id, self._cwd))
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_APPEND if self._written else os.O_TRUNC
        try:
            with open(os.open(self._path, flags, 0o600), "wb") as file:
                file.write(text.encode("ascii"))
        except OSError:
            self._written = 0
            return ""
        self._written = len(events)
        return str(self._path)
