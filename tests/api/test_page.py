"""The page about the Python API shows code that is valid and names that are public."""

import re
from pathlib import Path

import pytest

from rookery.api import public

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_its_code_is_valid_and_uses_public_names(block: str):
    compile(block, "docs/python.md", "exec")
    assert set(re.findall(r"rookery\.(\w+)", block)) <= set(public.__all__)


def test_it_names_every_error():
    errors = {name for name in public.__all__ if name.endswith(("Error", "Rejected"))}
    assert errors <= set(re.findall(r"`(\w+)`", PAGE))
