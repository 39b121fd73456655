"""Who may import whom: rules 1 to 4 of docs/architecture.md. A wider table is a design change."""

import ast
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "rookery"
EVERYBODY = {"errors", "faults", "rookery"}
FEATURES = (
    *("providers", "tools", "workspace", "prompting", "commands", "permissions", "sandbox"),
    *("checkpoints", "storage", "mcp", "browser", "code_index", "governance"),
)
SURFACES = ("plain", "tui", "manager", "compat")
MAY_IMPORT = {
    "errors": {"core"},
    "faults": set(),
    "core": set(),
    "platform": set(),
    "engine": {"core"},
    "protocol": {"core", "platform"},
    **{feature: {"core", "engine.ports", "platform"} for feature in FEATURES},
    **{surface: {"core", "platform", "protocol"} for surface in SURFACES},
    "cli": {"app", "core", "platform", "protocol", "engine.ports", *SURFACES},
    "app": {"core", "engine", "platform", "protocol", *FEATURES},
}
LASTING = {
    ("storage.journal_lines", "protocol"): "journals and the protocol share one JSON spelling",
    ("prompting.*", "workspace"): "rule files are read inside the boundaries of the workspace",
    ("*.cli.*", "storage"): "commands read stored sessions and settings without a host",
    ("manager.review.*", "checkpoints"): "a reviewed file is put back by the code that undoes",
    ("*.cli.*", "permissions"): "whether a folder is trusted is asked before it is read",
}
"""Exceptions that stay, each with its reason."""

LIBRARIES = {
    "click": "cli",
    "httpx2": "mcp providers",
    "keyring": "storage",
    "markdown_it": "tui manager",
    "mcp": "mcp",
    "nh3": "manager",
    "playwright": "browser",
    "pygments": "manager",
    "rich": "tui",
    "segno": "manager",
    "starlette": "manager",
    "textual": "tui",
    "tomlkit": "storage",
    "uvicorn": "manager",
    "websockets": "manager protocol",
    "yaml": "providers prompting storage governance",
}
"""Where each is at home."""
ONE_HOME = {
    r"fcntl\.flock": "platform/locks.py",
    r"os\.replace|mkstemp": "platform/disk.py checkpoints/git_copies.py",
    "PR_SET_CHILD_SUBREAPER": "platform/warden.py platform/wardens.py",
}
"""What is done in one place only, and where."""
INPUT_AND_OUTPUT = {
    *("asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random", "select", "shutil"),
    *("signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time"),
}


@cache
def imports() -> frozenset[tuple[str, str]]:
    """Each module of ours, without `rookery`, and the full name of a module that it imports."""
    files = {file: file.relative_to(SOURCE).with_suffix("").parts for file in SOURCE.rglob("*.py")}
    return frozenset(
        (".".join(parts).removesuffix(".__init__"), name)
        for file, parts in files.items()
        for name in _imported_by(file)
    )


def _imported_by(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                full = (f"{module}.{each.name}" for each in names)
                yield from (each if _is_module(each) else module for each in full)


def _is_module(name: str) -> bool:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def ring(module: str) -> str:
    """The commands of a feature count as `cli`."""
    first, _, rest = module.partition(".")
    return "cli" if rest.split(".")[0] == "cli" else first or "rookery"


def allowed(module: str, imported: str) -> bool:
    first = imported.split(".")[0]
    if module == "__main__" or ring(imported) in EVERYBODY or module.split(".")[0] == first:
        return True
    if ring(imported) == "cli":
        return ring(module) == "cli"
    names = (f"x.{module}.", module) if ring(module) == "cli" else (f"{module}.", module)
    return any(f"{imported}.".startswith(f"{home}.") for home in MAY_IMPORT[ring(module)]) or any(
        first == where and fnmatch(name, who) for who, where in LASTING for name in names
    )


def test_a_package_imports_only_what_its_ring_may():
    ours = {(user, name.removeprefix("rookery.")) for user, name in imports() if "rookery." in name}
    assert {each for each in ours if not allowed(*each)} == set()
    assert len(LASTING) < 10


def test_core_needs_nothing_but_python_and_msgspec_and_touches_nothing():
    known = (sys.stdlib_module_names - INPUT_AND_OUTPUT) | {"rookery", "msgspec"}
    core = {(user, name.split(".")[0]) for user, name in imports() if user.startswith("core.")}
    assert {each for each in core if each[1] not in known} == set()


def test_a_library_is_imported_only_where_it_is_at_home():
    used = {(user, name.split(".")[0]) for user, name in imports()}
    assert {
        (user, library)
        for user, library in used
        if not {ring(user), user.split(".")[0]} & set(LIBRARIES.get(library, ring(user)).split())
    } == set()


def test_locks_file_replacement_and_orphans_have_one_home():
    texts = {file.relative_to(SOURCE).as_posix(): file.read_text() for file in SOURCE.rglob("*.py")}
    for what, homes in ONE_HOME.items():
        users = {name for name, text in texts.items() if re.search(what, text)}
        assert users == set(homes.split())
