"""The record in the document is a record."""

import json
import re
from pathlib import Path

from rookery import NAME, VERSION
from rookery.cli.reports import Exit
from rookery.governance.cli.common import TraceExit
from rookery.governance.cli.trace import KINDS
from rookery.governance.ledger.verify_ledger import leaf_hash
from support.agent_trace_format import shape_problems

PAGE = Path(__file__).parents[3] / "docs" / "ledger.md"
CODES = PAGE.with_name("exit-codes.md")


def test_the_record_in_the_document_has_the_hash_it_names():
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    record = json.loads(text)
    assert shape_problems(record) == ()
    assert leaf_hash(record) == record["metadata"]["orchestration"]["hash"]
    assert record["tool"] == {"name": NAME, "version": VERSION}


def test_every_kind_and_exit_code_is_in_the_document():
    said = PAGE.read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in said] == []
    table = CODES.read_text(encoding="utf-8").split("## `intents` and `trace`")[1].split("\n## ")[0]
    named = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert named == {*map(int, TraceExit), Exit.USAGE, Exit.STORAGE}
