"""Who may import whom, and how large it all may be: the tables of architecture.toml."""

import re
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from support.source_tree import TEXTS, imports, measures

RULES = tomllib.loads(Path(__file__).with_name("architecture.toml").read_text(encoding="utf-8"))
IMPORTS = frozenset(imports())


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


def test_a_package_imports_only_what_its_ring_may():
    ours = {(user, name.removeprefix("rookery.")) for user, name in IMPORTS if "rookery." in name}
    assert {each for each in ours if not allowed(*each)} == set()
    assert len(RULES["exceptions"]) < 10


def test_core_needs_nothing_but_python_and_msgspec_and_touches_nothing():
    pure = sys.stdlib_module_names - set(RULES["input_and_output"].split())
    core = {(user, name.split(".")[0]) for user, name in IMPORTS if user.startswith("core.")}
    assert {each for each in core if each[1] not in pure | {"rookery", "msgspec"}} == set()


def test_a_library_is_imported_only_where_it_is_at_home():
    used = {(user, name.split(".")[0]) for user, name in IMPORTS}
    homes = {library: set(where.split()) for library, where in RULES["libraries"].items()}
    assert {
        (user, library)
        for user, library in used
        if not {ring(user), user.split(".")[0]} & homes.get(library, {ring(user)})
    } == set()


def test_locks_file_replacement_and_orphans_have_one_home():
    for what, homes in RULES["one_home"].items():
        users = {name for name, text in TEXTS.items() if re.search(what, text)}
        assert users == set(homes.split())


def test_nothing_grows(tmp_path: Path):
    found = measures(tmp_path, alone=RULES["alone"])
    assert {name: number for name, number in found.items() if number > RULES["budgets"][name]} == {}
