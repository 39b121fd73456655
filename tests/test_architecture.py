"""Who may import whom: rules 1 to 4 of docs/architecture.md. A wider table is a design change."""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

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

LEFT = {
    ("app.check_shell", "governance.cli.intents_common"),
    ("cli.completion", "providers.registry"),
    ("cli.doctor", "providers.registry"),
    ("cli.options", "providers.registry"),
    ("cli.run_options", "governance.oversight"),
    ("cli.run_options", "governance.project_setup"),
    ("cli.run_options", "prompting.system_prompt"),
    ("cli.run_options", "providers.models"),
    ("cli.run_options", "providers.registry"),
    ("mcp.cli.mcp_command", "providers.registry"),
}
"""Exceptions that go, one by one. Nothing is added here."""


@cache
def names_imported_by(file: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=str(module), names=aliases):
                names |= {f"{module}.{a.name}" for a in aliases if is_module(f"{module}.{a.name}")}
                names |= (
                    {module} if any(not is_module(f"{module}.{a.name}") for a in aliases) else set()
                )
    return frozenset(names)


def is_module(name: str) -> bool:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def ring(module: str) -> str:
    """The commands of a feature count as `cli`."""
    first, _, rest = module.partition(".")
    return "cli" if rest.split(".")[0] == "cli" else first or "rookery"


def allowed(module: str, imported: str) -> bool:
    if (
        module == "__main__"
        or ring(imported) in EVERYBODY
        or module.split(".")[0] == imported.split(".")[0]
    ):
        return True
    if ring(imported) == "cli":
        return ring(module) == "cli"
    homes = MAY_IMPORT[ring(module)]
    return any(imported == home or imported.startswith(f"{home}.") for home in homes) or excepted(
        module, imported
    )


def excepted(module: str, imported: str) -> bool:
    from fnmatch import fnmatch

    into = imported.split(".")[0]
    names = (f"{module}.", module) if ".cli" not in f".{module}" else (f"x.{module}", module)
    return any(fnmatch(name, who) and into == where for who, where in LASTING for name in names)


def strays() -> set[tuple[str, str]]:
    found = set()
    for file in SOURCE.rglob("*.py"):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for name in names_imported_by(file):
            if name.startswith("rookery."):
                imported = name.removeprefix("rookery.")
                if not allowed(module, imported):
                    found.add((module, imported))
    return found


def test_a_package_imports_only_what_its_ring_may():
    assert strays() - LEFT == set()


def test_no_exception_outlives_its_reason():
    assert LEFT - strays() == set()


def test_few_exceptions_last():
    assert len(LASTING) < 10


INPUT_AND_OUTPUT = {
    *("asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random", "select", "shutil"),
    *("signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time"),
}


def test_core_needs_nothing_but_python_and_msgspec_and_touches_nothing():
    known = (sys.stdlib_module_names - INPUT_AND_OUTPUT) | {"rookery", "msgspec"}
    used = {
        (file.name, name)
        for file in (SOURCE / "core").rglob("*.py")
        for name in names_imported_by(file)
        if name.split(".")[0] not in known
    }
    assert used == set()


THIRD_PARTY_HOMES = {
    "click": ("cli",),
    "httpx2": ("mcp", "providers"),
    "mcp": ("mcp",),
    "playwright": ("browser",),
    "keyring": ("storage",),
    "markdown_it": ("tui", "manager"),
    "nh3": ("manager",),
    "pygments": ("manager",),
    "rich": ("tui",),
    "segno": ("manager",),
    "starlette": ("manager",),
    "textual": ("tui",),
    "tomlkit": ("storage",),
    "uvicorn": ("manager",),
    "websockets": ("manager", "protocol"),
    "yaml": ("providers", "prompting", "storage", "governance"),
}


@pytest.mark.parametrize("package", THIRD_PARTY_HOMES)
def test_a_library_is_imported_only_where_it_is_at_home(package: str):
    users = {
        ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for file in SOURCE.rglob("*.py")
        if package in {name.split(".")[0] for name in names_imported_by(file)}
    }
    homes = THIRD_PARTY_HOMES[package]
    assert {u for u in users if ring(u) not in homes and u.split(".")[0] not in homes} == set()
