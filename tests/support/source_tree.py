"""Our sources as text and trees, what each module imports, and what a run of them loads."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "rookery"
TEXTS = {
    each.relative_to(SOURCE).as_posix(): each.read_text("utf-8") for each in SOURCE.rglob("*.py")
}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}
READS_AND_EDITS = """\
- calls: [{tool: read_file, arguments: {path: a.txt}}]
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: "two\\n"}}]
- calls: [{tool: attempt_completion, arguments: {result: Done.}}]
"""


def imports() -> Iterator[tuple[str, str]]:
    """Each module of ours, without `rookery`, and the full name of a module that it imports."""
    for file, tree in TREES.items():
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        yield from ((module, name) for name in _imported_in(tree))


def _imported_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                full = (f"{module}.{each.name}" for each in names)
                yield from (each if _is_module(each) else module for each in full)


def _is_module(name: str) -> bool:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def measures(folder: Path, *, alone: str) -> dict[str, int]:
    """How large the sources are. A file that stands `alone` may be longer than others."""
    sizes = {name: text.count("\n") for name, text in TEXTS.items()}
    nodes = [node for tree in TREES.values() for node in tree.body]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return {
        "files": len(sizes),
        "lines": sum(sizes.values()),
        "longest_file": max(size for name, size in sizes.items() if name != alone),
        "repeated_class_names": sum(number > 1 for number in classes.values()),
        "modules_of_a_run": len(modules_of_a_run(folder)),
    }


def modules_of_a_run(folder: Path) -> set[str]:
    """Which modules of ours `rookery -p` loads to read a file and to edit it."""
    script, file = folder / "script.yaml", folder / "work" / "a.txt"
    script.write_text(READS_AND_EDITS, encoding="utf-8")
    file.parent.mkdir()
    file.write_text("one\n", encoding="utf-8")
    run = [sys.executable, "-X", "importtime", "-m", "rookery", "-p", "-y", "go"]
    done = subprocess.run(
        [*run, "--provider", "scripted", "-m", str(script)],
        cwd=file.parent,
        env={
            "PATH": os.environ["PATH"],
            "ROOKERY_HOME": str(folder),
            "PYTHONPATH": str(SOURCE.parent),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert file.read_text(encoding="utf-8") == "two\n"
    return set(re.findall(r"\| +(rookery[\w.]*)$", done.stderr, re.MULTILINE))
