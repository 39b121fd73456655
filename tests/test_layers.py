"""Who may import whom. This table is the architecture, and this test its only guard."""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "rookery"

PORTS = {"core", "engine.ports", "errors", "faults", "platform"}
EVERYTHING = {path.stem for path in SOURCE.iterdir()}

ROOT = (
    "app.py",
    "briefing.py",
    "code_knowledge.py",
    "custom_tools.py",
    "extra_tools.py",
    "governed_places.py",
    "governed_projects.py",
    "hooked_calls.py",
    "model_choices.py",
    "oversight.py",
    "workplace.py",
)
"""The composition root, which names every part."""

MAY_IMPORT = {
    "core": {"core"},
    "platform": {"errors", "platform"},
    "wire": {"core", "errors", "wire"},
    "engine": {"core", "engine", "errors", "faults"},
    "providers": PORTS | {"providers"},
    "tools": PORTS | {"tools"},
    "governance": PORTS | {"governance"},
    "workspace": PORTS | {"workspace"},
    "browser": PORTS | {"browser", "egress.http_proxy"},
    "egress": PORTS | {"egress"},
    "mcp": PORTS | {"mcp"},
    "code_index": PORTS | {"code_index"},
    "storage": PORTS | {"storage", "wire.codec", "settings"},
    "manager": {
        "core",
        "errors",
        "faults",
        "manager",
        "settings",
        "storage",
        "wire",
        "workspace",
    },
    "dialects": {"core", "dialects", "wire"},
    "clients": {"clients", "core", "dialects", "errors", "wire"},
    "cli": {
        "app",
        "cli",
        "clients",
        "core",
        "custom_tools",
        "engine.ports",
        "errors",
        "governance",
        "governed_places",
        "governed_projects",
        "manager",
        "mcp",
        "model_choices",
        "oversight",
        "platform",
        "providers",
        "settings",
        "storage",
        "wire",
        "workspace",
    },
    **{root: EVERYTHING - {"clients", "cli"} for root in ROOT},
    "settings.py": {"core", "errors"},
    "errors.py": {"core"},
}
THIRD_PARTY_HOMES = {
    "click": {"cli"},
    "httpx2": {"mcp", "providers"},
    "mcp": {"mcp"},
    "playwright": {"browser"},
    "keyring": {"storage.keyring_keys"},
    "markdown_it": {"clients.tui", "manager.rendering"},
    "nh3": {"manager.rendering"},
    "pygments": {"manager.rendering"},
    "rich": {"clients.tui"},
    "segno": {"manager.web"},
    "starlette": {"manager.web"},
    "textual": {"clients.tui"},
    "uvicorn": {"manager.web"},
    "websockets": {"manager.web", "wire"},
    "yaml": {
        "providers",
        "storage",
        "workspace.orchestration",
        "workspace.surroundings.yaml_text",
    },
}


@cache
def names_imported_by(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            if node.module == "rookery":
                names |= {f"rookery.{a.name}" for a in node.names if a.name in EVERYTHING}
    return names


def files_of(layer: str) -> list[Path]:
    return [SOURCE / layer] if layer.endswith(".py") else sorted((SOURCE / layer).rglob("*.py"))


def within(name: str, allowed: set[str]) -> bool:
    return any(name == home or name.startswith(home + ".") for home in allowed)


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_layer_imports_only_what_lies_below_it(layer: str):
    strays = {
        (str(file.relative_to(SOURCE)), name)
        for file in files_of(layer)
        for name in names_imported_by(file)
        if name.startswith("rookery.")
        and not within(name.removeprefix("rookery."), MAY_IMPORT[layer])
    }
    assert strays == set()


@pytest.mark.parametrize("package", THIRD_PARTY_HOMES)
def test_a_package_is_imported_only_where_it_is_at_home(package: str):
    strays = {
        module
        for file in SOURCE.rglob("*.py")
        if package in {name.split(".")[0] for name in names_imported_by(file)}
        and not within(
            module := ".".join(file.relative_to(SOURCE).with_suffix("").parts),
            THIRD_PARTY_HOMES[package],
        )
    }
    assert strays == set()


INPUT_AND_OUTPUT = {
    *("asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random", "select", "shutil"),
    *("signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time"),
}


AUDITORS_FILE = "verify_ledger.py"
"""It is also run by itself, without us, and then has to open what it verifies."""


def test_core_needs_nothing_but_python_and_msgspec_and_touches_nothing():
    allowed = (sys.stdlib_module_names - INPUT_AND_OUTPUT) | {"msgspec", "rookery"}
    strays = {
        (file.name, name)
        for file in (SOURCE / "core").rglob("*.py")
        for name in names_imported_by(file)
        if name.split(".")[0] not in allowed
    }
    assert strays == {(AUDITORS_FILE, "os")}
