"""The record in the document is a record."""

import json
import re
from pathlib import Path

from rookery.core.ledger.canonical import leaf_hash
from rookery.core.ledger.shape import shape_problems

PAGE = Path(__file__).parents[3] / "docs" / "ledger.md"


def test_15_5_the_record_in_the_document_has_the_hash_it_names():
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    record = json.loads(text)
    assert shape_problems(record) == ()
    assert leaf_hash(record) == record["metadata"]["orchestration"]["hash"]
