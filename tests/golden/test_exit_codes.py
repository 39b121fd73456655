"""Commands end with the numbers that they ended with before the code was moved."""

import json
from pathlib import Path

from golden.exit_codes import exit_codes


def test_every_command_ends_with_its_recorded_exit_code(tmp_path: Path):
    kept = Path(__file__).with_name("exit_codes.json")
    assert exit_codes(tmp_path) == json.loads(kept.read_text(encoding="utf-8"))
