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
from msgspec import Struct

from rookery.errors import Denied, ToolError
from rookery.sandbox.confine import landlock_version
from rookery.sandbox.confinement import SandboxWishes
from rookery.sandbox.guarantees import Holds, guarantees
from rookery.sandbox.layers import CONFINE, INTERPRETER, PROGRAMS
from rookery.sandbox.sandbox import Sandbox
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
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".config/gcloud/access.db",
    ".config/google-chrome/Default/Cookies",
    ".local/share/keyrings/login.keyring",
    ".cache/huggingface/token",
    ".m2/settings.xml",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".git-credentials",
    ".bash_history",
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
        """For whatever does not change what a sandbox looks at when it is made."""
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

    def sandbox(self, *, root: Path | None = None, **wishes: object) -> Sandbox:
        places = {"root": root or self.root, "home": self.home, "own": (str(self.own),)}
        kind = WithoutLandlock if self.layer == "mounts" else Sandbox
        made = kind(SandboxWishes(**(places | wishes)), self.programs)  # type: ignore[arg-type]
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
        """The status and everything that was said."""
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
    if layer == "bubblewrap" and not BUBBLEWRAP:
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


class Row(Struct, frozen=True, kw_only=True):
    """A command, and in which layers it works; elsewhere it must fail."""

    id: str
    command: str
    works: tuple[str, ...] = ()


BOTH = ("bubblewrap", "landlock")

ROWS = (
    Row(id="a file elsewhere", command='echo x > "$OUTSIDE/new"'),
    Row(id="a file at home", command="echo x > ~/new"),
    Row(id="a folder elsewhere", command='mkdir "$OUTSIDE/new"'),
    Row(id="appending elsewhere", command='echo x >> "$OUTSIDE/there"'),
    Row(id="truncating elsewhere", command=': > "$OUTSIDE/there"'),
    Row(
        id="truncating unopened",
        command='python3 -c \'import os; os.truncate(os.environ["OUTSIDE"] + "/there", 0)\'',
    ),
    Row(id="removing elsewhere", command='rm -f "$OUTSIDE/there"'),
    Row(id="moving out", command='mv inside "$OUTSIDE/"'),
    Row(id="moving in", command='mv "$OUTSIDE/there" .'),
    Row(id="a hard link", command='ln "$OUTSIDE/there" x && echo x > x'),
    Row(id="through a link", command='ln -s / x && echo y > "x$OUTSIDE/new"'),
    Row(id="through the process", command='echo y > "/proc/self/root$OUTSIDE/new"'),
    Row(id="into the system", command="echo x > /etc/rookery-test"),
    Row(id="into the kernel", command="exec 3>>/proc/sys/kernel/core_pattern"),
    Row(id="in the workspace", command="mkdir -p a/b && echo x > a/b/c", works=BOTH),
    Row(id="moving within", command="mkdir a b && touch a/c && mv a/c b/", works=BOTH),
    Row(id="a cache", command="echo x > ~/.cache/pip/http-v2/x", works=BOTH),
    Row(id="beside a cache", command="echo x > ~/.cache/pip/x"),
    Row(id="a new cache", command="echo x > ~/.cache/x"),
    Row(id="a private cache", command='echo x > "$XDG_CACHE_HOME/x"', works=BOTH),
    Row(
        id="a cache by its link",
        command='echo x > "$XDG_CACHE_HOME/pip/http-v2/x" && cat ~/.cache/pip/http-v2/x',
        works=BOTH,
    ),
    Row(
        id="another cache by its link",
        command='test -d "$XDG_CACHE_HOME/huggingface" && echo x > "$XDG_CACHE_HOME/huggingface/x"',
    ),
    Row(id="moving a cache away", command="mv ~/.cache/pip/http-v2 ~/.cache/pip/x"),
    Row(id="temporary", command='t=$(mktemp) && echo x > "$t"', works=BOTH),
    Row(id="temporary by name", command="echo x > /tmp/x", works=("bubblewrap",)),
    Row(id="devices", command="echo x > /dev/null; cat <(echo x)", works=BOTH),
    Row(id="user namespaces", command="unshare -U true", works=("landlock",)),
    Row(id="a key", command="cat ~/.ssh/id_ed25519"),
    Row(id="own state", command='cat "$OWN/tasks/journal"'),
    Row(id="sockets", command='test -n "$SSH_AUTH_SOCK$DBUS_SESSION_BUS_ADDRESS"'),
    Row(id="no capability", command="grep -q '^CapEff:\\s0*$' /proc/$$/status", works=BOTH),
    Row(id="no gain", command="grep -q '^NoNewPrivs:\\s1$' /proc/$$/status", works=BOTH),
    Row(id="everything", command='find ~ "$OWN" -type f -exec cat {} +; true', works=BOTH),
    Row(id="PROT a hook", command="echo x > .git/hooks/pre-commit", works=("landlock",)),
    Row(id="PROT git's settings", command="git config a.b c", works=("landlock",)),
    Row(id="PROT moving git", command="mv .git x", works=("landlock",)),
    Row(id="PROT moving hooks", command="mv .git/hooks x", works=("landlock",)),
    Row(id="PROT writing", command="echo x >> AGENTS.md", works=("landlock",)),
    Row(id="PROT removing", command="rm -f AGENTS.md", works=("landlock",)),
    Row(id="PROT a link", command="ln -sfn /etc/passwd AGENTS.md", works=("landlock",)),
    Row(id="PROT moving over", command="echo x > y && mv -f y AGENTS.md", works=("landlock",)),
    Row(id="PROT reading", command="cat AGENTS.md", works=BOTH),
    Row(id="GIT status", command="git status", works=BOTH),
    Row(id="GIT commit", command="git add inside && git commit -qm x && git log", works=BOTH),
    Row(
        id="GIT branches",
        command="git commit -q --allow-empty -m x && git switch -qc y",
        works=BOTH,
    ),
    Row(id="renaming what leads to a key", command="mv ~/.cache/huggingface ~/.cache/x"),
)


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_what_a_command_can_do_where_only_mounts_confine_it(row: Row, cells: Cells):
    needing("bubblewrap")
    with cells.lend("mounts") as cell:
        check_row(row, "bubblewrap", cell)


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_what_a_command_can_do(row: Row, layer: str, cell: Cell):
    check_row(row, layer, cell)


def check_row(row: Row, layer: str, cell: Cell) -> None:
    status, said = cell.run(row.command, cell.usual)
    assert (status == 0) == (layer in row.works), said
    assert SECRET not in said
    assert "so the command was not run" not in said
    assert [path.name for path in cell.outside.iterdir()] == ["there"]
    assert (cell.outside / "there").read_text() == "before"
    assert not (cell.root / "missing.md").exists()


TESTS = """
import multiprocessing, tempfile, unittest


class Everyday(unittest.TestCase):
    def test_what_tests_do(self):
        with tempfile.TemporaryDirectory() as folder, multiprocessing.Pool(2) as pool:
            self.assertEqual(pool.map(len, ["a", folder])[0], 1)
"""


@pytest.mark.parametrize("network", ["on", "off"])
def test_a_test_run_needs_no_network(network: str, cell: Cell):
    (cell.root / "test_everyday.py").write_text(TESTS)
    status, said = cell.run("python3 -m unittest", cell.sandbox(network=network))
    assert status == 0, said


def test_limits_hold_and_no_core_is_left(layer: str, cell: Cell):
    _, said = cell.run("ulimit -n; ulimit -c; ulimit -u", cell.usual)
    files, core, processes = said.split()
    assert (int(files), core) == (4096, "0")
    assert layer == "landlock" or int(processes) <= 4096


def test_an_ignored_file_cannot_be_read_where_mounts_can_hide_it(mounted: Cell):
    status, said = mounted.run("cat ignored.env", mounted.usual)
    assert status != 0
    assert "Permission denied" in said
    assert (mounted.root / "ignored.env").read_text() == SECRET


def test_nothing_is_left_behind(cell: Cell):
    before = sorted(cell.folder.rglob("*"))
    sandbox = cell.sandbox(hidden=(str(cell.home / "nowhere"),))
    cell.run("mkdir /tmp/a; chmod 0 /tmp/a; touch $TMPDIR/b", sandbox)
    private = Path(sandbox._private)
    assert private.is_dir()
    sandbox.close()
    assert not private.exists()
    assert sorted(cell.folder.rglob("*")) == before


@pytest.mark.parametrize("wish", ["writable", "hidden"])
def test_places_the_user_adds(wish: str, cell: Cell):
    sandbox = cell.sandbox(**{wish: (str(cell.outside),)})
    status, said = cell.run('cat "$OUTSIDE/there"; echo x > "$OUTSIDE/new"', sandbox)
    assert (status == 0) == (wish == "writable"), said
    assert ("before" in said) == (wish == "writable")


LATER = {
    "a key file": (".aws/config", "cat ~/.aws/config"),
    "a whole key folder": (".config/sops/age/keys.txt", "cat ~/.config/sops/age/keys.txt"),
    "a key behind a new link": (
        "elsewhere/real-kube/config",
        "cat ~/.kube/config ~/elsewhere/real-kube/config",
    ),
}


@pytest.mark.parametrize("name", LATER)
def test_a_key_made_after_the_first_command_is_hidden(name: str, layer: str, cell: Cell):
    sandbox = cell.sandbox()
    assert cell.run("true", sandbox)[0] == 0
    path, command = LATER[name]
    key = cell.home / path
    shutil.rmtree(key.parent, ignore_errors=True)
    key.parent.mkdir(parents=True)
    key.write_text(SECRET)
    if "link" in name:
        (cell.home / ".kube").symlink_to(key.parent)
    assert SECRET not in cell.run(command, sandbox)[1]


def test_our_own_folder_is_hidden_though_it_is_made_later(layer: str, cell: Cell):
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


def test_a_place_the_user_hides_is_hidden_though_it_is_made_later(cell: Cell):
    place = cell.outside / "later"
    sandbox = cell.sandbox(hidden=(str(place),))
    cell.run("true", sandbox)
    place.write_text(SECRET)
    assert SECRET not in cell.run(f"cat {place}", sandbox)[1]


def test_no_key_of_another_process_can_be_read(cell: Cell):
    environ = {"PROVIDER_KEY": SECRET}
    with subprocess.Popen(["/bin/sleep", "60"], env=environ) as other:
        try:
            command = f"cat /proc/{other.pid}/environ /proc/*/environ; kill {other.pid}"
            _, said = cell.run(command, cell.usual)
            assert SECRET not in said
            assert other.poll() is None
        finally:
            other.kill()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@pytest.mark.parametrize("network", ["on", "off"])
def test_the_network_is_open_or_closed(network: str, cell: Cell, server: socket.socket):
    port = server.getsockname()[1]
    command = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
    sandbox = cell.usual if network == "on" else cell.sandbox(network="off")
    status, said = cell.run(command, sandbox)
    assert (status == 0) == (network == "on"), said
    if network == "on":
        server.accept()[0].close()
    else:
        with pytest.raises(BlockingIOError):
            server.accept()


def test_datagrams_do_not_leave_either(cell: Cell):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        command = f"echo x > /dev/udp/127.0.0.1/{server.getsockname()[1]}"
        assert cell.run(command, cell.usual)[0] == 0
        assert server.recv(10) == b"x\n"
        cell.run(command, cell.sandbox(network="off"))
        with pytest.raises(BlockingIOError):
            server.recv(10)


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


def test_a_folder_outside_is_no_place_to_run_in(cell: Cell):
    for folder in (cell.outside, cell.root / ".." / "home", cell.folder):
        with pytest.raises(Denied, match="outside the workspace"):
            cell.usual.launch(["/bin/true"], cwd=str(folder))


def test_a_folder_that_was_swapped_after_the_launch_is_not_used(mounted: Cell):
    """A command in the background could do so while the mounts of the next one are made."""
    cell = mounted
    argv, env = cell.argv("echo ran", cell.usual)
    (cell.root / ".git").rename(cell.root / "moved")
    shutil.copytree(cell.root / "moved", cell.root / ".git")
    done = subprocess.run(argv, env=env, cwd=cell.root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (126, "")
    assert "replaced" in done.stderr
    assert "the command was not run" in done.stderr


def test_what_is_behind_a_mount_is_looked_at_once_more(tmp_path: Path):
    (tmp_path / "a").mkdir()
    found = (tmp_path / "a").stat()
    for inode, status in ((found.st_ino, 0), (found.st_ino + 1, 126)):
        named = f"{found.st_dev}:{inode}:{tmp_path}/a"
        words = [INTERPRETER, "-I", "-S", str(CONFINE), "is", named, "--", "/bin/true"]
        assert subprocess.run(words, capture_output=True, check=False).returncode == status


def test_a_workspace_that_was_replaced_is_not_used(cell: Cell):
    sandbox = cell.sandbox()
    cell.run("true", sandbox)
    cell.root.rename(cell.folder / "moved")
    cell.root.mkdir()
    with pytest.raises(ToolError, match="no longer the folder"):
        sandbox.launch(["/bin/true"], cwd=str(cell.root))


def test_a_sandbox_that_is_gone_is_not_done_without(tmp_path: Path):
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
from rookery.sandbox.guarantees import guarantees
from rookery.sandbox.sandbox import Sandbox
from rookery.sandbox.confinement import SandboxWishes
folder = Path(sys.argv[1])
for mode in ("on", "required"):
    sandbox = Sandbox(SandboxWishes(root=folder, home=folder, mode=mode), "/nonexistent")
    try:
        print(sandbox.launch(["/bin/true"], cwd=str(folder)).argv)
    except Denied as error:
        print(error)
print(sandbox.state.line)
print({each.holds.value for each in guarantees(sandbox)})
"""


def test_where_there_is_no_sandbox_it_is_said_and_a_required_one_refuses(tmp_path: Path):
    """Landlock stops at sixteen layers, so behind sixteen of them there is none to be had."""
    needing("landlock")
    layers = [INTERPRETER, "-I", "-S", str(CONFINE), "write", "/", "--"] * 16
    program = [sys.executable, "-c", WITHOUT_LANDLOCK, str(tmp_path)]
    env = {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*layers, *program], env=env, capture_output=True, text=True, check=False)
    launched, denied, line, holds = done.stdout.splitlines()
    assert launched == "('/bin/true',)"
    assert "bubblewrap is not installed" in denied
    assert "was not run" in denied
    assert line.startswith("no sandbox: commands can do everything you can")
    assert "yes" not in holds


def test_switched_off_it_changes_nothing_and_says_so(cell: Cell):
    sandbox = cell.sandbox(mode="off")
    launch = sandbox.launch(["/bin/true"], cwd=str(cell.outside))
    assert (launch.argv, launch.environment) == (("/bin/true",), {})
    assert sandbox.state.line.startswith("no sandbox")


def test_the_state_says_what_holds(layer: str, cell: Cell):
    state = cell.sandbox(network="off").state
    assert state.kind.startswith(layer)
    assert state.line.endswith("network off")
    found = {each.name: each for each in guarantees(cell.sandbox(network="off"))}
    assert found["network closed"].holds is Holds.YES
    assert found["no new privileges"].holds is Holds.YES
    whole = Holds.YES if layer == "bubblewrap" else Holds.PARTLY
    assert found["writes confined"].holds is whole
    assert found["credentials hidden"].holds is whole
    assert all(each.why for each in found.values() if each.holds is not Holds.YES)


def test_the_state_says_whether_only_known_hosts_are_reached(layer: str, cell: Cell):
    sandbox = cell.sandbox(network="known")
    found = {each.name: each for each in guarantees(sandbox)}
    if layer == "bubblewrap":
        assert (sandbox.proxied, sandbox.open_to_all) == (True, False)
        assert sandbox.state.line.endswith("network to known hosts only")
        assert found["network closed"].holds is Holds.YES
    else:
        assert (sandbox.proxied, sandbox.open_to_all) == (False, True)
        assert sandbox.state.line.endswith("network on")
        assert found["network closed"].holds is Holds.NO
        assert "no network namespace can be made" in found["network closed"].why


def test_a_hidden_socket_is_not_reached(mounted: Cell):
    path = mounted.outside / "names"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        program = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        command = f"python3 -c '{program.replace(chr(39), chr(34))}'"
        assert mounted.run(command, mounted.sandbox(hidden=(str(path),)))[0] != 0
    path.unlink()


NAMES = ("with space", "quo'te\"s", "new\nline", "-rf", "$(touch x)", "ümläut", "a:b=c,d")


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_the_workspace_is_only_a_name(name: str, layer: str, tmp_path: Path):
    cell = Cell(tmp_path, layer, name=name)
    status, said = cell.run("git status -s && echo x > new")
    assert status == 0, said
    assert (cell.root / "new").read_text() == "x\n"
    cell.close()


def test_the_command_sees_its_folder_and_its_arguments(cell: Cell):
    assert cell.run("pwd -P; exit 7", cell.usual) == (7, f"{cell.root}\n")
    assert cell.run("kill -9 $$", cell.usual)[0] in (137, -9)


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


@pytest.mark.parametrize("how", ["", "setsid ", "nohup "])
def test_nothing_outlives_the_command(how: str, mounted: Cell):
    marker = f"{300 + uuid.uuid4().int % 10**9}"
    command = f"{how}sleep {marker} > /dev/null 2>&1 & disown; echo x"
    assert mounted.run(command, mounted.usual)[0] == 0
    eventually(lambda: not alive(marker))


def test_what_is_in_the_sandbox_dies_with_what_is_outside(mounted: Cell):
    marker = f"{300 + uuid.uuid4().int % 10**9}"
    with mounted.start(f"echo x; setsid sleep {marker}") as process:
        assert process.stdout
        process.stdout.readline()
        eventually(lambda: bool(alive(marker)))
        process.kill()
    eventually(lambda: not alive(marker))


def test_a_command_that_is_asked_to_end_can_say_its_last_words(cell: Cell):
    command = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done"
    with cell.start(command) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert process.stdout.read() == "bye\n"
    assert process.returncode == 3


def test_a_workspace_among_our_own_folders_is_all_that_is_seen_of_them(cell: Cell):
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


@pytest.mark.parametrize("deed", DESTROYED.values(), ids=DESTROYED.keys())
def test_a_command_that_does_not_run_git_cannot_change_a_repository(deed: str, mounted: Cell):
    quiet = ["git", "init", "-q", "--template="]
    for words in (["nested"], ["--separate-git-dir=apart", "separate"]):
        subprocess.run([*quiet, *words], cwd=mounted.root, env=mounted.env, check=True)
    mounted.git = False
    before = contents(mounted.root)
    mounted.run(deed)
    assert contents(mounted.root) == before


def test_a_command_that_does_not_run_git_cannot_write_a_worktrees_repository(cell: Cell):
    main = linked_worktree(cell)
    cell.git = False
    before = contents(main)
    for place in ("objects", "refs/heads", "worktrees/linked"):
        assert cell.run(f"touch {main}/.git/{place}/new")[0] != 0
    cell.run(f"rm -rf {main}/.git/objects {main}/.git/worktrees/linked/*")
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


def test_a_linked_worktree_plants_nothing_in_its_repository(layer: str, cell: Cell):
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
    """Which of the commands work, each in a shell of its own, and all in one sandbox."""
    each = (
        f"{{ ( {command}\n) > /dev/null 2>&1 && echo '{name}'; }}"
        for name, command in tries.items()
    )
    status, said = cell.run("\n".join((*each, "echo end")), sandbox)
    assert status == 0, said
    *done, end = said.splitlines()
    assert end == "end"
    return done


def test_a_git_file_cannot_open_a_folder_that_does_not_know_it(cell: Cell):
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
from rookery.sandbox.confinement import SandboxWishes
folder = Path(sys.argv[1])
sandbox = Sandbox(SandboxWishes(root=folder / "work", home=folder / "home"), sys.argv[2])
command = "cat ~/.ssh/key; echo x > ~/new; echo x > new && id -u; grep CapEff /proc/self/status"
launch = sandbox.launch(["/bin/sh", "-c", command], cwd=str(folder / "work"))
subprocess.run(launch.argv, cwd=folder / "work", env={"HOME": str(folder / "home")}, check=True)
print(sandbox.state.kind)
sandbox.close()
"""


def test_without_any_privilege_it_is_the_same(layer: str, tmp_path: Path):
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    nobody = shutil.which("setpriv")
    if os.geteuid() != 0 or not python or not nobody:
        pytest.skip("needs root, setpriv and a Python that everybody can run")
    folder = Path("/var/tmp") / f"sandbox-{uuid.uuid4()}"
    try:
        shutil.copytree(SOURCE / "rookery", folder / "src" / "rookery")
        shutil.copytree(Path(msgspec.__file__).parent, folder / "src" / "msgspec")
        for place in ("work", "home/.ssh"):
            (folder / place).mkdir(parents=True)
        (folder / "home/.ssh/key").write_text(SECRET)
        subprocess.run(["chown", "-R", "65534:65534", str(folder)], check=True)
        become = [nobody, "--reuid=65534", "--regid=65534", "--clear-groups"]
        programs = PROGRAMS if layer == "bubblewrap" else NO_PROGRAMS
        done = subprocess.run(
            [*become, python, "-B", "-c", UNPRIVILEGED, str(folder), programs],
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
        assert (folder / "work/new").exists()
        assert not (folder / "home/new").exists()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


NO_CACHES = (
    ".bun/install/cache/a@1.0.0/index.js",
    ".cache/bazel/_bazel_me/install/0/server",
    ".cache/ccache/ccache.conf",
    ".cache/deno/gen/a.js",
    ".cache/gitstatus/gitstatusd-linux-x86_64",
    ".cache/node/corepack/v1/pnpm/9.0.0/bin/pnpm.cjs",
    ".cache/p10k-instant-prompt-me.zsh",
    ".cache/pip/wheels/00/a.whl",
    ".cache/pnpm/dlx/0/node_modules/.bin/a",
    ".cache/pre-commit/repo0/py_env-python3/bin/python",
    ".cache/pypoetry/virtualenvs/a-py3.11/bin/python",
    ".cache/uv/archive-v0/0/a.py",
    ".cache/uv/environments-v2/a/bin/python",
    ".deno/bin/git",
    ".gradle/init.d/e.gradle",
    ".gradle/wrapper/dists/gradle",
    ".local/share/pnpm/store/v10/files/00/0",
    ".local/share/pnpm/tsc",
    ".local/share/virtualenvs/a/bin/python",
    ".m2/extensions.xml",
    ".npm/_npx/0/node_modules/.bin/a",
    ".nuget/NuGet/NuGet.Config",
    ".pnpm-store/v3/files/00/0",
    ".sbt/1.0/plugins/e.sbt",
    ".yarn/bin/yarn",
)


def test_what_is_run_later_outside_is_no_cache(cell: Cell):
    for path in NO_CACHES:
        (cell.home / path).parent.mkdir(parents=True, exist_ok=True)
    tries = {path: f'echo x > "$HOME/{path}"' for path in NO_CACHES}
    assert done_of(tries, cell, cell.sandbox()) == []
    assert [path for path in NO_CACHES if (cell.home / path).exists()] == []


LED = {"XDG_CACHE_HOME": ".cache", "npm_config_cache": ".npm"}


def test_what_is_there_is_not_changed_by_the_way_of_the_private_cache(cell: Cell):
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


@pytest.mark.parametrize("path", ["pypoetry/virtualenvs/a/bin/python", "ms-playwright/chrome"])
def test_a_cache_that_cannot_be_written_can_be_read(path: str, cell: Cell):
    (cell.home / ".cache" / path).parent.mkdir(parents=True)
    (cell.home / ".cache" / path).write_text("there")
    assert cell.run(f'cat "$XDG_CACHE_HOME/{path}" ~/.cache/{path}') == (0, "therethere")


PRIVATELY = (
    *("uv/CACHEDIR.TAG", "pip/wheels/a", "pypoetry/artifacts/a"),
    *("pypoetry/virtualenvs/new/bin/python", "node/corepack/v1/pnpm/10.0.0/a"),
    "of-a-tool-nobody-knows/a",
)


def test_what_a_tool_cannot_do_without_is_private_and_lasts_from_command_to_command(cell: Cell):
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


def test_a_cache_that_the_user_adds_is_the_real_one(cell: Cell):
    place = cell.home / ".cache" / "uv"
    place.mkdir()
    sandbox = cell.sandbox(writable=(str(place),))
    assert cell.run('echo x > "$XDG_CACHE_HOME/uv/x"', sandbox) == (0, "")
    assert (place / "x").exists()
    whole = cell.sandbox(writable=(str(cell.home / ".cache"),))
    assert cell.run('echo "${XDG_CACHE_HOME-none}"; echo x > ~/.cache/uv/y', whole) == (0, "none\n")
    assert (place / "y").exists()


def test_not_even_the_names_in_a_hidden_cache_are_told(layer: str, cell: Cell):
    place = cell.home / ".cache" / "pypoetry" / "virtualenvs"
    (place / SECRET).mkdir(parents=True)
    said = cell.run("find -L $TMPDIR/ -name '*decoy*'", cell.sandbox(hidden=(str(place),)))[1]
    assert layer == "landlock" or SECRET not in said
    said = cell.run("find $TMPDIR/ -name '*decoy*'", cell.sandbox(hidden=(str(place),)))[1]
    assert SECRET not in said


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
INSTALLING = [("bubblewrap", CACHES), ("landlock", "")]
if TORTURE:  # a second each; the caches of a user are most in the way where mounts keep them
    INSTALLING += [("bubblewrap", ""), ("landlock", CACHES)]


@pytest.mark.parametrize(("layer", "caches"), INSTALLING, indirect=["layer"])
def test_pip_and_npm_install_without_any_network(layer: str, caches: str, cell: Cell):
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


def test_all_that_is_writable_is_told(cell: Cell):
    sandbox = cell.sandbox(writable=(str(cell.outside),))
    told = sandbox.writable
    shared = str(cell.home / ".cache" / "pip" / "http-v2")
    assert {shared, str(cell.outside), "/tmp"} <= set(told)
    assert not {str(cell.home / ".cache"), str(cell.home / ".cache" / "pip")} & set(told)


def test_FIFO_a_pipe_in_the_place_of_git_does_not_stop_anything(cell: Cell):
    shutil.rmtree(cell.root / ".git")
    os.mkfifo(cell.root / ".git")
    assert cell.run("echo x") == (0, "x\n")


@pytest.mark.parametrize("known", [True, False])
def test_a_workspace_that_is_gone_is_not_taken_for_a_missing_sandbox(known: bool, cell: Cell):
    sandbox = cell.sandbox()
    assert not known or sandbox.state.kind != "none"
    moved = cell.root.rename(cell.folder / "moved")
    assert sandbox.state.line == f"The folder {cell.root} was removed."
    with pytest.raises(ToolError, match=r"was removed\. The command was not run"):
        sandbox.launch(["/bin/true"], cwd=str(cell.root))
    moved.rename(cell.root)
    assert sandbox.state.kind != "none"
