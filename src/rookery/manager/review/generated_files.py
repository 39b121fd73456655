"""Files that a program has made, which nobody wants to read line by line."""

import os
from collections.abc import Collection
from pathlib import PurePosixPath

from rookery.manager.review.checkouts import Checkout
from rookery.manager.worktrees.worktree_git import own_index

LOCK_FILES = frozenset(
    {
        *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb"),
        *("bun.lock", "composer.lock", "Gemfile.lock", "Cargo.lock", "poetry.lock", "uv.lock"),
        *("pdm.lock", "Pipfile.lock", "go.sum", "flake.lock", "mix.lock", "pubspec.lock"),
        *("Podfile.lock", "packages.lock.json", "gradle.lockfile", "deno.lock"),
    }
)
_ENDINGS = (".min.js", ".min.css", ".min.mjs", ".js.map", ".css.map", ".snap", "_pb2.py", ".pb.go")
_ATTRIBUTE = "linguist-generated"
_SAYS_NO = (b"unspecified", b"unset", b"false")


def generated(checkout: Checkout, paths: Collection[str]) -> set[str]:
    """Which of them are: by their names, or because the base says so. What the files here say
    does not count: whoever changed them could hide other changes with that."""
    named = {path for path in paths if _looks_generated(path)}
    return named | _declared(checkout, [path for path in paths if path not in named])


def _looks_generated(path: str) -> bool:
    name = PurePosixPath(path).name
    return name in LOCK_FILES or name.endswith(_ENDINGS)


def _declared(checkout: Checkout, paths: Collection[str]) -> set[str]:
    if not paths or not checkout.base:
        return set()
    git = checkout.git
    given = b"".join(os.fsencode(path) + b"\0" for path in paths)
    with own_index(git) as index:
        git.run("read-tree", checkout.base, variables=index)
        words = ("check-attr", "--cached", "-z", "--stdin", _ATTRIBUTE)
        said = git.run(*words, given=given, variables=index).out.split(b"\0")
    rows = zip(said[::3], said[2::3], strict=False)
    return {os.fsdecode(path) for path, held in rows if held not in _SAYS_NO}
