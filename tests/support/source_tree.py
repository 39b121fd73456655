"""The sources as syntax trees: their sizes, classes and imports, and what one run loads."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "rookery"
READS_AND_EDITS = """\
- calls: [{tool: read_file, arguments: {path: a.txt}}]
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: "two\\n"}}]
- calls: [{tool: attempt_completion, arguments: {result: Done.}}]
"""


@cache
def texts() -> dict[str, str]:
    paths = SOURCE.rglob("*.py")
    return {each.relative_to(SOURCE).as_posix(): each.read_text("utf-8") for each in paths}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in texts().items()}


def class_names() -> Counter[str]:
    nodes = [node for tree in trees().values() for node in tree.body]
    return Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))


@cache
def imports() -> frozenset[tuple[str, str]]:
    """Each module of ours, without `rookery`, and the full name of a module that it imports."""
    return frozenset(
        (file.removesuffix(".py").removesuffix("/__init__").replace("/", "."), name)
        for file, tree in trees().items()
        for name in _imported_in(tree)
    )


def _imported_in(tree: ast.Module) -> Iterator[str]:
    for node in _statements(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                full = (f"{module}.{each.name}" for each in names)
                yield from (each if _is_module(each) else module for each in full)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below it. No expression holds an import, and most nodes are in expressions."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, block, ()):
            yield each
            yield from _statements(each)


@cache
def _is_module(name: str) -> bool:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def modules_of_a_run(folder: Path) -> set[str]:
    """Which modules of ours `rookery -p` loads to read a file and to edit it."""
    script, file = folder / "script.yaml", folder / "work" / "a.txt"
    script.write_text(READS_AND_EDITS, encoding="utf-8")
    file.parent.mkdir()
    file.write_text("one\n", encoding="utf-8")
    run = [sys.executable, "-v", "-m", "rookery", "-p", "-y", "go"]
    home = {"ROOKERY_HOME": str(folder), "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [*run, "--provider", "scripted", "-m", str(script)],
        cwd=file.parent,
        env={"PATH": os.environ["PATH"], **home},
        capture_output=True,
        text=True,
        check=True,
    )
    assert file.read_text(encoding="utf-8") == "two\n"
    # not with -X importtime, which leaves out what import_module loads
    return set(re.findall(r"^import '(rookery[\w.]*)'", done.stderr, re.MULTILINE))
