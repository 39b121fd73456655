"""A command that a forked warden runs has the same sandbox as one that is started in it."""

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit, Pipeline, Plain, PlainCommand
from rookery.errors import ToolError
from rookery.platform.guarded_process import start_guarded
from rookery.platform.wardens import ForkedWardens, Wardens
from rookery.sandbox.confine import landlock_version
from rookery.sandbox.confinement import Network, SandboxOptions
from rookery.sandbox.launcher import SandboxLauncher
from rookery.sandbox.layers import INTERPRETER, PROGRAMS
from rookery.sandbox.sandbox import Sandbox
from rookery.workspace.boundaries import Boundaries
from rookery.workspace.terminal import Terminal
from support.actions import Unkept

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not shutil.which("bwrap", path=PROGRAMS) or landlock_version() < 1,
        reason="only entered if bubblewrap and Landlock work",
    ),
]

PATIENCE = 60
SOURCE = Path(__file__).parents[2] / "src"
SIGNALS_VERSION = 6
STATE = (
    "grep -E '^(Cap|NoNewPrivs|Seccomp|Sig(Blk|Ign|Cgt)|Groups|Uid|Gid|Umask)' /proc/self/status",
    "ulimit -aH",
    "ls /proc/self/fd",
    "cut -d' ' -f4- /proc/self/mountinfo | sed 's/ [0-9]*:[0-9]* / /'",
    "cat /proc/self/uid_map /proc/self/gid_map /proc/sys/user/max_user_namespaces",
    "pwd",
    "env | grep -v -i proxy | sort",
    "hostname",
)


class Place:
    def __init__(self, folder: Path, wardens: ForkedWardens, programs: str = PROGRAMS) -> None:
        self.root, self.home = folder / "work", folder / "home"
        for path in (self.root / "inner", self.home / ".ssh"):
            path.mkdir(parents=True)
        (self.home / ".ssh" / "id").write_text("secret")
        options = SandboxOptions(root=self.root, home=self.home, network="known")
        self.sandbox = Sandbox(options, programs)
        launcher = SandboxLauncher(Boundaries(self.root, home=self.home, own=[]), self.sandbox)
        self.terminal = Terminal(self.root, Limits(command_grace=0.3), launcher, wardens)

    async def run(
        self, command: str, *, cwd: str = "", terminal: bool = False, plain: Plain = ()
    ) -> tuple[str, int]:
        permit = Permit(digest="", command=command, cwd=cwd, plain=plain)
        with anyio.fail_after(PATIENCE):
            async with self.terminal.run(
                permit, seconds=PATIENCE, keep=Unkept(), terminal=terminal
            ) as running:
                said = "".join([piece async for piece in running.output()])
                return said, (await running.end()).exit_code


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with closing(ForkedWardens()) as wardens:
        made = Place(tmp_path, wardens)
        yield made
        made.sandbox.close()


@pytest.mark.parametrize("state", STATE)
async def test_it_is_confined_as_one_that_is_started(place: Place, state: str):
    entered, _ = await place.run(f"cat /proc/2/comm; {state}", cwd="inner")
    place.terminal._wardens = Wardens()
    started, _ = await place.run(f"echo cat; {state}", cwd="inner")
    assert entered.startswith("cat\n")  # the keeper
    assert entered == started


@pytest.mark.parametrize("state", STATE)
async def test_landlock_alone_confines_it_as_one_that_is_started(tmp_path: Path, state: str):
    with closing(ForkedWardens()) as wardens:
        place = Place(tmp_path, wardens, programs="/nonexistent")
        mine = "echo x > mine; cat ../home/.ssh/id; echo x > ../home/new"
        forked, _ = await place.run(f"{mine}; {state}", cwd="inner")
        place.terminal._wardens = Wardens()
        assert (await place.run(f"{mine}; {state}", cwd="inner"))[0] == forked
        assert place.sandbox.state.kind == "landlock"
        place.sandbox.close()
    assert "secret" not in forked
    assert not (place.home / "new").exists()


TRACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for process in (1, 2):
    attached = libc.ptrace(16, process, 0, 0)  # PTRACE_ATTACH
    print(attached, os.strerror(ctypes.get_errno()))
    for name in ("mem", "environ", "fd/0", "root"):
        try:
            os.open(f"/proc/{process}/{name}", os.O_RDONLY)
            print("opened", name)
        except PermissionError:
            pass
"""


async def test_a_command_can_not_trace_the_keeper_of_its_sandbox(place: Place):
    (place.root / "trace.py").write_text(TRACE)
    said, _ = await place.run(f"{INTERPRETER} trace.py")
    assert said == "-1 Operation not permitted\n" * 2


KEY = """
import ctypes, os, sys
libc, (add, _, keyctl) = ctypes.CDLL(None), map(int, sys.argv[1:4])
session = ctypes.c_long(-3)
if sys.argv[4] == "add":
    libc.syscall(keyctl, 1, None)  # a session of our own
    if libc.syscall(add, b"user", b"token", b"secret", 6, session) < 0:
        sys.exit("no keys here")
    os.execv(sys.argv[5], sys.argv[5:])
key, text = libc.syscall(keyctl, 10, session, b"user", b"token", 0), ctypes.create_string_buffer(9)
print(key > 0 and libc.syscall(keyctl, 11, key, text, 9), text.value)
"""


@pytest.mark.parametrize("network", ["known", "on", "off"])
def test_the_keys_that_the_kernel_holds_are_hidden(tmp_path: Path, network: Network):
    first = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    script = (INTERPRETER, "-S", "-c", KEY, *(str(first + more) for more in range(3)))
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    options = SandboxOptions(root=tmp_path / "work", home=tmp_path / "home", network=network)
    with closing(Sandbox(options)) as sandbox:
        inside = sandbox.launch([*script, "read"], cwd=str(tmp_path / "work")).argv
        said = []
        for argv in ((*script, "read"), inside):
            done = subprocess.run([*script, "add", *argv], capture_output=True, text=True)
            if "no keys" in done.stderr:
                pytest.skip("this kernel holds no keys")
            said.append(done.stdout)
    assert said == ["6 b'secret'\n", "False b''\n"]


async def test_a_command_that_kills_the_keeper_gains_nothing(place: Place):
    said, code = await place.run("kill -9 2 2> /dev/null && exec sleep 600; echo denied")
    denies = landlock_version() >= SIGNALS_VERSION
    assert (said, code) == (("denied\n", 0) if denies else ("", 128 + signal.SIGKILL))
    assert (await place.run("echo next")) == ("next\n", 0)


@pytest.mark.parametrize("name", ["bwrap", "cat"])
async def test_a_sandbox_that_is_killed_from_outside_takes_its_command_along(
    place: Place, name: str
):
    permit = Permit(digest="", command="setsid sleep 600 & sleep 600 & echo started; wait")
    with anyio.fail_after(PATIENCE):
        async with place.terminal.run(permit, seconds=PATIENCE, keep=Unkept()) as running:
            said = running.output()
            assert await anext(aiter(said)) == "started\n"
            below = descendants(running.warden)
            os.kill(next(pid for pid, comm in below.items() if comm == name), signal.SIGKILL)
            assert (await running.end()).exit_code == 128 + signal.SIGKILL
    assert not any(str(pid) in os.listdir("/proc") for pid in below)


def command_lines() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (process / "cmdline").read_text()


def descendants(process: int) -> dict[int, str]:
    """The name of each process below this one; inner ones later."""
    found: dict[int, str] = {}
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        found[int(child)] = Path(f"/proc/{child}/comm").read_text().strip()
        found |= descendants(int(child))
    return found


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("exit 7", 7),
        ("kill -TERM $$", 128 + signal.SIGTERM),
        ("kill -KILL $$", 128 + signal.SIGKILL),
        ("exec /no/such/program", 127),
    ],
)
async def test_its_status_is_that_of_the_command(place: Place, command: str, status: int):
    assert (await place.run(command))[1] == status


async def test_plain_programs_run_without_python(place: Place):
    cat, false = shutil.which("cat") or "", shutil.which("false") or ""
    seen = PlainCommand((cat, "/proc/3/cmdline"))  # after bubblewrap and the keeper
    plain = (Pipeline((seen,)), Pipeline((PlainCommand((false,)),)))
    said, code = await place.run("cat /proc/3/cmdline; false", plain=plain)
    assert (bool(said), "plain_runner" in said, code) == (True, False, 1)


async def test_plain_programs_print_only_what_is_theirs(place: Place):
    true, echo = (shutil.which(name) or "" for name in ("true", "echo"))
    plain = (Pipeline((PlainCommand((true,)),)), Pipeline((PlainCommand((echo, "yes")),)))
    assert await place.run("true; echo yes", plain=plain) == ("yes\n", 0)


async def test_background_processes_end_with_the_command(place: Place):
    (place.root / "named").symlink_to("/bin/sleep")
    named = str(place.root / "named")
    await place.run(f"setsid {named} 600 & {named} 600 & echo started")
    assert not [each for each in command_lines() if named in each]


async def test_it_can_have_a_terminal(place: Place):
    said, code = await place.run("test -t 0 && test -t 1 && echo yes; exit 4", terminal=True)
    assert (said.strip(), code) == ("yes", 4)


async def test_a_sandbox_that_is_not_made_runs_nothing(place: Place):
    (place.root / "inner").rmdir()
    with pytest.raises(ToolError, match="No such folder"):
        await place.run("echo ran", cwd="inner")
    words = [*place.sandbox.launch(["/bin/sh", "-c", "echo ran"], cwd=str(place.root)).argv]
    words[words.index("--chdir") + 1] = "/no/such/folder"
    with closing(ForkedWardens()) as wardens:
        started = start_guarded(wardens, words, grace=0.3, folder=place.root, environment={})
        said = b""
        with anyio.fail_after(PATIENCE):
            while not started.gone:
                await anyio.wait_readable(started.sources[0])
                started.listen()
                said += started.read()
        started.close()
    assert os.waitstatus_to_exitcode(started.status or 0) == 1
    assert said.startswith(b"bwrap: Can't chdir to /no/such/folder")


UNPRIVILEGED = """
import select, sys
from pathlib import Path
from rookery.platform.guarded_process import start_guarded
from rookery.platform.wardens import ForkedWardens
from rookery.sandbox.sandbox import Sandbox
from rookery.sandbox.confinement import SandboxOptions
folder, network = Path(sys.argv[1]), sys.argv[2]
options = SandboxOptions(root=folder / "work", home=folder / "home", network=network)
sandbox, wardens = Sandbox(options), ForkedWardens()
command = "cat /proc/2/comm; id -u; grep CapBnd /proc/self/status; echo x > ../home/new"
launch = sandbox.launch(["/bin/sh", "-c", command], cwd=str(folder / "work"))
running = start_guarded(wardens, launch.argv, grace=0.3, folder=folder, environment={})
while not running.gone:
    select.select(running.sources, [], [])
    running.listen()
    sys.stdout.buffer.write(running.read())
running.close()
wardens.close()
sandbox.close()
"""


def test_an_unprivileged_user_enters_it_too():
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or not python or not setpriv:
        pytest.skip("needs root, setpriv and a Python that everybody can run")
    become = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"]
    folder = Path("/var/tmp") / f"sandbox-{uuid.uuid4()}"
    try:
        shutil.copytree(SOURCE / "rookery", folder / "src" / "rookery")
        shutil.copytree(Path(msgspec.__file__).parent, folder / "src" / "msgspec")
        for name in ("work", "home"):
            (folder / name).mkdir()
        subprocess.run(["chown", "-R", "65534:65534", str(folder)], check=True)
        for network in ("known", "on"):
            done = subprocess.run(
                [*become, python, "-B", "-c", UNPRIVILEGED, str(folder), network],
                env={"PYTHONPATH": str(folder / "src"), "TMPDIR": "/tmp"},
                capture_output=True,
                text=True,
                check=False,
            )
            if "SyntaxError" in done.stderr or "msgspec._core" in done.stderr:
                pytest.skip("the system's Python is another version")
            assert done.stdout.startswith("cat\n65534\nCapBnd:\t0000000000000000\n"), done.stderr
            assert not (folder / "home" / "new").exists()
    finally:
        subprocess.run([*become, "rm", "-rf", str(folder)], check=False)  # ours may not, in tests
