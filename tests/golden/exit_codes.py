"""Commands in a governed repository with recorded sessions, and the number each ends with.

How runs of a task end is in `tests/e2e/test_exit_codes.py` and in the transcripts; these are the
commands beside them. They run in this process.
"""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from golden.frozen import thaw
from rookery.cli.main import run

WORLD = Path(__file__).parent / "ledgers" / "branches.json"
COMMANDS = """\
--version
--help
--nonsense
nonsense-command --nonsense
-p --output-format xml go
-p --timeout -1 go
-p --provider nonsense go
-p --provider openai go
-p --mode nonsense --provider scripted -m script.yaml go
-p --provider scripted -m missing.yaml go
-p --session-id ffffffff go
-p --create-with-session-id nonsense go
-p --intent INT-404 --provider scripted -m script.yaml go
-p --workspace missing go
-c --session-id ffffffff go
list
list --format json
list sessions
list nonsense
show
show --json
show --json --tree
show ffffffff
export
export --format json
export --format nonsense
export ffffffff
search JWT
search
rewind
rewind ffffffff
rewind --to 9999 -y
fork ffffffff
delete ffffffff
ps
ps --stop ffffffff
mcp list
mcp test missing
mcp remove missing
hooks list
hooks nonsense
completion bash
completion nonsense
attach
intents
intents list
intents list --json
intents show INT-001
intents show INT-404
intents check
intents start INT-404
intents close INT-404
intents nonsense
trace log
trace log --since nonsense
trace log -w ..
trace show ffffffff
trace blame src/auth/jwt.py
trace blame missing.py
trace blame src/auth/jwt.py:999
trace stats
trace verify
trace verify --strict
trace verify --expect sha256:00
trace verify -w ..
trace export --format nonsense
trace prune
trace nonsense
sessions show ffffffff
sessions nonsense
"""


def exit_codes(folder: Path) -> dict[str, int]:
    rookery = thaw(WORLD, folder)
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name.startswith("ROOKERY_") or name.endswith("_API_KEY"):
                patch.delenv(name)
        for name, text in rookery.environ.items():
            patch.setenv(name, text)
        patch.chdir(rookery.workspace)
        patch.setattr(sys, "stdin", io.StringIO())
        return {line: _ended(line) for line in COMMANDS.splitlines()}


def _ended(line: str) -> int:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return int(run(line.split()))
