import os
import resource
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from rookery.core.limits import KIB, MIB, Limits
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.workspace import CommandEnd, Launch, RunningCommand
from rookery.errors import Denied, StorageError, ToolError
from rookery.platform.guarded_process import command_environment
from rookery.platform.user_folders import find_own_program
from rookery.workspace.terminal import GATHER_SECONDS, Terminal

pytestmark = pytest.mark.anyio

QUICK = Limits(command_grace=0.2)
PATIENCE = 60
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


class MemoryArtifact:
    """An in-memory artifact."""

    id = "cmd-1.txt"

    def __init__(self) -> None:
        self.data = bytearray()
        self.closed = False

    @property
    def size(self) -> int:
        return len(self.data)

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True


class FullDisk(MemoryArtifact):
    def write(self, data: bytes) -> None:
        raise StorageError("The disk is full.")


class DiscardingArtifact(MemoryArtifact):
    """Counts bytes and keeps nothing, for memory tests."""

    def write(self, data: bytes) -> None:
        pass


@asynccontextmanager
async def running(
    folder: Path,
    command: str,
    *,
    cwd: str = "",
    seconds: float = 300,
    limits: Limits = QUICK,
    keep: MemoryArtifact | None = None,
) -> AsyncIterator[RunningCommand]:
    terminal = Terminal(folder, limits)
    permit = Permit(digest="", command=command, cwd=cwd)
    async with terminal.run(permit, seconds=seconds, keep=keep or MemoryArtifact()) as command_:
        yield command_


async def outcome(
    folder: Path,
    command: str,
    *,
    seconds: float = 300,
    limits: Limits = QUICK,
    keep: MemoryArtifact | None = None,
) -> tuple[str, CommandEnd]:
    async with running(folder, command, seconds=seconds, limits=limits, keep=keep) as started:
        text = "".join([piece async for piece in started.output()])
        return text, await started.end()


def marked(mark: str) -> list[int]:
    """Live processes (not zombies) with `mark` on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


async def until_as_many(mark: str, count: int) -> None:
    with anyio.fail_after(PATIENCE):
        while len(marked(mark)) < count:  # noqa: ASYNC110 (other processes make it so)
            await anyio.sleep(0.01)


async def vanished(mark: str) -> None:
    """Wait until no process with `mark` on its command line, nor a child of one, is left."""
    with anyio.fail_after(PATIENCE):
        while pids := marked(mark):
            for pid in pids:
                with suppress(ProcessLookupError):
                    watched = os.pidfd_open(pid)
                    await anyio.wait_readable(watched)
                    os.close(watched)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A child process outside of any command."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        yield child
        child.kill()


@pytest.fixture
def mark() -> str:
    """A unique number of seconds to sleep, used to find the process."""
    return f"9{uuid.uuid4().int % 10**12:012d}"


SAID = {
    "echo hello": "hello\n",
    "for i in 1 2; do echo out$i; echo err$i >&2; done": "out1\nerr1\nout2\nerr2\n",
    "yes | head -n 1; echo ${PIPESTATUS[0]}": "y\n141\n",  # no message, as in any shell
    r"printf '\xe2\x82'; sleep 0.1; printf '\xac'": "€",
    "cat; tty; (exec < /dev/tty) 2>/dev/null || echo none": "not a tty\nnone\n",
}


@pytest.mark.parametrize("command", SAID)
async def test_all_output_of_a_command_arrives_in_order(tmp_path: Path, command: str):
    assert await outcome(tmp_path, command) == (SAID[command], CommandEnd(exit_code=0))


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("exit 3", CommandEnd(exit_code=3)),
        ("exit 255", CommandEnd(exit_code=255)),
        ("no-such-program-here", CommandEnd(exit_code=127)),
        ("kill -SEGV $$", CommandEnd(exit_code=139, signal="SIGSEGV")),
        ("sh -c 'kill -KILL $$'; exit $?", CommandEnd(exit_code=137, signal="SIGKILL")),
        ("kill -35 $$", CommandEnd(exit_code=163, signal="SIGRTMIN+1")),
    ],
)
async def test_every_exit_status_is_reported(tmp_path: Path, command: str, end: CommandEnd):
    assert (await outcome(tmp_path, command))[1] == end


async def test_invalid_bytes_are_replaced_on_screen_and_kept_in_the_artifact(
    tmp_path: Path,
):
    keep = MemoryArtifact()
    text, _ = await outcome(tmp_path, r"printf 'a\0b\xffc\xe2\x82'", keep=keep)
    assert text == "a\0b\ufffdc\ufffd"
    assert bytes(keep.data) == b"a\0b\xffc\xe2\x82"


async def test_the_environment_has_no_secrets_and_no_back_doors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kept_back = ["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "X_SECRET", "LD_PRELOAD"]
    for name in [*kept_back, "BASH_ENV", "PYTHONPATH", "GIT_DIR", "AWS_SECRET_ACCESS_KEY"]:
        monkeypatch.setenv(name, "withheld")
    monkeypatch.setenv("HARMLESS", "passed on")
    text, _ = await outcome(tmp_path, "env")
    assert "withheld" not in text
    environment = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    wanted = {"HARMLESS": "passed on", "PAGER": "cat", "GIT_PAGER": "cat", "CI": "1"}
    wanted |= {"GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}
    assert wanted.items() <= environment.items()


WITHHELD = """
STRIPE_KEY AWS_ACCESS_KEY_ID OPENAI_APIKEY apikey_live GITHUB_PAT SENTRY_DSN DB_PASS DB_PASSPHRASE
PGPASSWORD MYSQL_PWD GOOGLE_APPLICATION_CREDENTIALS CREDENTIAL_FILE VAULT_SECRET_PATH
SSH_PASSPHRASE REGISTRY_AUTH ROOKERY_HOME
"""
PASSED = """
PATH HOME LANG PWD OLDPWD SSH_AUTH_SOCK DISPLAY KEYBOARD JAVA_HOME GOFLAGS CFLAGS TASK MONKEY
COMPASS XDG_CURRENT_DESKTOP NPM_CONFIG_REGISTRY DATABASE_URL http_proxy REMOTE
"""
SECRETS = {
    "A": "ghp_0123456789abcdefghij",
    "B": "sk-ant-api03-x",
    "C": "AKIA0123456789ABCDEF",
    "D": "eyJhbGciOiJIUzI1.eyJzdWIiOiIx",
    "E": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "DATABASE_URL": "postgres://me:secret@host/db",
    "REDIS_URL": "redis://:secret@host",
    "MIRRORS": "https://a.example, https://me:secret@b.example",
}
HARMLESS = {
    "DATABASE_URL": "postgres://host:5432/db",
    "http_proxy": "http://proxy:3128",
    "REMOTE": "ssh://git@host:22/a",
    "NPM_CONFIG_REGISTRY": "https://registry.example",
    "TASK": "task-1",
    "GOFLAGS": "-mod=vendor",
}
NEVER_PASSED = """
LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES GIT_DIR GIT_SSH_COMMAND GIT_CONFIG_COUNT BASH_ENV
ENV PS4 PROMPT_COMMAND IFS EDITOR VISUAL LESSOPEN PYTHONPATH PYTHONSTARTUP NODE_OPTIONS PERL5OPT
PERL5LIB RUBYOPT JAVA_TOOL_OPTIONS RIPGREP_CONFIG_PATH SSH_ASKPASS OPENAI_API_KEY
ANTHROPIC_API_KEY OPENROUTER_API_KEY
"""


def passed_on(names: str, confined: bool = False) -> set[str]:
    given = dict.fromkeys(names.split(), "x")
    return {name for name in command_environment(given, confined=confined) if name in given}


def test_a_variable_is_withheld_if_it_holds_a_secret():
    assert passed_on(WITHHELD) == set()
    assert SECRETS.keys() & command_environment(SECRETS, confined=False).keys() == set()
    assert passed_on(PASSED) == set(PASSED.split())
    assert HARMLESS.items() <= command_environment(HARMLESS, confined=False).items()


def test_some_variables_are_never_passed_on_and_others_are_replaced():
    assert passed_on(NEVER_PASSED, confined=True) == passed_on(NEVER_PASSED) == set()
    for name in ("PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "TERM"):
        assert command_environment({name: "x"}, confined=False)[name] != "x", name


def test_a_confined_command_cannot_reach_the_users_agents():
    agents = "SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS DISPLAY XDG_RUNTIME_DIR TMUX"
    assert passed_on(agents, confined=True) == set()
    assert passed_on(agents) == set(agents.split())


async def test_a_command_runs_in_its_permitted_folder(tmp_path: Path):
    (tmp_path / "inner").mkdir()
    async with running(tmp_path, "pwd", cwd="inner") as started:
        assert [piece async for piece in started.output()] == [f"{tmp_path}/inner\n"]


@pytest.mark.parametrize(
    ("cwd", "error"), [("..", Denied), ("/", Denied), ("way-out", Denied), ("gone", ToolError)]
)
async def test_no_command_runs_outside_the_workspace(
    tmp_path: Path, cwd: str, error: type[ToolError]
):
    (tmp_path / "way-out").symlink_to("/")
    with pytest.raises(error):
        async with running(tmp_path, "touch /tmp/never", cwd=cwd):
            pass


async def test_a_command_the_shell_cannot_take_is_refused_with_a_reason(tmp_path: Path):
    with pytest.raises(ToolError, match="characters"):
        await outcome(tmp_path, "echo \0")


async def test_too_many_open_files_is_an_error_of_the_call_and_nothing_leaks(tmp_path: Path):
    for spare in range(6):
        await demand_refused_with(spare, tmp_path)


async def demand_refused_with(spare: int, tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + 20, hard))
    with ExitStack() as restored:
        restored.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        filling = list(iter(one_more_file, None))
        for fd in filling[spare:]:
            restored.callback(os.close, fd)
        for fd in filling[:spare]:
            os.close(fd)
        with pytest.raises(ToolError, match="Too many open files"):
            await outcome(tmp_path, "true")
    assert sorted(os.listdir("/proc/self/fd")) == before


def one_more_file() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return None


async def test_the_time_limit_ends_a_command_and_keeps_its_last_output(tmp_path: Path):
    os.mkfifo(tmp_path / "silent")
    waits = "exec 3<> silent; while :; do read -t 0.02 -u 3; done"
    command = f"trap 'echo bye; exit 7' TERM; echo hi; {waits}"
    limits = Limits(command_grace=PATIENCE)
    text, end = await outcome(tmp_path, command, seconds=2, limits=limits)
    assert (text, end) == ("hi\nbye\n", CommandEnd(exit_code=7, timed_out=True))


async def test_a_command_that_ignores_the_first_signal_is_killed(tmp_path: Path, mark: str):
    _, end = await outcome(tmp_path, f"trap '' TERM; sleep {mark}; sleep {mark}", seconds=2)
    assert end == CommandEnd(exit_code=137, signal="SIGKILL", timed_out=True)
    assert marked(mark) == []


async def test_a_command_that_writes_forever_still_meets_its_time_limit(tmp_path: Path):
    keep = DiscardingArtifact()
    async with running(tmp_path, "yes", seconds=0.3, keep=keep) as started:
        assert (await started.end()).timed_out


async def test_cancelling_leaves_no_process(tmp_path: Path, mark: str):
    with anyio.CancelScope() as scope:
        async with running(tmp_path, f"sleep {mark} & echo up; sleep {mark}") as started:
            async for _ in started.output():
                assert marked(mark) != []
                scope.cancel()
    assert scope.cancelled_caught
    assert marked(mark) == []


ESCAPES = (
    "sleep {mark} &",
    "(sleep {mark} &)",
    "(setsid sleep {mark} &)",
    "(setsid sh -c 'setsid sleep {mark} & exit' &) ; sleep 0.1",
    "(env -i setsid sleep {mark} &)",
    "(env -i setsid sleep {mark} > /dev/null 2>&1 &) ; sleep 0.1",
    "(trap '' TERM; nohup setsid sleep {mark} > /dev/null 2>&1 &)",
)


async def test_no_child_escapes_by_double_fork_or_setsid(tmp_path: Path, mark: str):
    marks = {f"{mark}{number}": way for number, way in enumerate(ESCAPES)}
    command = "\n".join(way.replace("{mark}", each) for each, way in marks.items())
    assert await outcome(tmp_path, f"{command}\necho done") == ("done\n", CommandEnd(exit_code=0))
    assert [way for each, way in marks.items() if marked(each)] == []


@pytest.mark.parametrize("when", ["at once", "later"])
async def test_a_shell_dies_with_its_warden_and_its_status_is_unknown(
    tmp_path: Path, mark: str, when: str
):
    command = f"echo up; sleep {mark} & sleep {mark}; sleep {mark}"
    async with running(tmp_path, command) as started:
        shell = os.pidfd_open(started.pid)
        if when == "later":
            assert await anext(started.output()) == "up\n"
        os.kill(parent_of(started.pid), signal.SIGKILL)
        assert await started.end() == CommandEnd(exit_code=-1)
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(shell)
        os.close(shell)
    await vanished(mark)


@pytest.mark.parametrize(
    "escape",
    [
        "setsid sleep {mark} & sleep 0.2; kill -9 $PPID; sleep {mark}",
        "(env -i setsid sh -c 'setsid sleep {mark} & sleep {mark}' &); sleep 0.2; kill -9 $PPID",
        "W=$PPID; (setsid sh -c \"trap '' TERM; sleep 0.3; kill -9 $W; sleep {mark}\" >&- 2>&- &)"
        "; sleep 0.1",
    ],
)
async def test_no_process_outlives_a_command_that_kills_its_warden(
    tmp_path: Path, mark: str, escape: str, bystander: subprocess.Popen[bytes]
):
    other = Limits(command_grace=1)
    async with running(tmp_path, "echo up; exec sleep 60") as neighbour:
        assert await anext(neighbour.output()) == "up\n"
        with anyio.fail_after(PATIENCE):
            await outcome(tmp_path, escape.format(mark=mark), limits=other)
        assert marked(mark) == []
        os.kill(neighbour.pid, 0)
    assert bystander.poll() is None


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    return int(stat.rpartition(")")[2].split()[1])


async def test_output_of_a_background_child_within_the_grace_is_kept(tmp_path: Path):
    command = "(sleep 0.05; echo late) & echo early"
    text, _ = await outcome(tmp_path, command, limits=Limits(command_grace=PATIENCE))
    assert text == "early\nlate\n"


async def test_unread_output_does_not_block_the_command(tmp_path: Path):
    keep = MemoryArtifact()
    async with running(tmp_path, "head -c 3000000 /dev/zero; exit 4", keep=keep) as started:
        assert (await started.end()).exit_code == 4
    assert keep.size == 3_000_000


async def test_a_hundred_mebibytes_in_one_line_take_no_memory(tmp_path: Path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    keep = DiscardingArtifact()
    size = 0
    async with running(tmp_path, f"head -c {100 * MIB} /dev/zero", keep=keep) as started:
        async for piece in started.output():
            size += len(piece)
            assert len(piece) <= 128 * KIB
    assert size == 100 * MIB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * KIB  # of KiB


async def test_output_is_kept_in_full_up_to_the_cap(tmp_path: Path):
    keep = MemoryArtifact()
    limits = Limits(command_grace=0.2, output_on_disk=1000)
    await outcome(tmp_path, "printf '%01000d' 7", limits=limits, keep=keep)
    assert (bytes(keep.data), keep.closed) == (b"0" * 999 + b"7", True)


async def test_beyond_the_cap_the_beginning_and_the_end_are_kept_with_a_note_between(
    tmp_path: Path,
):
    keep = MemoryArtifact()
    limits = Limits(command_grace=0.2, output_on_disk=10)
    await outcome(tmp_path, "printf '0123456789abcdef'", limits=limits, keep=keep)
    assert keep.data.decode() == "01234\n[… 6 bytes dropped …]\nbcdef"


async def test_a_full_disk_does_not_stop_the_command_but_is_reported_at_its_end(
    tmp_path: Path, mark: str
):
    async with running(tmp_path, "echo one; echo two; touch made", keep=FullDisk()) as started:
        with pytest.raises(StorageError, match="full"):
            await started.end()
    assert (tmp_path / "made").exists()


async def test_writes_in_quick_succession_become_one_piece_every_few_milliseconds(tmp_path: Path):
    begun = anyio.current_time()
    async with running(tmp_path, "for i in {1..200}; do echo $i; /bin/true; done") as started:
        pieces = [piece async for piece in started.output()]
        most = (anyio.current_time() - begun) / GATHER_SECONDS
    assert "".join(pieces).split() == [str(number) for number in range(1, 201)]
    assert len(pieces) <= most + 1


async def test_commands_leave_no_zombies_and_no_open_files(tmp_path: Path):
    # processes of earlier tests may still wait to be reaped
    fds, before = len(os.listdir("/proc/self/fd")), children()
    for _ in range(10 if TORTURE else 1):  # a leak already shows in the first round
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(outcome, tmp_path, "(true &) ; true")
    assert len(os.listdir("/proc/self/fd")) <= fds
    assert children() <= before


def children() -> set[str]:
    lists = Path("/proc/self/task").glob("*/children")
    return {pid for each in lists for pid in each.read_text(encoding="ascii").split()}


@pytest.mark.parametrize("size", [1, 3])
async def test_a_cancelled_wait_for_output_loses_nothing(tmp_path: Path, size: int):
    """The wait is cancelled and restarted every few bytes, even inside characters."""
    command = (
        f"python3 -uc 'import sys; [sys.stdout.buffer.write(b) or sys.stdout.flush() "
        f'for b in [("añ€😀" * 40).encode()[i:i+{size}] for i in range(0, 400, {size})]]\''
    )
    pieces: list[str] = []
    async with running(tmp_path, command) as started:
        ended = False
        while not ended:
            with anyio.move_on_after(0.0005):
                async for piece in started.output():
                    pieces.append(piece)
                ended = True
    assert "".join(pieces) == "añ€😀" * 40


# ── terminals ───────────────────────────────────────────────────────────────────────────


async def on_terminal(folder: Path, command: str, limits: Limits = QUICK) -> tuple[str, CommandEnd]:
    shell = Terminal(folder, limits)
    permit = Permit(digest="", command=command)
    async with shell.run(permit, seconds=300, keep=MemoryArtifact(), terminal=True) as started:
        text = "".join([piece async for piece in started.output()])
        return text, await started.end()


async def test_a_command_on_a_terminal_uses_it_for_all_streams(tmp_path: Path):
    text, end = await on_terminal(
        tmp_path, "for i in 0 1 2; do test -t $i && echo $i; done; echo tty > /dev/tty; stty size"
    )
    assert (text, end.exit_code) == ("0\r\n1\r\n2\r\ntty\r\n40 120\r\n", 0)


async def test_every_exit_status_on_a_terminal_is_reported(tmp_path: Path):
    command = "exec > /dev/null 2>&1 < /dev/null; sleep 0.1; exit 4"
    assert (await on_terminal(tmp_path, command))[1] == CommandEnd(exit_code=4)


async def test_nothing_of_a_large_output_on_a_terminal_is_lost(tmp_path: Path):
    text, _ = await on_terminal(tmp_path, "stty -onlcr; seq 50000")
    assert text == "".join(f"{number}\n" for number in range(1, 50_001))


async def test_no_child_escapes_from_a_terminal(tmp_path: Path, mark: str):
    command = f"sleep {mark} & (trap '' HUP TERM; setsid sleep {mark} &) ; sleep 0.1; echo done"
    text, _ = await on_terminal(tmp_path, command)
    assert text == "done\r\n"
    assert marked(mark) == []


# ── kept commands ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("how", "terminal"), [("by us", False), ("by a signal", True)])
async def test_a_kept_command_outlives_its_context_until_its_warden_ends_it(
    tmp_path: Path, mark: str, how: str, terminal: bool
):
    for name in ("go", "back"):
        os.mkfifo(tmp_path / name)
    more_than_a_pipe_holds = "yes | head -c 999999"
    command = f"read x < go; {more_than_a_pipe_holds}; echo alive > back; sleep {mark}"
    shell = Terminal(tmp_path, QUICK)
    permit = Permit(digest="", command=command)
    async with shell.run(permit, seconds=300, keep=MemoryArtifact(), terminal=terminal) as started:
        if how == "by us":
            started.keep()
        else:
            os.kill(started.warden, signal.SIGUSR1)
            os.kill(started.warden, signal.SIGUSR2)
            await until_kept(started)
    (tmp_path / "go").write_text("go\n")
    with anyio.fail_after(PATIENCE):
        back = anyio.Path(tmp_path / "back")
        assert await back.read_text() == "alive\n"
    await request_end(started.warden)
    assert marked(mark) == []


async def until_kept(started: RunningCommand) -> None:
    with anyio.fail_after(PATIENCE):
        while not started.kept:
            with anyio.move_on_after(0.01):
                await started.end()


async def request_end(warden: int) -> None:
    watched = os.pidfd_open(warden)
    os.kill(warden, signal.SIGTERM)
    with anyio.fail_after(PATIENCE):
        await anyio.wait_readable(watched)
    os.close(watched)


@pytest.mark.parametrize(
    "attempt",
    [
        "kill -USR1 $PPID; kill -USR2 $PPID",
        'W=$PPID; (setsid sh -c "kill -USR1 $W" &) ; sleep 0.1; kill -USR2 $PPID',
        "for i in {1..200}; do kill -USR1 $PPID; kill -USR2 $PPID; done",
    ],
)
async def test_a_command_cannot_keep_itself(tmp_path: Path, mark: str, attempt: str):
    command = f"{attempt}; sleep 0.1; echo up; (setsid sleep {mark} &); sleep {mark}"
    async with running(tmp_path, command) as started:
        assert await anext(started.output()) == "up\n"
        assert not started.kept
    assert marked(mark) == []


async def test_a_kept_command_can_still_be_stopped(tmp_path: Path, mark: str):
    async with running(tmp_path, f"sleep {mark}; true") as started:
        started.keep()
        started.stop()
        assert (await started.end()).stopped
    assert marked(mark) == []


async def test_an_ended_command_is_no_longer_kept(tmp_path: Path):
    async with running(tmp_path, "true") as started:
        started.keep()
        assert (await started.end()).exit_code == 0
        assert not started.kept


async def test_a_warden_ends_everything_on_request(tmp_path: Path, mark: str):
    command = f"trap '' TERM; (env -i setsid sleep {mark} &); echo up; sleep {mark}; sleep {mark}"
    async with running(tmp_path, command) as started:
        assert await anext(started.output()) == "up\n"
        os.kill(started.warden, signal.SIGTERM)
        end = await started.end()
    assert end == CommandEnd(exit_code=137, signal="SIGKILL")
    assert marked(mark) == []


# ── launching ───────────────────────────────────────────────────────────────────────────


async def test_the_launcher_decides_what_is_started(tmp_path: Path):
    def launcher(shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        wrapped = ["/usr/bin/env", f"WHERE={folder}", *shell_argv]
        return Launch(tuple(wrapped), {"CONFINED": str(permit.confined)})

    terminal = Terminal(tmp_path, QUICK, launcher)
    permit = Permit(digest="", command="echo $WHERE $CONFINED", confined=False)
    async with terminal.run(permit, seconds=300, keep=MemoryArtifact()) as started:
        assert [piece async for piece in started.output()] == [f"{tmp_path} False\n"]


async def test_a_launcher_that_refuses_starts_nothing(tmp_path: Path, mark: str):
    def launcher(shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        raise ToolError("There is no sandbox here.")

    terminal = Terminal(tmp_path, QUICK, launcher)
    with pytest.raises(ToolError, match="no sandbox"):
        async with terminal.run(
            Permit(digest="", command=f"sleep {mark}"), seconds=9, keep=MemoryArtifact()
        ):
            pass
    assert marked(mark) == []


async def test_a_missing_program_is_reported_by_name(tmp_path: Path):
    def launcher(shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        return Launch(("/no/such/program",), {})

    terminal = Terminal(tmp_path, QUICK, launcher)
    permit = Permit(digest="", command="x")
    async with terminal.run(permit, seconds=300, keep=MemoryArtifact()) as started:
        text = "".join([piece async for piece in started.output()])
        assert (text, (await started.end()).exit_code) == (
            "/no/such/program: No such file or directory\n",
            127,
        )


# ── when rookery is killed ──────────────────────────────────────────────────────────────

PARENT = """
import sys
from pathlib import Path
import anyio
sys.path[:0] = {path!r}
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.storage.sessions import TaskArtifacts
from rookery.platform.user_folders import find_own_program
from rookery.engine.ports.workspace import Launch
from rookery.workspace.terminal import Terminal

async def main():
    here = Path.cwd()
    terminal = Terminal(here, Limits(command_grace=0.2))
    permit = Permit("", command={command!r})
    keep = TaskArtifacts(here).create()
    async with terminal.run(permit, seconds=60, keep=keep, terminal={terminal}) as running:
        async for piece in running.output():
            {then}
            print(piece, flush=True)

anyio.run(main)
"""


def parent(command: str, *, terminal: bool = False, then: str = "pass") -> str:
    return PARENT.format(path=sys.path, command=command, terminal=terminal, then=then)


@pytest.mark.parametrize("terminal", [False, True])
async def test_children_die_when_rookery_is_killed(tmp_path: Path, mark: str, terminal: bool):
    escapes = f"sleep {mark} & (setsid sleep {mark} &) ; (env -i setsid sleep {mark} >/dev/null &)"
    code = parent(f"{escapes} ; echo up; sleep {mark}", terminal=terminal)
    async with await anyio.open_process(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as product:
        assert product.stdout is not None
        assert (await product.stdout.receive()).strip() == b"up"
        await until_as_many(mark, 5)
        os.kill(product.pid, signal.SIGKILL)
        await product.wait()
    await vanished(mark)


@pytest.mark.parametrize("point", ["command.before_start", "command.started"])
async def test_a_kill_around_the_start_leaves_no_child(tmp_path: Path, mark: str, point: str):
    code = parent(f"sleep {mark}")
    product = await anyio.run_process(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"ROOKERY_KILLPOINT": point},
        check=False,
    )
    assert product.returncode == -signal.SIGKILL
    await vanished(mark)


async def test_a_kept_command_survives_when_rookery_is_killed(tmp_path: Path, mark: str):
    for name in ("go", "back"):
        os.mkfifo(tmp_path / name)
    command = f"echo up $PPID; read x < go; echo alive > back; sleep {mark}"
    code = parent(command, then="running.keep()")
    async with await anyio.open_process(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as product:
        assert product.stdout is not None
        warden = int((await product.stdout.receive()).split()[1])
        os.kill(product.pid, signal.SIGKILL)
        await product.wait()
    (tmp_path / "go").write_text("go\n")
    with anyio.fail_after(PATIENCE):
        back = anyio.Path(tmp_path / "back")
        assert await back.read_text() == "alive\n"
    await request_end(warden)
    assert marked(mark) == []


# ── search path of our own programs ─────────────────────────────────────────────────────


def test_our_programs_are_not_searched_in_the_workspace_or_writable_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root, home, linked = (tmp_path / name for name in ("work", "home", "linked"))
    planted = [root / "bin", home / ".cache" / "bin", tmp_path / "temporary"]
    for folder in planted:
        folder.mkdir(parents=True)
        (folder / "bash").write_text("#!/bin/sh\n")
        (folder / "bash").chmod(0o755)
    linked.symlink_to(root / "bin")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(root)
    path = ":".join(["", ".", "bin", *map(str, planted), str(linked)])
    monkeypatch.setenv("PATH", path)
    assert find_own_program("bash", root) == ""
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    assert find_own_program("bash", root) in ("/usr/bin/bash", "/bin/bash")
