"""Secrets stay where the user put them."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from llm_server import LlmServer, call, finish, status
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.tree import WorkspaceFinder
from support.canaries import KEY, VALUES, Visit, World, remove, run
from support.terminal_session import COMMAND

READING = "print(open(os.path.expanduser('~/.ss' + 'h/id_ed25519')).read())"
COMMANDS = [
    "cat ~/.ssh/id_ed25519",
    "cat $HOME/.aws/credentials ../decoy/.netrc",
    f'python3 -c "import os; {READING}"',
    "tar cf - ~ 2>/dev/null | strings",
    "grep -r canary ~ ..",
    "cat /proc/*/environ | tr '\\0' '\\n' | grep -a ANTHROPIC; true",
    "ps axe; env; printenv; set; export -p",
    "cat /proc/self/environ /proc/$PPID/environ | tr '\\0' '\\n'",
    "git credential fill < /dev/null; cat .git-credentials; true",
]
READS = [
    "~/.ssh/id_ed25519",
    "../decoy/.ssh/id_ed25519",
    "../decoy/.AWS/credentials",
    "../decoy/.docker/config.json",
    "../decoy/.mozilla/firefox/p/logins.json",
    "../decoy/.bash_history",
    "../home/config/trust.json",
    "/proc/self/environ",
    "/proc/1/environ",
]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Visit]]:
    """A model that looks for keys in every way, allowed everything, with the debug log on."""
    world = World(tmp_path_factory.mktemp("secrets"))
    calls = [run(command) for command in COMMANDS]
    calls += [call("read_file", path=path) for path in READS]
    calls += [call("search_files", path="../decoy", regex="canary", file_pattern=None)]
    calls += [call("list_files", path="../decoy", recursive=True)]
    flags = ("-p", "-y", "--allow-outside", "-d")
    visit = world.visit(*[[each] for each in calls], flags=flags)
    yield world, visit
    remove(world)


def test_credential_files_are_not_read_and_the_key_is_not_sent(
    searched: tuple[World, Visit],
):
    world, visit = searched
    assert visit.code == 0
    assert world.harm(visit) == []


def test_credentials_are_denied_even_if_outside_files_are_allowed(
    searched: tuple[World, Visit],
):
    _, visit = searched
    reported = visit.results[len(COMMANDS) : len(COMMANDS) + len(READS)]
    assert not any("canary" in each or "trusted" in each for each in reported)


def test_the_journal_and_the_debug_log_contain_no_secret(
    searched: tuple[World, Visit],
):
    world, _ = searched
    files = [file for file in world.home.rglob("*") if file.is_file()]
    assert {"debug.log"} <= {file.name for file in files}
    texts = [file.read_bytes().decode("utf-8", "replace") for file in files]
    assert any("id_ed25519" in text for text in texts), "the calls themselves are on record"
    assert [value for value in (KEY, *VALUES) for text in texts if value in text] == []


def test_stored_files_are_private_under_any_umask(tmp_path: Path):
    world = World(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    script = world.script("- calls: [{tool: attempt_completion, arguments: {result: One.}}]\n")
    done = subprocess.run(
        [COMMAND, "-p", "-d", *script, "go"],
        cwd=world.workspace,
        env=world.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        umask=0,
    )
    assert done.returncode == 0, done.stderr
    kept = [path for path in world.home.rglob("*") if "trust" not in path.name]
    loose = {p.relative_to(world.home) for p in kept if stat.S_IMODE(p.lstat().st_mode) & 0o077}
    assert len(kept) > 5
    assert loose == set()
    assert list(temporary.iterdir()) == [], "nothing stays behind in a shared folder"
    remove(world)


def test_a_key_file_that_others_can_read_is_refused(world: World):
    keys = world.home / "config" / "keys.toml"
    keys.write_text(f'anthropic = "{KEY}"\n')
    keys.chmod(0o644)
    done = world.run("-p", "--provider", "anthropic", "-m", "m", "go")
    assert done.returncode == 2
    assert "keys.toml" in done.stderr
    assert KEY not in done.stderr


@pytest.mark.parametrize("code", [401, 500])
def test_the_key_is_removed_from_provider_errors(world: World, code: int):
    body = {"error": {"type": "x", "message": f"The key {KEY} is wrong at http://u:{KEY}@x/"}}
    answer = status(code, body, headers={"retry-after": "0.01"})
    with LlmServer(answer, [finish()]) as server:
        flags = ["--provider", "anthropic", "-m", "m", "--base-url", server.url]
        done = world.run("-p", "-d", *flags, "go", ANTHROPIC_API_KEY=KEY)
    assert KEY not in done.stderr + done.stdout
    assert world.harm() == []


def test_the_key_in_use_is_removed_from_file_and_command_output(world: World):
    """A project's .env with the very key the product runs on is the usual case."""
    world.put(".env", f"ANTHROPIC_API_KEY={KEY}\n")
    visit = world.visit([call("read_file", path=".env")], [run("cat .env")])
    assert world.harm(visit) == []


@pytest.mark.anyio
async def test_the_search_process_gets_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "evil")
    reported = tmp_path / "environment"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("needle\n")

    def spy(regex: str, most: int, files: Sequence[str]) -> list[str]:
        code = "import os, sys; open(sys.argv[1], 'w').write(repr(dict(os.environ)))"
        return [sys.executable, "-I", "-c", code, str(reported)]

    workspace = WorkspaceFiles(tmp_path / "work", Limits(), home=tmp_path)
    finder = WorkspaceFinder(tmp_path / "work", workspace, Limits(), command=spy)
    await finder.search(".", "needle", None, Permit("", reads=frozenset(["."])))
    assert KEY not in reported.read_text()


def test_other_processes_cannot_trace_or_dump_the_product(world: World):
    """Asked of the process itself, because root may look into any."""
    code = (
        "import ctypes, sys, rookery.cli.main as m; "
        "sys.stdout = open('/dev/null', 'w'); m.run(['list']); "
        "sys.stderr.write(str(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=world.workspace,
        env=world.environ,
        capture_output=True,
        text=True,
    )
    assert done.stderr == "0"


def test_commands_can_still_be_traced_and_dumped(world: World):
    """Debuggers and `/proc` are the command's own business."""
    reported = "import ctypes; print('dumpable', ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    visit = world.visit(
        [run(f'{os.path.realpath(sys.executable)} -c "{reported}"')], flags=("-p", "-y")
    )
    assert "dumpable 1" in visit.results[0]
