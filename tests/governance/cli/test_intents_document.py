"""The files shown in docs/intents.md are read as described."""

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from rookery.governance.intents.intent import Policy
from rookery.governance.intents.intent_parts import _CHOICES, _COMMAND_CHOICES
from support.governed_folder import IntentsBench

PAGE = (Path(__file__).parents[3] / "docs" / "intents.md").read_text(encoding="utf-8")
SAMPLE, COMMANDS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
EXEMPTIONS = re.search(r"### Exemptions.*?```\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def documented(intents: IntentsBench) -> IntentsBench:
    intents.govern(SAMPLE)
    intents.write(".orchestration/command_policy.yaml", COMMANDS)
    assert EXEMPTIONS
    intents.write(".orchestration/.intentignore", EXEMPTIONS[1])
    return intents


PATHS = {
    "src/auth/jwt.py": "in_scope",
    "src/auth/legacy/x.py": "out_of_scope",
    "src/api/login.py": "in_scope",
    "docs/api/a.md": "ignored",
    "docs/api/index.md": "out_of_scope",
    "migrations/1.sql": "protected",
}
LINES = {
    "pytest -q tests/auth": "execute_command(pytest *)",
    "make lint": "the project's rules for commands: it only touches what it formats",
    "git push origin": None,
    "terraform apply": None,
}


def test_the_files_in_the_document_are_what_it_says(documented: IntentsBench) -> None:
    reported = documented.json("validate")
    assert reported["errors"] == 0
    assert {each["code"] for each in reported["problems"]} <= {"W305"}
    assert [each["holds"] for each in reported["files"]][1:3] == ["3 entries", "2 rules"]
    words = ("check", "--intent", "INT-001")
    targets = documented.json(*words, *PATHS, code=1)["targets"]
    assert {each["path"]: each["verdict"] for each in targets} == PATHS
    for line, allowed_by in LINES.items():
        judged = documented.json(*words, "--command", line, code=0 if allowed_by else 1)
        assert judged["allowed_by"] == allowed_by, line


def test_the_document_has_every_key_of_the_policy_with_its_values() -> None:
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| (`[^|]*`) \|", PAGE, re.MULTILINE))
    spelled = {**_CHOICES, **{f"commands.{key}": each for key, each in _COMMAND_CHOICES.items()}}
    reported = {key: tuple(re.findall(r"`([^`]+)`", rows[key])) for key in spelled}
    assert reported == spelled
    assert rows["protect"] == "`[]`"
    assert rows["max_in_progress"] == f"`{Policy().max_in_progress}`"
    assert len(spelled) + 2 == len(fields(Policy))
