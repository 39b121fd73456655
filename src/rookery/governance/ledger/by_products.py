"""What tools leave behind when they run, which is nobody's work on the code."""

from functools import lru_cache
from posixpath import splitext

BY_PRODUCT_FOLDERS = frozenset(
    {
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".benchmarks",
        "node_modules",
    }
)
BY_PRODUCT_ENDINGS = frozenset({".pyc"})


@lru_cache(maxsize=10_000)
def is_by_product(path: str) -> bool:
    """Of a path with forward slashes, by its name alone: nothing is looked up."""
    ending = splitext(path)[1]
    return ending in BY_PRODUCT_ENDINGS or not BY_PRODUCT_FOLDERS.isdisjoint(path.split("/"))
