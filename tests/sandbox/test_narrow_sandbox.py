"""Commands that may write to a part of the workspace only, against what really holds them: mounts
with Landlock, mounts alone, and Landlock alone."""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit, Pipeline, PlainCommand
from rookery.errors import Denied
from rookery.governance.scope.scope_verdict import writable_prefixes
from rookery.sandbox.confine import landlock_version
from rookery.sandbox.confinement import MOST_BESIDE
from rookery.sandbox.launcher import SandboxLauncher
from rookery.sandbox.layers import PROGRAMS
from rookery.sandbox.sandbox import Launch, Sandbox, SandboxOptions
from rookery.workspace.boundaries import Boundaries
from rookery.workspace.terminal import Terminal
from support.actions import Unkept
from support.confined_tries import try_each
from support.old_kernel import WithoutLandlock
from support.repositories import git

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made for Linux")

BASH = shutil.which("bash") or "/bin/bash"
NO_PROGRAMS = "/nonexistent"

FILES = {
    "README.md": "readme",
    "AGENTS.md": "orders",
    "conf.toml": "conf",
    ".orchestration/active_intents.yaml": "intents: []",
    ".orchestration/AGENT.md": "knowledge",
    "src/main.py": "main",
    "src/auth/login.py": "login",
    "src/auth/deep/er/key.py": "key",
    "src/auth/AGENTS.md": "orders",
    "src/api/x": "x",
    "src/mid/jwt.py": "jwt",
    "src/mid/other.py": "other",
    "src/mid/inner/y": "y",
}


class Cell:
    """A governed workspace with a repository, and a sandbox around it."""

    def __init__(self, folder: Path, layer: str) -> None:
        self.layer = layer
        self.folder = folder
        self.root = folder / "work"
        self.home = folder / "home"
        self.kept = self.home / "kept"
        self._as_it_was = folder / "as-it-was"
        for place in (self.root, self.kept, self.home / ".cache/pip/http-v2"):
            place.mkdir(parents=True)
        for path, text in FILES.items():
            self.put(path, text)
        (self.root / "src/auth/out").symlink_to("../api")
        (self.root / "src/auth/away").symlink_to("../api/x")
        (self.root / "src/linked").symlink_to("api")
        git(self.root, "init", "-q", "--template=")
        git(self.root, "add", ".")
        git(self.root, "commit", "-qm", "x")
        shutil.copytree(self.root, self._as_it_was, symlinks=True)
        self._state = self.outside(())
        self._made: list[Sandbox] = []
        self._usual = self.sandbox()

    def restore(self) -> None:
        """The workspace as it was, in the same folder. Most commands change nothing."""
        now = self.outside(())
        if now == self._state:
            return
        paths = now.keys() | self._state.keys()
        changed = {path for path in paths if now.get(path) != self._state.get(path)}
        for name in {path.partition("/")[0] for path in changed}:
            _remove(self.root / name)
            _copy(self._as_it_was / name, self.root / name)
        self._state = self.outside(())

    def put(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def sandbox(self, **options: Any) -> Sandbox:
        kind = WithoutLandlock if self.layer == "mounts" else Sandbox
        programs = NO_PROGRAMS if self.layer == "landlock" else PROGRAMS
        places = {"root": self.root, "home": self.home, "writable": (str(self.kept),)}
        made = kind(SandboxOptions(**(places | options)), programs)
        self._made.append(made)
        return made

    def launching(self, sandbox: Sandbox | None = None) -> SandboxLauncher:
        boundaries = Boundaries(self.root, home=self.home, own=[])
        return SandboxLauncher(boundaries, sandbox or self._usual)

    def launch(self, command: str, part: Collection[str], sandbox: Sandbox | None = None) -> Launch:
        permit = Permit("", command=command, writable=frozenset(part))
        return self.launching(sandbox)([BASH, "-c", command], permit, self.root)

    def run(
        self, command: str, part: Collection[str], sandbox: Sandbox | None = None
    ) -> tuple[int, str]:
        return self.start(self.launch(command, part, sandbox))

    def working(
        self, commands: Collection[str], part: Collection[str], sandbox: Sandbox | None = None
    ) -> list[str]:
        """Those of the commands that work, all run in one sandbox."""
        tries = {command: command for command in commands}
        found = try_each(tries, lambda command: self.run(command, part, sandbox))
        return [command for command, (status, _) in found.items() if status == 0]

    def start(self, launch: Launch) -> tuple[int, str]:
        """The status and all output."""
        done = subprocess.run(
            launch.argv,
            cwd=self.root,
            env={"PATH": os.defpath, "HOME": str(self.home), **launch.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout.decode(errors="replace")

    def outside(self, part: Collection[str]) -> dict[str, object]:
        """All that is in the workspace and not in that part of it."""
        every = _entries(str(self.root))
        return {path: state for path, state in every if not _in(path, part)}

    def close(self) -> None:
        for sandbox in self._made:
            sandbox.close()


def _in(path: str, part: Collection[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in part)


def _entries(folder: str, below: str = "") -> Iterator[tuple[str, object]]:
    """What there is, with what changes when it does: of folders that is not when, since what is
    made in them is in the list itself."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path, found = below + entry.name, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield path, (found.st_mode, found.st_ino)
                yield from _entries(entry.path, f"{path}/")
            else:
                yield path, (found.st_mode, found.st_ino, found.st_size, found.st_ctime_ns)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    elif source.exists():
        shutil.copy2(source, target)


def usable(layer: str) -> str:
    if layer != "landlock" and not shutil.which("bwrap", path=PROGRAMS):
        pytest.skip("bubblewrap is not installed")
    if layer == "landlock" and landlock_version() < 3:
        pytest.skip("this kernel's Landlock cannot do it")
    return layer


TRIED = ["both", "mounts"] if os.environ.get("ROOKERY_TORTURE") else ["both"]
"""Set-ups that mount. Without Landlock they do nothing else, so that is tried at length only."""


@pytest.fixture(scope="module", params=[*TRIED, "landlock"])
def layer(request: pytest.FixtureRequest) -> str:
    return usable(request.param)


@pytest.fixture(scope="module")
def of_layer(layer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    made = Cell(tmp_path_factory.mktemp(layer), layer)
    yield made
    made.close()


@pytest.fixture
def cell(of_layer: Cell) -> Cell:
    of_layer.restore()
    return of_layer


def test_each_layer_reports_its_own_kind(layer: str, cell: Cell):
    sandbox = cell.sandbox()
    assert sandbox.state.kind.startswith("landlock" if layer == "landlock" else "bubblewrap")
    assert sandbox.narrows


# ── what a command can do ───────────────────────────────────────────────────────────────


class Row(Struct, frozen=True, kw_only=True):
    """A command with its part of the workspace, and where it works; elsewhere it must fail.
    Whatever is outside of `changed` is as it was, in any case. Rows of the same part run one after
    another in one sandbox: first those that work, and those that fail in a workspace as it was."""

    id: str
    command: str
    part: tuple[str, ...] = ("src/auth",)
    works: bool | tuple[str, ...] = False
    changed: tuple[str, ...] | None = None


MOUNTED = ("both", "mounts")
CUT = "python3 -c 'import os, sys; os.truncate(sys.argv[1], 0)'"
EXCHANGE = (
    "python3 -c 'import ctypes, sys; a, b = (each.encode() for each in sys.argv[1:]); "
    "sys.exit(ctypes.CDLL(None).renameat2(-100, a, -100, b, 2) and 1)'"
)

FOLDERS = (
    Row(id="in a folder: make", command="echo x > src/auth/new", works=True),
    Row(id="in a folder: make deep", command="mkdir -p src/auth/a/b", works=True),
    Row(id="in a folder: change", command="echo x >> src/auth/login.py", works=True),
    Row(id="in a folder: replace", command="sed -i s/l/L/ src/auth/login.py", works=True),
    Row(id="in a folder: move", command="mv src/auth/deep/er src/auth/er", works=True),
    Row(id="in a folder: link", command="ln src/auth/login.py src/auth/same", works=True),
    Row(id="in a folder: delete", command="rm -r src/auth/login.py src/auth/deep", works=True),
    Row(id="from within", command="cd src/auth && echo x > ../auth/n", works=True),
    Row(id="reading all", command="cat src/api/x README.md AGENTS.md", works=True),
    Row(id="beside: make", command="echo x > src/api/new"),
    Row(id="beside: change", command="echo x >> src/api/x"),
    Row(id="beside: cut", command=f"{CUT} src/api/x"),
    Row(id="beside: delete", command="rm -f src/api/x"),
    Row(id="beside: delete a folder", command="rm -rf src/api"),
    Row(id="beside: a folder", command="mkdir src/api/new"),
    Row(id="beside: a pipe", command="mkfifo src/api/new"),
    Row(id="beside: a link", command="ln -s x src/api/new"),
    Row(id="above: make", command="echo x > src/new"),
    Row(id="above: a folder", command="mkdir src/new"),
    Row(id="root: make", command="echo x > new"),
    Row(id="root: change", command="echo x >> README.md"),
    Row(id="git: make", command="echo x > .git/new"),
    Row(id="git: a hook", command="echo x > .git/hooks/pre-commit"),
    Row(id="git: settings", command="git config a.b c"),
    Row(id="git: commit", command="echo x > src/auth/new; git add .", changed=("src/auth",)),
    Row(id="git: looking", command="git status --short && git diff && git log", works=True),
    Row(id="governance: change", command="echo x >> .orchestration/active_intents.yaml"),
    Row(id="governance: make", command="echo x > .orchestration/new"),
    Row(id="governance: move", command="mv .orchestration src/auth/o"),
    Row(id="by a link to a folder", command="echo x > src/auth/out/new"),
    Row(id="by a link to a file", command="echo x >> src/auth/away"),
    Row(id="by a new link", command="ln -s ../api src/auth/l; echo x > src/auth/l/new"),
    Row(id="by its process", command="echo x > /proc/self/cwd/src/api/new"),
    Row(id="by dots", command="echo x > src/auth/../api/new"),
    Row(id="moving out", command="mv src/auth/login.py src/api/", changed=()),
    Row(id="moving over", command="mv -f src/auth/login.py src/api/x", changed=()),
    Row(id="moving in", command="mv src/api/x src/auth/x"),
    Row(id="exchanging", command=f"{EXCHANGE} src/auth/login.py src/api/x", changed=()),
    Row(id="moving the folder", command="mv src/auth src/other", changed=()),
    Row(id="moving what leads there", command="mv src other", changed=()),
    Row(id="a hard link in", command="ln src/api/x src/auth/h && echo y > src/auth/h"),
    Row(id="a hard link out", command="ln src/auth/login.py src/api/l", changed=()),
    Row(id="temporary", command='t=$(mktemp) && echo x > "$t"', works=True),
    Row(id="a cache", command="echo x > ~/.cache/pip/http-v2/x", works=True),
    Row(id="a place of the user's", command="echo x > ~/kept/x", works=True),
    Row(id="at home", command="echo x > ~/new"),
    Row(id="nothing at all", part=(), command="echo x > src/auth/new"),
    Row(id="nothing at all: reading", part=(), command="cat src/auth/login.py", works=True),
)

AUTH_AND_MID = ("src/auth", "src/mid")
SEVERAL = (
    Row(id="several: both", part=AUTH_AND_MID, command="touch src/auth/n src/mid/n", works=True),
    Row(id="several: between", part=AUTH_AND_MID, command="mv src/auth/deep src/mid/", works=True),
    Row(id="several: neither", part=AUTH_AND_MID, command="touch src/api/n"),
    Row(
        id="several: one in another",
        part=("src/auth/deep", "src/auth"),
        command="touch src/auth/deep/n && mv src/auth/deep src/auth/d",
        works=True,
    ),
)

INNER = "src/mid/inner"
NEVER = {
    ".git": "echo x > .git/new",
    ".git/refs": "echo x > .git/refs/new",
    ".GIT": "mkdir .GIT",
    ".orchestration": "echo x > .orchestration/new",
    ".orchestration/active_intents.yaml": "echo x >> .orchestration/active_intents.yaml",
    ".orchestration/new/deep": "mkdir .orchestration/new",
    ".hg/store": "mkdir .hg",
    ".rookery": "mkdir .rookery",
    "..": "echo x > src/auth/new",
    "../home": "echo x > ~/new",
    "/etc": "echo x > /etc/rookery-test",
    "src/linked": "echo x > src/api/new || echo x > src/linked/new",
    "src/linked/new": "mkdir src/api/new",
    "src/auth/away": "echo x >> src/api/x",
    "src/main.py/new": "rm -f src/main.py",
}
"""Places that no part opens, and what would change them."""
NEVER_ROWS = (
    *(
        Row(id=f"never: {place}", part=(*NEVER, INNER), command=command, changed=())
        for place, command in NEVER.items()
    ),
    Row(id="never, yet that", part=(*NEVER, INNER), command=f"touch {INNER}/n", works=True),
    *(
        Row(id=f"all, but never: {command}", part=("",), command=command, changed=())
        for command in (
            "echo x > .git/new",
            "echo x > .orchestration/new",
            "mv .orchestration o",
            "mv .git g",
        )
    ),
)

ALL_OF_IT = (
    Row(id="all: change", part=("",), command="echo x >> src/api/x", changed=("src",), works=True),
    Row(id="all: make", part=("",), command="echo x > src/api/n", changed=("src",), works=True),
    Row(id="all: at the top", part=("",), command="echo x > n", changed=("n",), works=MOUNTED),
    Row(id="all: by a dot", part=(".",), command="echo x > src/n", changed=("src",), works=True),
)

JWT = ("src/mid/jwt.py",)
FILE_ROWS = (
    Row(id="a file: change", part=JWT, command="echo x >> src/mid/jwt.py", works=True),
    Row(id="a file: replace", part=JWT, command="sed -i s/j/J/ src/mid/jwt.py", works=MOUNTED),
    Row(id="a file: delete", part=JWT, command="rm src/mid/jwt.py", works=MOUNTED),
    Row(id="a file: beside it", part=JWT, command="echo x >> src/mid/other.py"),
    Row(id="a file: deleting beside", part=JWT, command="rm -f src/mid/other.py"),
    Row(id="a file: moving over", part=JWT, command="mv -f src/mid/jwt.py src/mid/other.py"),
    Row(id="a file: moving beside", part=JWT, command="mv src/mid/other.py src/mid/o"),
    Row(id="a file: below its folder", part=JWT, command="echo x > src/mid/inner/n"),
    Row(id="a file: moving a folder", part=JWT, command="mv src/mid/inner src/mid/i"),
    Row(id="a file: moving its folder", part=JWT, command="mv src/mid src/m"),
    Row(id="a file: elsewhere", part=JWT, command="echo x > src/n"),
    Row(
        id="a file: one that is new beside it",
        part=JWT,
        command="echo x > src/mid/n",
        changed=("src/mid/n",),
        works=MOUNTED,
    ),
    Row(
        id="a file of the root",
        part=("README.md",),
        command="sed -i s/r/R/ README.md",
        works=MOUNTED,
    ),
    Row(id="a file of the root: beside", part=("README.md",), command="echo x >> conf.toml"),
    Row(id="a file of the root: below", part=("README.md",), command="echo x > src/auth/n"),
    Row(id="a file of the root: git", part=("README.md",), command="echo x > .git/n"),
    Row(id="a protected file", part=("AGENTS.md",), command="echo x >> AGENTS.md"),
    Row(
        id="a file and a folder",
        part=("README.md", "src/auth"),
        command="echo x > src/auth/n && echo x >> README.md",
        works=True,
    ),
    Row(
        id="a file and what is around it",
        part=("src/mid/jwt.py", "src/mid"),
        command="rm src/mid/other.py",
        works=True,
    ),
)

NEW = ("src/new",)
NEW_ROWS = (
    Row(id="a new folder", part=NEW, command="mkdir src/new", works=True),
    Row(
        id="a new folder: in one go",
        part=NEW,
        command="mkdir -p src/new/a && echo x > src/new/a/b",
        works=MOUNTED,
    ),
    Row(id="a new folder: change beside", part=NEW, command="echo x >> src/main.py"),
    Row(id="a new folder: delete beside", part=NEW, command="rm -rf src/main.py src/api"),
    Row(id="a new folder: in one beside", part=NEW, command="echo x > src/api/n"),
    Row(id="a new folder: move beside", part=NEW, command="mv src/api src/new", changed=()),
    Row(id="a new folder: move a file", part=NEW, command="mv src/main.py src/new", changed=()),
    Row(id="a new folder: link", part=NEW, command="ln src/api/x src/new", changed=()),
    Row(id="a new folder: above", part=NEW, command="echo x > n"),
    Row(id="a new folder at the top", part=("pkg",), command="mkdir pkg", works=MOUNTED),
    Row(id="a new folder at the top: git", part=("pkg",), command="mkdir .git/n"),
    Row(id="a new folder at the top: beside", part=("pkg",), command="echo x >> conf.toml"),
    Row(id="a new folder far below", part=("a/b/c",), command="mkdir -p a/b/c", works=MOUNTED),
    Row(
        id="a new folder beside an old one",
        part=("src/new", "src/auth"),
        command="mkdir src/new && echo x > src/auth/n",
        works=True,
    ),
    Row(
        id="a new folder in an old one",
        part=("src/auth/new", "src/auth"),
        command="mkdir src/auth/new && echo x > src/auth/new/n && echo x > src/auth/n",
        works=True,
    ),
)

ROWS = (*FOLDERS, *SEVERAL, *NEVER_ROWS, *ALL_OF_IT, *FILE_ROWS, *NEW_ROWS)


def test_writes_are_confined_to_the_writable_scope(layer: str, cell: Cell):
    groups: dict[tuple[Collection[str], bool, object], list[Row]] = {}
    for row in ROWS:
        works = layer in row.works if isinstance(row.works, tuple) else row.works
        groups.setdefault((row.part, works, works or row.changed), []).append(row)
    for (_, works, _), rows in groups.items():
        check_rows(rows, works, cell)


def check_rows(rows: list[Row], works: bool, cell: Cell) -> None:
    cell.restore()
    named = [row.part if row.changed is None else row.changed for row in rows]
    part = {path for each in named for path in each}
    before = cell.outside(part)
    commands = {row.id: row.command for row in rows}
    found = try_each(commands, lambda command: cell.run(command, rows[0].part))
    assert [name for name, (status, _) in found.items() if (status == 0) != works] == [], found
    after = cell.outside(part)
    # a new folder is made from above: what leads to it is new as well
    new = {path for path in after if any(each.startswith(f"{path}/") for each in part)}
    kept = {path: after[path] for path in after if path in before or path not in new}
    assert kept == before, found


PLACES = sorted({str(Path(path).parent) for path in FILES if not path.startswith(".")} - {"."})


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.sets(st.sampled_from(PLACES)))
def test_only_folders_in_the_scope_are_writable(part: set[str], cell: Cell):
    cell.restore()
    tries = "; ".join(f"touch {place}/n 2>/dev/null && echo {place}" for place in PLACES)
    _, said = cell.run(tries, part)
    assert said.split() == [place for place in PLACES if _in(place, part)]


@pytest.mark.parametrize("part", [("src/new/far",), ("pkg",), ("src/mid/new.py",), ("src/auth",)])
def test_the_sandbox_creates_no_files_in_the_workspace(part: tuple[str], cell: Cell):
    before = cell.outside(())
    assert cell.run("true", part) == (0, "")
    assert cell.outside(()) == before


def test_a_new_folder_is_writable_for_the_next_command(cell: Cell):
    assert cell.run("mkdir src/new", ["src/new"]) == (0, "")
    tries = ("echo x > src/new/n", "echo x > src/n")
    assert cell.working(tries, ["src/new"]) == ["echo x > src/new/n"]


def test_a_link_in_place_of_a_scope_folder_is_not_followed(
    cell: Cell,
):
    (cell.root / "src/new").symlink_to("api")
    assert cell.run("echo x > src/new/n", ["src/new"])[0] != 0
    assert not (cell.root / "src/api/n").exists()


def test_patterns_resolve_to_writable_folders(layer: str, cell: Cell):
    patterns = ["src/auth/**", "src/mid/j*.py", "conf.toml", "!src/auth/deep/**"]
    part = writable_prefixes(patterns)
    allowed = "echo x > src/auth/n && echo x > src/mid/jot.py && echo x >> conf.toml"
    denied = ("echo x > src/api/n", "echo x >> README.md", "echo x > src/n")
    assert cell.working((allowed, *denied), part) == [allowed]


def test_a_file_with_too_many_siblings_is_changed_in_place_only(cell: Cell):
    for number in range(MOST_BESIDE + 1):
        cell.put(f"src/mid/many{number}", "")
    part = ["src/mid/jwt.py", "src/mid/new.py"]
    denied = ("rm src/mid/jwt.py", "echo x > src/mid/new.py", "echo x > src/mid/many7")
    allowed = "echo x > src/mid/jwt.py"
    assert cell.working((allowed, *denied), part) == [allowed]
    assert (cell.root / "src/mid/jwt.py").read_text() == "x\n"


def test_the_sibling_limit_covers_all_folders_together(layer: str, cell: Cell):
    for folder in ("api", "mid"):
        for number in range(MOST_BESIDE * 2 // 3):
            cell.put(f"src/{folder}/many{number}", "")
    part = ["src/api/x", "src/mid/jwt.py"]
    writes = "echo x > src/api/x && echo x > src/mid/jwt.py"
    removed = [] if layer == "landlock" else ["rm src/api/x"]
    tries = (writes, "rm src/api/x", "rm src/mid/jwt.py")
    assert cell.working(tries, part) == [writes, *removed]


def test_siblings_up_to_the_limit_stay_unchanged(layer: str, cell: Cell):
    there = len(list((cell.root / "src/mid").iterdir())) - 1
    for number in range(MOST_BESIDE - there):
        cell.put(f"src/mid/many{number}", "")
    part = ["src/mid/jwt.py"]
    before = cell.outside(part)
    said = cell.run("rm -f src/mid/jwt.py src/mid/many* src/mid/other.py", part)[1]
    assert cell.outside(part) == before
    assert "so the command was not run" not in said
    assert (cell.root / "src/mid/jwt.py").exists() == (layer == "landlock")


# ── what is special in and around the part ──────────────────────────────────────────────


# Landlock alone cannot shield them; they are put back after the command
@pytest.mark.parametrize("layer", MOUNTED, indirect=True)
def test_protected_files_in_the_scope_stay_unchanged(layer: str, cell: Cell):
    cell.put("src/auth/deep/AGENTS.md", "orders")
    append, move = "echo x >> src/auth/AGENTS.md", "mv src/auth/AGENTS.md src/auth/x"
    assert cell.working((append, move, "mv src/auth/deep src/auth/d"), ["src/auth"]) == []
    assert (cell.root / "src/auth/deep/AGENTS.md").read_text() == "orders"


# Landlock alone cannot mask it
@pytest.mark.parametrize("layer", MOUNTED, indirect=True)
def test_an_ignored_file_in_the_scope_is_masked(layer: str, cell: Cell):
    cell.put(".rookeryignore", "*.key\n")
    cell.put("src/auth/deep/a.key", "decoy")
    cell.put("src/api/b.key", "decoy")
    command = "cat src/api/b.key src/auth/deep/a.key; mv src/auth/deep src/auth/d; cat src/auth/d/*"
    status, said = cell.run(command, ["src/auth"])
    assert status != 0
    assert "decoy" not in said


@pytest.mark.parametrize(
    "part", ["README.md", "priv", "priv/new", "a.key", "new", "src/mid/jwt.py"]
)
def test_masked_files_next_to_the_scope_do_not_stop_the_command(part: str, layer: str, cell: Cell):
    """A mask differs from the file below it, and must not count as a swapped file."""
    cell.put(".rookeryignore", "*.key\npriv/\n")
    for path in ("a.key", "src/mid/b.key", "priv/c"):
        cell.put(path, "decoy")
    hidden = cell.root / "src/mid/hidden"
    hidden.mkdir()
    sandbox = cell.sandbox(hidden=(str(hidden),))
    command = "cat a.key src/mid/b.key priv/c; echo x > src/mid/hidden/n; echo x > priv/n; echo ran"
    said = cell.run(command, [part], sandbox)[1]
    assert said.endswith("ran\n")
    assert layer == "landlock" or "decoy" not in said
    assert [each.name for each in hidden.iterdir()] == []
    assert layer == "landlock" or not (cell.root / "priv/n").exists()


@pytest.mark.parametrize("part", ["src/auth", "src/auth/sub", ""])
def test_a_repository_in_the_scope_is_read_only(part: str, layer: str, cell: Cell):
    git(cell.root, "init", "-q", "src/auth/sub")
    cell.put("src/auth/sub/old/file", "x")
    plants = "echo x > src/auth/sub/.git/new", "mv src/auth/sub/.git src/auth/sub/g"
    inner, new = "echo x > src/auth/sub/old/new", "echo x > src/auth/sub/new"
    works = cell.working((*plants, "mv src/auth/sub src/auth/s", inner, new), [part])
    assert works == [inner, *([] if layer == "landlock" else [new])]


def test_the_repository_of_a_linked_worktree_is_read_only(layer: str, tmp_path: Path):
    cell = Cell(tmp_path, layer)
    git(cell.root, "worktree", "add", "-q", str(tmp_path / "linked"))
    main, cell.root = cell.root, tmp_path / "linked"
    sandbox = cell.sandbox()
    before = dict(_entries(str(main / ".git")))
    allowed, denied = "echo x > src/auth/n && git status", f"echo x > {main}/.git/n"
    assert cell.working((allowed, denied, "git add src/auth/n"), ["src/auth"], sandbox) == [allowed]
    assert dict(_entries(str(main / ".git"))) == before
    cell.close()


def test_a_user_writable_folder_in_the_workspace_stays_writable(cell: Cell):
    sandbox = cell.sandbox(writable=(str(cell.root / "src/mid/inner"),))
    tries = ("echo x > src/mid/inner/n", "echo x > src/mid/n")
    assert cell.working(tries, ["src/auth"], sandbox) == [tries[0]]


@pytest.mark.parametrize("place", ["", "work"])
def test_a_user_writable_folder_around_the_workspace_keeps_the_scope(place: str, cell: Cell):
    sandbox = cell.sandbox(writable=(str(cell.folder / place),))
    before = cell.outside(())
    denied = ("echo x > src/n", "echo x > src/api/n", "echo x > n", "mv src s")
    allowed = "echo x > src/auth/n"
    assert cell.working((*denied, allowed), ["src/auth"], sandbox) == [allowed]
    assert cell.outside(["src/auth/n"]) == before


def test_a_workspace_in_the_temp_folder_keeps_the_scope(cell: Cell):
    sandbox = cell.sandbox(home=Path("/nonexistent"), writable=())
    tries = ("echo x > src/auth/n", "echo x > src/api/n")
    assert cell.working(tries, ["src/auth"], sandbox) == [tries[0]]
    assert not (cell.root / "src/api/n").exists()


def test_a_folder_swapped_after_the_launch_is_not_written(cell: Cell):
    launch = cell.launch("echo x > src/mid/n", ["src/mid"])
    (cell.root / "src/mid").rename(cell.root / "src/moved")
    shutil.copytree(cell.root / "src/moved", cell.root / "src/mid")
    status, said = cell.start(launch)
    assert status == 126
    assert "was not run" in said
    assert not (cell.root / "src/mid/n").exists()


# ── without a sandbox ───────────────────────────────────────────────────────────────────


def test_an_unsandboxed_command_with_a_scope_is_refused(cell: Cell):
    permit = Permit("", command="true", confined=False, writable=frozenset({"src"}))
    with pytest.raises(Denied, match="outside the sandbox") as refused:
        cell.launching()([BASH, "-c", "true"], permit, cell.root)
    assert refused.value.code == "CMD-001"


@pytest.mark.anyio
async def test_a_terminal_without_a_sandbox_refuses_a_scope(tmp_path: Path):
    permit = Permit("", command="touch ran", writable=frozenset({""}))
    with pytest.raises(Denied, match="was not run"):
        async with Terminal(tmp_path, Limits()).run(permit, seconds=5, keep=Unkept()):
            pass
    assert not (tmp_path / "ran").exists()


# ── however it is started ───────────────────────────────────────────────────────────────


def test_a_command_without_a_shell_stays_in_its_scope(cell: Cell):
    touch = shutil.which("touch") or "/usr/bin/touch"
    for path, works in (("src/auth/n", True), ("src/api/n", False)):
        plain = (Pipeline((PlainCommand((touch, path)),)),)
        permit = Permit("", command="x", plain=plain, writable=frozenset({"src/auth"}))
        launch = cell.launching()([BASH, "-c", "exit 9"], permit, cell.root)
        assert (cell.start(launch)[0] == 0) == works
        assert (cell.root / path).exists() == works


@pytest.mark.anyio
async def test_a_background_command_stays_in_its_scope(cell: Cell):
    """Even while other commands run."""
    terminal = Terminal(cell.root, Limits(), cell.launching())
    waiting = "until [ -e src/auth/go ]; do sleep 0.01; done; echo x > src/auth/n; echo x > src/n"
    kept = Permit("", command=waiting, writable=frozenset({"src/auth"}))
    free = Permit("", command="touch src/auth/go src/free")
    async with terminal.run(kept, seconds=300, keep=Unkept()) as first:
        async with terminal.run(free, seconds=300, keep=Unkept()) as second:
            assert (await second.end()).exit_code == 0
        assert (await first.end()).exit_code == 1
    assert (cell.root / "src/auth/n").exists()
    assert (cell.root / "src/free").exists()
    assert not (cell.root / "src/n").exists()


# ── the price ───────────────────────────────────────────────────────────────────────────


def test_a_command_without_a_scope_can_write_the_whole_workspace(layer: str, cell: Cell):
    words = [BASH, "-c", "true"]
    free = cell.launching()(words, Permit("", command="true"), cell.root).argv
    assert not {"keep", "grow"} & set(free)
    root = str(cell.root)
    if layer == "landlock":
        assert ("write", root) in pairwise(free)
    else:
        assert ("--bind", root, root) in zip(free, free[1:], free[2:], strict=False)
        assert ("--ro-bind", root, root) not in zip(free, free[1:], free[2:], strict=False)


def test_a_scoped_command_is_started_by_the_same_programs(cell: Cell):
    free = cell.launching()([BASH, "-c", "true"], Permit("", command="true"), cell.root).argv
    narrow = cell.launch("true", ["src/auth"]).argv
    assert [each for each in narrow if os.access(each, os.X_OK) and os.path.isfile(each)] == [
        each for each in free if os.access(each, os.X_OK) and os.path.isfile(each)
    ]
