"""The boundary is where the user started; no argument, file or earlier command moves it."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from llm_server import call
from support.canaries import Visit, World, remove, run
from support.each_row import each_row
from support.hostile_repositories import PROGRAM_NAMES, git, project_settings
from support.text_process import processes_with

REQUIRED = ("-p", "-y", "--sandbox", "required")
"""Where there is no sandbox, commands are then refused, and all of this holds as well."""

CWDS = {
    "parent": "..",
    "absolute": "/",
    "sibling": "../marks",
    "link": "out",
    "behind dots": "src/../../marks",
    "home": "~",
    "process": "/proc/self/cwd",
}


def writing(path: Path | str) -> str:
    return f"python3 -c \"open('{path}', 'w').write('evil')\""


class Confined(Struct):
    world: World
    visit: Visit
    results: dict[str, str]


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Confined]:
    """A trusted project that asks for the widest sandbox, and a model that takes every way."""
    world = World(tmp_path_factory.mktemp("sandbox"))
    root = world.workspace
    git(root, "init", "-q")
    world.put("src/app.py", "pass\n")
    world.put(".rookery/settings.toml", project_settings(world))
    os.symlink("../marks", root / "out")
    at_home = world.decoys / ".bashrc"
    commands = {
        "outside": run(writing(world.marks / "outside")),
        "at home": run(writing(at_home)),
        "through a link": run(writing("out/linked")),
        "own store": run(writing(world.home / "config" / "settings.toml")),
        "trust": run(writing(world.home / "config" / "trust.json")),
        "a new link": run(f"ln -s {world.marks} fresh; {writing('fresh/made')}"),
        "a moved root": run(f"mv src elsewhere; ln -s {world.marks} src; {writing('src/m')}"),
        "name": run("true", cwd="$(touch executed-name)"),
    }
    commands |= {name: run(writing("cwd"), cwd=cwd) for name, cwd in CWDS.items()}
    turns = [[each] for each in commands.values()]
    visit = world.visit(*turns, flags=REQUIRED)
    yield Confined(world, visit, dict(zip(commands, visit.results, strict=True)))
    remove(world)


def test_a_sandboxed_command_reports_its_directory(confined: Confined):
    """Otherwise the tests below prove nothing; without a sandbox none is run."""
    said = confined.results["outside"]
    assert said.startswith("Directory:") or "must run in a sandbox" in said


def test_nothing_outside_the_workspace_changes(confined: Confined):
    assert confined.visit.code == 0
    assert confined.world.harm(confined.visit) == []
    trust = (confined.world.home / "config" / "trust.json").read_text()
    assert "evil" not in trust
    assert not (confined.world.home / "config" / "settings.toml").exists()


@each_row("which", CWDS)
def test_a_working_directory_from_the_model_does_not_widen_the_sandbox(
    confined: Confined, which: str
):
    """No command was run there at all."""
    assert not confined.results[which].startswith("Directory:")


PLANTING = """
import os
from contextlib import suppress
for folder in ("bin", ".", ".venv/bin"):
    os.makedirs(folder, exist_ok=True)
    for name in {names}:
        with open(f"{{folder}}/{{name}}", "w") as program:
            program.write("#!/bin/bash\\n{evil}\\n")
        os.chmod(f"{{folder}}/{{name}}", 0o755)
for name in ("json", "asyncio", "yaml", "click", "sitecustomize"):
    with open(f"{{name}}.py", "w") as module:
        module.write("import os; os.system({evil!r})")
with suppress(OSError), open(".git/hooks/post-index-change", "w") as hook:
    hook.write("#!/bin/bash\\n{evil}\\n")
with suppress(OSError), open(".git/config", "a") as config:
    config.write("[core]\\n\\tfsmonitor = {evil}\\n")
"""


def test_files_written_by_a_command_are_not_executed_afterwards(world: World):
    """Programs, modules, hooks and configuration, written by a command; then everything that
    the product starts by itself is started."""
    git(world.workspace, "init", "-q")
    world.put("README.md", "needle\n")
    evil = world.evil("sandbox-written")
    world.put("plant.py", PLANTING.format(names=PROGRAM_NAMES, evil=evil))
    first = world.visit([run("python3 plant.py")], flags=REQUIRED)
    second = world.visit(
        [call("search_files", path=".", regex="needle", file_pattern=None)],
        [run("git status")],
        [run("ls")],
        [call("write_to_file", path="new.txt", content="x\n")],
        flags=REQUIRED,
    )
    for command in (["list"], ["doctor"], ["ps"]):
        world.run(*command)
    assert (world.workspace / "bin" / "git").exists(), first.results
    assert world.harm(first, second) == []


def test_no_process_outlives_its_command(world: World):
    name = f"outlives-{uuid.uuid4().hex}"
    sleeping = f"bash -c 'exec -a {name} sleep 600'"
    hiding = f"(setsid {sleeping} &) ; nohup {sleeping} & true"
    world.visit([run(hiding)], flags=("-p", "-y"))
    assert processes_with(name) == []


def test_a_missing_sandbox_is_reported(world: World):
    visit = world.visit([run("ls")], flags=("-p", "-a", "--sandbox", "off"))
    assert "no sandbox: commands can do everything you can" in visit.err
