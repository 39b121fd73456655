"""The sandbox against real commands, once as bubblewrap makes it and once as Landlock does."""

import importlib.util
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import msgspec
import pytest

from rookery.errors import Denied, ToolError
from rookery.sandbox.confine import landlock_version
from rookery.sandbox.confinement import SandboxOptions
from rookery.sandbox.layers import CONFINE, INTERPRETER, PROGRAMS, Holds, guarantees
from rookery.sandbox.sandbox import Sandbox
from support.confined_tries import try_each
from support.old_kernel import WithoutLandlock
from support.timeouts import patience

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made for Linux")

SECRET = "decoy-5f1c0e"
SOURCE = Path(__file__).parents[2] / "src"
BASH = shutil.which("bash") or "/bin/bash"
BUBBLEWRAP = shutil.which("bwrap", path=PROGRAMS)
NO_PROGRAMS = "/nonexistent"
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))

DECOYS = (
    *(".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".config/gcloud/access.db"),
    *(".config/google-chrome/Default/Cookies", ".local/share/keyrings/login.keyring"),
    *(".cache/huggingface/token", ".m2/settings.xml", ".docker/config.json", ".netrc", ".npmrc"),
    *(".git-credentials", ".bash_history"),
)


class Cell:
    """A workspace with a repository, a decoy home, and a sandbox around the first."""

    def __init__(self, folder: Path, layer: str, *, name: str = "work", programs: str = "") -> None:
        self.folder = folder
        self.layer = layer
        self.programs = programs or (NO_PROGRAMS if layer == "landlock" else PROGRAMS)
        self.root = folder / name
        self.home = folder / "home"
        self.outside = self.home / "elsewhere"  # visible, also where /tmp is private
        self.own = folder / "own"
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "OUTSIDE": str(self.outside),
            "OWN": str(self.own),
            "LANG": "C.UTF-8",
            "SSH_AUTH_SOCK": f"{self.home}/agent",
            **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in _WHO},
        }
        shared = self.home / ".cache" / "pip" / "http-v2"
        for place in (self.root, shared, self.outside, self.own / "tasks"):
            place.mkdir(parents=True)
        for decoy in (*(self.home / each for each in DECOYS), self.own / "tasks" / "journal"):
            decoy.parent.mkdir(parents=True, exist_ok=True)
            decoy.write_text(SECRET)
        (self.outside / "there").write_text("before")
        (self.root / "inside").write_text("inside")
        (self.root / "AGENTS.md").write_text("orders")
        (self.root / "ignored.env").write_text(SECRET)
        subprocess.run(["git", "init", "-q", "--template=", "."], cwd=self.root, check=True)
        (self.root / ".git" / "hooks").mkdir()
        self.git = True
        """Whether commands run git, so that they may write in its folders."""
        self._sandboxes: list[Sandbox] = []
        self._before = seen(folder)

    @cached_property
    def usual(self) -> Sandbox:
        """Reuse one sandbox; for tests that do not change the files it reads at its start."""
        made = self.sandbox()
        assert made.state.kind.startswith(self.layer.replace("mounts", "bubblewrap"))
        self._before |= seen(Path(made._private))
        return made

    @property
    def as_it_was(self) -> bool:
        """Whether nothing was made, changed or removed, not even for a moment."""
        known = "usual" in self.__dict__
        return (
            seen(self.folder) | (seen(Path(self.usual._private)) if known else {}) == self._before
        )

    def sandbox(self, *, root: Path | None = None, **options: object) -> Sandbox:
        places = {"root": root or self.root, "home": self.home, "own": (str(self.own),)}
        kind = WithoutLandlock if self.layer == "mounts" else Sandbox
        made = kind(SandboxOptions(**(places | options)), self.programs)  # type: ignore[arg-type]
        self._sandboxes.append(made)
        return made

    def argv(self, command: str, sandbox: Sandbox) -> tuple[list[str], dict[str, str]]:
        launch = sandbox.launch(
            [BASH, "-c", command],
            cwd=str(self.root),
            protected=["AGENTS.md", "missing.md", "nested/.git", "separate/.git"],
            ignored=["ignored.env"],
            git=self.git,
        )
        return [*launch.argv], self.env | dict(launch.environment)

    def run(self, command: str, sandbox: Sandbox | None = None) -> tuple[int, str]:
        """The status and all output."""
        argv, env = self.argv(command, sandbox or self.sandbox())
        done = subprocess.run(
            argv,
            cwd=self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout.decode(errors="replace")

    def each(self, commands: dict[str, str], sandbox: Sandbox) -> dict[str, tuple[int, str]]:
        return try_each(commands, lambda command: self.run(command, sandbox))

    def start(self, command: str) -> subprocess.Popen[str]:
        return self.started(command, self.usual)

    def started(self, command: str, sandbox: Sandbox) -> subprocess.Popen[str]:
        argv, env = self.argv(command, sandbox)
        return subprocess.Popen(
            argv,
            cwd=self.root,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def close(self) -> None:
        for sandbox in self._sandboxes:
            sandbox.close()


_WHO = ("NAME", "EMAIL")


def seen(folder: Path) -> dict[str, tuple[int, int]]:
    paths = [
        os.path.join(top, name)
        for top, folders, files in os.walk(folder)
        for name in (".", *folders, *files)
    ]
    found = {path: os.lstat(path) for path in paths}
    return {path: (at.st_ino, at.st_ctime_ns) for path, at in found.items()}


@pytest.fixture(params=["bubblewrap", "landlock"])
def layer(request: pytest.FixtureRequest) -> str:
    return needing(request.param)


def needing(layer: str) -> str:
    if layer in ("bubblewrap", "mounts") and not BUBBLEWRAP:
        pytest.skip("bubblewrap is not installed")
    if layer == "landlock" and landlock_version() < 1:
        pytest.skip("the kernel has no Landlock")
    return layer


class Cells:
    """To make a cell takes longer than most tests: one that is as it was serves the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spare: dict[str, Cell] = {}

    @contextmanager
    def lend(self, layer: str) -> Iterator[Cell]:
        cell = self._spare.pop(layer, None) or Cell(self._folder / f"{uuid.uuid4()}", layer)
        try:
            yield cell
        finally:
            if cell.as_it_was:
                self._spare[layer] = cell
            else:
                cell.close()
                shutil.rmtree(cell.folder)

    def close(self) -> None:
        for cell in self._spare.values():
            cell.close()


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    made = Cells(tmp_path_factory.mktemp("cells"))
    yield made
    made.close()


@pytest.fixture
def cell(layer: str, cells: Cells) -> Iterator[Cell]:
    with cells.lend(layer) as lent:
        yield lent


@pytest.fixture
def any_cell(cells: Cells) -> Iterator[Cell]:
    """For what does not depend on the layer."""
    with cells.lend("bubblewrap" if BUBBLEWRAP else needing("landlock")) as lent:
        yield lent


@pytest.fixture
def mounted(cells: Cells) -> Iterator[Cell]:
    """For what only mounts do."""
    with cells.lend(needing("bubblewrap")) as lent:
        yield lent


@pytest.fixture(scope="module", autouse=True)
def the_layers_work(cells: Cells) -> None:
    """Otherwise one that does not would pass for another that does."""
    for layer, there in (("bubblewrap", bool(BUBBLEWRAP)), ("landlock", landlock_version() > 0)):
        if there:
            with cells.lend(layer) as cell:
                assert cell.usual.state.kind.startswith(layer)


BOTH = ("bubblewrap", "landlock")
WORKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "in the workspace": ("mkdir -p a/b && echo x > a/b/c", BOTH),
    "moving within": ("mkdir c d && touch c/e && mv c/e d/", BOTH),
    "a cache": ("echo x > ~/.cache/pip/http-v2/x", BOTH),
    "a private cache": ('echo x > "$XDG_CACHE_HOME/x"', BOTH),
    "a cache by its link": (
        'echo y > "$XDG_CACHE_HOME/pip/http-v2/y" && cat ~/.cache/pip/http-v2/y',
        BOTH,
    ),
    "temporary": ('t=$(mktemp) && echo x > "$t"', BOTH),
    "temporary by name": ("echo x > /tmp/x", ("bubblewrap",)),
    "devices": ("echo x > /dev/null; cat <(echo x)", BOTH),
    "user namespaces": ("unshare -U true", ("landlock",)),
    "no capability": ("grep -q '^CapEff:\\s0*$' /proc/$$/status", BOTH),
    "no gain": ("grep -q '^NoNewPrivs:\\s1$' /proc/$$/status", BOTH),
    "few open files and no core": ('test "$(ulimit -n)/$(ulimit -c)" = 4096/0', BOTH),
    "few processes": ('test "$(ulimit -u)" -le 4096', ("bubblewrap",)),
    "its folder": ('test "$(pwd -P)" = "$ROOT"', BOTH),
    "everything": ('find ~ "$OWN" -type f -exec cat {} +; true', BOTH),
    "GIT status": ("git status", BOTH),
    "GIT commit": ("git add inside && git commit -qm x && git log", BOTH),
    "GIT branches": ("git commit -q --allow-empty -m x && git switch -qc y", BOTH),
    "PROT reading": ("cat AGENTS.md", BOTH),
    "PROT a hook": ("echo x > .git/hooks/pre-commit", ("landlock",)),
    "PROT git's settings": ("git config a.b c", ("landlock",)),
    "PROT moving git": ("mv .git f && mv f .git", ("landlock",)),
    "PROT moving hooks": ("mv .git/hooks g && mv g .git/hooks", ("landlock",)),
    "PROT writing": ("echo x >> AGENTS.md", ("landlock",)),
    "PROT moving over": ("echo x > h && mv -f h AGENTS.md", ("landlock",)),
    "PROT a link": ("ln -sfn /etc/passwd AGENTS.md", ("landlock",)),
    "PROT removing": ("rm -f AGENTS.md", ("landlock",)),
    "reading what is ignored": ("cat ignored.env > /dev/null", ("landlock",)),
}
"""Commands, and in which layers each works; elsewhere it must fail. They run one after another."""

FAILS = {
    "a file elsewhere": 'echo x > "$OUTSIDE/new"',
    "a file at home": "echo x > ~/new",
    "a folder elsewhere": 'mkdir "$OUTSIDE/new"',
    "appending elsewhere": 'echo x >> "$OUTSIDE/there"',
    "truncating elsewhere": ': > "$OUTSIDE/there"',
    "truncating unopened": (
        'python3 -c \'import os; os.truncate(os.environ["OUTSIDE"] + "/there", 0)\''
    ),
    "removing elsewhere": 'rm -f "$OUTSIDE/there"',
    "moving out": 'mv inside "$OUTSIDE/"',
    "moving in": 'mv "$OUTSIDE/there" .',
    "a hard link": 'ln "$OUTSIDE/there" i && echo x > i',
    "through a link": 'ln -s / j && echo y > "j$OUTSIDE/new"',
    "through the process": 'echo y > "/proc/self/root$OUTSIDE/new"',
    "into the system": "echo x > /etc/rookery-test",
    "into the kernel": "exec 3>>/proc/sys/kernel/core_pattern",
    "beside a cache": "echo x > ~/.cache/pip/x",
    "beside a key": "echo x > ~/.ssh/x",
    "a new cache": "echo x > ~/.cache/x",
    "another cache by its link": (
        'test -d "$XDG_CACHE_HOME/huggingface" && echo x > "$XDG_CACHE_HOME/huggingface/x"'
    ),
    "moving a cache away": "mv ~/.cache/pip/http-v2 ~/.cache/pip/x",
    "renaming what leads to a key": "mv ~/.cache/huggingface ~/.cache/x",
    "a key": "cat ~/.ssh/id_ed25519",
    "own state": 'cat "$OWN/tasks/journal"',
    "sockets": 'test -n "$SSH_AUTH_SOCK$DBUS_SESSION_BUS_ADDRESS"',
}


@pytest.mark.parametrize("layer", ["bubblewrap", "mounts", "landlock"])
def test_each_layer_allows_and_blocks_the_expected_commands(layer: str, tmp_path: Path):
    cell = Cell(tmp_path, needing(layer))
    cell.env["ROOT"] = str(cell.root)
    commands = FAILS | {name: command for name, (command, _) in WORKS.items()}
    found = cell.each(commands, cell.usual)
    kind = layer.replace("mounts", "bubblewrap")
    expected = [name for name, (_, layers) in WORKS.items() if kind in layers]
    assert [name for name, (status, _) in found.items() if status == 0] == expected, found
    assert [name for name, (_, said) in found.items() if SECRET in said] == []
    assert [path.name for path in cell.outside.iterdir()] == ["there"]
    assert (cell.outside / "there").read_text() == "before"
    assert not (cell.root / "missing.md").exists()
    assert (cell.root / "ignored.env").read_text() == SECRET
    cell.close()


def test_a_command_keeps_its_exit_status(cell: Cell):
    assert cell.run("exit 7", cell.usual) == (7, "")
    assert cell.run("kill -9 $$", cell.usual)[0] in (137, -9)


TESTS = """
import multiprocessing, tempfile, unittest


class Everyday(unittest.TestCase):
    def test_what_tests_do(self):
        with tempfile.TemporaryDirectory() as folder, multiprocessing.Pool(2) as pool:
            self.assertEqual(pool.map(len, ["a", folder])[0], 1)
"""


def test_a_test_run_needs_no_network(cell: Cell):
    (cell.root / "test_everyday.py").write_text(TESTS)
    status, said = cell.run("python3 -m unittest", cell.sandbox(network="off"))
    assert status == 0, said


def test_closing_the_sandbox_removes_its_files(any_cell: Cell):
    before = sorted(any_cell.folder.rglob("*"))
    sandbox = any_cell.sandbox(hidden=(str(any_cell.home / "nowhere"),))
    any_cell.run("mkdir /tmp/a; chmod 0 /tmp/a; touch $TMPDIR/b", sandbox)
    private = Path(sandbox._private)
    assert private.is_dir()
    sandbox.close()
    assert not private.exists()
    assert sorted(any_cell.folder.rglob("*")) == before


@pytest.mark.parametrize("option", ["writable", "hidden"])
def test_user_configured_folders_are_writable_or_hidden(option: str, cell: Cell):
    sandbox = cell.sandbox(**{option: (str(cell.outside),)})
    status, said = cell.run('cat "$OUTSIDE/there"; echo x > "$OUTSIDE/new"', sandbox)
    assert (status == 0) == (option == "writable"), said
    assert ("before" in said) == (option == "writable")


@pytest.mark.parametrize("layer", ["bubblewrap", "mounts"], indirect=True)
def test_a_hidden_folder_cannot_be_written_even_in_a_writable_one(cell: Cell):
    (hidden := cell.outside / "hidden").mkdir()
    sandbox = cell.sandbox(writable=(str(cell.outside),), hidden=(str(hidden),))
    tried = cell.each({"beside": 'echo x > "$OUTSIDE/x"', "in": f"echo x > {hidden}/x"}, sandbox)
    assert {place: status == 0 for place, (status, _) in tried.items()} == {
        "beside": True,
        "in": False,
    }


def test_the_layers_are_tried_once_for_all_sandboxes_of_a_process(tmp_path: Path):
    needing("bubblewrap")
    programs, starts = tmp_path / "bin", tmp_path / "starts"
    programs.mkdir()
    (programs / "bwrap").write_text(f'#!/bin/sh\necho x >> {starts}\nexec {BUBBLEWRAP} "$@"\n')
    (programs / "bwrap").chmod(0o755)
    for name in ("first", "second"):
        cell = Cell(tmp_path / name, "bubblewrap", programs=str(programs))
        assert cell.usual.state.kind.startswith("bubblewrap")
        cell.close()
    assert starts.read_text() == "x\n"


LATER = {
    ".aws/config": "cat ~/.aws/config",
    ".config/sops/age/keys.txt": "cat ~/.config/sops/age/keys.txt",
    "elsewhere/real-kube/config": "cat ~/.kube/config ~/elsewhere/real-kube/config",
    "elsewhere/hidden-by-the-user": "cat ~/elsewhere/hidden-by-the-user",
}


def test_a_key_made_after_the_first_command_is_hidden(cell: Cell):
    sandbox = cell.sandbox(hidden=(str(cell.outside / "hidden-by-the-user"),))
    assert cell.run("true", sandbox)[0] == 0
    for path in LATER:
        (cell.home / path).parent.mkdir(parents=True, exist_ok=True)
        (cell.home / path).write_text(SECRET)
    (cell.home / ".kube").symlink_to(cell.outside / "real-kube")
    found = cell.each(LATER, sandbox)
    assert [path for path, (_, said) in found.items() if SECRET in said] == []


def test_the_state_folder_is_hidden_even_if_created_later(cell: Cell):
    own = cell.home / ".local" / "state" / "ours"
    sandbox = cell.sandbox(own=(str(own),))
    with cell.started(f"echo ready; read -r; cat {own}/journal", sandbox) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        own.mkdir(parents=True, exist_ok=True)
        (own / "journal").write_text(SECRET)
        said, _ = process.communicate("\n", timeout=60)
    assert SECRET not in said
    assert SECRET not in cell.run(f"cat {own}/journal", sandbox)[1]


def test_keys_of_other_processes_are_not_readable(cell: Cell):
    environ = {"PROVIDER_KEY": SECRET}
    with subprocess.Popen(["/bin/sleep", "60"], env=environ) as other:
        try:
            command = f"cat /proc/{other.pid}/environ /proc/*/environ; kill {other.pid}"
            _, said = cell.run(command, cell.usual)
            assert SECRET not in said
            assert other.poll() is None
        finally:
            other.kill()


def test_network_access_is_blocked_when_the_network_is_off(cell: Cell):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as box,
    ):
        box.bind(("127.0.0.1", 0))
        server.setblocking(False)
        box.setblocking(False)
        tries = {
            "connect": f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}",
            "send": f"echo x > /dev/udp/127.0.0.1/{box.getsockname()[1]}",
        }
        assert done_of(tries, cell, cell.usual) == ["connect", "send"]
        server.accept()[0].close()
        assert box.recv(10) == b"x\n"
        assert "connect" not in done_of(tries, cell, cell.sandbox(network="off"))
        with pytest.raises(BlockingIOError):
            server.accept()
        with pytest.raises(BlockingIOError):
            box.recv(10)


@pytest.mark.parametrize("network", ["known", "off"])
def test_sockets_that_no_namespace_confines_are_closed(network: str, mounted: Cell):
    """Such as those to the machine that hosts a virtual one."""
    known = [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6]
    others = [socket.AF_VSOCK, 31]  # and Bluetooth
    source = f"""
import errno, socket
for family in {[*map(int, known)]}:
    socket.socket(family).close()
for family in {[*map(int, others)]}:
    try:
        socket.socket(family).close()
    except OSError as error:
        assert error.errno == errno.ENETUNREACH, error
    else:
        raise SystemExit(f"{{family}} is open")
"""
    status, said = mounted.run(
        shlex.join(["python3", "-c", source]), mounted.sandbox(network=network)
    )
    assert status == 0, said


def test_sockets_without_a_path_are_closed(cell: Cell):
    if landlock_version() < 6:
        pytest.skip("this kernel's Landlock does not know such sockets")
    name = f"\0{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        program = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        command = f"python3 -c '{program.replace(chr(39), chr(34))}'"
        assert cell.run(command, cell.usual)[0] != 0


def test_a_working_directory_outside_the_workspace_is_denied(any_cell: Cell):
    for folder in (any_cell.outside, any_cell.root / ".." / "home", any_cell.folder):
        with pytest.raises(Denied, match="outside the workspace"):
            any_cell.usual.launch(["/bin/true"], cwd=str(folder))


def test_a_folder_swapped_after_the_launch_is_not_used(mounted: Cell):
    """A command in the background could do so while the mounts of the next one are made."""
    cell = mounted
    argv, env = cell.argv("echo ran", cell.usual)
    (cell.root / ".git").rename(cell.root / "moved")
    shutil.copytree(cell.root / "moved", cell.root / ".git")
    done = subprocess.run(argv, env=env, cwd=cell.root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (126, "")
    assert "replaced" in done.stderr
    assert "the command was not run" in done.stderr


def test_the_folder_identity_is_checked_after_mounting(tmp_path: Path):
    (tmp_path / "a").mkdir()
    found = (tmp_path / "a").stat()
    for inode, status in ((found.st_ino, 0), (found.st_ino + 1, 126)):
        named = f"{found.st_dev}:{inode}:{tmp_path}/a"
        words = [INTERPRETER, "-I", "-S", str(CONFINE), "is", named, "--", "/bin/true"]
        assert subprocess.run(words, capture_output=True, check=False).returncode == status


def test_a_replaced_workspace_is_refused(any_cell: Cell):
    sandbox = any_cell.sandbox()
    any_cell.run("true", sandbox)
    any_cell.root.rename(any_cell.folder / "moved")
    any_cell.root.mkdir()
    with pytest.raises(ToolError, match="no longer the folder"):
        sandbox.launch(["/bin/true"], cwd=str(any_cell.root))


def test_a_command_is_refused_when_bubblewrap_disappears(tmp_path: Path):
    needing("bubblewrap")
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(str(BUBBLEWRAP), programs / "bwrap")
    cell = Cell(tmp_path, "bubblewrap", programs=str(programs))
    sandbox = cell.sandbox()
    assert cell.run("true", sandbox)[0] == 0
    (programs / "bwrap").unlink()
    with pytest.raises(ToolError, match="was not run"):
        sandbox.launch(["/bin/true"], cwd=str(cell.root))
    cell.close()


WITHOUT_LANDLOCK = """
import sys
from pathlib import Path
from rookery.errors import Denied
from rookery.sandbox.layers import guarantees
from rookery.sandbox.sandbox import Sandbox
from rookery.sandbox.confinement import SandboxOptions
folder = Path(sys.argv[1])
for mode in ("on", "required", "off"):
    sandbox = Sandbox(SandboxOptions(root=folder, home=folder, mode=mode), "/nonexistent")
    print(sandbox.narrows, sandbox.state.line)
    print({each.holds.value for each in guarantees(sandbox.state, open_to_all=sandbox.open_to_all)})
    for narrow in ({}, {"writable": ()}):
        try:
            print(sandbox.launch(["/bin/true"], cwd=str(folder), **narrow).argv)
        except Denied as error:
            print(error.code, error)
"""


def test_a_missing_sandbox_is_reported_and_scoped_commands_are_refused(tmp_path: Path):
    """Landlock allows at most sixteen layers, so inside sixteen of them it is not available."""
    needing("landlock")
    layers = [INTERPRETER, "-I", "-S", str(CONFINE), "write", "/", "--"] * 16
    program = [sys.executable, "-c", WITHOUT_LANDLOCK, str(tmp_path)]
    env = {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*layers, *program], env=env, capture_output=True, text=True, check=False)
    states, holds, launched, narrow = (done.stdout.splitlines()[at::4] for at in range(4))
    assert all(each.startswith("False no sandbox: commands can do everyth") for each in states[:2])
    assert states[2].startswith("False no sandbox"), done.stderr
    assert "yes" not in "".join(holds)
    assert launched[::2] == ["('/bin/true',)"] * 2
    assert "bubblewrap is not installed" in launched[1]
    assert "was not run" in launched[1]
    assert all(each.startswith("CMD-001 ") and "was not run" in each for each in narrow)
    assert "bubblewrap is not installed" in narrow[0]
    assert "turned off" in narrow[2]


def test_a_disabled_sandbox_changes_nothing_and_is_reported(any_cell: Cell):
    sandbox = any_cell.sandbox(mode="off")
    launch = sandbox.launch(["/bin/true"], cwd=str(any_cell.outside))
    assert (launch.argv, launch.environment) == (("/bin/true",), {})
    assert sandbox.state.line.startswith("no sandbox")


def test_the_state_lists_the_guarantees(layer: str, cell: Cell):
    state = cell.sandbox(network="off").state
    assert state.kind.startswith(layer)
    assert state.line.endswith("network off")
    found = {each.name: each for each in guarantees(state, open_to_all=False)}
    assert found["network closed"].holds is Holds.YES
    assert found["no new privileges"].holds is Holds.YES
    whole = Holds.YES if layer == "bubblewrap" else Holds.PARTLY
    assert found["writes confined"].holds is whole
    assert found["credentials hidden"].holds is whole
    assert all(each.why for each in found.values() if each.holds is not Holds.YES)


def test_the_state_reports_the_known_hosts_limit(layer: str, cell: Cell):
    sandbox = cell.sandbox(network="known")
    found = {each.name: each for each in guarantees(sandbox.state, open_to_all=sandbox.open_to_all)}
    if layer == "bubblewrap":
        assert (sandbox.proxied, sandbox.open_to_all) == (True, False)
        assert sandbox.state.line.endswith("network to known hosts only")
        assert found["network closed"].holds is Holds.YES
    else:
        assert (sandbox.proxied, sandbox.open_to_all) == (False, True)
        assert sandbox.state.line.endswith("network on")
        assert found["network closed"].holds is Holds.NO
        assert "no network namespace can be made" in found["network closed"].why


def test_a_hidden_socket_cannot_be_connected(mounted: Cell):
    path = mounted.outside / "names"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        program = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        command = f"python3 -c '{program.replace(chr(39), chr(34))}'"
        assert mounted.run(command, mounted.sandbox(hidden=(str(path),)))[0] != 0
    path.unlink()


NAME = "-rf with space quo'te\"s new\nline $(touch x) ümläut a:b=c,d"


def test_special_characters_in_the_workspace_name_are_literal(layer: str, tmp_path: Path):
    cell = Cell(tmp_path, layer, name=NAME)
    status, said = cell.run("git status -s && echo x > new")
    assert status == 0, said
    assert (cell.root / "new").read_text() == "x\n"
    assert not (cell.root / "x").exists()
    cell.close()


def eventually(happened: Callable[[], bool]) -> None:
    with patience():
        while not happened():
            time.sleep(0.01)


def alive(marker: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[:2] == [b"sleep", marker.encode()]:
            found.append(entry.name)
    return found


def test_background_processes_end_with_the_command(mounted: Cell):
    markers = [f"{300 + uuid.uuid4().int % 10**9}" for _ in range(3)]
    started = zip(("", "setsid ", "nohup "), markers, strict=True)
    each = (f"{how}sleep {marker} > /dev/null 2>&1 & disown" for how, marker in started)
    assert mounted.run("\n".join(each), mounted.usual)[0] == 0
    eventually(lambda: not any(map(alive, markers)))


def test_sandboxed_processes_end_when_the_launcher_is_killed(mounted: Cell):
    marker = f"{300 + uuid.uuid4().int % 10**9}"
    with mounted.start(f"echo x; setsid sleep {marker}") as process:
        assert process.stdout
        process.stdout.readline()
        eventually(lambda: bool(alive(marker)))
        process.kill()
    eventually(lambda: not alive(marker))


def test_a_terminated_command_can_write_final_output(cell: Cell):
    command = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done"
    with cell.start(command) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert process.stdout.read() == "bye\n"
    assert process.returncode == 3


def test_only_the_workspace_is_visible_inside_the_state_folder(cell: Cell):
    root = cell.own / "worktrees" / "one"
    root.mkdir(parents=True)
    cell.root.rename(root / "was")
    cell.root = root
    status, said = cell.run('echo x > new; find "$OWN" -type f -exec cat {} +; true')
    assert status == 0
    assert SECRET not in said.replace((root / "was" / "ignored.env").read_text(), "", 1)
    assert (root / "new").exists()


def linked_worktree(cell: Cell) -> Path:
    main = cell.outside / "main"
    git = ["git", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", str(main)], check=True)
    commit = [*git, "-C", str(main), "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(commit, check=True, env=cell.env)
    linked = cell.folder / "linked"
    added = [*git, "-C", str(main), "worktree", "add", "-q", str(linked)]
    subprocess.run(added, check=True, env=cell.env, capture_output=True)
    cell.root = linked
    return main


def test_a_linked_worktree_can_commit_into_its_repository(layer: str, cell: Cell):
    main = linked_worktree(cell)
    status, said = cell.run("echo x > y && git add y && git commit -qm y && git log -1")
    assert status == 0, said
    assert cell.run('echo x > "$OUTSIDE/main/y"')[0] != 0
    assert not (main / "y").exists()


DESTROYED = {
    "objects": "rm -rf .git/objects",
    "a reference": "echo x > .git/HEAD",
    "by renaming": "mv .git gitold",
    "settings": ": > .git/config",
    "of a nested repository": "rm -rf nested/.git/objects nested/.git/refs",
    "of a separate folder": "rm -rf apart",
    "of what leads to it": "rm apart/HEAD separate/.git; mv apart gone",
}


def test_a_command_that_does_not_run_git_cannot_change_a_repository(mounted: Cell):
    quiet = ["git", "init", "-q", "--template="]
    for words in (["nested"], ["--separate-git-dir=apart", "separate"]):
        subprocess.run([*quiet, *words], cwd=mounted.root, env=mounted.env, check=True)
    mounted.git = False
    before = contents(mounted.root)
    found = mounted.each(DESTROYED, mounted.sandbox())
    assert contents(mounted.root) == before, found


def test_a_command_that_does_not_run_git_cannot_write_a_worktrees_repository(cell: Cell):
    main = linked_worktree(cell)
    cell.git = False
    before = contents(main)
    tries = {
        place: f"touch {main}/.git/{place}/new"
        for place in ("objects", "refs/heads", "worktrees/linked")
    }
    destroy = f"rm -rf {main}/.git/objects {main}/.git/worktrees/linked/*"
    assert done_of(tries | {"destroy": destroy}, cell, cell.sandbox()) == []
    assert contents(main) == before
    assert cell.run("git status --short && git log -1")[0] == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


PLANTED = (
    *("hooks/pre-commit", "config", "config.worktree", "info/attributes", "commondir", "index"),
    *("packed-refs", "worktrees/new/gitdir", "worktrees/linked/gitdir", "modules/new/config"),
    *("worktrees/linked/commondir", "worktrees/linked/rookery-worktree.json"),
)
"""What would make git read or run something else, in the repository of a linked worktree."""


def test_a_linked_worktree_cannot_plant_files_in_its_repository(layer: str, cell: Cell):
    main = linked_worktree(cell)
    git = main / ".git"
    note = git / "worktrees" / "linked" / "rookery-worktree.json"
    note.write_text("{}")
    before = {name: content(git / name) for name in PLANTED}
    tries = [f'mkdir -p "{(git / name).parent}"; echo x > "{git / name}"' for name in PLANTED]
    planted = done_of(dict(zip(PLANTED, tries, strict=True)), cell, cell.sandbox())
    own = [name for name in PLANTED if name.startswith("worktrees/linked/")]
    assert planted == (own if layer == "landlock" else [])
    after = {name: content(git / name) for name in PLANTED if name not in planted}
    assert after == {name: before[name] for name in after}


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def done_of(tries: dict[str, str], cell: Cell, sandbox: Sandbox) -> list[str]:
    """Which of the commands work."""
    return [name for name, (status, _) in cell.each(tries, sandbox).items() if status == 0]


def test_a_git_file_cannot_open_an_unrelated_folder(cell: Cell):
    main = linked_worktree(cell)
    text = (cell.root / ".git").read_text()
    cell.root = cell.folder / "forged"
    cell.root.mkdir()
    (cell.root / ".git").write_text(text)
    assert cell.run(f"echo x > {main}/.git/new")[0] != 0
    (cell.root / ".git").write_text(f"gitdir: {cell.home}\n")
    assert cell.run("echo x > ~/new")[0] != 0


UNPRIVILEGED = """
import subprocess, sys
from pathlib import Path
from rookery.sandbox.sandbox import Sandbox
from rookery.sandbox.confinement import SandboxOptions
folder = Path(sys.argv[1])
sandbox = Sandbox(SandboxOptions(root=folder / "work", home=folder / "home"), sys.argv[2])
command = "cat ~/.ssh/key; echo x > ~/new; echo x > new && id -u; grep CapEff /proc/self/status"
launch = sandbox.launch(["/bin/sh", "-c", command], cwd=str(folder / "work"))
subprocess.run(launch.argv, cwd=folder / "work", env={"HOME": str(folder / "home")}, check=True)
print(sandbox.state.kind)
sandbox.close()
"""


def test_the_sandbox_works_for_an_unprivileged_user():
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or not python or not setpriv:
        pytest.skip("needs root, setpriv and a Python that everybody can run")
    folder = Path("/var/tmp") / f"sandbox-{uuid.uuid4()}"
    become = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"]
    try:
        shutil.copytree(SOURCE / "rookery", folder / "src" / "rookery")
        shutil.copytree(Path(msgspec.__file__).parent, folder / "src" / "msgspec")
        layers = {"bubblewrap": PROGRAMS} if BUBBLEWRAP else {}
        layers |= {"landlock": NO_PROGRAMS} if landlock_version() > 0 else {}
        for layer in layers:
            (folder / layer / "work").mkdir(parents=True)
            (folder / layer / "home/.ssh").mkdir(parents=True)
            (folder / layer / "home/.ssh/key").write_text(SECRET)
        subprocess.run(["chown", "-R", "65534:65534", str(folder)], check=True)
        for layer, programs in layers.items():
            place = folder / layer
            done = subprocess.run(
                [*become, python, "-B", "-c", UNPRIVILEGED, str(place), programs],
                env={"PYTHONPATH": str(folder / "src"), "TMPDIR": "/tmp"},
                capture_output=True,
                text=True,
                check=False,
            )
            if "SyntaxError" in done.stderr or "msgspec._core" in done.stderr:
                pytest.skip("the system's Python is another version")
            assert "65534\nCapEff:\t0000000000000000\n" in done.stdout, done.stderr
            assert layer in done.stdout
            assert SECRET not in done.stdout
            assert (place / "work/new").exists()
            assert not (place / "home/new").exists()
    finally:
        subprocess.run(["chown", "-R", "0:0", str(folder)], check=True)
        shutil.rmtree(folder)


NO_CACHES = (
    *(".bun/install/cache/a@1.0.0/index.js", ".cache/bazel/_bazel_me/install/0/server"),
    *(".cache/ccache/ccache.conf", ".cache/deno/gen/a.js"),
    ".cache/gitstatus/gitstatusd-linux-x86_64",
    *(".cache/node/corepack/v1/pnpm/9.0.0/bin/pnpm.cjs", ".cache/p10k-instant-prompt-me.zsh"),
    *(".cache/pip/wheels/00/a.whl", ".cache/pnpm/dlx/0/node_modules/.bin/a"),
    ".cache/pre-commit/repo0/py_env-python3/bin/python",
    *(".cache/pypoetry/virtualenvs/a-py3.11/bin/python", ".cache/uv/archive-v0/0/a.py"),
    *(".cache/uv/environments-v2/a/bin/python", ".deno/bin/git", ".gradle/init.d/e.gradle"),
    *(".gradle/wrapper/dists/gradle", ".local/share/pnpm/store/v10/files/00/0"),
    *(".local/share/pnpm/tsc", ".local/share/virtualenvs/a/bin/python", ".m2/extensions.xml"),
    *(".npm/_npx/0/node_modules/.bin/a", ".nuget/NuGet/NuGet.Config", ".pnpm-store/v3/files/00/0"),
    *(".sbt/1.0/plugins/e.sbt", ".yarn/bin/yarn"),
)


def test_files_that_run_outside_the_sandbox_are_not_writable(cell: Cell):
    for path in NO_CACHES:
        (cell.home / path).parent.mkdir(parents=True, exist_ok=True)
    tries = {path: f'echo x > "$HOME/{path}"' for path in NO_CACHES}
    assert done_of(tries, cell, cell.sandbox()) == []
    assert [path for path in NO_CACHES if (cell.home / path).exists()] == []


LED = {"XDG_CACHE_HOME": ".cache", "npm_config_cache": ".npm"}


def test_files_under_the_private_cache_stay_unchanged_outside(cell: Cell):
    """A tool may replace it or make its own, and what is outside stays as it is."""
    there = [each for each in NO_CACHES if each.startswith((".cache", ".npm"))]
    for path in there:
        (cell.home / path).parent.mkdir(parents=True, exist_ok=True)
        (cell.home / path).write_text("before")
    tries = {}
    for path in sorted(there, key=lambda path: -path.count("/")):  # what is moved away is gone
        variable = next(name for name, place in LED.items() if path.startswith(place))
        led = f'"${variable}/{path.partition("/")[2]}"'
        tries[path] = (
            f"mkdir -p $(dirname {led}); echo x > {led}; rm -f {led}; "
            f"mv $(dirname {led}) $(mktemp -d)"
        )
    done_of(tries, cell, cell.sandbox())
    assert {path: content(cell.home / path) for path in there} == dict.fromkeys(there, b"before")


def test_a_read_only_cache_is_readable(cell: Cell):
    paths = ("pypoetry/virtualenvs/a/bin/python", "ms-playwright/chrome")
    for path in paths:
        (cell.home / ".cache" / path).parent.mkdir(parents=True)
        (cell.home / ".cache" / path).write_text("there")
    reads = {path: f'cat "$XDG_CACHE_HOME/{path}" ~/.cache/{path}' for path in paths}
    assert cell.each(reads, cell.sandbox()) == dict.fromkeys(paths, (0, "therethere"))


PRIVATELY = (
    *("uv/CACHEDIR.TAG", "pip/wheels/a", "pypoetry/artifacts/a"),
    *("pypoetry/virtualenvs/new/bin/python", "node/corepack/v1/pnpm/10.0.0/a"),
    "of-a-tool-nobody-knows/a",
)


def test_private_tool_caches_persist_between_commands(cell: Cell):
    there = ("uv", "pip/wheels", "pypoetry/artifacts", "pypoetry/virtualenvs/old")
    for place in (*there, "node/corepack/v1/pnpm/9.0.0"):
        (cell.home / ".cache" / place).mkdir(parents=True)
    sandbox = cell.sandbox()
    made = {path: f'"$XDG_CACHE_HOME/{path}"' for path in PRIVATELY}
    makes = {path: f"mkdir -p $(dirname {at}) && echo x > {at}" for path, at in made.items()}
    assert done_of(makes, cell, sandbox) == [*PRIVATELY]
    reads = {path: f'test "$(cat {at})" = x' for path, at in made.items()}
    assert done_of(reads, cell, sandbox) == [*PRIVATELY]
    assert [path for path in PRIVATELY if (cell.home / ".cache" / path).exists()] == []


def test_a_cache_added_by_the_user_is_shared(cell: Cell):
    place = cell.home / ".cache" / "uv"
    place.mkdir()
    sandbox = cell.sandbox(writable=(str(place),))
    assert cell.run('echo x > "$XDG_CACHE_HOME/uv/x"', sandbox) == (0, "")
    assert (place / "x").exists()
    whole = cell.sandbox(writable=(str(cell.home / ".cache"),))
    assert cell.run('echo "${XDG_CACHE_HOME-none}"; echo x > ~/.cache/uv/y', whole) == (0, "none\n")
    assert (place / "y").exists()


def test_file_names_in_a_hidden_cache_are_not_listed(layer: str, cell: Cell):
    place = cell.home / ".cache" / "pypoetry" / "virtualenvs"
    (place / SECRET).mkdir(parents=True)
    looks = {way: f"find {way} $TMPDIR/ -name '*decoy*'" for way in ("-L", "-P")}
    found = cell.each(looks, cell.sandbox(hidden=(str(place),)))
    assert layer == "landlock" or SECRET not in found["-L"][1]
    assert SECRET not in found["-P"][1]


PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "everyday"
version = "1"
"""
BACKEND = """
import zipfile

PARTS = {
    "METADATA": "Metadata-Version: 2.1\\nName: everyday\\nVersion: 1\\n",
    "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "RECORD": "",
}


def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "everyday-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("everyday.py", "")
        for part, text in PARTS.items():
            wheel.writestr(f"everyday-1.dist-info/{part}", text)
    return name
"""


CACHES = ".cache/pip/wheels .npm/_cacache .npm/_logs"
INSTALLING = [("bubblewrap", CACHES)]
if TORTURE:  # seconds each; the caches of a user are most in the way where mounts keep them
    INSTALLING += [("bubblewrap", ""), ("landlock", ""), ("landlock", CACHES)]


@pytest.mark.parametrize(("layer", "caches"), INSTALLING, indirect=["layer"])
def test_pip_and_npm_install_without_network(layer: str, caches: str, cell: Cell):
    for place in caches.split():
        (cell.home / place).mkdir(parents=True)
    sandbox = cell.sandbox(network="off")
    if importlib.util.find_spec("pip"):
        made = cell.root / "everyday-1"
        made.mkdir()
        (made / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: everyday\nVersion: 1\n")
        (made / "pyproject.toml").write_text(PROJECT)
        (made / "backend.py").write_text(BACKEND)
        # an environment below /tmp is not there for commands; what it was made from is
        python = os.path.realpath(sys.executable)
        quietly = "--no-input install --root-user-action=ignore --no-index --target there"
        pip = f"{python} -m pip {quietly}"
        packed = "tar -czf everyday-1.tar.gz everyday-1"
        status, said = cell.run(f"{packed} && {pip} ./everyday-1.tar.gz && ls there", sandbox)
        assert status == 0, said
        assert "everyday.py" in said
        assert "/caches/.cache/pip/wheels/" in said
        assert "WARNING" not in said
    if shutil.which("npm", path=cell.env["PATH"]):
        (cell.root / "package.json").write_text('{"dependencies": {"a": "file:a.tgz"}}')
        (cell.root / "package" / "bin").mkdir(parents=True)
        (cell.root / "package" / "package.json").write_text('{"name": "a", "version": "1.0.0"}')
        packed = "tar -czf a.tgz package && npm install --offline --no-audit"
        status, said = cell.run(f"{packed} && ls node_modules/a", sandbox)
        assert status == 0, said
        assert "EROFS" not in said
        assert "EACCES" not in said


def test_the_writable_folders_are_listed(any_cell: Cell):
    sandbox = any_cell.sandbox(writable=(str(any_cell.outside),))
    reported = sandbox.writable
    shared = str(any_cell.home / ".cache" / "pip" / "http-v2")
    assert {shared, str(any_cell.outside), "/tmp"} <= set(reported)
    assert not {str(any_cell.home / ".cache"), str(any_cell.home / ".cache" / "pip")} & set(
        reported
    )


def test_a_named_pipe_in_place_of_the_git_folder_does_not_block_commands(cell: Cell):
    shutil.rmtree(cell.root / ".git")
    os.mkfifo(cell.root / ".git")
    assert cell.run("echo x") == (0, "x\n")


@pytest.mark.parametrize("known", [True, False])
def test_a_removed_workspace_is_not_reported_as_a_missing_sandbox(known: bool, any_cell: Cell):
    sandbox = any_cell.sandbox()
    assert not known or sandbox.state.kind != "none"
    moved = any_cell.root.rename(any_cell.folder / "moved")
    assert sandbox.state.line == f"The folder {any_cell.root} was removed."
    with pytest.raises(ToolError, match=r"was removed\. The command was not run"):
        sandbox.launch(["/bin/true"], cwd=str(any_cell.root))
    moved.rename(any_cell.root)
    assert sandbox.state.kind != "none"
