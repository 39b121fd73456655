"""Prints a digest of everything the page is built from.

`build.sh` stores it beside the built page, so a clone can check without Node that the two match.
Timestamps do not work: a fresh clone has arbitrary ones.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

WEB = Path(__file__).resolve().parent
SCHEMA = WEB.parent / "docs" / "schemas" / "manager.schema.json"
PAGE_DIGEST = WEB.parent / "src" / "rookery" / "manager" / "web" / "page" / "sources.sha256"
BUILT_WITH = (
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "scripts/make-types.mjs",
)


def sources() -> Iterator[Path]:
    yield SCHEMA
    yield from (WEB / name for name in BUILT_WITH)
    for path in sorted((WEB / "src").rglob("*")):
        is_for_tests = ".test." in path.name or path.parent.name == "test-support"
        if path.is_file() and not is_for_tests:
            yield path


def digest() -> str:
    found = hashlib.sha256()
    for path in sources():
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{content}  {path.relative_to(WEB.parent).as_posix()}\n".encode())
    return found.hexdigest()


if __name__ == "__main__":
    print(digest())
