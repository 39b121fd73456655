"""Who may import whom, and how large it all may be: the tables of architecture.toml."""

import re
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from support.source_tree import class_names, imports, modules_of_a_run, texts

RULES = tomllib.loads(Path(__file__).with_name("architecture.toml").read_text(encoding="utf-8"))


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
