"""A folder with intents, and the command that manages them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rookery.cli import main
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_reader import Query, oldest
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import LedgerEntry, TracedFile, Writer
from rookery.governance.ledger.recovery import hash_of_file
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verification import audit
from rookery.permissions.trust import TrustStore

FILE = """\
# why we do things
schema_version: 1
active_intents:
  - id: INT-001
    name: JWT authentication migration   # the big one
    status: IN_PROGRESS
    revision: 3
    owned_scope:
      - "src/auth/**"
      - "!src/auth/legacy/**"
    constraints:
      - No external identity providers.
    acceptance_criteria:
      - text: The sources are there.
        verify: { command: "test -d src/auth", timeout_s: 30 }
      - When a token is expired, the API shall answer 401.
    permissions:
      allow: ["execute_command(pytest *)"]
      deny: ["execute_command(git push *)"]
    tags: [security]
    depends_on: [INT-003]
  - id: INT-002
    name: User profile API
    status: PENDING
    owned_scope: ["src/api/user/**", "src/api/user.py"]
    acceptance_criteria:
      - { text: It fails., verify: { command: "seq 30; echo broken; exit 3" } }
  - id: INT-003
    name: Connection pooling
    status: COMPLETED
    revision: 2
    owned_scope: ["src/database/**"]
"""


class IntentsBench:
    def __init__(self, root: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.home = home
        self.folder = root / ".orchestration"
        self.file = self.folder / "active_intents.yaml"
        self._capsys = capsys
        self.err = ""

    def govern(self, text: str = FILE) -> None:
        self("init")
        self.file.write_text(text, encoding="utf-8")
        self.write("src/auth/jwt.py", "def check():\n    return 1\n")

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run the command, check its exit code, and return its output."""
        ended = main.run(["intents", *arguments])
        printed = self._capsys.readouterr()
        self.err = printed.err
        assert ended == code, (ended, printed)
        assert "broke down" not in printed.err
        return printed.out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def write(self, name: str, text: str = "x\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def trust(self) -> None:
        TrustStore(self.home / "config" / "trust.json").trust(self.root)

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def records(self, kind: str) -> list[TracedRecord]:
        assert audit(self.folder).whole
        return list(oldest(self.folder, Query(kind=kind)))

    def changed(self, *paths: str, intent: str = "INT-001", **more: Any) -> None:
        """Record that a task changed files to their current state."""
        recording = Recording(
            self.folder, writer=Writer(name="rookery", version="1"), flush=Flush.NEVER
        )
        reported = {"intent_rev": 3, "outcome": "success", "scope": "in_scope", **more}
        files = tuple(
            TracedFile(path=each, op="modify", after=hash_of_file(self.root / each), lines_added=2)
            for each in paths
        )
        entry = LedgerEntry(
            **{
                "kind": "mutation",
                "task_id": "t-1",
                "intent_id": intent,
                "files": files,
                **reported,
            }
        )
        recording.note(entry)
        recording.close()

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def commit(self, message: str, *names: str) -> str:
        for name in names:
            self.write(name, f"{message}\n")
        self.git("add", "-A", *names)
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD").strip()
