"""What tools leave behind when they run, which is nobody's work on the code."""

from pathlib import PurePosixPath

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


def is_by_product(path: str) -> bool:
    """Of a path with forward slashes, by its name alone: nothing is looked up."""
    place = PurePosixPath(path)
    return place.suffix in BY_PRODUCT_ENDINGS or not BY_PRODUCT_FOLDERS.isdisjoint(place.parts)
