"""What tools leave behind is told apart from work by its name."""

import pytest

from rookery.governance.ledger.statistics import is_by_product


@pytest.mark.parametrize(
    "path",
    [
        "__pycache__/app.cpython-311.pyc",
        "src/app/__pycache__/x",
        "src/old.pyc",
        ".pytest_cache/v/cache/lastfailed",
        ".mypy_cache",
        "web/.ruff_cache/0.4/1",
        ".benchmarks/a.json",
        "node_modules/left-pad/index.js",
    ],
)
def test_what_tools_leave_behind_is_a_by_product(path: str) -> None:
    assert is_by_product(path)


@pytest.mark.parametrize(
    "path", ["", ".", "src/app.py", "src/pycache.py", "docs/node_modules.md", "src/a.pyc.txt"]
)
def test_everything_else_is_work(path: str) -> None:
    assert not is_by_product(path)
