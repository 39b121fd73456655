"""A governed git repository whose changes are recorded like those of governed calls."""

import os
import subprocess
from pathlib import Path
from typing import Any

from rookery.governance.cli.trace import command
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import LedgerEntry, TracedFile, Writer, line_change
from rookery.governance.ledger.recovery import hash_of_file
from rookery.governance.ledger.state_files import KnownHeads, known_heads
from rookery.platform.user_folders import find_places
from support.intent_files import SPEC_EXAMPLE, laid_out

WRITER = Writer(name="rookery", version="1.0.0")
TASK = "t-8f21"
ADA = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def trace(*arguments: str) -> int:
    return int(
        command.main(list(arguments), standalone_mode=False, help_option_names=["-h", "--help"])
    )


class TracedWorkspace:
    def __init__(self, root: Path, *, intents: str = SPEC_EXAMPLE) -> None:
        self.root = root.resolve()
        self.layout = laid_out(self.root, intents)
        self.folder = self.layout.folder
        self.active = self.layout.ledger
        (self.folder / ".gitignore").write_text(".state/\nagent_trace.jsonl\ntrace/\n")
        self.calls = 0
        self._recording: Recording | None = None

    @property
    def heads(self) -> KnownHeads:
        return known_heads(self.layout, find_places(os.environ).governance)

    @property
    def recording(self) -> Recording:
        if self._recording is None:
            self._recording = Recording(
                self.folder, writer=WRITER, heads=self.heads, flush=Flush.NEVER
            )
        return self._recording

    @property
    def lines(self) -> list[bytes]:
        return self.active.read_bytes().splitlines(keepends=True)

    def person_writes(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def agent_writes(self, path: str, text: str, **more: Any) -> str:
        """Change a file as a governed call does, and return the record's id."""
        target = self.root / path
        self.calls += 1
        before = hash_of_file(target)
        old = target.read_text(encoding="utf-8") if target.exists() else ""
        self.person_writes(path, text)
        change = line_change(old, text)
        file = TracedFile(
            path=path,
            op="modify" if old else "create",
            before=before,
            after=hash_of_file(target),
            ranges=change.written,
            deleted_ranges=change.removed,
            lines_added=change.added,
            lines_deleted=change.deleted,
            word_marks=change.words,
        )
        reported: dict[str, Any] = {
            "kind": "mutation",
            "task_id": TASK,
            "turn": 12,
            "intent_id": "INT-001",
            "intent_rev": 3,
            "tool_name": "apply_diff",
            "tool_use_id": f"toolu_{self.calls}",
            "outcome": "success",
            "scope": "in_scope",
            "model_id": "example/model-1",
            "files": (file,),
        }
        return self.recording.note(LedgerEntry(**{**reported, **more})).id

    def note(self, **reported: Any) -> str:
        return self.recording.note(
            LedgerEntry(**{"task_id": TASK, "intent_id": "INT-001", **reported})
        ).id

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.root,
            env={**os.environ, **ADA},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, message: str = "change") -> str:
        if not (self.root / ".git").exists():
            self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")
