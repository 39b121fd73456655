"""Intent files for tests, and the folder layout around them."""

from datetime import UTC, datetime
from pathlib import Path

from rookery.governance.intents.intent import IntentFile
from rookery.governance.intents.intent_file import IntentReader, parse_intents
from rookery.governance.layout import Layout

NOW = datetime(2026, 2, 20, 12, tzinfo=UTC)
NAME = ".orchestration/active_intents.yaml"

SPEC_EXAMPLE = """\
schema_version: 1
policy:
  unknown_targets: ask
  deletes: ask
  protect:
    - "infra/prod/**"
active_intents:
  - id: INT-001
    name: JWT authentication migration
    status: IN_PROGRESS
    revision: 3
    owned_scope:
      - "src/auth/**"
      - "src/middleware/jwt.py"
      - "!src/auth/legacy/**"
    constraints:
      - No external identity providers.
      - Basic authentication keeps working.
    acceptance_criteria:
      - text: Unit tests under tests/auth pass.
        verify: { command: "pytest -q tests/auth", timeout_s: 300 }
      - When a token is expired, the API shall answer 401.
    permissions:
      allow: ["execute_command(pytest *)", "execute_command(ruff *)"]
      deny:  ["execute_command(git push *)"]
    budget: { max_files: 40, max_changed_lines: 3000, expires_at: "2026-03-31T00:00:00Z" }
    related:
      - { type: requirement, url: "urn:speckit:003-auth:FR-004" }
      - { type: issue, url: "https://tracker.example/AUTH-17" }
    depends_on: [INT-003]
  - id: INT-003
    name: Connection pooling
    status: COMPLETED
    owned_scope: [src/database/**]
"""


def read(text: str | bytes) -> IntentFile:
    data = text.encode() if isinstance(text, str) else text
    return parse_intents(data, NAME, now=NOW).file


def laid_out(root: Path, text: str | bytes = SPEC_EXAMPLE) -> Layout:
    layout = Layout(root.resolve(), root.resolve())
    layout.folder.mkdir(parents=True, exist_ok=True)
    layout.intent_file.write_bytes(text.encode() if isinstance(text, str) else text)
    return layout


def reader(layout: Layout) -> IntentReader:
    return IntentReader(layout, now=lambda: NOW)
