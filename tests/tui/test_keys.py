"""The table of keys."""

import re
from pathlib import Path

import rookery.tui
from rookery.tui import keys


def test_all_keys_are_in_one_table():
    folder = Path(rookery.tui.__file__).parent
    elsewhere = [
        path.name
        for path in folder.rglob("*.py")
        if path.name != "keys.py" and re.search(r'Binding\(\s*"', path.read_text())
    ]
    assert elsewhere == []
    assert keys.APP_KEYS
