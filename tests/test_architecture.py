"""Who may import whom, and how large it all may be: the tables of architecture.toml."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

RULES = tomllib.loads(Path(__file__).with_name("architecture.toml").read_text(encoding="utf-8"))
SOURCE = Path(__file__).parents[1] / "src" / "rookery"
READS_AND_EDITS = """\
- calls: [{tool: read_file, arguments: {path: a.txt}}]
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: "two\\n"}}]
- calls: [{tool: attempt_completion, arguments: {result: Done.}}]
"""


def named(names: str) -> list[str]:
    """The packages of a list, in which groups may be named."""
    return [one for each in names.split() for one in RULES["groups"].get(each, each).split()]


MAY_IMPORT = {one: named(what) for who, what in RULES["may_import"].items() for one in named(who)}


def ring(module: str) -> str:
    """The commands of a feature count as `cli`."""
    first, _, rest = module.partition(".")
    return "cli" if rest.split(".")[0] == "cli" else first or "rookery"


def allowed(module: str, imported: str) -> bool:
    first = imported.split(".")[0]
    if module in ("__main__", first) or module.startswith(f"{first}."):
        return True
    if ring(imported) in RULES["everybody"]:
        return True
    if ring(imported) == "cli":
        return ring(module) == "cli"
    names = (f"x.{module}.", module) if ring(module) == "cli" else (f"{module}.", module)
    excepted = [who for who, what in map(str.split, RULES["exceptions"]) if what == first]
    return any(f"{imported}.".startswith(f"{home}.") for home in MAY_IMPORT[ring(module)]) or any(
        fnmatch(name, who) for who in excepted for name in names
    )


def test_a_package_imports_only_from_allowed_rings():
    ours = {(user, name.removeprefix("rookery.")) for user, name in imports() if "rookery." in name}
    assert {each for each in ours if not allowed(*each)} == set()
    assert len(RULES["exceptions"]) < 10


def test_core_imports_only_pure_standard_modules_and_msgspec():
    pure = sys.stdlib_module_names - set(RULES["input_and_output"].split())
    core = {(user, name.split(".")[0]) for user, name in imports() if user.startswith("core.")}
    assert {each for each in core if each[1] not in pure | {"rookery", "msgspec"}} == set()


def test_a_library_is_imported_only_in_its_home_packages():
    used = {(user, name.split(".")[0]) for user, name in imports()}
    homes = {library: set(where.split()) for library, where in RULES["libraries"].items()}
    assert {
        (user, library)
        for user, library in used
        if not {ring(user), user.split(".")[0]} & homes.get(library, {ring(user)})
    } == set()


def test_locks_file_replacement_and_orphans_have_one_home():
    for what, homes in RULES["one_home"].items():
        users = {name for name, text in texts().items() if re.search(what, text)}
        assert users == set(homes.split())


def test_code_size_stays_within_its_budgets(tmp_path: Path):
    sizes = {name: text.count("\n") for name, text in texts().items()}
    found = {
        "files": len(sizes),
        "lines": sum(sizes.values()),
        "longest_file": max(size for name, size in sizes.items() if name != RULES["alone"]),
        "repeated_class_names": sum(number > 1 for number in class_names().values()),
        "modules_of_a_run": len(modules_of_a_run(tmp_path)),
    }
    assert {name: number for name, number in found.items() if number > RULES["budgets"][name]} == {}


# ── the sources ───────────────────────────────────────────────────────────────────────────


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
